#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "segment/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "segment/clock.h"
#include "segment/folder.h"
#include "segment/layout.h"
#include "segment/text.h"

/* Each round that ends without a file means that another starter was faster: in the end everybody finds the same one. */
#define ATTACH_ROUNDS 64u
/* tmpfs gives an allocation up when a signal comes, and all of it; in pieces a program with a fast timer gets there too. */
#define ALLOCATION_PIECE (256 * 1024)
#define ALLOCATION_TRIES 1000u
#define READABLE_NAME_MAX 32u

/* --- names --------------------------------------------------------------------------------------------------------- */

/* FNV-1a, 64 bit. */
static uint64_t hash_bytes(uint64_t hash, const char *bytes, size_t count)
{
    for (size_t at = 0; at < count; at++)
        hash = (hash ^ (unsigned char)bytes[at]) * UINT64_C(0x100000001b3);
    return hash;
}

/* The hash also covers the layout: two versions that run side by side have a file each, and don't replace each other's. */
static uint64_t hash_identity(const char *identity)
{
    const uint64_t layout[] = {SEGMENT_VERSION, sizeof(struct segment_layout)};
    uint64_t hash = hash_bytes(UINT64_C(0xcbf29ce484222325), identity, strlen(identity));
    return hash_bytes(hash, (const char *)layout, sizeof layout);
}

/* What people recognise the file by: "payments" of "/etc/payments.policy", "patterns" of "patterns: a b". */
static void add_readable_name(struct text *text, const char *identity)
{
    const char *slash = identity[0] == '/' ? strrchr(identity, '/') : NULL;
    const char *name = slash ? slash + 1 : identity;
    size_t length = strcspn(name, ":"), suffix = strlen(".policy");
    if (length > suffix && strncmp(name + length - suffix, ".policy", suffix) == 0)
        length -= suffix;
    if (length > READABLE_NAME_MAX)
        length = READABLE_NAME_MAX;
    for (size_t at = 0; at < length; at++) {
        char byte = name[at];
        bool plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
                     byte == '-' || byte == '_' || (byte == '.' && at > 0);
        text_add_bytes(text, plain ? &byte : "_", 1);
    }
}

bool segment_path(const char *folder, const char *identity, char *path, size_t size)
{
    struct text text;
    text_start(&text, path, size);
    text_add(&text, folder);
    while (text.length > 1 && path[text.length - 1] == '/')
        path[--text.length] = '\0';
    text_add(&text, "/");
    add_readable_name(&text, identity);
    text_add(&text, "-");
    text_add_hex(&text, hash_identity(identity), 16);
    text_add(&text, ".segment");
    return !text.cut;
}

/* --- contents ------------------------------------------------------------------------------------------------------ */

/* The kernel's id of this boot; "" without /proc. */
static void read_boot_id(char id[BOOT_ID_SIZE])
{
    memset(id, 0, BOOT_ID_SIZE);
    int fd = folder_openat(AT_FDCWD, "/proc/sys/kernel/random/boot_id", O_RDONLY, 0);
    if (fd < 0)
        return;
    ssize_t length;
    do
        length = read(fd, id, BOOT_ID_SIZE - 1);
    while (length < 0 && errno == EINTR);
    close(fd);
    id[length > 0 ? length : 0] = '\0';
    id[strcspn(id, "\n")] = '\0';
}

struct contents {
    char identity[SEGMENT_IDENTITY_MAX]; /* cut to fit; the hash in the file's name covers all of it */
    char boot_id[BOOT_ID_SIZE];
};

static void know_contents(struct contents *contents, const char *identity)
{
    struct text text;
    memset(contents->identity, 0, sizeof contents->identity);
    text_start(&text, contents->identity, sizeof contents->identity);
    text_add(&text, identity);
    read_boot_id(contents->boot_id);
}

/* All that is not said here is zero: closed circuits, free records, an empty journal. */
static void fill_header(struct segment_layout *map, const struct contents *contents)
{
    map->version = SEGMENT_VERSION;
    map->size = sizeof *map;
    memcpy(map->boot_id, contents->boot_id, sizeof map->boot_id);
    map->created_ns = clock_wall_ns();
    memcpy(map->identity, contents->identity, sizeof map->identity);
    map->magic = SEGMENT_MAGIC;
}

