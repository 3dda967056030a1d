/*
 * handover.h - an edited policy's way from the command line into running processes.
 *
 * It travels in the segment's own file, behind its tables (behind.h), and a number in the header tells which is the
 * last. Whoever has the segment mapped can read it, whatever became of the path or of the process's rights: no file is
 * opened. The last one stands while the next is written.
 * System calls but no malloc and no stdio, so it may be read inside a host process. errno is not kept.
 */
#ifndef SOCKFUSE_SEGMENT_HANDOVER_H
#define SOCKFUSE_SEGMENT_HANDOVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "segment/segment_model.h"

/*
 * Hands `size` bytes over: puts them into the file and raises the number. For commands: waits for another one that does
 * the same, some seconds at most. False: `error` says why; then the former one stands.
 */
bool handover_write(struct segment *segment, const void *bytes, size_t size, struct segment_error *error);
/* The same, but waits a tenth of a second at most: in a file of which another user may have the lock for ever. */
bool handover_write_soon(struct segment *segment, const void *bytes, size_t size, struct segment_error *error);

/* The number of the last one, as a place to look at by one relaxed load. */
const _Atomic uint32_t *handover_number(const struct segment *segment);

/*
 * Whether one was handed over at or after that time (real clock): what was read before may be older than what was
 * handed over. False also if there never was one.
 */
bool handover_was_since(const struct segment *segment, uint64_t real_ns);

/*
 * The last one, copied into memory of its own (page-aligned, writable), `*size` bytes; NULL: there is none, it is
 * larger than `most`, or it is damaged. Then `*again` says whether another try may find it: no memory was left just
 * now, or it was written over meanwhile. handover_free gives the memory back.
 */
void *handover_read(const struct segment *segment, size_t most, size_t *size, bool *again);
void handover_free(void *bytes, size_t size);

#endif
