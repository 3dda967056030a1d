/*
 * check_trust.h - what a check may ask for or execute: what the policy's file says, and nobody else.
 *
 * What lies in a segment may have been written by any program that has it mapped, also by one that has given up the
 * rights with which it started. So a command or a URL is never taken from there: only from a file that belongs to the
 * user or to root, and that nobody else can write.
 */
#ifndef SOCKFUSE_AGENT_CHECK_TRUST_H
#define SOCKFUSE_AGENT_CHECK_TRUST_H

#include <stdbool.h>
#include <sys/types.h>

#include "policy/check_value.h"

/*
 * The `health_check` of the target in the policy's file, as that user, who the caller has become, can read it. False:
 * there is no such file, or it is not to be trusted. It waits for the disk: for a child.
 */
bool check_trusted_value(char value[HEALTH_CHECK_SIZE], const char *identity, const char *target, uid_t uid);

#endif
