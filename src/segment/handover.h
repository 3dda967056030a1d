/*
 * handover.h - an edited policy's way from the command line into running processes.
 *
 * The command writes it (policy/flat.h) into a file beside the segment and raises a number in the segment; a process
 * that sees another number than before reads the file. The file is replaced by a rename, so whoever reads it finds one
 * whole policy; the number is raised after it, so whoever has seen the last number has read the last file. System calls
 * but no malloc and no stdio, so it may be read inside a host process. errno is not kept.
 */
#ifndef SOCKFUSE_SEGMENT_HANDOVER_H
#define SOCKFUSE_SEGMENT_HANDOVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "segment/segment.h"

/* Puts `size` bytes in place of the file. False: `error` says why; then the former one stands. */
bool handover_write(const struct segment *segment, const void *bytes, size_t size, struct segment_error *error);

/* Tells the processes that the file is another one. */
void handover_announce(struct segment *segment);

/* The number of the last announcement, as a place to look at by one relaxed load. */
const _Atomic uint32_t *handover_number(const struct segment *segment);

/*
 * Whether there was an announcement at or after that time (real clock): what was read before may be older than what
 * was announced. False also if there never was one.
 */
bool handover_was_since(const struct segment *segment, uint64_t real_ns);

/*
 * The file's contents, copied into memory of its own (page-aligned, writable), `*size` bytes; NULL: there is none, it
 * is larger than `most`, or it is not this user's alone. Then `*again` says whether another try may find it: no
 * descriptor or no memory was left just now. handover_free gives the memory back.
 */
void *handover_read(const struct segment *segment, size_t most, size_t *size, bool *again);
void handover_free(void *bytes, size_t size);

#endif
