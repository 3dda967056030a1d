/*
 * proof.h - how a program image proves to all others that it goes on: by a lock that the kernel ends with it.
 *
 * /proc knows nothing of other pid name spaces, and has the same pid before an exec and after it. So an image takes an
 * OFD lock (fcntl(2)) on one byte of the segment's file, far behind all data, by its identity there (processes.h). The
 * lock belongs to an open file, which a page that is mapped from it keeps open: no descriptor stays. The mapping ends
 * with the image, by death or by exec, and a fork's child has none; then the kernel ends the lock. Whoever can open the
 * file can ask, whatever name spaces are between. Private to src/segment. Async-signal-safe; system calls as said.
 */
#ifndef SOCKFUSE_SEGMENT_PROOF_H
#define SOCKFUSE_SEGMENT_PROOF_H

#include <stdint.h>

#include "segment/segment_model.h"

/*
 * Takes the lock of an identity that this image has. The page that keeps it; NULL: the file can't be had (deleted, no
 * right to open it, another root), or is private. Nine system calls.
 */
void *proof_take(const struct segment *segment, uint32_t holder);

/* Gives it up: the page that proof_take gave to this very process. */
void proof_end(void *page);

/*
 * Notes the page as that of the identity; gives up the page of that identity, if it is the one noted. Threads of a
 * fork's child may join side by side, each with a page and an identity, of which one stays: both are in one word. One
 * that was noted before is a former process's, whose child this is and which has no such page, or that of another
 * thread, whose identity is given up: its page stays until the process ends.
 */
void proof_keep(struct segment *segment, void *page, uint32_t holder);
void proof_drop(struct segment *segment, uint32_t holder);

enum lock_answer { LOCK_STANDS, LOCK_GONE, LOCK_UNKNOWN };
/* Whether an identity that had its lock has it still. LOCK_UNKNOWN: the file can't be had here. Eight system calls. */
enum lock_answer proof_ask(const struct segment *segment, uint32_t holder);

#endif
