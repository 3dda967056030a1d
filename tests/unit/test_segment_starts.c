/*
 * test_segment_starts.c - starting when something is scarce, when many start at once, and after others were killed.
 *
 * Limits and mounts are set in children; mounts are skipped unless root runs the tests.
 */
#define _GNU_SOURCE
#include "support_segment.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>

#include "base/clock.h"
#include "segment/folder.h"
#include "segment/layout.h"

/* --- scarcity ----------------------------------------------------------------------------------------------------- */

static void attach_without_descriptors(void *context)
{
    struct state *place = context;
    for (rlim_t limit = 0; limit < 8; limit++) {
        const struct rlimit few = {limit, 1024};
        CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
        bool attached = state_attach(place);
        CHECK(attached || strstr(place->error.text, "no descriptor left (EMFILE)"));
        CHECK(limit > 0 || !attached);
        CHECK(attached == (place->segment.map != NULL));
    }
    const struct rlimit enough = {64, 1024};
    CHECK(setrlimit(RLIMIT_NOFILE, &enough) == 0);
    CHECK(state_attach(place));
}

static void without_a_descriptor_left_attaching_fails_with_a_reason(void **state)
{
    assert_int_equal(child_run(attach_without_descriptors, *state), 0);
}

static void attach_with_small_files(void *context)
{
    struct state *place = context;
    const struct rlimit small = {layout_measure(&CAPACITY_BUILT_IN).size - 1, RLIM_INFINITY};
    const struct rlimit exact = {layout_measure(&CAPACITY_BUILT_IN).size, RLIM_INFINITY};
    CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    CHECK(!state_attach(place));
    CHECK(strstr(place->error.text, "ulimit -f"));
    CHECK(setrlimit(RLIMIT_FSIZE, &exact) == 0);
    CHECK(state_attach(place));
    CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    CHECK(state_attach(place));
}

static void a_limit_of_file_sizes_does_not_kill(void **state)
{
    struct state *place = *state;
    assert_int_equal(child_run(attach_with_small_files, place), 0);
    assert_int_equal(count_files(place->folder), 1);
}

static void tick(int signal_number)
{
    (void)signal_number;
}

static void attach_in_a_storm_of_signals(void *context)
{
    struct state *place = context;
    /* Without SA_RESTART, so that every call that can be broken off is. */
    const struct sigaction action = {.sa_handler = tick};
    const struct itimerval fast = {{0, 100}, {0, 100}};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &fast, NULL) == 0);
    for (unsigned int round = 0; round < 20; round++) {
        CHECK(unlink(place->path) == 0 || errno == ENOENT);
        CHECK(state_attach(place));
    }
}

/* Most segments are in a tmpfs, which in older kernels breaks an allocation off when a signal comes. */
static void attach_in_memory_in_a_storm(void *context)
{
    struct state *place = context;
    CHECK(unshare(CLONE_NEWNS) == 0);
    CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    CHECK(mkdir(place->folder, 0700) == 0);
    CHECK(mount("tmpfs", place->folder, "tmpfs", 0, "mode=0700,size=16m") == 0);
    attach_in_a_storm_of_signals(place);
}

static void a_storm_of_signals_does_not_keep_from_attaching(void **state)
{
    assert_int_equal(child_run(attach_in_a_storm_of_signals, *state), 0);
}

static void a_storm_of_signals_does_not_keep_from_attaching_in_memory(void **state)
{
    if (!may_unshare(CLONE_NEWNS))
        skip();
    assert_int_equal(child_run(attach_in_memory_in_a_storm, *state), 0);
}

