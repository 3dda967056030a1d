/*
 * removal.c - removing segments that nobody uses. See removal.h.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "segment/removal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bare.h"
#include "base/clock.h"
#include "base/frame.h"
#include "policy/identity.h"
#include "segment/folder.h"
#include "segment/peek.h"
#include "segment/places.h"
#include "segment/processes.h"
#include "segment/segment.h"

#define TEMPORARY_LIFE_NS (60 * NS_PER_S)
/* Before the hash in the names of files that may be over: see segment_path. */
static const char *const over_marks[] = {"patterns-", "options-"};
#define OVER_MARKS (sizeof over_marks / sizeof *over_marks)
#define OVER_NAME_TAIL (16u + sizeof SEGMENT_SUFFIX - 1) /* hash and suffix */
#define OVER_AFTER_NS (NS_PER_S * 60 * 60 * 24)
#define UNUSED_KEPT 16u
/* Who has just attached takes a moment to say so. */
#define UNUSED_FOR_NS NS_PER_S
#define LOOKS 2u
/* Each process of a segment that has to be asked whether it lives costs some microseconds. */
#define ASKED_MAX 64u

/* --- one segment --- */

/* NAME-HASH.options beside NAME-HASH.segment, and what else a build had there. */
static void remove_notes(int folder, const char *name)
{
    static const char *const suffixes[] = {".options", ".policy"};
    char note[NAME_MAX + 1];
    size_t length = strlen(name) - strlen(SEGMENT_SUFFIX);
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        if (length + strlen(suffixes[i]) >= sizeof note)
            continue;
        memcpy(note, name, length); /* NOLINT(bugprone-not-null-terminated-result): the next line ends it */
        strcpy(note + length, suffixes[i]);
        unlinkat(folder, note, 0);
    }
}

static bool is_mapped_file(int folder, const char *name, const struct segment *segment)
{
    struct stat present;
    return fstatat(folder, name, &present, AT_SYMLINK_NOFOLLOW) == 0 && segment_is_of(segment, &present);
}

/* `most`: how many processes are asked at the most; with more it counts as used. */
static enum removal remove_from(int folder, struct segment *segment, uint32_t most, struct segment_error *error)
{
    const char *name = strrchr(segment->path, '/') + 1;
    folder_lock(folder, true);
    if (!is_mapped_file(folder, name, segment)) {
        segment_fail(error, segment->path, "it was replaced meanwhile", 0);
        return REMOVAL_FAILED;
    }
    if (process_any(segment, most))
        return REMOVAL_IN_USE;
    /* For whoever is about to use it. */
    segment_give_up(segment);
    if (unlinkat(folder, name, 0) != 0) {
        segment_fail(error, segment->path, "the segment can't be removed", errno);
        return REMOVAL_FAILED;
    }
    remove_notes(folder, name);
    return REMOVAL_DONE;
}

enum removal segment_remove(struct segment *segment, struct segment_error *error)
{
    char *path = strdup(segment->path), *slash = path ? strrchr(path, '/') : NULL;
    if (slash)
        slash[slash == path] = '\0';
    int folder = slash ? folder_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0) : -1;
    enum removal removal = REMOVAL_FAILED;
    if (folder >= 0) {
        removal = remove_from(folder, segment, UINT32_MAX, error);
        bare_close(folder);
    } else {
        segment_fail(error, segment->path, "its folder can't be opened", errno);
    }
    free(path);
    return removal;
}

bool segment_remove_file(const char *path, uint64_t device, uint64_t inode, struct segment_error *error)
{
    const char *name = strrchr(path, '/') + 1;
    const struct segment file = {.path = path, .device = device, .inode = inode};
    struct peek *peek = calloc(1, sizeof *peek);
    char *parent = strndup(path, name - path > 1 ? (size_t)(name - path - 1) : 1);
    int folder = peek && parent ? folder_openat(AT_FDCWD, parent, O_RDONLY | O_DIRECTORY, 0) : -1;
    int fd = folder >= 0 && folder_lock(folder, true) ? folder_openat(folder, name, O_RDONLY, 0) : -1;
    bool done = false;
    if (fd < 0)
        segment_fail(error, path, "the segment can't be opened", errno);
    else if (!segment_peek(fd, peek) || !is_mapped_file(folder, name, &file))
        segment_fail(error, path, "it was replaced meanwhile", 0);
    else if (peek->is_locked)
        segment_fail(error, path, "some program uses it", 0);
    else
        done = unlinkat(folder, name, 0) == 0 || segment_fail(error, path, "the segment can't be removed", errno);
    if (done)
        remove_notes(folder, name);
    if (fd >= 0)
        bare_close(fd);
    if (folder >= 0)
        bare_close(folder);
    free(parent);
    free(peek);
    return done;
}

enum removal segment_remove_at(int folder, struct segment *segment, struct segment_error *error)
{
    return remove_from(folder, segment, UINT32_MAX, error);
}

/* --- all of a folder --- */

