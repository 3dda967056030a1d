/*
 * run_start.h - what has to be right before a program starts under a policy, and its start. For `run`, `observe` and `audit`.
 *
 * Policy, library, state folder, log, and whether the program can be guarded at all are looked at first; then the
 * environment is set and the program takes this process's place.
 */
#ifndef SOCKFUSE_CLI_RUN_START_H
#define SOCKFUSE_CLI_RUN_START_H

#include <stdbool.h>

#include "cli/program.h"
#include "cli/run_request.h"
#include "policy/policy.h"

struct run_start {
    struct run_request *request;
    struct policy *policy;
    struct program program;
    bool is_found;   /* else the start itself says why */
    bool is_guarded; /* its circuits can be kept: its segment is there */
    bool is_unseen;  /* the library will not be in it, which was said */
    char *preload;   /* for LD_PRELOAD */
    bool is_asked;   /* it is to be guarded by the second engine (notify/notify.h) */
    char *warning;   /* why it is not guarded if that can't be had; NULL: it was asked for */
};

/*
 * Looks at everything. Returns EXIT_SUCCESS, or EXIT_RUN_FAILED after a message. Behind it nothing but the environment
 * is to be set. `start` is not given back: the process goes on as another program, or ends.
 */
int run_start_prepare(struct run_start *start, struct run_request *request);
/* Sets the environment and becomes the program. Returns the exit status if that fails, after a message. */
int run_start_execute(struct run_start *start);

#endif
