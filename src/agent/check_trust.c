/*
 * check_trust.c - a check as the policy's file has it. See check_trust.h.
 */
#define _GNU_SOURCE
#include "agent/check_trust.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy/identity.h"
#include "policy/policy.h"

/* Root's file has no group that writes; the group of another user is often only his own. */
static bool is_trusted(int fd, uid_t uid)
{
    struct stat status;
    return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && (status.st_uid == uid || status.st_uid == 0) &&
           (status.st_mode & (uid == 0 ? S_IWGRP | S_IWOTH : S_IWOTH)) == 0;
}

/* The very file that was looked at, whatever its name leads to by now; without -o, which the identity alone has. */
static struct policy *load(int fd)
{
    struct policy_problems problems;
    char path[40];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct policy *policy = policy_load(path, NULL, &problems);
    policy_problems_free(&problems);
    return policy;
}

bool check_trusted_value(char value[HEALTH_CHECK_SIZE], const char *identity_text, const char *name, uid_t uid)
{
    struct identity identity;
    value[0] = '\0';
    if (!identity_read(&identity, identity_text))
        return false;
    const int fd = identity.path != NULL ? open(identity.path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK) : -1;
    struct policy *policy = fd >= 0 && is_trusted(fd, uid) ? load(fd) : NULL;
    const struct target *target = policy != NULL ? policy_target_named(policy, name) : NULL;
    if (target != NULL)
        memcpy(value, target->health_check, HEALTH_CHECK_SIZE);
    policy_free(policy);
    if (fd >= 0)
        close(fd);
    identity_free(&identity);
    return value[0] != '\0';
}