/* What is wrong with a header; NULL: nothing. Without an identity any one will do. */
static const char *find_fault(const struct segment_layout *map, const char *boot_id, const char *identity)
{
    if (map->magic != SEGMENT_MAGIC)
        return "it is no segment";
    if (map->version != SEGMENT_VERSION || map->size != sizeof *map)
        return "it is of another version";
    /* Where one of both could not be known, nothing is proved. */
    if (boot_id[0] && map->boot_id[0] && strncmp(map->boot_id, boot_id, sizeof map->boot_id) != 0)
        return "it is from before the last boot, so its times are void";
    if (identity && strncmp(map->identity, identity, sizeof map->identity) != 0)
        return "it belongs to another policy";
    return NULL;
}

static struct segment_layout *map_file(int fd, bool writable)
{
    int protection = PROT_READ | (writable ? PROT_WRITE : 0);
    void *map = mmap(NULL, sizeof(struct segment_layout), protection, MAP_SHARED, fd, 0);
    return map == MAP_FAILED ? NULL : map;
}

static void unmap(struct segment_layout *map)
{
    munmap(map, sizeof *map);
}

/* --- making -------------------------------------------------------------------------------------------------------- */

/* All of the file gets its blocks now: a full disk is an error here, and would be SIGBUS in the middle of a connect later. */
static int allocate(int fd)
{
    const off_t size = (off_t)sizeof(struct segment_layout);
    struct rlimit limit;
    /* Beyond this limit the kernel does not only refuse: it kills by SIGXFSZ. */
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < (rlim_t)size)
        return EFBIG;
    unsigned int tries = 0;
    for (off_t at = 0; at < size;) {
        off_t piece = size - at < ALLOCATION_PIECE ? size - at : ALLOCATION_PIECE;
        int code = posix_fallocate(fd, at, piece);
        if (code == 0)
            at += piece;
        else if (code != EINTR || ++tries > ALLOCATION_TRIES)
            return code;
    }
    return 0;
}

/* Makes a whole fresh file under a temporary name. */
static bool make_fresh(int folder, char name[TEMPORARY_NAME_SIZE], const struct contents *contents, const char *path,
                       struct segment_error *error)
{
    folder_temporary_name(name);
    int fd = folder_openat(folder, name, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0)
        return segment_fail(error, path, "the segment can't be made", errno);
    /* The umask may have taken something from the mode. */
    int code = fchmod(fd, 0600) != 0 ? errno : allocate(fd);
    struct segment_layout *map = code == 0 ? map_file(fd, true) : NULL;
    if (code == 0 && !map)
        code = errno;
    close(fd);
    if (!map) {
        unlinkat(folder, name, 0);
        return segment_fail(error, path, "the segment can't be made", code);
    }
    fill_header(map, contents);
    unmap(map);
    return true;
}

