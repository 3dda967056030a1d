/*
 * unusable.c - segments that can't be read. See unusable.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "view/output.h"
#include "view/table.h"
#include "view/unusable.h"
#include "segment/segment.h"

/* So many programs are named. */
#define NAMED_MAX 20u

/* --- finding out -------------------------------------------------------------------------------------------------- */

static const char *name_of(const char *path)
{
    return strrchr(path, '/') + 1;
}

struct unusable *unusable_add(struct unusables *unusables, int folder, const char *path, bool is_strange,
                              const char *why)
{
    for (size_t i = 0; i < unusables->count; i++)
        if (strcmp(unusables->at[i].path, path) == 0)
            return NULL;
    int fd = segment_openat(folder, name_of(path), O_RDONLY, is_strange);
    if (fd < 0 && errno == ENOENT)
        return NULL;
    unusables->at = grow(unusables->at, unusables->count, sizeof *unusables->at);
    struct unusable *unusable = &unusables->at[unusables->count++];
    *unusable = (struct unusable){.path = copy_text(path), .why = copy_text(why)};
    if (fd < 0)
        return unusable;
    unusable->was_read = segment_peek(fd, &unusable->peek);
    close(fd);
    if (unusable->was_read && unusable->peek.kind == PEEK_OTHER_LAYOUT)
        mappers_find(&unusable->users, unusable->peek.device, unusable->peek.inode, unusable->peek.owner,
                     name_of(path));
    return unusable;
}

static void release(struct unusable *unusable)
{
    mappers_free(&unusable->users);
    free(unusable->path);
    free(unusable->why);
}

void unusable_drop(struct unusables *unusables)
{
    release(&unusables->at[--unusables->count]);
}

void unusables_free(struct unusables *unusables)
{
    while (unusables->count > 0)
        unusable_drop(unusables);
    free(unusables->at);
    *unusables = (struct unusables){0};
}

static bool is_of_another_build(const struct unusable *unusable)
{
    return unusable->was_read && unusable->peek.kind == PEEK_OTHER_LAYOUT;
}

/*
 * Who uses it holds a lock, from the second layout on; but for those that could not open the file when they became a
 * process of their own (they had changed their user, or their root), and these are seen in /proc.
 */
static bool can_not_be_told(const struct unusable *unusable)
{
    return unusable->users.count == 0 && !unusable->peek.is_locked && unusable->users.unseen > 0 &&
           !unusable->peek.has_locks;
}

bool unusable_is_over(const struct unusable *unusable)
{
    if (is_of_another_build(unusable))
        return unusable->users.count == 0 && !unusable->peek.is_locked && !can_not_be_told(unusable);
    return unusable->was_read && unusable->peek.kind == PEEK_OTHER_BOOT;
}

size_t unusables_missed(const struct unusables *unusables)
{
    size_t count = 0;
    for (size_t i = 0; i < unusables->count; i++)
        count += !unusable_is_over(&unusables->at[i]);
    return count;
}

const char *unusable_identity(const struct unusable *unusable)
{
    return unusable->was_read && unusable->peek.identity[0] != '\0' ? unusable->peek.identity : NULL;
}

/* --- in words ----------------------------------------------------------------------------------------------------- */

/* "12 (nginx), 13 (nginx) and 4 more"; to be freed. */
static char *list_users(const struct mappers *users)
{
    char *list = copy_text("");
    for (size_t i = 0; i < users->count && i < NAMED_MAX; i++) {
        char *longer =
            format_text("%s%s%" PRIu32 " (%s)", list, i > 0 ? ", " : "", users->at[i].pid, users->at[i].program);
        free(list);
        list = longer;
    }
    if (users->count > NAMED_MAX) {
        char *longer = format_text("%s and %zu more", list, users->count - NAMED_MAX);
        free(list);
        list = longer;
    }
    return list;
}

