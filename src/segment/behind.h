/*
 * behind.h - the space behind a segment's tables, where pieces of any size lie: policies that are handed over
 * (handover.h) and the texts of those in force (editions.h).
 *
 * Words of the header tell where each piece lies, and by which name it is known there. Writers take turns, by a lock
 * that the kernel ends with them, and never write over a piece that stands; so one that is killed has harmed nothing.
 * Readers need no descriptor: what they read is copied first, and only believed if its name and checksum are right.
 * Private to src/segment. System calls, but no malloc and no stdio. errno is not kept.
 */
#ifndef SOCKFUSE_SEGMENT_BEHIND_H
#define SOCKFUSE_SEGMENT_BEHIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "segment/segment_model.h"

/*
 * Opens the very file that is mapped, and locks it for writing behind its tables; closing the descriptor unlocks. Tries
 * so many times, some milliseconds apart. -1: errno; ESTALE: the file was replaced, EBUSY: another does the same.
 */
int behind_open(const struct segment *segment, unsigned int tries);

/* Puts a piece where none stands, and tells where. Returns 0 or an errno. */
int behind_write(int fd, const struct segment *segment, uint64_t name, const void *bytes, size_t size, uint64_t *at);

/*
 * The piece of that name at that place, in memory of its own (page-aligned, writable); NULL: it is larger than `most`,
 * damaged, or not there, or `*again`: no memory was left just now. behind_free gives the memory back.
 */
void *behind_read(const struct segment *segment, uint64_t at, uint64_t name, size_t most, size_t *size, bool *again);
void behind_free(void *bytes, size_t size);

#endif
