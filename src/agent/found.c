/*
 * found.c - which segments there are, for the agent. See found.h.
 */
#define _GNU_SOURCE
#include "agent/found.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "view/output.h"

/* Where other users' folders stand: homes.c. */
static const char *const parents[] = {"/run/user", "/dev/shm", "/tmp"};
#define PARENTS (sizeof parents / sizeof *parents)

/*
 * Before Linux 6.13, and later on most file systems, a change has the time of the kernel's last tick, and all changes of
 * one tick have the same (10 ms at the most). Some file systems keep whole seconds, or every other one.
 */
#define TICK_NS (20 * NS_PER_MS)
#define WHOLE_SECONDS_NS (3 * NS_PER_S)

/* A folder as it was when it was looked into. */
struct folder_time {
    char *path;
    struct statx_timestamp changed;
    uint64_t inode;  /* 0: it is not there */
    bool is_passing; /* it had changed just before: one more change could have the same time */
};

static bool is_just_now(const struct statx_timestamp *changed)
{
    const uint64_t now_ns = clock_wall_ns(), then_ns = (uint64_t)changed->tv_sec * NS_PER_S + changed->tv_nsec;
    const uint64_t lasts_ns = changed->tv_nsec == 0 ? WHOLE_SECONDS_NS : TICK_NS;
    return now_ns + lasts_ns >= then_ns && then_ns + lasts_ns >= now_ns; /* a clock that was set: neither */
}

/* What is known without asking its file system again: one in a program's hands (FUSE) might never answer. */
static struct folder_time ask(const char *path)
{
    struct folder_time time = {.path = NULL};
    struct statx status;
    if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC, STATX_CTIME | STATX_INO,
              &status) == 0) {
        time.changed = status.stx_ctime;
        time.inode = status.stx_ino;
        time.is_passing = is_just_now(&time.changed);
    }
    return time;
}

/* Whether a folder is as it was, for sure. */
static bool is_same(const struct folder_time *a, const struct folder_time *b)
{
    return !a->is_passing && a->inode == b->inode && a->changed.tv_sec == b->changed.tv_sec &&
           a->changed.tv_nsec == b->changed.tv_nsec;
}

/* NULL: it is one of them. */
static struct folder_time *add_folder(struct found *found, const char *path)
{
    for (size_t i = 0; i < found->folder_count; i++)
        if (strcmp(found->folders[i].path, path) == 0)
            return NULL;
    found->folders = grow(found->folders, found->folder_count, sizeof *found->folders);
    struct folder_time *folder = &found->folders[found->folder_count++];
    *folder = ask(path);
    folder->path = copy_text(path);
    return folder;
}

/* Whether a choice is about others' segments too. */
static bool looks_at_all(const struct whose *choice)
{
    return geteuid() == 0 && !choice->mine;
}

/* Before anything is looked into: what changes meanwhile is found the next time. */
static void note_folders(struct found *found)
{
    bool all = false;
    struct state_places places;
    struct homes homes;
    find_places(&places);
    for (size_t i = 0; i < found->count; i++)
        all = all || looks_at_all(&found->choices[i]);
    homes_find(&homes, &places, all);
    for (size_t i = 0; i < homes.count; i++)
        add_folder(found, homes.at[i].path);
    for (size_t i = 0; all && places.count > 1 && i < PARENTS; i++)
        add_folder(found, parents[i]);
    homes_free(&homes);
    state_places_free(&places);
}

/* Homes that came after the folders were noted, and were looked into before they are asked for their time. */
static void note_late_homes(struct found *found, const struct homes *homes)
{
    for (size_t i = 0; i < homes->count; i++) {
        struct folder_time *folder = add_folder(found, homes->at[i].path);
        if (folder != NULL)
            folder->is_passing = true;
    }
}

static void forget_folders(struct found *found)
{
    for (size_t i = 0; i < found->folder_count; i++)
        free(found->folders[i].path);
    free(found->folders);
    found->folders = NULL;
    found->folder_count = 0;
}

void found_open(struct found *found, const struct whose *choices, size_t count)
{
    static bool is_known;
    *found = (struct found){.choices = choices, .count = count, .at = allocate(count, sizeof *found->at)};
    note_folders(found);
    for (size_t i = 0; i < count; i++) {
        select_open(&found->at[i], &choices[i], is_known);
        note_late_homes(found, &found->at[i].homes);
    }
    is_known = true;
}

void found_close(struct found *found)
{
    for (size_t i = 0; i < found->count; i++)
        select_close(&found->at[i]);
    free(found->at);
    forget_folders(found);
    *found = (struct found){.at = NULL};
}

/* Whether there are other folders now than those that were looked into: /tmp changes for many a reason. */
static bool has_other_homes(const struct found *found)
{
    bool differs = false;
    for (size_t i = 0; i < found->count && !differs; i++) {
        const struct selection *selection = &found->at[i];
        struct homes homes;
        homes_find(&homes, &selection->places, looks_at_all(&found->choices[i]));
        differs = homes.count != selection->homes.count;
        for (size_t j = 0; j < homes.count && !differs; j++)
            differs = strcmp(homes.at[j].path, selection->homes.at[j].path) != 0 ||
                      homes.at[j].user != selection->homes.at[j].user;
        homes_free(&homes);
    }
    return differs;
}

static bool is_parent(const char *path)
{
    for (size_t i = 0; i < PARENTS; i++)
        if (strcmp(parents[i], path) == 0)
            return true;
    return false;
}

bool found_is_old(struct found *found)
{
    bool parent_changed = false;
    for (size_t i = 0; i < found->folder_count; i++) {
        struct folder_time *before = &found->folders[i], now = ask(before->path);
        if (is_same(before, &now))
            continue;
        if (!is_parent(before->path))
            return true;
        now.path = before->path;
        *before = now;
        parent_changed = true;
    }
    return parent_changed && has_other_homes(found);
}
