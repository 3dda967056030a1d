/*
 * seldom.c - when which line was said last: a small table in a file. See seldom.h.
 *
 * The file lies in a folder that nobody else may enter (folder.h); what is in it is nonsense at worst, and then a line
 * is said once more or once less.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "segment/seldom.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bare.h"
#include "base/clock.h"
#include "base/frame.h"
#include "base/hash.h"
#include "segment/folder.h"
#include "segment/places.h"

#define QUIET_NS (60 * NS_PER_S)
#define ENTRIES 32u

/* In the file. */
struct entry {
    uint64_t line;    /* its hash */
    uint64_t said_ns; /* wall clock; 0: never */
};

/* Whatever the clock was set to meanwhile. */
static bool is_quiet(const struct entry *entry, uint64_t now_ns)
{
    uint64_t ago_ns = now_ns > entry->said_ns ? now_ns - entry->said_ns : entry->said_ns - now_ns;
    return entry->said_ns != 0 && ago_ns < QUIET_NS;
}

/* The line's entry, or the one that is to give way to it. */
static unsigned int find(const struct entry *entries, uint64_t line, uint64_t now_ns)
{
    unsigned int oldest = 0;
    for (unsigned int i = 0; i < ENTRIES; i++) {
        if (entries[i].line == line)
            return i;
        if (is_quiet(&entries[oldest], now_ns) &&
            (!is_quiet(&entries[i], now_ns) || entries[i].said_ns < entries[oldest].said_ns))
            oldest = i;
    }
    return oldest;
}

static bool write_entry(int fd, unsigned int at, const struct entry *entry)
{
    return pwrite(fd, entry, sizeof *entry, (off_t)(at * sizeof *entry)) == (ssize_t)sizeof *entry;
}

enum answer { SAY_IT, KEEP_QUIET, NO_ANSWER };

/* In the locked file. */
OWN_FRAME static enum answer ask(struct seldom *seldom, uint64_t line, uint64_t now_ns)
{
    struct entry entries[ENTRIES] = {{.line = 0}};
    struct stat status;
    if (fstat(seldom->fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid() ||
        pread(seldom->fd, entries, sizeof entries, 0) < 0)
        return NO_ANSWER;
    seldom->entry = find(entries, line, now_ns);
    if (entries[seldom->entry].line == line && is_quiet(&entries[seldom->entry], now_ns))
        return KEEP_QUIET;
    return write_entry(seldom->fd, seldom->entry, &(struct entry){line, now_ns}) ? SAY_IT : NO_ANSWER;
}

/* What the umask has taken from its mode is given back, or the next one could not open it. */
static int open_file(const struct state_place *place)
{
    int folder = folder_open(place, true, NULL);
    if (folder < 0)
        return -1;
    int fd = folder_openat(folder, SELDOM_FILE, O_RDWR, 0);
    if (fd < 0 && (fd = folder_openat(folder, SELDOM_FILE, O_RDWR | O_CREAT, 0600)) >= 0)
        fchmod(fd, 0600);
    bare_close(folder);
    return fd;
}

static enum answer ask_in(struct seldom *seldom, const struct state_place *place, uint64_t line, uint64_t now_ns)
{
    seldom->fd = open_file(place);
    if (seldom->fd < 0)
        return NO_ANSWER;
    enum answer answer = folder_lock(seldom->fd, true) ? ask(seldom, line, now_ns) : KEEP_QUIET;
    if (answer != SAY_IT) {
        bare_close(seldom->fd);
        seldom->fd = -1;
    }
    return answer;
}

static enum answer ask_any(struct seldom *seldom, const char *(*environment)(const char *name), uint64_t line,
                           uint64_t now_ns)
{
    struct state_places places;
    enum answer answer = NO_ANSWER;
    if (!state_places(environment, &places))
        return NO_ANSWER;
    for (unsigned int i = 0; i < places.count && answer == NO_ANSWER; i++)
        answer = ask_in(seldom, &places.at[i], line, now_ns);
    state_places_free(&places);
    return answer;
}

static const char *no_variable(const char *name)
{
    (void)name;
    return NULL;
}

bool seldom_begin(struct seldom *seldom, const char *(*environment)(const char *name), const char *line, size_t length,
                  uint64_t now_ns)
{
    const uint64_t hash = hash_bytes(HASH_BEGIN, line, length);
    seldom->fd = -1;
    enum answer answer = ask_any(seldom, environment, hash, now_ns);
    if (answer == NO_ANSWER)
        answer = ask_any(seldom, no_variable, hash, now_ns);
    return answer != KEEP_QUIET;
}

void seldom_end(struct seldom *seldom, bool said)
{
    if (seldom->fd < 0)
        return;
    /* Somebody else may have a reader. */
    if (!said)
        write_entry(seldom->fd, seldom->entry, &(struct entry){0, 0});
    bare_close(seldom->fd);
    seldom->fd = -1;
}
