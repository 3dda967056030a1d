/*
 * injection.h - whether this kernel lets a program be given the faults of its policy.
 */
#ifndef SOCKFUSE_CLI_INJECTION_H
#define SOCKFUSE_CLI_INJECTION_H

#include <stdbool.h>

#include "policy/policy.h"

/*
 * False: some target injects a fault for which a socket must be made deaf (all but refuse, delay and slow), and the
 * kernel does not allow this user to. Opens and closes a socket to find out; true also where that tells nothing.
 */
bool injection_is_allowed(const struct policy *policy);

#endif