/* Gives a temporary file its name unless there is one of that name. 0, or an errno. */
static int name_if_missing(int folder, const char *temporary, const char *name)
{
    if (renameat2(folder, temporary, folder, name, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return errno;
    /* A file system without that flag. For a moment the file has two names: see has_other_names. */
    if (linkat(folder, temporary, folder, name, 0) != 0)
        return errno;
    unlinkat(folder, temporary, 0);
    return 0;
}

/* Puts a fresh file under the name where none is, or, with `bad`, in the place of that file. True: done, or somebody else did. */
static bool install(int folder, const char *name, const struct stat *bad, const struct contents *contents,
                    const char *path, struct segment_error *error, bool *installed)
{
    char temporary[TEMPORARY_NAME_SIZE];
    int code = 0;
    *installed = false;
    if (!make_fresh(folder, temporary, contents, path, error))
        return false;
    if (bad) {
        struct stat present;
        bool same = fstatat(folder, name, &present, AT_SYMLINK_NOFOLLOW) == 0 && present.st_ino == bad->st_ino &&
                    present.st_dev == bad->st_dev;
        if (same && renameat(folder, temporary, folder, name) != 0)
            code = errno;
        *installed = same && code == 0;
    } else {
        code = name_if_missing(folder, temporary, name);
        *installed = code == 0;
    }
    if (!*installed)
        unlinkat(folder, temporary, 0);
    /* EEXIST: somebody was faster. ENOENT: somebody swept our file; the next round makes another one. */
    if (code != 0 && code != EEXIST && code != ENOENT)
        return segment_fail(error, path, "the segment can't be put in its place", code);
    return true;
}

/* --- attaching ----------------------------------------------------------------------------------------------------- */

enum found { FOUND_GOOD, FOUND_MISSING, FOUND_BAD, FOUND_CHANGED, FOUND_REFUSED };

struct look {
    struct segment_layout *map; /* FOUND_GOOD */
    struct stat status;         /* FOUND_GOOD, FOUND_BAD */
    const char *fault;          /* FOUND_BAD */
};

static enum found refuse_open(int folder, const char *name, const char *path, int code, struct segment_error *error)
{
    struct stat status;
    if (code == ENOENT)
        return FOUND_MISSING;
    bool is_link = fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode);
    if (is_link)
        segment_fail(error, path, "the segment is a symbolic link; remove it", 0);
    else if (code == EISDIR)
        segment_fail(error, path, "a folder is in the segment's place; remove it", 0);
    else
        segment_fail(error, path, "the segment can't be opened", code);
    return FOUND_REFUSED;
}

static enum found refuse_status(const struct stat *status, const char *path, struct segment_error *error)
{
    const char *why = !S_ISREG(status->st_mode) ? "the segment is no regular file; remove it"
                      : status->st_uid != geteuid()
                          ? "the segment belongs to another user; remove it or set SOCKFUSE_STATE"
                          : "others may write the segment; run chmod 600 on it";
    segment_fail(error, path, why, 0);
    return FOUND_REFUSED;
}

/* Whether the open file may be used: sets look->fault if not. */
static enum found look_inside(int fd, const struct contents *contents, const char *path, struct look *look,
                              struct segment_error *error)
{
    if (fstat(fd, &look->status) != 0 || !S_ISREG(look->status.st_mode) || look->status.st_uid != geteuid() ||
        (look->status.st_mode & 022) != 0)
        return refuse_status(&look->status, path, error);
    if (look->status.st_nlink == 0)
        return FOUND_CHANGED;
    if (look->status.st_size != (off_t)sizeof(struct segment_layout)) {
        look->fault = "it has a wrong size";
        return FOUND_BAD;
    }
    look->map = map_file(fd, true);
    if (!look->map) {
        segment_fail(error, path, "the segment can't be mapped", errno);
        return FOUND_REFUSED;
    }
    look->fault = find_fault(look->map, contents->boot_id, contents->identity);
    return look->fault ? FOUND_BAD : FOUND_GOOD;
}

static enum found look_at(int folder, const char *name, const char *path, const struct contents *contents,
                          struct look *look, struct segment_error *error)
{
    *look = (struct look){.map = NULL};
    int fd = folder_openat(folder, name, O_RDWR, 0);
    if (fd < 0)
        return refuse_open(folder, name, path, errno, error);
    enum found found = look_inside(fd, contents, path, look, error);
    close(fd);
    if (found == FOUND_GOOD) {
        /* Somebody may have replaced it since: then the circuits are over there. */
        struct stat present;
        if (fstatat(folder, name, &present, AT_SYMLINK_NOFOLLOW) != 0 || present.st_ino != look->status.st_ino ||
            present.st_dev != look->status.st_dev)
            found = FOUND_CHANGED;
    }
    if (found != FOUND_GOOD && look->map) {
        unmap(look->map);
        look->map = NULL;
    }
    return found;
}

static void tell_replaced(struct segment_error *error, const char *path, const char *fault)
{
    struct text text;
    segment_fail(error, path, "replaced the segment by a fresh one: ", 0);
    text_start(&text, error->text + strlen(error->text), sizeof error->text - strlen(error->text));
    text_add(&text, fault);
}

static bool attach(struct segment *segment, int folder, const char *name, const struct contents *contents,
                   struct segment_error *error)
{
    bool locked = false, installed = false;
    for (unsigned int round = 0; round < ATTACH_ROUNDS; round++) {
        struct look look;
        switch (look_at(folder, name, segment->path, contents, &look, error)) {
        case FOUND_GOOD:
            segment->map = look.map;
            segment->device = (uint64_t)look.status.st_dev;
            segment->inode = (uint64_t)look.status.st_ino;
            return true;
        case FOUND_MISSING:
            if (!install(folder, name, NULL, contents, segment->path, error, &installed))
                return false;
            break;
        case FOUND_BAD:
            /* Between a look and a rename another starter may have replaced it and others may use that one. So: locked, and look again. */
            if (!locked) {
                folder_lock(folder);
                locked = true;
                break;
            }
            if (!install(folder, name, &look.status, contents, segment->path, error, &installed))
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
    return segment_fail(error, segment->path, "the segment is replaced again and again by others", 0);
}

bool segment_attach(struct segment *segment, const char *folder, const char *identity, struct segment_error *error)
{
    struct contents contents;
    *segment = (struct segment){.map = NULL};
    error->text[0] = '\0';
    if (!segment_path(folder, identity, segment->path, sizeof segment->path))
        return segment_fail(error, folder, "the state folder's name is too long", 0);
    char *slash = strrchr(segment->path, '/');
    *slash = '\0';
    int fd = folder_open(*segment->path ? segment->path : "/", error);
    *slash = '/';
    if (fd < 0)
        return false;
    know_contents(&contents, identity);
    bool attached = attach(segment, fd, slash + 1, &contents, error);
    folder_sweep(fd);
    close(fd);
    return attached;
}

/* --- observing ----------------------------------------------------------------------------------------------------- */

bool segment_open(struct segment *segment, const char *path, bool writable, struct segment_error *error)
{
    char boot_id[BOOT_ID_SIZE];
    struct stat status;
    struct text text;
    *segment = (struct segment){.map = NULL};
    error->text[0] = '\0';
    text_start(&text, segment->path, sizeof segment->path);
    text_add(&text, path);
    if (text.cut)
        return segment_fail(error, path, "the name is too long", 0);
    /* In 32 bit an atomic load of 64 may be a compare-and-exchange, which needs a page that can be written. */
    bool map_writable = writable || sizeof(void *) == 4;
    int fd = folder_openat(AT_FDCWD, path, map_writable ? O_RDWR : O_RDONLY, 0);
    if (fd < 0)
        return segment_fail(error, path, "the segment can't be opened", errno);
    const char *fault = NULL;
    int code = fstat(fd, &status) == 0 ? 0 : errno;
    if (code == 0 && !S_ISREG(status.st_mode))
        fault = "no segment: it is no regular file";
    else if (code == 0 && status.st_uid != geteuid() && (writable || geteuid() != 0))
        fault = "the segment belongs to another user";
    else if (code == 0 && status.st_size != (off_t)sizeof(struct segment_layout))
        fault = "no segment of this version: it has a wrong size";
    else if (code == 0 && !(segment->map = map_file(fd, map_writable)))
        code = errno;
    close(fd);
    if (segment->map) {
        read_boot_id(boot_id);
        fault = find_fault(segment->map, boot_id, NULL);
        if (fault)
            segment_detach(segment);
    }
    if (fault || code != 0)
        return segment_fail(error, path, fault ? fault : "the segment can't be mapped", code);
    segment->device = (uint64_t)status.st_dev;
    segment->inode = (uint64_t)status.st_ino;
    return true;
}

bool segment_private(struct segment *segment, const char *identity)
{
    struct contents contents;
    *segment = (struct segment){.map = NULL};
    void *map = mmap(NULL, sizeof(struct segment_layout), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return false;
    know_contents(&contents, identity);
    segment->map = map;
    fill_header(segment->map, &contents);
    return true;
}

void segment_detach(struct segment *segment)
{
    if (segment->map)
        unmap(segment->map);
    segment->map = NULL;
}

bool segment_is_current(const struct segment *segment)
{
    struct stat status;
    if (segment->path[0] == '\0')
        return segment->map != NULL;
    return fstatat(AT_FDCWD, segment->path, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
           (uint64_t)status.st_ino == segment->inode && (uint64_t)status.st_dev == segment->device &&
           status.st_size == (off_t)sizeof(struct segment_layout);
}

const char *segment_identity(const struct segment *segment)
{
    const char *identity = segment->map->identity;
    return memchr(identity, '\0', SEGMENT_IDENTITY_MAX) ? identity : "";
}