/* What to do about another build's; to be freed. */
static char *remedy(const struct unusable *unusable)
{
    const struct mappers *users = &unusable->users;
    if (users->count > 0) {
        char *list = list_users(users);
        char *text = format_text("start %s anew to bring %s under this build: %s", users->count == 1 ? "it" : "them",
                                 users->count == 1 ? "it" : "them", list);
        free(list);
        return text;
    }
    if (unusable->peek.is_locked)
        return copy_text(
            "a program that can't be seen from here uses it, for it holds a lock (of a container, perhaps); "
            "start that one anew");
    if (can_not_be_told(unusable))
        return format_text("who uses it can't be told from here (%zu process%s can't be looked into); root can look",
                           users->unseen, users->unseen == 1 ? "" : "es");
    return copy_text("no program uses it any more: sockfuse forget --ended removes it");
}

static const char *age(const struct unusable *unusable)
{
    return unusable->peek.version > unusable->peek.own_version ? "a newer" : "an older";
}

void unusable_warn(const struct unusable *unusable)
{
    if (unusable_is_over(unusable))
        return;
    if (!is_of_another_build(unusable)) {
        warnx("%s%s", unusable->why,
              unusable->was_read ? "; it can't be read, and the next program that starts under it replaces it" : "");
        return;
    }
    char *text = remedy(unusable), *whose = unusable_whose(unusable);
    warnx("%s%s: circuits of %s build (layout %" PRIu32 "; this one has %" PRIu32 "), out of reach; %s",
          unusable_identity(unusable) != NULL ? unusable_identity(unusable) : unusable->path, whose, age(unusable),
          unusable->peek.version, unusable->peek.own_version, text);
    free(whose);
    free(text);
}

static char *name_of_owner(const struct unusable *unusable)
{
    const struct passwd *entry = getpwuid(unusable->peek.owner);
    return entry != NULL && entry->pw_name[0] != '\0' ? copy_text(entry->pw_name)
                                                      : format_text("%" PRIu32, unusable->peek.owner);
}

char *unusable_whose(const struct unusable *unusable)
{
    if (!unusable->was_read || unusable->peek.owner == geteuid())
        return copy_text("");
    char *user = name_of_owner(unusable), *text = format_text(" (user %s)", user), *whose = printable(text);
    free(user);
    free(text);
    return whose;
}

void unusable_print(const struct unusable *unusable)
{
    const char *identity = unusable_identity(unusable);
    bool coloured = colour_wanted(stdout);
    fputs(colour_start(BOLD, coloured), stdout);
    print_safely(identity != NULL ? identity : unusable->path, stdout);
    char *whose = unusable_whose(unusable);
    printf("%s%s\n", colour_start(PLAIN, coloured), whose);
    free(whose);
    if (is_of_another_build(unusable)) {
        char *text = remedy(unusable);
        printf("  Circuits of %s build (layout %" PRIu32 "; this one has %" PRIu32 "), which can't be read here; ",
               age(unusable), unusable->peek.version, unusable->peek.own_version);
        print_safely(text, stdout);
        fputs(".\n", stdout);
        free(text);
    } else {
        fputs("  Circuits from before the last boot: no program uses them any more (sockfuse forget --ended).\n",
              stdout);
    }
    if (identity != NULL) {
        fputs("  They lie in ", stdout);
        print_safely(unusable->path, stdout);
        fputc('\n', stdout);
    }
}

void unusable_json(struct json *json, const struct unusable *unusable)
{
    char *text = is_of_another_build(unusable) ? remedy(unusable) : copy_text("it is from before the last boot");
    json_open(json, NULL, '{');
    json_string(json, "policy", unusable_identity(unusable));
    char *user = name_of_owner(unusable);
    json_string(json, "user", user);
    free(user);
    json_string(json, "segment", unusable->path);
    json_string(json, "unreadable", text);
    json_unsigned(json, "layout", unusable->peek.version);
    json_null(json, "policy_revision");
    json_bool(json, "active", !unusable_is_over(unusable));
    json_open(json, "circuits", '[');
    json_close(json, ']');
    json_open(json, "processes", '[');
    for (size_t i = 0; i < unusable->users.count; i++) {
        json_open(json, NULL, '{');
        json_unsigned(json, "pid", unusable->users.at[i].pid);
        json_string(json, "program", unusable->users.at[i].program);
        json_close(json, '}');
    }
    json_close(json, ']');
    json_close(json, '}');
    free(text);
}
