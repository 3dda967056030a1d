/*
 * select_use.c - what a command does with a segment that it has selected: writes in it, removes its file, asks whether
 * what was read is whole, and whether there is time for more. See select.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "view/output.h"
#include "view/select.h"
#include "view/truncation.h"

/* Processor time for one user's circuits, in one look. */
#define TIME_NS (10 * NS_PER_S)

bool select_to_write(struct segment *segment, const struct selected *selected, struct segment_error *error)
{
    uint32_t owner = selected->uid;
    const char *path = selected->segment.path;
    int folder = home_open(&selected->home);
    *segment = (struct segment){.path = ""};
    if (folder < 0) {
        snprintf(error->text, sizeof error->text, "%s: its folder can't be opened any more", path);
        return false;
    }
    bool opened = segment_open_at(segment, folder, path, &owner, true, error);
    close(folder);
    if (opened)
        cut_watch(segment->map, segment->size);
    return opened;
}

int select_descriptor(const struct selected *selected)
{
    const int folder = home_open(&selected->home);
    if (folder < 0)
        return -1;
    const char *name = strrchr(selected->segment.path, '/') + 1;
    const int fd = segment_openat(folder, name, O_RDWR, selected->uid != geteuid());
    const int code = errno;
    close(folder);
    errno = code;
    return fd;
}

enum removal select_remove(const struct selected *selected, struct segment *segment, struct segment_error *error)
{
    int folder = home_open(&selected->home);
    if (folder < 0) {
        snprintf(error->text, sizeof error->text, "%s: its folder can't be opened any more", segment->path);
        return REMOVAL_FAILED;
    }
    enum removal removal = segment_remove_at(folder, segment, error);
    close(folder);
    return removal;
}

bool select_was_whole(const struct selected *selected)
{
    if (!cut_happened())
        return true;
    warnx("%s%s: its file was cut short meanwhile, so what is told of it is wrong", selected->identity,
          selected->whose);
    return false;
}

static uint64_t time_used_ns(void)
{
    struct timespec used = {.tv_sec = 0};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * NS_PER_S + (uint64_t)used.tv_nsec;
}

static struct {
    uid_t user;
    bool is_known, is_told;
    uint64_t from_ns;
} present;

void select_time_begins(void)
{
    present.is_known = false;
}

bool select_has_time(const struct selected *selected)
{
    if (!selected->is_foreign)
        return true;
    if (!present.is_known || present.user != selected->uid) {
        present.user = selected->uid;
        present.is_known = true;
        present.is_told = false;
        present.from_ns = time_used_ns();
    }
    const bool has_some = time_used_ns() - present.from_ns < TIME_NS;
    if (!has_some && !present.is_told)
        warnx("user %s: his circuits take too long; the rest of them is left out", selected->user);
    present.is_told = present.is_told || !has_some;
    return has_some;
}
