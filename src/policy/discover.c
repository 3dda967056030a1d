/*
 * discover.c - where the policy of a process is looked for. See discover.h.
 */
#include "policy/discover.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SYSTEM_FOLDER "/etc/sockfuse"
#define OUR_FOLDER "sockfuse"
#define EVERY_PROGRAM "default"

typedef bool visitor(const struct discovery_place *place, void *context);

/* --- the places --- */

/*
 * One name in all folders. A file that is there but can't be read counts as there: it must be heard of, not be passed
 * over for another one. A path that is too long can't be there.
 */
static bool visit_folders(const char *name, bool is_default, const char *const *folders, visitor *visit, void *context)
{
    char path[PATH_MAX];
    for (; *folders != NULL; folders++) {
        const int length = snprintf(path, sizeof path, "%s/%s.policy", *folders, name);
        if (length <= 0 || (size_t)length >= sizeof path)
            continue;
        const struct discovery_place place = {path, is_default ? NULL : name, access(path, F_OK) == 0};
        if (visit(&place, context))
            return true;
    }
    return false;
}

/* Whether the name stands earlier in the list already: "sh" of a script may be the same as the interpreter's. */
static bool stands_before(const char *const *names, const char *const *name)
{
    for (; names < name; names++) {
        if (strcmp(*names, *name) == 0)
            return true;
    }
    return false;
}

static bool visit_all(const char *const *names, const char *const *folders, visitor *visit, void *context)
{
    for (const char *const *name = names; *name != NULL; name++) {
        const bool is_name = (*name)[0] != '\0' && strchr(*name, '/') == NULL;
        if (is_name && !stands_before(names, name) && visit_folders(*name, false, folders, visit, context))
            return true;
    }
    return visit_folders(EVERY_PROGRAM, true, folders, visit, context);
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

bool policy_discover_each(const char *const *names, const char *(*environment)(const char *name), visitor *visit,
                          void *context)
{
    char user[PATH_MAX];
    const char *folders[3] = {SYSTEM_FOLDER, NULL, NULL};
    if (user_folder(environment, user, sizeof user)) {
        folders[0] = user;
        folders[1] = SYSTEM_FOLDER;
    }
    return visit_all(names, folders, visit, context);
}

/* --- the search --- */

static bool take_first(const struct discovery_place *place, void *context)
{
    struct discovery *found = context;
    if (!place->exists)
        return false;
    memcpy(found->path, place->path, strlen(place->path) + 1);
    found->name = place->name;
    return true;
}

static void find_nothing(struct discovery *found)
{
    found->path[0] = '\0';
    found->name = NULL;
    found->named = false;
}

bool policy_discover_in(const char *const *names, const char *const *folders, struct discovery *found)
{
    find_nothing(found);
    return visit_all(names, folders, take_first, found);
}

bool policy_discover(const char *const *names, const char *(*environment)(const char *name), struct discovery *found)
{
    const char *named = environment("SOCKFUSE_POLICY");
    find_nothing(found);
    if (named == NULL || named[0] == '\0')
        return policy_discover_each(names, environment, take_first, found);
    /* A path that is too long stays empty: it can't be opened, and loading it says so. */
    const size_t length = strlen(named);
    if (length < sizeof found->path)
        memcpy(found->path, named, length + 1);
    found->named = true;
    return true;
}
