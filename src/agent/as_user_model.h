/*
 * as_user_model.h - what is to be done as another user, and how that can end. Doing it is as_user.h's.
 */
#ifndef SOCKFUSE_AGENT_AS_USER_MODEL_H
#define SOCKFUSE_AGENT_AS_USER_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct as_user_order {
    uid_t user;
    const char *const *words; /* a command, and its arguments, for no shell; NULL at the end */
    /* Or, with `words` NULL, one that is found as that user: NULL if there is none, and why was said. */
    const char *const *(*find_words)(const void *context);
    /* Or, without that too, a function: what it writes to standard output is the result; returns an exit status. */
    int (*job)(const void *context);
    const void *job_context;
    const char *const *environment; /* NAME=VALUE beside what any has; NULL at the end. NULL: none */
    const char *input;              /* its standard input */
    size_t input_length;
    uint64_t limit_ms;
    bool is_silent;    /* what it says goes nowhere */
    size_t output_max; /* of standard output and error together; who says more is ended */
};

enum as_user_end {
    AS_USER_EXITED,       /* code: its exit status */
    AS_USER_SIGNALLED,    /* code: by which signal */
    AS_USER_TIMED_OUT,    /* it was ended for its time */
    AS_USER_TALKED,       /* it was ended for what it said */
    AS_USER_NOT_EXECUTED, /* code: an errno */
    AS_USER_NO_COMMAND,   /* none was found */
    AS_USER_LOST,         /* the runner itself could not go on */
};

#endif
