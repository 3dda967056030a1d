/*
 * folder.c - opening a folder, what is taken of it, and temporary names. See folder.h.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "segment/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/bare.h"
#include "base/clock.h"
#include "base/errno_name.h"
#include "base/file_status.h"
#include "base/frame.h"
#include "base/hash.h"
#include "base/text.h"
#include "segment/places.h"

#define NAMES_AT_ONCE 768u /* bytes; a name takes 280 at the most */
/* A starter holds the lock for some milliseconds. One that is stopped meanwhile must not stop all others. */
#define LOCK_TRIES 100u
#define LOCK_WAIT_NS (2 * NS_PER_MS)
#define MAKE_TRIES 3u
#define SEGMENTS_LISTED_MAX 4096u

static const char *explain(int code)
{
    switch (code) {
    case EACCES:
    case EPERM:
        return "permission denied";
    case EROFS:
        return "the file system is read-only";
    case ENOSPC:
        return "no space left on the device";
    case EDQUOT:
        return "the disk quota is used up";
    case EMFILE:
        return "this process has no descriptor left";
    case ENFILE:
        return "the system has no descriptor left";
    case ENOMEM:
        return "no memory left";
    case ENOENT:
        return "no such file or folder";
    case ENOTDIR:
        return "not a folder";
    case ENAMETOOLONG:
        return "the name is too long";
    case EFBIG:
        return "larger than the limit of file sizes (ulimit -f)";
    default:
        return "the kernel refused";
    }
}

bool segment_fail(struct segment_error *error, const char *subject, const char *what, int code)
{
    struct text text;
    if (!error)
        return false;
    text_start(&text, error->text, sizeof error->text);
    text_add_printable(&text, subject);
    text_add(&text, ": ");
    text_add(&text, what);
    if (code != 0) {
        text_add(&text, ": ");
        text_add(&text, explain(code));
        text_add(&text, " (");
        text_add_errno(&text, code);
        text_add(&text, ")");
    }
    return false;
}

/* --- names -------------------------------------------------------------------------------------------------------- */

void folder_temporary_name(char name[TEMPORARY_NAME_SIZE])
{
    uint64_t chance = 0;
    /*
     * Early after boot there is none to be had, and old kernels have no such call: then clock and stack address
     * serve.
     */
    if (getrandom(&chance, sizeof chance, GRND_NONBLOCK) != (ssize_t)sizeof chance)
        chance = (uint64_t)(uintptr_t)&chance * HASH_STEP ^ clock_real_ns();
    struct text text;
    text_start(&text, name, TEMPORARY_NAME_SIZE);
    text_add(&text, TEMPORARY_PREFIX);
    text_add_hex(&text, clock_wall_ns(), 16);
    text_add_hex(&text, chance, 16);
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

OWN_FRAME int folder_openat(int folder, const char *name, int flags, mode_t mode)
{
    int fd;
    do
        fd = openat(folder, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, mode);
    while (fd < 0 && errno == EINTR);
    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    /* The program has closed this one, and what its threads still write there must not go into our file. */
    int higher = bare_fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), code = errno;
    bare_close(fd);
    errno = code;
    return higher;
}

/* The umask may take everything from the mode of what is made, and then nobody could enter it. */
static bool make_one(const char *folder)
{
    return mkdir(folder, 0700) == 0 ? chmod(folder, 0700) == 0 : errno == EEXIST;
}

static bool make_folder(const struct state_place *place)
{
    if (make_one(place->folder))
        return true;
    if (errno != ENOENT || place->kind != PARENT_IS_MADE)
        return false;
    return make_one(place->parent) && make_one(place->folder);
}

static int refuse(int fd, struct segment_error *error, const char *folder, const char *what)
{
    bare_close(fd);
    segment_fail(error, folder, what, 0);
    return -1;
}

/* A runtime folder is named by a variable that root may have from another user. */
static bool parent_will_do(const struct state_place *place, struct segment_error *error)
{
    struct stat status;
    if (place->kind != PARENT_IS_OWN)
        return true;
    if (stat(place->parent, &status) != 0)
        return segment_fail(error, place->parent, "the state folder can't be made in it", errno);
    return status.st_uid == geteuid() ||
           segment_fail(error, place->parent, "it belongs to another user, so the state folder can't be in it", 0);
}

