/*
 * run_environment.h - what a program that `sockfuse run` starts finds in its environment: what the library reads there.
 *
 * Private to run_start.c and run_environment.c.
 */
#ifndef SOCKFUSE_CLI_RUN_ENVIRONMENT_H
#define SOCKFUSE_CLI_RUN_ENVIRONMENT_H

#include <stdbool.h>

#include "cli/program.h"
#include "policy/policy.h"

struct run_request;

/* Makes a variable that holds a path mean the same after the program has changed its folder. */
void make_absolute(const char *name);

/* Names the log of --log. False, after a message: it can't be appended to; a pipe that nobody reads yet will do. */
bool run_environment_set_log(const char *log);

/* Whether SOCKFUSE=off is set. */
bool run_is_switched_off(void);

/* Tells what the library will read: see the table of variables in the manual. `preload` is what LD_PRELOAD gets. */
void run_environment_set(const struct run_request *request, const struct policy *policy, const struct program *program,
                         const char *preload);

#endif