struct old_file {
    char name[NAME_MAX + 1]; /* "": there is none */
    uint64_t changed_ns;     /* wall clock */
};

struct sweep {
    int folder;
    uint64_t now_ns;
    unsigned int count;         /* of files that may be over */
    struct old_file old[LOOKS]; /* the oldest of them */
};

static uint64_t ns_of(const struct timespec *time)
{
    return (uint64_t)time->tv_sec * NS_PER_S + (uint64_t)time->tv_nsec;
}

static uint64_t distance(uint64_t one, uint64_t other)
{
    return one > other ? one - other : other - one;
}

bool removal_may_sweep(const char *name)
{
    size_t length = strlen(name);
    if (length < OVER_NAME_TAIL || length > NAME_MAX || !segment_is_name(name))
        return false;
    length -= OVER_NAME_TAIL;
    for (unsigned int i = 0; i < OVER_MARKS; i++) {
        size_t mark = strlen(over_marks[i]);
        if (length >= mark && memcmp(name + length - mark, over_marks[i], mark) == 0)
            return true;
    }
    return false;
}

static void note_old(struct sweep *sweep, const char *name, uint64_t changed_ns)
{
    struct old_file *youngest = &sweep->old[0];
    sweep->count++;
    for (unsigned int i = 0; i < LOOKS; i++) {
        struct old_file *old = &sweep->old[i];
        if (old->name[0] == '\0' || (youngest->name[0] != '\0' && old->changed_ns > youngest->changed_ns))
            youngest = old;
    }
    if (youngest->name[0] != '\0' && youngest->changed_ns <= changed_ns)
        return;
    memcpy(youngest->name, name, strlen(name) + 1);
    youngest->changed_ns = changed_ns;
}

static bool sweep_one(const char *name, void *context)
{
    struct sweep *sweep = context;
    struct stat status;
    bool is_temporary = strncmp(name, TEMPORARY_PREFIX, strlen(TEMPORARY_PREFIX)) == 0;
    if ((!is_temporary && !removal_may_sweep(name)) ||
        fstatat(sweep->folder, name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode) ||
        status.st_uid != geteuid())
        return true;
    if (!is_temporary)
        note_old(sweep, name, ns_of(&status.st_mtim));
    /*
     * One from the future was made before the clock was set back. A living starter whose file goes makes another one.
     */
    else if (distance(sweep->now_ns, ns_of(&status.st_ctim)) > TEMPORARY_LIFE_NS)
        unlinkat(sweep->folder, name, 0);
    return true;
}

static bool is_of_a_run(const char *identity)
{
    return identity_has_patterns(identity) || identity_has_options(identity);
}

static void remove_unless_locked(int folder, const char *name)
{
    struct peek *peek = calloc(1, sizeof *peek);
    int fd = folder_openat(folder, name, O_RDONLY, 0);
    if (fd < 0 || (peek && segment_peek(fd, peek) && !peek->is_locked)) {
        unlinkat(folder, name, 0);
        remove_notes(folder, name);
    }
    if (fd >= 0)
        bare_close(fd);
    free(peek);
}

/* Looks into a file that may be over; `is_old`: for a day. */
static void look_into(int fd, const char *folder, const char *name, bool is_old)
{
    struct segment *segment = calloc(1, sizeof *segment);
    struct segment_error *error = calloc(1, sizeof *error);
    size_t length = strlen(folder) + strlen(name) + 2;
    char *path = malloc(length);
    if (segment && error && path) {
        strcpy(path, folder);
        strcat(path, "/");
        strcat(path, name);
        if (segment_open(segment, path, true, error)) {
            /* One that is used is not looked into again before the day is over. */
            if (!is_of_a_run(segment_identity(segment)) || remove_from(fd, segment, ASKED_MAX, error) == REMOVAL_IN_USE)
                utimensat(fd, name, NULL, AT_SYMLINK_NOFOLLOW);
            segment_detach(segment);
        } else if (is_old) {
            /* Of another boot, or damaged; or of another build, whose processes touch it each hour. */
            remove_unless_locked(fd, name);
        }
    }
    free(path);
    free(segment);
    free(error);
}

OWN_FRAME void folder_sweep(int fd, const struct state_place *place)
{
    struct sweep *sweep = calloc(1, sizeof *sweep);
    if (!sweep)
        return;
    sweep->folder = fd;
    sweep->now_ns = clock_wall_ns();
    folder_each_name(fd, sweep_one, sweep);
    for (unsigned int i = 0; i < LOOKS; i++) {
        const struct old_file *old = &sweep->old[i];
        uint64_t age_ns = distance(sweep->now_ns, old->changed_ns);
        bool is_old = age_ns > OVER_AFTER_NS, is_one_too_many = sweep->count > UNUSED_KEPT && age_ns > UNUSED_FOR_NS;
        if (old->name[0] != '\0' && (is_old || is_one_too_many))
            look_into(fd, place->folder, old->name, is_old);
        if (sweep->count > 0)
            sweep->count--;
    }
    free(sweep);
}
