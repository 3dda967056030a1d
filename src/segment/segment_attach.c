/*
 * segment_attach.c - finding a policy's segment, whatever stands in its place, and mapping it.
 *
 * Attaching is a loop of looks: a missing file is installed, a bad one of ours is replaced, what is not ours is
 * refused; a good one is mapped, and then the name must still lead to it. So all that start at the same moment end up
 * on one file.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "segment/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bare.h"
#include "base/clock.h"
#include "base/file_status.h"
#include "base/frame.h"
#include "base/hash.h"
#include "base/text.h"
#include "policy/identity.h"
#include "segment/file.h"
#include "segment/folder.h"
#include "segment/layout.h"
#include "segment/removal.h"

/* A round without a file means that others were faster, or that someone deletes the files as fast as they are made. */
#define ATTACH_ROUNDS 64u
/* Who removes the folder between its opening and the making of the file is not likely to do so again at once. */
#define FOLDER_TRIES 4u
#define NOTED_FOR_NS (60 * NS_PER_S)
#define SWEPT_FOR_NS (10 * NS_PER_S)

_Static_assert(SEGMENT_IDENTITY_MAX == IDENTITY_MAX, "an identity can be read back");

enum found { FOUND_GOOD, FOUND_MISSING, FOUND_BAD, FOUND_CHANGED, FOUND_REFUSED };

struct look {
    struct stat status; /* FOUND_GOOD, FOUND_BAD */
    const char *fault;  /* FOUND_BAD */
};

static enum found refuse(const char *path, const char *what, int code, struct segment_error *error)
{
    segment_fail(error, path, what, code);
    return FOUND_REFUSED;
}

static enum found look_why_closed(int folder, const char *name, const char *path, struct segment_error *error)
{
    struct stat status;
    int code = errno;
    if (code == ENOENT)
        return FOUND_MISSING;
    if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode))
        return refuse(path, "the segment is a symbolic link; remove it", 0, error);
    if (code == EISDIR)
        return refuse(path, "a folder is in the segment's place; remove it", 0, error);
    return refuse(path, "the segment can't be opened", code, error);
}

/* FOUND_GOOD: the segment is mapped. */
static enum found look_inside(int fd, const struct contents *contents, struct segment *segment, struct look *look,
                              struct segment_error *error)
{
    const char *path = segment->path;
    if (file_status(fd, &look->status) != 0)
        return refuse(path, "the segment can't be examined", errno, error);
    if (!S_ISREG(look->status.st_mode))
        return refuse(path, "the segment is no regular file; remove it", 0, error);
    if (look->status.st_uid != geteuid())
        return refuse(path, "the segment belongs to another user; remove it, or set SOCKFUSE_STATE", 0, error);
    if ((look->status.st_mode & 022) != 0)
        return refuse(path, "others may write to the segment; run chmod 600 on it, or remove it", 0, error);
    if (look->status.st_nlink == 0)
        return FOUND_CHANGED;
    if (look->status.st_nlink > 1) {
        look->fault = "it had a second name";
        return FOUND_BAD;
    }
    if (file_map(fd, look->status.st_size, true, contents, segment, &look->fault))
        return FOUND_GOOD;
    return look->fault ? FOUND_BAD : refuse(path, "the segment can't be mapped", errno, error);
}

OWN_FRAME static enum found look_at(int folder, const char *name, struct segment *segment,
                                    const struct contents *contents, struct look *look, struct segment_error *error)
{
    *look = (struct look){.fault = NULL};
    int fd = folder_openat(folder, name, O_RDWR, 0);
    if (fd < 0)
        return look_why_closed(folder, name, segment->path, error);
    enum found found = look_inside(fd, contents, segment, look, error);
    bare_close(fd);
    /* Somebody may have replaced it since: then the circuits are over there. */
    if (found == FOUND_GOOD && !file_is_at(folder, name, &look->status)) {
        file_unmap(segment);
        found = FOUND_CHANGED;
    }
    return found;
}

static void tell_replaced(struct segment_error *error, const char *path, const char *fault)
{
    struct text text;
    if (!error)
        return;
    segment_fail(error, path, "replaced the segment by a fresh one: ", 0);
    size_t length = strlen(error->text);
    text_start(&text, error->text + length, sizeof error->text - length);
    text_add(&text, fault);
}

static void clear_error(struct segment_error *error)
{
    if (error)
        error->text[0] = '\0';
}

/*
 * As segment_note_use. What is swept when it is of no use must know exactly when it was used, of the rest a part of a
 * minute is enough.
 */
static void note_use(int folder, const char *name, const struct stat *status)
{
    const uint64_t noted_ns = (uint64_t)status->st_mtim.tv_sec * NS_PER_S + (uint64_t)status->st_mtim.tv_nsec;
    if (removal_may_sweep(name) || clock_wall_ns() - noted_ns > NOTED_FOR_NS)
        utimensat(folder, name, NULL, AT_SYMLINK_NOFOLLOW);
}

/* Of many that start one after the other, one looks; but who may have made what is to be swept always does. */
static bool sweep_is_due(struct segment *segment, bool attached)
{
    if (!attached || removal_may_sweep(strrchr(segment->path, '/') + 1))
        return true;
    _Atomic uint64_t *swept_ns = &segment->map->swept_ns;
    const uint64_t now_ns = clock_wall_ns(); /* it may have been set back */
    if (now_ns - atomic_load_explicit(swept_ns, memory_order_relaxed) < SWEPT_FOR_NS)
        return false;
    atomic_store_explicit(swept_ns, now_ns, memory_order_relaxed);
    return true;
}

