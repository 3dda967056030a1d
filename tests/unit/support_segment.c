/*
 * support_segment.c - state folders and children.
 */
#define _GNU_SOURCE
#include "support_segment.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

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
    return segment_attach(&state->segment, state->folder, STATE_IDENTITY, &state->error);
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
