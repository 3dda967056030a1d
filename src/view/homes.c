/*
 * homes.c - the folders in which a command looks for segments. See homes.h.
 */
#define _GNU_SOURCE
#include "view/homes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/ascii.h"
#include "view/output.h"
#include "segment/places.h"
#include "segment/segment.h"

/* Anybody can fill /tmp. Bounds that no honest machine meets keep a command from working, or mapping, without end. */
#define NAMES_LOOKED_AT 65536u
#define HOMES_MAX 4096u
#define SEGMENTS_OWN_MAX 4096u
#define SEGMENTS_OTHERS_MAX 256u

/* --- finding ------------------------------------------------------------------------------------------------------ */

static bool is_listed(const struct homes *homes, const char *path)
{
    for (size_t i = 0; i < homes->count; i++)
        if (strcmp(homes->at[i].path, path) == 0)
            return true;
    return false;
}

/* Takes `path`, which was allocated. */
static void add(struct homes *homes, char *path, uid_t user, bool is_named)
{
    homes->at = grow(homes->at, homes->count, sizeof *homes->at);
    homes->at[homes->count++] = (struct home){.path = path, .user = user, .is_named = is_named};
}

/* The user whose number a name ends with. False: it is no such name; numbers have one spelling. */
static bool user_of_name(const char *name, const char *before, uid_t *user)
{
    const char *digits = name + strlen(before);
    uint64_t number;
    if (strncmp(name, before, strlen(before)) != 0 || (digits[0] == '0' && digits[1] != '\0') ||
        !ascii_is_number(digits, &number) || number >= (uid_t)-1)
        return false;
    *user = (uid_t)number;
    return true;
}

/* All BEFORE-UID in a folder, as BEFORE-UID/AFTER. Those of the caller were added before. */
static void add_all_in(struct homes *homes, const char *folder, const char *before, const char *after)
{
    DIR *stream = opendir(folder);
    const struct dirent *entry;
    unsigned int looked = 0;
    while (stream != NULL && (entry = readdir(stream)) != NULL) {
        uid_t user;
        if (++looked > NAMES_LOOKED_AT || homes->count >= HOMES_MAX) {
            homes->is_cut = true;
            break;
        }
        if (user_of_name(entry->d_name, before, &user) && user != geteuid())
            add(homes, format_text("%s/%s%s", folder, entry->d_name, after), user, false);
    }
    if (stream != NULL)
        closedir(stream);
}

static int by_user(const void *a, const void *b)
{
    const struct home *left = a, *right = b;
    if (left->user != right->user)
        return left->user < right->user ? -1 : 1;
    return strcmp(left->path, right->path);
}

/* One that a variable names may be another user's runtime folder (su, sudo -E): then it is that user's. */
static void add_own(struct homes *homes, const char *path, bool all)
{
    struct stat status;
    uid_t user = geteuid();
    if (all && lstat(path, &status) == 0 && S_ISDIR(status.st_mode))
        user = status.st_uid;
    add(homes, copy_text(path), user, false);
}

void homes_find(struct homes *homes, const struct state_places *own, bool all)
{
    *homes = (struct homes){.at = NULL};
    if (own->count == 1) {
        add(homes, copy_text(own->at[0].folder), geteuid(), true);
        return;
    }
    for (unsigned int i = 0; i < own->count; i++)
        add_own(homes, own->at[i].folder, all);
    if (!all)
        return;
    struct homes others = {.at = NULL};
    add_all_in(&others, "/run/user", "", "/sockfuse");
    add_all_in(&others, "/dev/shm", "sockfuse-", "");
    add_all_in(&others, "/tmp", "sockfuse-", "");
    if (others.count > 0)
        qsort(others.at, others.count, sizeof *others.at, by_user);
    for (size_t i = 0; i < others.count; i++) {
        if (is_listed(homes, others.at[i].path))
            free(others.at[i].path);
        else
            add(homes, others.at[i].path, others.at[i].user, false);
    }
    homes->is_cut = others.is_cut;
    free(others.at);
}

void homes_free(struct homes *homes)
{
    for (size_t i = 0; i < homes->count; i++)
        free(homes->at[i].path);
    free(homes->at);
    *homes = (struct homes){.at = NULL};
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

/* A file system that its user has mounted there (FUSE) could keep whoever asks it anything waiting for ever. */
static int open_on_same_file_system(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *parent = format_text("%.*s/", (int)(slash - path), path);
    int above = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC), fd = -1;
    free(parent);
    if (above < 0)
        return -1;
    struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                           .resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS};
    fd = (int)syscall(SYS_openat2, above, slash + 1, &how, sizeof how);
    if (fd < 0 && (errno == ENOSYS || errno == EPERM)) /* before Linux 5.6, and under some filters */
        fd = openat(above, slash + 1, (int)how.flags);
    int code = errno;
    close(above);
    errno = code;
    return fd;
}

/* Whether a folder is what programs make for themselves: a user's own, into which nobody else may write. */
static bool is_home(const struct home *home, const struct stat *status)
{
    return status->st_uid == home->user && (status->st_mode & 022) == 0;
}

/* Whether what is closed to the caller is his own after all: the folder, or what it lies in. */
static bool is_own_though_closed(const struct home *home)
{
    struct stat status;
    if (lstat(home->path, &status) == 0)
        return status.st_uid == geteuid();
    char *parent = format_text("%.*s", (int)(strrchr(home->path, '/') - home->path), home->path);
    const bool is_own = errno == EACCES && stat(parent, &status) == 0 && status.st_uid == geteuid();
    free(parent);
    return is_own;
}

int home_open(const struct home *home)
{
    struct stat status;
    int fd = home->user == geteuid()
                 ? open(home->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
                 : open_on_same_file_system(home->path);
    if (fd < 0) {
        /* What stands in the way of one that nobody has named is somebody else's, and says nothing. */
        if (errno == ENOENT ||
            (!home->is_named && (errno == ENOTDIR || errno == ELOOP || errno == EXDEV || home->user != geteuid())))
            errno = 0;
        else if (errno == EACCES && !home->is_named)
            errno = is_own_though_closed(home) ? EACCES : 0; /* another user's runtime folder, after su(1) */
        return -1;
    }
    if (!home->is_named && (fstat(fd, &status) != 0 || !is_home(home, &status))) {
        close(fd);
        errno = 0;
        return -1;
    }
    return fd;
}

/* --- listing ------------------------------------------------------------------------------------------------------ */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

bool home_list(int folder, const struct home *home, struct names *names)
{
    const size_t most = home->user == geteuid() ? SEGMENTS_OWN_MAX : SEGMENTS_OTHERS_MAX;
    int fd = fcntl(folder, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;
    unsigned int looked = 0;
    *names = (struct names){.at = allocate(most, sizeof *names->at)};
    if (stream == NULL) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    rewinddir(stream);
    while (errno = 0, (entry = readdir(stream)) != NULL && !names->is_cut) {
        if (++looked > NAMES_LOOKED_AT || (segment_is_name(entry->d_name) && names->count == most))
            names->is_cut = true;
        else if (segment_is_name(entry->d_name))
            names->at[names->count++] = copy_text(entry->d_name);
    }
    bool readable = errno == 0;
    int code = errno;
    closedir(stream);
    if (names->count > 0)
        qsort(names->at, names->count, sizeof *names->at, by_name);
    errno = code;
    return readable;
}

void names_free(struct names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->at[i]);
    free(names->at);
    *names = (struct names){.at = NULL};
}
