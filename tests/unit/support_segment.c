/*
 * support_segment.c - state folders, files that are wrong, and children.
 */
#define _GNU_SOURCE
#include "support_segment.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "segment/layout.h"

#define CHILD_SECONDS_MAX 60

int state_setup(void **state)
{
    struct state *made = calloc(1, sizeof *made);
    if (!made)
        return -1;
    *state = made;
    snprintf(made->parent, sizeof made->parent, "/tmp/sockfuse-test-XXXXXX");
    if (!mkdtemp(made->parent))
        return -1;
    snprintf(made->folder, sizeof made->folder, "%s/state", made->parent);
    return segment_path(made->folder, STATE_IDENTITY, made->path, sizeof made->path) ? 0 : -1;
}

int state_setup_attached(void **state)
{
    return state_setup(state) == 0 && state_attach(*state) ? 0 : -1;
}

bool state_attach(struct state *state)
{
    segment_detach(&state->segment);
    return segment_attach(&state->segment, state->folder, STATE_IDENTITY, NULL, &state->error);
}

/* Removes all below a folder, without following anything. */
static void remove_below(int folder)
{
    DIR *entries = fdopendir(folder);
    if (!entries)
        return;
    for (struct dirent *entry; (entry = readdir(entries));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (unlinkat(folder, entry->d_name, 0) == 0)
            continue;
        int below = openat(folder, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below >= 0)
            remove_below(below);
        unlinkat(folder, entry->d_name, AT_REMOVEDIR);
    }
    closedir(entries);
}

int state_teardown(void **state)
{
    struct state *made = *state;
    segment_detach(&made->segment);
    int folder = open(made->parent, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder >= 0)
        remove_below(folder);
    int removed = rmdir(made->parent);
    free(made);
    return removed;
}

struct stat status_of(const char *path)
{
    struct stat status;
    assert_int_equal(lstat(path, &status), 0);
    return status;
}

void make_folder(const char *folder, mode_t mode)
{
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(chmod(folder, mode), 0);
}

void assert_says(const struct segment_error *error, const char *part)
{
    if (!strstr(error->text, part))
        fail_msg("\"%s\" does not say \"%s\"", error->text, part);
    assert_null(strchr(error->text, '\n'));
}

void assert_refused(struct state *place, const char *part)
{
    assert_false(state_attach(place));
    assert_null(place->segment.map);
    assert_says(&place->error, part);
}

void assert_replaced(struct state *place, const char *why)
{
    struct stat before = status_of(place->path);
    assert_true(state_attach(place));
    assert_says(&place->error, place->path);
    assert_says(&place->error, "replaced");
    assert_says(&place->error, why);
    struct stat after = status_of(place->path);
    assert_int_not_equal(before.st_ino, after.st_ino);
    assert_int_equal(after.st_size, place->segment.size);
    assert_int_equal(after.st_mode, S_IFREG | 0600);
    assert_int_equal(after.st_nlink, 1);
    assert_int_equal(place->segment.inode, after.st_ino);
    assert_int_equal(atomic_load(&place->segment.map->events_head), 0);
    assert_true(state_attach(place));
    assert_string_equal(place->error.text, "");
    assert_int_equal(place->segment.inode, after.st_ino);
}

unsigned int count_files(const char *folder)
{
    unsigned int count = 0;
    DIR *entries = opendir(folder);
    assert_non_null(entries);
    for (struct dirent *entry; (entry = readdir(entries));)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(entries);
    return count;
}

void change_file(struct state *place, size_t offset, const void *bytes, size_t count)
{
    int fd = open(place->path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, count, (off_t)offset), count);
    close(fd);
}

void make_short(struct state *place)
{
    assert_int_equal(truncate(place->path, (off_t)layout_measure(&CAPACITY_BUILT_IN).size - 1), 0);
}

void make_foreign(struct state *place)
{
    change_file(place, offsetof(struct segment_stamp, magic), "#!/bin/sh", 8);
}

void make_other_boot(struct state *place)
{
    change_file(place, offsetof(struct segment_stamp, boot_id), "01234567-89ab-cdef-0123-456789abcdef", 37);
}

void make_linked(struct state *place)
{
    char other[PATH_MAX + 8];
    snprintf(other, sizeof other, "%s/other", place->parent);
    unlink(other);
    assert_int_equal(link(place->path, other), 0);
}

void leave_file(struct state *place, const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", place->folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static void begin_child(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    alarm(CHILD_SECONDS_MAX);
}

pid_t child_start(void (*live)(void *context), void *context)
{
    pid_t parent = getpid(), child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        begin_child(parent);
        live(context);
        _exit(0);
    }
    return child;
}

int child_end(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int child_run(void (*live)(void *context), void *context)
{
    return child_end(child_start(live, context));
}

pid_t child_hang(void (*live)(void *context), void *context)
{
    int said[2];
    char byte = 0;
    assert_int_equal(pipe2(said, O_CLOEXEC), 0);
    pid_t parent = getpid(), child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        begin_child(parent);
        if (live)
            live(context);
        CHECK(write(said[1], "!", 1) == 1);
        for (;;)
            pause();
    }
    close(said[1]);
    assert_int_equal(read(said[0], &byte, 1), 1);
    close(said[0]);
    return child;
}

void child_kill(pid_t child)
{
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(child_end(child), 128 + SIGKILL);
}

unsigned int open_descriptors(void)
{
    unsigned int count = 0;
    DIR *entries = opendir("/proc/self/fd");
    assert_non_null(entries);
    while (readdir(entries))
        count++;
    closedir(entries);
    return count;
}

bool may_unshare(int spaces)
{
    pid_t child = fork();
    if (child == 0)
        _exit(unshare(spaces) == 0 ? 0 : 1);
    return child > 0 && child_end(child) == 0;
}