OWN_FRAME static bool attach(struct segment *segment, int folder, const char *name, const struct contents *contents,
                             bool makes, struct segment_error *error)
{
    bool locked = false, installed;
    for (unsigned int round = 0; round < ATTACH_ROUNDS; round++) {
        struct look look;
        switch (look_at(folder, name, segment, contents, &look, error)) {
        case FOUND_GOOD:
            segment->device = (uint64_t)look.status.st_dev;
            segment->inode = (uint64_t)look.status.st_ino;
            note_use(folder, name, &look.status);
            return true;
        case FOUND_MISSING:
            if (!makes)
                return segment_fail(error, segment->path, "the segment can't be opened", ENOENT);
            if (file_install(folder, name, NULL, contents, segment->path, error, &installed))
                break;
            /* Where there is room for one, several that make theirs at once find none: one after the other, then. */
            if (locked || !folder_lock(folder, contents->patient))
                return false;
            locked = true;
            clear_error(error);
            break;
        case FOUND_BAD:
            /*
             * Between this look and a rename another starter may replace it, and others use that one: lock, look
             * again.
             */
            if (!makes)
                return segment_fail(error, segment->path, look.fault, 0);
            if (!locked) {
                locked = folder_lock(folder, contents->patient);
                if (!locked && !contents->patient)
                    return segment_fail(error, segment->path, "others are about to replace it", 0);
                locked = true;
                break;
            }
            if (!file_install(folder, name, &look.status, contents, segment->path, error, &installed))
                return false;
            if (installed)
                tell_replaced(error, segment->path, look.fault);
            break;
        case FOUND_CHANGED:
            break;
        case FOUND_REFUSED:
            return false;
        }
    }
    return segment_fail(error, segment->path, "others replace or delete the segment again and again", 0);
}

/* `makes`: what is missing, and what is bad. */
static bool attach_at(struct segment *segment, const struct state_place *place, const struct attaching *attaching,
                      bool makes, struct segment_error *error)
{
    struct contents contents;
    bool attached = false, removed = true;
    *segment = (struct segment){.path = place->segment};
    contents_know(&contents, attaching->identity, attaching->capacity);
    contents.patient = attaching->patient;
    for (unsigned int tries = 0; removed && tries < FOLDER_TRIES; tries++) {
        int fd = folder_open(place, makes, error);
        if (fd < 0)
            return false;
        attached = attach(segment, fd, strrchr(place->segment, '/') + 1, &contents, makes, error);
        removed = !attached && makes && folder_is_removed(fd);
        if (attaching->patient && makes && sweep_is_due(segment, attached))
            folder_sweep(fd, place);
        bare_close(fd);
    }
    return attached;
}

/* Adds to the reasons of former places why this one is none. */
static void add_reason(struct segment_error *reasons, const struct segment_error *reason)
{
    struct text text;
    size_t length = strlen(reasons->text);
    text_start(&text, reasons->text + length, sizeof reasons->text - length);
    text_add(&text, length > 0 ? "; " : "");
    text_add(&text, reason->text);
}

/* In one of several places: why each of them is none. */
static bool attach_one_of(struct segment *segment, const struct state_places *places, const struct attaching *attaching,
                          struct segment_error *error)
{
    for (unsigned int i = 0; i < places->count; i++)
        if (attach_at(segment, &places->at[i], attaching, false, NULL))
            return true;
    /* Who wants to know why has room for it; a host's call does not. It is had where there is something to tell. */
    struct segment_error *reason = error ? malloc(sizeof *reason) : NULL;
    bool attached = false;
    for (unsigned int i = 0; i < places->count && !attached; i++) {
        clear_error(reason);
        attached = attach_at(segment, &places->at[i], attaching, true, reason);
        if (error && reason && attached)
            *error = *reason;
        else if (error && reason)
            add_reason(error, reason);
    }
    free(reason);
    return attached;
}

bool segment_attach_first(struct segment *segment, const struct state_places *places, const struct attaching *attaching,
                          struct segment_error *error)
{
    clear_error(error);
    /* With a single place there is nothing to choose. */
    if (places->count == 1)
        return attach_at(segment, &places->at[0], attaching, true, error);
    return attach_one_of(segment, places, attaching, error);
}

bool segment_attach(struct segment *segment, const char *folder, const char *identity, const struct capacity *capacity,
                    struct segment_error *error)
{
    const struct attaching attaching = {.identity = identity, .capacity = capacity, .patient = true};
    struct state_places places = {0};
    *segment = (struct segment){.map = NULL};
    clear_error(error);
    if (!state_place_named(folder, &places))
        return segment_fail(error, folder, "no memory left", 0);
    bool attached = state_places_name(&places, identity)
                        ? segment_attach_first(segment, &places, &attaching, error)
                        : segment_fail(error, folder, "the state folder's name is too long", 0);
    if (attached) {
        segment->path = segment->own_path = places.at[0].segment;
        places.at[0].segment = NULL;
    } else {
        segment->path = "";
    }
    state_places_free(&places);
    return attached;
}

OWN_FRAME bool segment_private(struct segment *segment, const char *identity, const struct capacity *capacity)
{
    struct contents contents;
    *segment = (struct segment){.path = ""};
    contents_know(&contents, identity, capacity);
    const size_t size = layout_measure(&contents.capacity).size;
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return false;
    layout_point(segment, map, &contents.capacity);
    contents_fill(segment->map, &contents);
    return true;
}
