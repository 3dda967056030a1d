/*
 * notify.h - the second engine: a supervisor that the kernel asks before each connect (seccomp user notification), for
 * programs that carry no libc for the library to stand before.
 *
 * The program keeps its process id, its parents and its children. Beside it stands an orphaned pair: a worker, which is
 * asked, and a keeper, which answers in its place and starts another should it die. They go when the last process does
 * that the filter is in. Nothing is done to the program's sends, receives and closes, and no descriptor of its is kept.
 */
#ifndef SOCKFUSE_NOTIFY_NOTIFY_H
#define SOCKFUSE_NOTIFY_NOTIFY_H

#include <stdbool.h>

#include "policy/policy.h"

struct notify_wish {
    const struct policy *policy;
    const char *names; /* what the policy's names mean: "name=address,address name=address"; NULL: nothing is known */
    const char *log;   /* as struct guard has it */
};

#define NOTIFY_REASON_MAX 256u
struct notify_start {
    bool gave_up_more;              /* set-user-ID programs get no more from now on */
    char reason[NOTIFY_REASON_MAX]; /* why it can't be, and what to do */
};

/*
 * From now on this process's connections are guarded, and those of all that it becomes and starts. False: `reason`, and
 * nothing has changed, but perhaps what `gave_up_more` says.
 */
bool notify_start(const struct notify_wish *wish, struct notify_start *start);

#endif
