/*
 * test_found.c - whether the agent sees each segment that comes, at whatever moment. The file system's times and the
 * clock are a script's. links: agent
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/found.h"
#include "base/clock.h"

#define OTHER ((uid_t)54321)
#define OTHERS_FOLDER "/tmp/sockfuse-54321"

static struct {
    char folder[64];
    uint64_t now_ns;     /* 0: what is so */
    uint64_t changed_ns; /* what all folders say; 0: what is so */
    const char *before;  /* when it is asked for first, `happens` */
    void (*happens)(void);
} script;

/* Instead of libc's. */
int statx(int folder, const char *restrict path, int flags, unsigned int mask, struct statx *restrict status)
{
    const int result = (int)syscall(SYS_statx, folder, path, flags, mask, status);
    if (result == 0 && script.changed_ns != 0) {
        status->stx_ctime.tv_sec = (int64_t)(script.changed_ns / NS_PER_S);
        status->stx_ctime.tv_nsec = (uint32_t)(script.changed_ns % NS_PER_S);
    }
    if (script.before != NULL && strcmp(path, script.before) == 0) {
        script.before = NULL;
        script.happens();
    }
    return result;
}

static int read_clock(clockid_t clock, struct timespec *time)
{
    if (clock != CLOCK_REALTIME || script.now_ns == 0)
        return clock_gettime(clock, time);
    *time =
        (struct timespec){.tv_sec = (time_t)(script.now_ns / NS_PER_S), .tv_nsec = (long)(script.now_ns % NS_PER_S)};
    return 0;
}

static int setup(void **state)
{
    (void)state;
    strcpy(script.folder, "/tmp/sf-found-XXXXXX");
    assert_non_null(mkdtemp(script.folder));
    clocks.read = read_clock;
    setenv("SOCKFUSE_STATE", script.folder, 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rmdir(script.folder);
    return 0;
}

/* Looks into a folder that changed so long ago, and every so often again until it need not be; how often that was. */
static unsigned int looks(uint64_t changed_ns, int64_t ago_ns, uint64_t every_ns)
{
    const struct whose choice = {.mine = true};
    struct found found;
    unsigned int count = 1;
    script.changed_ns = changed_ns;
    script.now_ns = changed_ns + (uint64_t)ago_ns;
    found_open(&found, &choice, 1);
    while (script.now_ns += every_ns, found_is_old(&found) && count < 100) {
        count++;
        found_close(&found);
        found_open(&found, &choice, 1);
    }
    found_close(&found);
    script.changed_ns = script.now_ns = 0;
    return count;
}

static void a_folder_is_looked_into_once_more_when_it_had_only_just_changed(void **state)
{
    (void)state;
    const uint64_t changed_ns = 1000 * NS_PER_S + 1;
    assert_int_equal(looks(changed_ns, 0, NS_PER_S), 2);
    assert_int_equal(looks(changed_ns, 0, 10 * NS_PER_MS), 4);
    assert_int_equal(looks(changed_ns, 5 * (int64_t)NS_PER_MS, NS_PER_S), 2);
    assert_int_equal(looks(changed_ns, 100 * (int64_t)NS_PER_MS, NS_PER_S), 1);
    assert_int_equal(looks(changed_ns, -500 * (int64_t)NS_PER_S, NS_PER_S), 1); /* the clock was set back since */
}

static void where_times_are_whole_seconds_it_is_looked_into_for_some(void **state)
{
    (void)state;
    assert_int_equal(looks(1000 * NS_PER_S, NS_PER_S, NS_PER_S), 4);
    assert_int_equal(looks(1000 * NS_PER_S, 4 * (int64_t)NS_PER_S, NS_PER_S), 1);
}

static void have_others_folder(void)
{
    assert_int_equal(mkdir(OTHERS_FOLDER, 0700), 0);
    assert_int_equal(chown(OTHERS_FOLDER, OTHER, OTHER), 0);
}

static void a_users_folder_that_comes_while_folders_are_looked_for_is_watched(void **state)
{
    const struct whose choice = {.mine = false};
    struct found found;
    (void)state;
    if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", "/tmp", "tmpfs", 0, "mode=1777") != 0)
        skip();
    unsetenv("SOCKFUSE_STATE");
    script.before = "/tmp";
    script.happens = have_others_folder;
    found_open(&found, &choice, 1);
    script.now_ns = clock_wall_ns() + NS_PER_S;
    (void)found_is_old(&found); /* what is asked for is so by now */
    const int fd = open(OTHERS_FOLDER "/new", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_true(found_is_old(&found));
    found_close(&found);
    umount("/tmp");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_is_looked_into_once_more_when_it_had_only_just_changed),
        cmocka_unit_test(where_times_are_whole_seconds_it_is_looked_into_for_some),
        cmocka_unit_test(a_users_folder_that_comes_while_folders_are_looked_for_is_watched),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
