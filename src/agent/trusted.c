/*
 * trusted.c - what a policy's file says. See trusted.h.
 */
#define _GNU_SOURCE
#include "agent/trusted.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy/identity.h"

/* NULL: it is to be trusted. Root's file has no group that writes; the group of another user is often only his own. */
static const char *doubt(int fd, uid_t uid)
{
    struct stat status;
    if (fd < 0)
        return errno == ENOENT ? "the policy's file is not there" : "the policy's file can't be opened";
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
        return "the policy's file is no plain file";
    if (status.st_uid != uid && status.st_uid != 0)
        return "the policy's file belongs to another user";
    if ((status.st_mode & (uid == 0 ? S_IWGRP | S_IWOTH : S_IWOTH)) != 0)
        return "the policy's file can be written by others";
    return NULL;
}

/* The very file that was looked at, whatever its name leads to by now; without -o, which the identity alone has. */
static struct policy *load(int fd, const struct identity *identity)
{
    struct policy_problems problems;
    char path[40];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct policy *policy = policy_load_with_patterns(path, (const char *const *)identity->patterns, NULL, &problems);
    policy_problems_free(&problems);
    return policy;
}

static void read_file(struct trusted *trusted, const struct identity *identity, const char *name, uid_t uid)
{
    errno = ENOENT;
    const int fd = open(identity->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    trusted->why = doubt(fd, uid);
    if (trusted->why == NULL) {
        trusted->policy = load(fd, identity);
        trusted->target = trusted->policy != NULL ? policy_target_named(trusted->policy, name) : NULL;
        if (trusted->target == NULL)
            trusted->why =
                trusted->policy == NULL ? "the policy's file can't be used" : "the policy's file has no such target";
    }
    if (fd >= 0)
        close(fd);
}

bool trusted_open(struct trusted *trusted, const char *identity_text, const char *name, uid_t uid)
{
    struct identity identity;
    *trusted = (struct trusted){.why = "it is not known which policy that is"};
    if (!identity_read(&identity, identity_text))
        return false;
    if (identity.path != NULL)
        read_file(trusted, &identity, name, uid);
    else
        trusted->why = "a policy without a file can't name one";
    identity_free(&identity);
    return trusted->target != NULL;
}

void trusted_free(struct trusted *trusted)
{
    policy_free(trusted->policy);
    *trusted = (struct trusted){.target = NULL};
}
