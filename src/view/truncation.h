/*
 * truncation.h - surviving a segment's file that is cut short while it is mapped.
 *
 * What lies behind a file's new end can't be read: the kernel sends SIGBUS. Whose file it is may do that at any time,
 * and no check beforehand helps. So a page that is gone becomes one of zeros, of this process's own, and the command
 * goes on: everything that is read from a segment is checked anyway. What was seen is then worth nothing, which is to
 * be said.
 */
#ifndef SOCKFUSE_VIEW_TRUNCATION_H
#define SOCKFUSE_VIEW_TRUNCATION_H

#include <stdbool.h>
#include <stddef.h>

/* From now on. */
void cut_survive(void);

/*
 * Tells of a mapping: where a page of it is gone, all behind that page become zeros at once. Else each page would
 * become a mapping of its own, of which a process may have some 65000. To be taken back before it is unmapped.
 */
void cut_watch(void *map, size_t size);
void cut_unwatch(const void *map);

/* Whether something was cut short since this was last asked. */
bool cut_happened(void);

#endif
