/*
 * unended.h - what calls without an end have waited: those that hang when an observation is told.
 *
 * A circuit's sums have the waits that are over. A call that hangs to the end of a run is in none of them, though a hang
 * is what people look for. Of a process that was killed meanwhile nobody notes when; so who observes looks at long
 * waits now and then, and such a call has waited until its process was last seen alive, at least.
 */
#ifndef SOCKFUSE_CLI_UNENDED_H
#define SOCKFUSE_CLI_UNENDED_H

#include <stdint.h>
#include <sys/types.h>

#include "view/rows.h"
#include "segment/segment_model.h"

/* A look takes some microseconds for each process of which a call waits at two looks, and next to nothing for others. */
#define UNENDED_LOOK_MS 200

struct unended;

/* Of a run that begins. Free it with unended_free. */
struct unended *unended_start(const struct segment *segment);
void unended_free(struct unended *unended);

/* `now_ns` is the circuits' clock, as everywhere here. */
void unended_look(struct unended *unended, uint64_t now_ns);

/*
 * Adds to the rows what their calls without an end have waited by `now_ns`, and how many did at once. `unended` NULL:
 * nobody looked meanwhile, so of processes that live no more nothing is known; but for `pid` (0: none), which has just
 * been seen to end.
 */
void unended_add(const struct unended *unended, struct rows *rows, const struct segment *segment, pid_t pid,
                 uint64_t now_ns);

#endif
