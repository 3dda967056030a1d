/*
 * rights.c - doing something with another user's rights. See rights.h.
 */
#define _GNU_SOURCE
#include "view/rights.h"

#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

#include "view/output.h"

/* Of a user who is in no list of users nothing else is known: what is everybody's is his too. */
#define NO_GROUP ((gid_t)65534)
#define GROUPS_MAX 65536

static struct {
    uid_t user;
    gid_t group, *groups;
    int count;
} own;

static void keep_own(void)
{
    own.user = geteuid();
    own.group = getegid();
    own.count = getgroups(0, NULL);
    own.groups = allocate(own.count > 0 ? (size_t)own.count : 1, sizeof *own.groups);
    if (own.count < 0 || getgroups(own.count, own.groups) != own.count)
        err(EXIT_FAILURE, "this user's groups can't be known");
}

/* His groups, to be freed; the first is that of his entry. */
static gid_t *groups_of(uid_t user, int *count)
{
    const struct passwd *entry = getpwuid(user);
    gid_t *groups = allocate(GROUPS_MAX, sizeof *groups);
    *count = 1;
    groups[0] = NO_GROUP;
    if (entry != NULL) {
        const gid_t first = entry->pw_gid;
        *count = GROUPS_MAX;
        if (getgrouplist(entry->pw_name, first, groups, count) < 0)
            *count = 1;
        groups[0] = *count == 1 ? first : groups[0];
    }
    return groups;
}

bool rights_take(uid_t user)
{
    int count;
    gid_t *groups = groups_of(user, &count);
    keep_own();
    /* Groups and group first: with the user goes the right to change them. */
    bool taken = setgroups((size_t)count, groups) == 0 && setresgid((gid_t)-1, groups[0], (gid_t)-1) == 0 &&
                 setresuid((uid_t)-1, user, (uid_t)-1) == 0;
    free(groups);
    if (!taken)
        rights_return();
    return taken;
}

void rights_return(void)
{
    if (setresuid((uid_t)-1, own.user, (uid_t)-1) != 0 || setresgid((gid_t)-1, own.group, (gid_t)-1) != 0 ||
        setgroups((size_t)own.count, own.groups) != 0 || geteuid() != own.user || getegid() != own.group)
        err(EXIT_FAILURE, "root's own rights can't be taken back");
    free(own.groups);
    own.groups = NULL;
}
