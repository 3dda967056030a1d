/*
 * discover.c - where the policy of a process is looked for. See discover.h.
 */
#include "policy/discover.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SYSTEM_FOLDER "/etc/sockfuse"
#define OUR_FOLDER "sockfuse"

/* Writes FOLDER/NAME.policy; true if there is such a file, whether it can be read or not: a policy that is there but
 * can't be read must be heard of, not be passed over for another one. */
static bool try_file(const char *folder, const char *name, char *path, size_t size)
{
    const int length = snprintf(path, size, "%s/%s.policy", folder, name);
    return length > 0 && (size_t)length < size && access(path, F_OK) == 0;
}

bool policy_discover_in(const char *program, const char *const *folders, struct discovery *found)
{
    found->named = false;
    const bool has_name = program != NULL && program[0] != '\0' && strchr(program, '/') == NULL;
    for (size_t i = 0; has_name && folders[i] != NULL; i++) {
        if (try_file(folders[i], program, found->path, sizeof found->path))
            return true;
    }
    for (size_t i = 0; folders[i] != NULL; i++) {
        if (try_file(folders[i], "default", found->path, sizeof found->path))
            return true;
    }
    found->path[0] = '\0';
    return false;
}

/* The user's folder. A relative one is void, as the XDG base directory specification wants it. */
static bool user_folder(const char *(*environment)(const char *name), char *folder, size_t size)
{
    const char *base = environment("XDG_CONFIG_HOME"), *below = "";
    if (base == NULL || base[0] != '/') {
        base = environment("HOME");
        below = "/.config";
    }
    if (base == NULL || base[0] != '/')
        return false;
    const int length = snprintf(folder, size, "%s%s/" OUR_FOLDER, base, below);
    return length > 0 && (size_t)length < size;
}

bool policy_discover(const char *program, const char *(*environment)(const char *name), struct discovery *found)
{
    const char *named = environment("SOCKFUSE_POLICY");
    if (named != NULL && named[0] != '\0') {
        /* A path that is too long stays empty: it can't be opened, and loading it says so. */
        const size_t length = strlen(named);
        memcpy(found->path, named, length < sizeof found->path ? length + 1 : 0);
        if (length >= sizeof found->path)
            found->path[0] = '\0';
        found->named = true;
        return true;
    }
    char user[PATH_MAX];
    const char *folders[3] = {SYSTEM_FOLDER, NULL, NULL};
    if (user_folder(environment, user, sizeof user)) {
        folders[0] = user;
        folders[1] = SYSTEM_FOLDER;
    }
    return policy_discover_in(program, folders, found);
}
