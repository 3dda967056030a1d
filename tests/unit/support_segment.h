/*
 * support_segment.h - a state folder for one test, and children that check things in processes of their own.
 *
 * A child reports by its exit status, since a failed assertion of the test's framework must not unwind there: CHECK
 * names the line on stderr and ends the child.
 */
#ifndef SOCKFUSE_TESTS_SUPPORT_SEGMENT_H
#define SOCKFUSE_TESTS_SUPPORT_SEGMENT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cmocka.h>

#include "segment/segment.h"

#define STATE_IDENTITY "/etc/sockfuse/payments.policy"
/* Nobody's user id: the tests run as root, and do as another user what root is allowed anyway. */
#define STATE_OTHER_USER 65534u

struct state {
    char parent[64];     /* made by the fixture */
    char folder[80];     /* in it; not made yet */
    char path[PATH_MAX]; /* of the segment of STATE_IDENTITY */
    struct segment segment;
    struct segment_error error;
};

/* The fixture: attached to nothing. The teardown detaches the segment and removes all below the parent. */
int state_setup(void **state);
int state_teardown(void **state);
/* The same with the segment attached. */
int state_setup_attached(void **state);

/* Attaches the fixture's segment; what it says is in its error. */
bool state_attach(struct state *state);

struct stat status_of(const char *path);
void make_folder(const char *folder, mode_t mode);
/* Leaves an empty file in the state folder. */
void leave_file(struct state *place, const char *name);
unsigned int count_files(const char *folder);

/* Changes some bytes of the segment's file. */
void change_file(struct state *place, size_t offset, const void *bytes, size_t count);
/* Makes it too short, no segment, one of another boot, or one with two names. */
void make_short(struct state *place);
void make_foreign(struct state *place);
void make_other_boot(struct state *place);
void make_linked(struct state *place);

/* The text has that part, and is one line. */
void assert_says(const struct segment_error *error, const char *part);
/* Attaching fails, and says that. */
void assert_refused(struct state *place, const char *part);
/* The first attach replaces, and says why; the second finds the same fresh file, and says nothing. */
void assert_replaced(struct state *place, const char *why);

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: failed in a child: %s\n", __FILE__, __LINE__, #condition);                         \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

/* Forks a child that calls `live` and exits with 0. It dies with its parent, and after a minute. */
pid_t child_start(void (*live)(void *context), void *context);
/* Waits for its end: its exit status, or 128 + the signal that ended it. */
int child_end(pid_t child);
/* Both. */
int child_run(void (*live)(void *context), void *context);
/* Starts a child that calls `live` (may be NULL), says so, and then hangs. Returns when `live` is done. */
pid_t child_hang(void (*live)(void *context), void *context);
/* kill -9, and waits for its end. */
void child_kill(pid_t child);

/* Whether this process may make name spaces of these kinds (CLONE_NEW...). */
bool may_unshare(int spaces);

/* How many descriptors this process has open. */
unsigned int open_descriptors(void);

#endif
