/*
 * removal.h - segments that are over: nobody uses them, and they are removed.
 *
 * Circuits outlive their processes on purpose: a restart must not forget that a dependency is down. But a run of `-t`
 * or `-o` with other ones each time (a test's port, a rehearsal's seed) leaves a file each time. So who starts removes
 * such files that nobody has used for a day, and of those that nobody uses the oldest ones beyond a few; those of a
 * policy's file alone stay until `sockfuse forget`. Start-up and the command line only: allocates.
 */
#ifndef SOCKFUSE_SEGMENT_REMOVAL_H
#define SOCKFUSE_SEGMENT_REMOVAL_H

#include <stdbool.h>
#include <stdint.h>

#include "segment/places.h"
#include "segment/segment_model.h"

enum removal { REMOVAL_DONE, REMOVAL_IN_USE, REMOVAL_FAILED };

/*
 * Removes the file of a segment that is mapped writable, if no living process is attached.
 * REMOVAL_FAILED: `error` says why. The mapping stays. A process that attaches in this very moment notices within
 * a second that its file is gone, and attaches anew.
 */
enum removal segment_remove(struct segment *segment, struct segment_error *error);
/* The same, in its folder that is open already. */
enum removal segment_remove_at(int folder, struct segment *segment, struct segment_error *error);

/*
 * Removes a file that is no segment of this build, and what lies beside it by its name, if that file still stands there
 * and nobody proves by a lock that it is used: the caller has found out what else there is to know. False: `error`.
 */
bool segment_remove_file(const char *path, uint64_t device, uint64_t inode, struct segment_error *error);

/* Whether a segment of that name is one of a run of `-t` or `-o`. */
bool removal_may_sweep(const char *name);

/*
 * Removes from the folder (open as `fd`) the temporary files of killed starters (older than a minute), and segments of
 * runs of `-t` and `-o` as above. Looks into two of them at most.
 */
void folder_sweep(int fd, const struct state_place *place);

#endif
