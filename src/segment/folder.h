/*
 * folder.h - the folder that the segments' files lie in: opening it safely, temporary names, sweeping.
 *
 * Private to src/segment. Every step after the opening goes through the folder's descriptor, so nobody can put another
 * folder in its place meanwhile. System calls, but no malloc and no stdio. Descriptors are the caller's to close.
 */
#ifndef SOCKFUSE_SEGMENT_FOLDER_H
#define SOCKFUSE_SEGMENT_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "segment/places.h"
#include "segment/segment_model.h"

#define TEMPORARY_NAME_SIZE 48u

/* openat(2), not broken off by signals, close-on-exec, never as one of the standard descriptors. -1: errno. */
int folder_openat(int folder, const char *name, int flags, mode_t mode);

/*
 * Opens the folder for use: made (0700 whatever the umask) if it is missing and `make` says so, refused unless it is a
 * folder of this user that nobody else may enter. -1: `error` says what to do.
 */
int folder_open(const struct state_place *place, bool make, struct segment_error *error);

/* Whether somebody has removed the folder since. */
bool folder_is_removed(int folder);

/*
 * One starter at a time replaces a bad file. Waits 0.2 s at most if it is `patient`, and goes on without the lock then;
 * closing the descriptor (or being killed) unlocks. False: another has it.
 */
bool folder_lock(int folder, bool patient);

/* A name that no other process draws: by clock and chance, for pids are the same in different containers. */
void folder_temporary_name(char name[TEMPORARY_NAME_SIZE]);

#define TEMPORARY_PREFIX ".new-"

/* Calls `visit` for each name in the folder; stops when it returns false. False: the folder can't be read. */
bool folder_each_name(int folder, bool (*visit)(const char *name, void *context), void *context);

/* "SUBJECT: WHAT: why (errno)"; `code` 0: without a why. `error` NULL: nobody asks. Always false, for `return`. */
bool segment_fail(struct segment_error *error, const char *subject, const char *what, int code);

/*
 * Calls `visit` for the path of each segment in the folder, in the order of their names; stops when it returns false.
 * False: the folder can't be read (errno); one that does not exist has no segments, and that is true.
 */
bool segment_list(const char *folder, bool (*visit)(const char *path, void *context), void *context);

#endif
