#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "segment/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "breaker/hash.h"
#include "segment/clock.h"
#include "segment/text.h"

#define TEMPORARY_PREFIX ".new-"
#define TEMPORARY_LIFE_NS (60 * NS_PER_S)
/* A starter holds the lock for some milliseconds. One that is stopped meanwhile must not stop all others. */
#define LOCK_TRIES 100u
#define LOCK_WAIT_NS (2 * NS_PER_MS)
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
    text_start(&text, error->text, sizeof error->text);
    text_add_printable(&text, subject);
    text_add(&text, ": ");
    text_add(&text, what);
    if (code != 0) {
        text_add(&text, ": ");
        text_add(&text, explain(code));
        text_add(&text, " (");
        text_add(&text, errno_name(code));
        text_add(&text, ")");
    }
    return false;
}

/* --- names -------------------------------------------------------------------------------------------------------- */

/* A slash at the end of a name would make its last component's symbolic link be followed. */
static void drop_slashes(struct text *text)
{
    while (text->length > 1 && text->at[text->length - 1] == '/')
        text->at[--text->length] = '\0';
}

static bool join(char *path, size_t size, const char *folder, const char *rest)
{
    struct text text;
    text_start(&text, path, size);
    text_add(&text, folder);
    drop_slashes(&text);
    text_add(&text, rest);
    drop_slashes(&text);
    return !text.cut;
}

bool state_folder(const char *(*environment)(const char *name), char *folder, size_t size)
{
    const char *state = environment("SOCKFUSE_STATE");
    if (state && *state == '/')
        return join(folder, size, state, "");
    if (state && *state) {
        /* The program may go to another folder later; the segments stay where they are. */
        char here[PATH_MAX], rest[PATH_MAX];
        return getcwd(here, sizeof here) && join(rest, sizeof rest, "/", state) && join(folder, size, here, rest);
    }
    /* A relative one is void, by the XDG base directory specification. */
    const char *runtime = environment("XDG_RUNTIME_DIR");
    if (runtime && *runtime == '/')
        return join(folder, size, runtime, "/sockfuse");
    uid_t user = geteuid();
    if (user == 0)
        return join(folder, size, "/run", "/sockfuse");
    struct text text;
    text_start(&text, folder, size);
    text_add(&text, "/tmp/sockfuse-");
    text_add_unsigned(&text, user);
    return !text.cut;
}

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

int folder_openat(int folder, const char *name, int flags, mode_t mode)
{
    int fd;
    do
        fd = openat(folder, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, mode);
    while (fd < 0 && errno == EINTR);
    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    /* The program has closed this one, and what its threads still write there must not go into our file. */
    int higher = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), code = errno;
    close(fd);
    errno = code;
    return higher;
}

static bool make_folder(const char *folder)
{
    if (mkdir(folder, 0700) == 0 || errno == EEXIST)
        return true;
    if (errno != ENOENT)
        return false;
    char parent[PATH_MAX];
    const char *slash = strrchr(folder, '/');
    size_t length = slash ? (size_t)(slash - folder) : 0;
    if (length == 0 || length >= sizeof parent) {
        errno = ENOENT;
        return false;
    }
    memcpy(parent, folder, length);
    parent[length] = '\0';
    if (mkdir(parent, 0700) != 0 && errno != EEXIST)
        return false;
    return mkdir(folder, 0700) == 0 || errno == EEXIST;
}

static int refuse(int fd, struct segment_error *error, const char *folder, const char *what)
{
    close(fd);
    segment_fail(error, folder, what, 0);
    return -1;
}

int folder_open(const char *folder, struct segment_error *error)
{
    struct stat status;
    int fd = folder_openat(AT_FDCWD, folder, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0 && errno == ENOENT) {
        if (!make_folder(folder)) {
            segment_fail(error, folder, "the state folder can't be made", errno);
            return -1;
        }
        fd = folder_openat(AT_FDCWD, folder, O_RDONLY | O_DIRECTORY, 0);
    }
    if (fd < 0) {
        int code = errno;
        bool is_link = lstat(folder, &status) == 0 && S_ISLNK(status.st_mode);
        segment_fail(error, folder,
                     is_link ? "the state folder is a symbolic link; set SOCKFUSE_STATE to a folder of your own"
                             : "the state folder can't be opened",
                     is_link ? 0 : code);
        return -1;
    }
    if (fstat(fd, &status) != 0 || status.st_uid != geteuid())
        return refuse(fd, error, folder,
                      "the state folder belongs to another user; set SOCKFUSE_STATE to one of your own");
    if ((status.st_mode & 077) != 0)
        return refuse(fd, error, folder, "others may enter the state folder; run chmod 700 on it");
    return fd;
}

void folder_lock(int folder)
{
    const struct timespec wait = {.tv_nsec = (long)LOCK_WAIT_NS};
    for (unsigned int tries = 0; tries < LOCK_TRIES; tries++) {
        if (flock(folder, LOCK_EX | LOCK_NB) == 0 || (errno != EWOULDBLOCK && errno != EINTR))
            return;
        nanosleep(&wait, NULL);
    }
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* Calls `visit` for each name in the folder; stops when it returns false. opendir(3) would call malloc. */
static bool each_name(int folder, bool (*visit)(const char *name, void *context), void *context)
{
    _Alignas(struct dirent64) char buffer[4096];
    if (lseek(folder, 0, SEEK_SET) != 0)
        return false;
    for (;;) {
        ssize_t bytes = getdents64(folder, buffer, sizeof buffer);
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

static bool sweep_one(const char *name, void *context)
{
    int folder = *(const int *)context;
    struct stat status;
    if (strncmp(name, TEMPORARY_PREFIX, strlen(TEMPORARY_PREFIX)) != 0)
        return true;
    if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode) ||
        status.st_uid != geteuid())
        return true;
    uint64_t now = clock_wall_ns();
    uint64_t changed = (uint64_t)status.st_ctim.tv_sec * NS_PER_S + (uint64_t)status.st_ctim.tv_nsec;
    /*
     * One from the future was made before the clock was set back. A living starter whose file goes makes another one.
     */
    if ((now > changed ? now - changed : changed - now) > TEMPORARY_LIFE_NS)
        unlinkat(folder, name, 0);
    return true;
}

void folder_sweep(int folder)
{
    each_name(folder, sweep_one, &folder);
}

struct search {
    char after[NAME_MAX + 1]; /* the last one that was found */
    char least[NAME_MAX + 1]; /* the least name behind it; "": none */
};

static bool find_next(const char *name, void *context)
{
    struct search *search = context;
    size_t length = strlen(name), suffix = strlen(SEGMENT_SUFFIX);
    if (name[0] == '.' || length <= suffix || length > NAME_MAX || strcmp(name + length - suffix, SEGMENT_SUFFIX) != 0)
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
    bool readable = true;
    for (unsigned int count = 0; readable && count < SEGMENTS_LISTED_MAX; count++) {
        char rest[NAME_MAX + 2] = "/", path[PATH_MAX];
        search.least[0] = '\0';
        readable = each_name(fd, find_next, &search);
        if (search.least[0] == '\0')
            break;
        memcpy(search.after, search.least, sizeof search.after);
        memcpy(rest + 1, search.least, strlen(search.least) + 1);
        if (join(path, sizeof path, folder, rest) && !visit(path, context))
            break;
    }
    close(fd);
    return readable;
}
