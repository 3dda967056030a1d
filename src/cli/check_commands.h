/*
 * check_commands.h - for `sockfuse check`: whether the commands that a policy names for the agent are here.
 */
#ifndef SOCKFUSE_CLI_CHECK_COMMANDS_H
#define SOCKFUSE_CLI_CHECK_COMMANDS_H

#include "policy/policy.h"

/* Warns of each that this user can't execute, with its target's place. The policy is no worse for it. */
void check_commands(const char *file, const struct policy *policy);

#endif