static void attach_on_a_full_disk(void *context)
{
    struct state *place = context;
    struct stat status;
    CHECK(unshare(CLONE_NEWNS) == 0);
    CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    CHECK(mkdir(place->folder, 0700) == 0);
    CHECK(mount("tmpfs", place->folder, "tmpfs", 0, "mode=0700,size=1m") == 0);
    CHECK(!state_attach(place));
    CHECK(strstr(place->error.text, "no space left on the device (ENOSPC)"));
    /* Nothing is left of it. */
    CHECK(stat(place->path, &status) != 0);
    int folder = open(place->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(fstat(folder, &status) == 0 && status.st_size == 40);
    close(folder);
    CHECK(mount("tmpfs", place->folder, "tmpfs", MS_REMOUNT, "mode=0700,size=16m") == 0);
    CHECK(state_attach(place));
    segment_detach(&place->segment);
    CHECK(mount("tmpfs", place->folder, "tmpfs", MS_REMOUNT | MS_RDONLY, "mode=0700") == 0);
    CHECK(!state_attach(place));
    CHECK(strstr(place->error.text, "read-only (EROFS)"));
    CHECK(segment_open(&place->segment, place->path, false, &place->error));
}

static void a_full_or_read_only_disk_is_told_when_attaching(void **state)
{
    if (!may_unshare(CLONE_NEWNS))
        skip();
    assert_int_equal(child_run(attach_on_a_full_disk, *state), 0);
}

static void attach_with_closed_stdio(void *context)
{
    struct state *place = context;
    int report = dup(STDERR_FILENO);
    for (int fd = 0; fd < 3; fd++)
        close(fd);
    bool made = state_attach(place), found = made && state_attach(place);
    bool closed = true;
    for (int fd = 0; fd < 3; fd++)
        closed = closed && fcntl(fd, F_GETFD) == -1;
    dup2(report, STDERR_FILENO);
    CHECK(made && found);
    CHECK(closed);
}

static void closed_standard_descriptors_stay_closed(void **state)
{
    assert_int_equal(child_run(attach_with_closed_stdio, *state), 0);
}

static void open_with_closed_stdio(void *context)
{
    struct state *place = context;
    int report = dup(STDERR_FILENO);
    for (int fd = 0; fd < 3; fd++)
        close(fd);
    int fd = folder_openat(AT_FDCWD, place->parent, O_RDONLY | O_DIRECTORY, 0);
    bool closed = fcntl(0, F_GETFD) == -1, closes_on_exec = fcntl(fd, F_GETFD) == FD_CLOEXEC;
    dup2(report, STDERR_FILENO);
    /* What other threads write to the closed ones meanwhile must not go into a segment. */
    CHECK(fd > STDERR_FILENO);
    CHECK(closed && closes_on_exec);
}

static void no_file_is_opened_as_a_standard_descriptor(void **state)
{
    assert_int_equal(child_run(open_with_closed_stdio, *state), 0);
}

/* --- many at once ------------------------------------------------------------------------------------------------- */

#define STARTERS 100

struct crowd {
    struct state *place;
    _Atomic uint32_t waiting, replaced;
    _Atomic uint32_t go;
    _Atomic uint64_t inodes[STARTERS];
};

static void start_in_a_crowd(void *context)
{
    struct crowd *crowd = context;
    uint32_t number = atomic_fetch_add(&crowd->waiting, 1);
    while (atomic_load(&crowd->go) == 0)
        usleep(200);
    CHECK(state_attach(crowd->place));
    if (crowd->place->error.text[0])
        atomic_fetch_add(&crowd->replaced, 1);
    atomic_store(&crowd->inodes[number], crowd->place->segment.inode);
    atomic_fetch_add(&crowd->place->segment.map->no_room[0], 1);
}

/* Starts a hundred processes at the same moment; returns how many of them said that they had replaced a file. */
static uint32_t start_crowd(struct state *place)
{
    pid_t children[STARTERS];
    struct crowd *crowd = mmap(NULL, sizeof *crowd, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(crowd != MAP_FAILED);
    crowd->place = place;
    for (unsigned int at = 0; at < STARTERS; at++)
        children[at] = child_start(start_in_a_crowd, crowd);
    for (unsigned int tries = 0; tries < 30000 && atomic_load(&crowd->waiting) < STARTERS; tries++)
        usleep(1000);
    atomic_store(&crowd->go, 1);
    for (unsigned int at = 0; at < STARTERS; at++)
        assert_int_equal(child_end(children[at]), 0);
    assert_true(state_attach(place));
    for (unsigned int at = 0; at < STARTERS; at++)
        assert_int_equal(atomic_load(&crowd->inodes[at]), place->segment.inode);
    assert_int_equal(atomic_load(&place->segment.map->no_room[0]), STARTERS);
    assert_int_equal(count_files(place->folder), 1);
    uint32_t replaced = atomic_load(&crowd->replaced);
    munmap(crowd, sizeof *crowd);
    return replaced;
}

static void a_hundred_starters_end_up_on_one_file(void **state)
{
    for (unsigned int round = 0; round < 3; round++) {
        struct state *place = *state;
        snprintf(place->folder, sizeof place->folder, "%s/round%u", place->parent, round);
        segment_path(place->folder, STATE_IDENTITY, place->path, sizeof place->path);
        assert_int_equal(start_crowd(place), 0);
    }
}

static void a_hundred_starters_replace_a_bad_file_once(void **state)
{
    struct state *place = *state;
    static void (*const makes[])(struct state *) = {make_short, make_foreign, make_other_boot, make_linked};
    for (size_t at = 0; at < sizeof makes / sizeof makes[0]; at++) {
        assert_true(state_attach(place));
        segment_detach(&place->segment);
        makes[at](place);
        assert_int_equal(start_crowd(place), 1);
    }
}

/* --- leftovers ---------------------------------------------------------------------------------------------------- */

static int (*const real_gettime)(clockid_t, struct timespec *) = clock_gettime;
static int64_t shift_s;

static int shifted_time(clockid_t clock, struct timespec *time)
{
    int result = real_gettime(clock, time);
    if (clock == CLOCK_REALTIME)
        time->tv_sec += shift_s;
    return result;
}

static void what_killed_starters_left_is_swept_after_a_minute(void **state)
{
    struct state *place = *state;
    char foreign[128];
    leave_file(place, ".new-0123");
    leave_file(place, ".hidden");
    leave_file(place, "new-0123");
    leave_file(place, ".new-foreign");
    snprintf(foreign, sizeof foreign, "%s/.new-foreign", place->folder);
    if (geteuid() == 0)
        assert_int_equal(chown(foreign, STATE_OTHER_USER, STATE_OTHER_USER), 0);
    clock_use(shifted_time);
    shift_s = 55;
    assert_true(state_attach(place));
    assert_int_equal(count_files(place->folder), 5);
    shift_s = 65;
    assert_true(state_attach(place));
    assert_int_equal(count_files(place->folder), geteuid() == 0 ? 4 : 3);
    /* Made before the clock was set back. */
    leave_file(place, ".new-0123");
    shift_s = -3600;
    assert_true(state_attach(place));
    assert_int_equal(count_files(place->folder), geteuid() == 0 ? 4 : 3);
    clock_use(NULL);
}

static void sweep_for_ever(void *context)
{
    struct state *place = context;
    clock_use(shifted_time);
    shift_s = 3600;
    for (;;)
        CHECK(state_attach(place) || strstr(place->error.text, "again and again"));
}

static void a_file_swept_under_its_maker_is_made_again(void **state)
{
    struct state *place = *state;
    /* Starters whose clock is an hour off sweep what others are about to give its name. */
    pid_t sweepers[2];
    for (unsigned int at = 0; at < 2; at++)
        sweepers[at] = child_start(sweep_for_ever, place);
    for (unsigned int round = 0; round < 150; round++) {
        unlink(place->path);
        if (!state_attach(place))
            assert_says(&place->error, "again and again");
    }
    for (unsigned int at = 0; at < 2; at++)
        child_kill(sweepers[at]);
    assert_true(state_attach(place));
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, state_setup, state_teardown)
#define ATTACHED(name) cmocka_unit_test_setup_teardown(name, state_setup_attached, state_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(without_a_descriptor_left_attaching_fails_with_a_reason),
        FRESH(a_limit_of_file_sizes_does_not_kill),
        FRESH(a_storm_of_signals_does_not_keep_from_attaching),
        FRESH(a_storm_of_signals_does_not_keep_from_attaching_in_memory),
        FRESH(a_full_or_read_only_disk_is_told_when_attaching),
        FRESH(closed_standard_descriptors_stay_closed),
        FRESH(no_file_is_opened_as_a_standard_descriptor),
        FRESH(a_hundred_starters_end_up_on_one_file),
        FRESH(a_hundred_starters_replace_a_bad_file_once),
        ATTACHED(what_killed_starters_left_is_swept_after_a_minute),
        FRESH(a_file_swept_under_its_maker_is_made_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
