/*
 * own_circuits.h - the circuits of one run that is observed: nobody else's, and over with it. For `observe` and `audit`.
 */
#ifndef SOCKFUSE_CLI_OWN_CIRCUITS_H
#define SOCKFUSE_CLI_OWN_CIRCUITS_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/run_request.h"
#include "view/select.h"
#include "policy/policy.h"

/* Asks for a run that watches every destination, by name where it has one, and refuses nothing. */
void own_circuits_ask(struct run_request *request, char **command);

/* The patterns that take every destination. */
struct run_list own_circuits_everybody(void);

/* The option that makes a run's circuits its own; to be freed. */
char *own_circuits_option(void);

/* Opens the segment that its start has made, to read. False: there is none. */
bool own_circuits_open(struct selected *selected, const struct policy *policy);
/* For who goes on: after they were given back. */
void own_circuits_close(struct selected *selected);

/* Removes it, unless it is to be kept, or `left` processes use it still; then it is said how to read it. */
void own_circuits_give_back(const struct selected *selected, const struct policy *policy, bool keep, size_t left);

#endif