/* Whoever made it was stopped before its mode was set, and his umask was a strange one. */
static bool mend_mode(const char *folder)
{
    struct stat status;
    int code = errno;
    bool mended = lstat(folder, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
                  (status.st_mode & 0777) != 0700 && (status.st_mode & 077) == 0 && chmod(folder, 0700) == 0;
    errno = code;
    return mended;
}

static int open_or_make(const struct state_place *place, bool make, struct segment_error *error)
{
    const char *folder = place->folder;
    int fd = folder_openat(AT_FDCWD, folder, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0 && errno == EACCES && mend_mode(folder))
        fd = folder_openat(AT_FDCWD, folder, O_RDONLY | O_DIRECTORY, 0);
    /* Again: it may be removed as soon as it is made. */
    for (unsigned int tries = 0; make && fd < 0 && errno == ENOENT && tries < MAKE_TRIES; tries++) {
        if (make_folder(place)) {
            fd = folder_openat(AT_FDCWD, folder, O_RDONLY | O_DIRECTORY, 0);
        } else if (errno != ENOENT || tries + 1 == MAKE_TRIES) {
            segment_fail(error, folder, "the state folder can't be made", errno);
            errno = 0;
        }
    }
    return fd;
}

OWN_FRAME int folder_open(const struct state_place *place, bool make, struct segment_error *error)
{
    const char *folder = place->folder;
    struct stat status;
    if (!parent_will_do(place, error))
        return -1;
    int fd = open_or_make(place, make, error);
    if (fd < 0 && errno != 0) {
        int code = errno;
        bool is_link = lstat(folder, &status) == 0 && S_ISLNK(status.st_mode);
        segment_fail(error, folder,
                     is_link ? "the state folder is a symbolic link; set SOCKFUSE_STATE to a folder of your own"
                             : "the state folder can't be opened",
                     is_link ? 0 : code);
    }
    if (fd < 0)
        return -1;
    if (file_status(fd, &status) != 0 || status.st_uid != geteuid())
        return refuse(fd, error, folder,
                      "the state folder belongs to another user; set SOCKFUSE_STATE to one of your own");
    if ((status.st_mode & 077) != 0)
        return refuse(fd, error, folder, "others may enter the state folder; run chmod 700 on it");
    if ((status.st_mode & 0700) != 0700)
        fchmod(fd, 0700); /* as in mend_mode: root gets in all the same */
    return fd;
}

bool folder_is_removed(int folder)
{
    struct stat status;
    return file_status(folder, &status) == 0 && status.st_nlink == 0;
}

bool folder_lock(int folder, bool patient)
{
    const struct timespec wait = {.tv_nsec = (long)LOCK_WAIT_NS};
    for (unsigned int tries = 0; tries < LOCK_TRIES; tries++) {
        if (flock(folder, LOCK_EX | LOCK_NB) == 0 || (errno != EWOULDBLOCK && errno != EINTR))
            return true;
        if (!patient)
            return false;
        bare_nanosleep(&wait, NULL);
    }
    return false;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* opendir(3) would call malloc. */
OWN_FRAME bool folder_each_name(int folder, bool (*visit)(const char *name, void *context), void *context)
{
    _Alignas(struct dirent64) char buffer[NAMES_AT_ONCE];
    if (lseek(folder, 0, SEEK_SET) != 0)
        return false;
    for (;;) {
        ssize_t bytes = getdents64(folder, (void *)buffer, sizeof buffer);
        if (bytes <= 0)
            return bytes == 0;
        for (ssize_t at = 0; at < bytes;) {
            const struct dirent64 *entry = (const void *)(buffer + at);
            if (!visit(entry->d_name, context))
                return true;
            at += entry->d_reclen;
        }
    }
}

struct search {
    char after[NAME_MAX + 1]; /* the last one that was found */
    char least[NAME_MAX + 1]; /* the least name behind it; "": none */
};

static bool find_next(const char *name, void *context)
{
    struct search *search = context;
    size_t length = strlen(name);
    if (length > NAME_MAX || !segment_is_name(name))
        return true;
    if (strcmp(name, search->after) > 0 && (search->least[0] == '\0' || strcmp(name, search->least) < 0))
        memcpy(search->least, name, length + 1);
    return true;
}

bool segment_list(const char *folder, bool (*visit)(const char *path, void *context), void *context)
{
    int fd = folder_openat(AT_FDCWD, folder, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return errno == ENOENT;
    /* One pass for each: there are few, and a sorted list would need memory. */
    struct search search = {.after = ""};
    char *path = malloc(PATH_MAX);
    bool readable = path != NULL;
    for (unsigned int count = 0; readable && count < SEGMENTS_LISTED_MAX; count++) {
        struct text text;
        search.least[0] = '\0';
        readable = folder_each_name(fd, find_next, &search);
        if (search.least[0] == '\0')
            break;
        memcpy(search.after, search.least, sizeof search.after);
        text_start(&text, path, PATH_MAX);
        text_add(&text, strcmp(folder, "/") == 0 ? "" : folder);
        text_add(&text, "/");
        text_add(&text, search.least);
        if (!text.cut && !visit(path, context))
            break;
    }
    free(path);
    bare_close(fd);
    return readable;
}
