/*
 * segment.h - the shared-memory file that holds one policy's circuits, calls in flight and journal: finding it, making
 * it, mapping it.
 *
 * No descriptor is kept open. Attaching never changes a circuit. A truncated, corrupt, old or void (other boot) file
 * is replaced by a fresh one where it is ours, and refused where it is not. Start-up or a rare re-attach only: system
 * calls, but no malloc and no stdio, so it may also happen inside a host process. errno is not kept.
 */
#ifndef SOCKFUSE_SEGMENT_SEGMENT_H
#define SOCKFUSE_SEGMENT_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "segment/places.h"
#include "segment/segment_model.h"

/*
 * Maps the policy's segment in the first place that can be used: one that stands already in any of them, else a fresh
 * one (0600, its folder 0700). The places must name their segments (state_places_name). False: `error` says why and
 * what to do. True with a text in `error`: a bad file was replaced, to be said once; else the text is "". `error` may
 * be NULL. A file that somebody cuts short while it is mapped kills by SIGBUS, as any mapped file does; only its owner
 * can.
 */
bool segment_attach_first(struct segment *segment, const struct state_places *places, const struct attaching *attaching,
                          struct segment_error *error);
/* The same in one folder, as if SOCKFUSE_STATE named it; allocates. */
bool segment_attach(struct segment *segment, const char *folder, const char *identity, const struct capacity *capacity,
                    struct segment_error *error);

/*
 * Maps an existing segment for an observer: never makes or replaces one. Other users' segments: for root only, and
 * only to read. `writable` false may map it writable all the same, in 32 bit. Allocates.
 */
bool segment_open(struct segment *segment, const char *path, bool writable, struct segment_error *error);

/* Opens a file of a folder; `strictly`: as one that somebody hostile may have put there. -1: errno. */
int segment_openat(int folder, const char *name, int flags, bool strictly);

#define SEGMENT_OF_ANYBODY UINT32_MAX
/*
 * The same in a folder that is open, by the last part of `path`, of a file that somebody hostile may have put there: it
 * must be the user's `*owner`, or SEGMENT_OF_ANYBODY, which becomes its owner; it must have no second name, and nobody
 * else may write to it. What is mapped may change, or be cut short, at any time.
 */
bool segment_open_at(struct segment *segment, int folder, const char *path, uint32_t *owner, bool writable,
                     struct segment_error *error);

/*
 * A segment in this process's own memory, for scope = process. Shared with nobody; a fork's child gets a copy, with
 * what its circuits know, and is to say so (guard_disown).
 */
bool segment_private(struct segment *segment, const char *identity, const struct capacity *capacity);

/* Unmaps. Never in a host process: other threads may be inside (segment_clear). */
void segment_detach(struct segment *segment);

/* Whether the path still leads to the file that is mapped (one system call). Deleted, replaced or cut short: false. */
bool segment_is_current(const struct segment *segment);

/*
 * A segment that is over says so to those who can't see its file any more (another root, another user): whoever deletes
 * it, or learns that it was deleted, marks it. Nobody attaches to one that is marked.
 */
void segment_give_up(struct segment *segment);
bool segment_is_given_up(const struct segment *segment);

/* Start-up only: clock_learn_offsets, with the note that is kept in the segment. */
void segment_learn_time(struct segment *segment);

/*
 * Notes in its file's time stamp that it is in use, for whoever looks for what is over. Attaching does so too. One
 * system call.
 */
void segment_note_use(const struct segment *segment);

/* Calls that processes guarded with circuits of their own while they could not open this file. */
void segment_note_apart(struct segment *segment, uint64_t calls);
uint64_t segment_apart(const struct segment *segment);

void segment_note_no_room(struct segment *segment, enum no_room kind);
/* How many calls that were; and all of them together. */
uint64_t segment_no_room(const struct segment *segment, enum no_room kind);
uint64_t segment_unguarded(const struct segment *segment);

/* A line of the log could not be written; and how many that were. */
void segment_note_log_lost(struct segment *segment);
uint64_t segment_log_lost(const struct segment *segment);

const char *segment_identity(const struct segment *segment); /* ends within its size, while nobody writes there */
/* A copy, which somebody hostile can't change any more: "" if it has no end. To be freed; NULL: no memory. */
char *segment_copy_identity(const struct segment *segment);

#endif
