/*
 * result_file.h - what a command writes to a file that somebody named: whole, or not at all.
 *
 * A regular file is written under another name in the same folder, and takes its place by one rename: who reads it
 * meanwhile has the former one or the new one. Behind a link the file itself is replaced. What is no regular file (a
 * pipe, a terminal) is written as it stands.
 */
#ifndef SOCKFUSE_VIEW_RESULT_FILE_H
#define SOCKFUSE_VIEW_RESULT_FILE_H

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct result_file {
    FILE *out;
    const char *path;
    char *real, *draft; /* where the path leads, and the other name; NULL: it is written as it stands */
    sigset_t signals;   /* those that come until it is closed are kept until then, so that no draft is left behind */
};

/* By the umask, as open(2) does. */
#define RESULT_MODE_USUAL ((mode_t)-1)

/*
 * Opens it; "-" is standard output. A file that is there keeps its mode, a new one has this one. False: it can't be
 * written, which was said.
 */
bool result_open(struct result_file *result, const char *path, mode_t mode);
/* Whether it could be opened now; that is tried, and leaves nothing behind. False: as result_open. */
bool result_may_open(const char *path);
/* False: it could not be written whole, which was said; what was there before is there still. */
bool result_close(struct result_file *result);

#endif
