/*
 * test_brief.c - what a start finds out without asking /proc, and what is asked there later, or not at all.
 *
 * Run with "after-exec FOLDER HOLDER" it is the new image of a child that called exec.
 */
#define _GNU_SOURCE
#include "support_segment.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "segment/layout.h"
#include "segment/processes.h"
#include "segment/vanished.h"

/* What parent and children share beside the segment. */
struct shared {
    struct state *place;
    uint32_t holder;
};

static struct shared *share(struct state *place)
{
    struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    shared->place = place;
    return shared;
}

static struct process_slot *slot_at(struct segment *segment, uint32_t holder)
{
    return &segment->processes[(holder >> 20) - 1];
}

static uint64_t value_of(const _Atomic uint64_t *word)
{
    return atomic_load(word) & PROCESS_LIFE_MASK;
}

static uint32_t join_briefly(struct segment *segment, bool known)
{
    bool is_known = !known;
    uint32_t holder = process_join_briefly(segment, "brief", 7, &is_known);
    CHECK(holder != 0 && is_known == known);
    return holder;
}

static uint64_t own_space(void)
{
    struct stat status;
    CHECK(stat("/proc/self/ns/pid", &status) == 0);
    return status.st_ino;
}

/* Its own mounts, without a /proc. */
static void lose_proc(void)
{
    CHECK(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    CHECK(umount2("/proc", MNT_DETACH) == 0);
}

/* --- who a process is --------------------------------------------------------------------------------------------- */

static void who_joins_briefly_lives_and_is_near_and_tells_its_start_later(void **state)
{
    struct state *place = *state;
    struct process_view view;
    uint32_t holder = join_briefly(&place->segment, false);
    struct process_slot *slot = slot_at(&place->segment, holder);
    assert_true(process_alive(&place->segment, holder));
    assert_true(process_describe(&place->segment, holder, &view));
    assert_int_equal(view.pid, getpid());
    assert_true(view.is_near);
    assert_int_equal(value_of(&slot->start), 0);
    uint64_t space = value_of(&slot->space);
    assert_int_equal(space, own_space());
    assert_true(process_introduce(&place->segment, holder));
    assert_int_not_equal(value_of(&slot->start), 0);
    assert_int_equal(value_of(&slot->space), space);
    assert_true(process_alive(&place->segment, holder));
    process_leave(&place->segment, holder);
    assert_false(process_introduce(&place->segment, holder));
}

static void the_name_space_of_a_proc_is_asked_for_once(void **state)
{
    struct state *place = *state;
    _Atomic uint64_t *noted = place->segment.map->proc_spaces;
    join_briefly(&place->segment, false);
    uint64_t note = atomic_load(&noted[0]) | atomic_load(&noted[1]);
    assert_int_equal(note & PROCESS_LIFE_MASK, own_space());
    /* Who finds it noted believes it; of another /proc it says nothing. */
    for (unsigned int i = 0; i < PROC_SPACES; i++)
        if (atomic_load(&noted[i]) != 0)
            atomic_store(&noted[i], (note & ~PROCESS_LIFE_MASK) | 12345);
    assert_int_equal(value_of(&slot_at(&place->segment, join_briefly(&place->segment, false))->space), 12345);
    for (unsigned int i = 0; i < PROC_SPACES; i++)
        atomic_store(&noted[i], UINT64_C(0xfffff) << PROCESS_LIFE_BITS | 12345);
    assert_int_equal(value_of(&slot_at(&place->segment, join_briefly(&place->segment, false))->space), own_space());
}

static void join_elsewhere(void *context)
{
    struct shared *shared = context;
    CHECK(unshare(CLONE_NEWPID) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) { /* with a /proc that is not of its name space */
        CHECK(getpid() == 1 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
        shared->holder = join_briefly(&shared->place->segment, false);
        for (;;)
            pause();
    }
    for (unsigned int tries = 0; tries < 10000 && *(volatile uint32_t *)&shared->holder == 0; tries++)
        usleep(1000);
}

static void join_and_lose_proc(void *context)
{
    struct shared *shared = context;
    struct segment *segment = &shared->place->segment;
    const uint32_t holder = join_briefly(segment, false);
    const uint64_t space = value_of(&slot_at(segment, holder)->space);
    lose_proc();
    CHECK(process_introduce(segment, holder));
    CHECK(space != 0 && value_of(&slot_at(segment, holder)->space) == space);
    CHECK(!process_life_can_ask(space + 1));
}

static void who_has_lost_proc_before_its_first_call_is_of_its_name_space_all_the_same(void **state)
{
    struct state *place = *state;
    if (geteuid() != 0 || !may_unshare(CLONE_NEWNS))
        skip();
    assert_int_equal(child_run(join_and_lose_proc, share(place)), 0);
}

static void one_in_another_pid_name_space_is_not_near_and_lives_by_its_lock(void **state)
{
    struct state *place = *state;
    struct process_view view;
    if (!may_unshare(CLONE_NEWPID))
        skip();
    struct shared *shared = share(place);
    join_briefly(&place->segment, false);
    pid_t child = child_hang(join_elsewhere, shared);
    assert_int_not_equal(shared->holder, 0);
    assert_true(process_describe(&place->segment, shared->holder, &view));
    assert_int_equal(view.pid, 1);
    assert_false(view.is_near);
    assert_true(process_alive(&place->segment, shared->holder));
    child_kill(child);
}

static void join_and_wait(void *context)
{
    struct shared *shared = context;
    shared->holder = join_briefly(&shared->place->segment, false);
}

static void a_killed_one_is_dead(void **state)
{
    struct state *place = *state;
    struct shared *shared = share(place);
    pid_t child = child_hang(join_and_wait, shared);
    assert_true(process_alive(&place->segment, shared->holder));
    child_kill(child);
    assert_false(process_alive(&place->segment, shared->holder));
}

/* Where locks are not to be had, what /proc says is all that there is. */
static void join_without_a_lock(void *context)
{
    struct shared *shared = context;
    struct segment *segment = &shared->place->segment;
    CHECK(unlink(shared->place->path) == 0);
    uint32_t holder = join_briefly(segment, true);
    CHECK(value_of(&slot_at(segment, holder)->start) != 0);
}

static void without_a_lock_all_is_told_at_once(void **state)
{
    assert_int_equal(child_run(join_without_a_lock, share(*state)), 0);
}

static void say_who_it_is(void *context)
{
    struct shared *shared = context;
    CHECK(!process_introduce(&shared->place->segment, shared->holder));
}

static void nobody_is_introduced_by_another_process(void **state)
{
    struct state *place = *state;
    struct shared *shared = share(place);
    shared->holder = join_briefly(&place->segment, false);
    assert_int_equal(child_run(say_who_it_is, shared), 0);
    assert_int_equal(value_of(&slot_at(&place->segment, shared->holder)->start), 0);
}

static int after_exec(const char *folder, const char *former_text)
{
    static struct segment segment;
    struct segment_error error;
    uint32_t former = (uint32_t)strtoul(former_text, NULL, 10);
    CHECK(segment_attach(&segment, folder, STATE_IDENTITY, NULL, &error));
    CHECK(!process_alive(&segment, former));
    bool is_known;
    uint32_t holder = process_join_briefly(&segment, "after", 1, &is_known);
    CHECK(holder != former && holder >> 20 == former >> 20);
    CHECK(process_alive(&segment, holder));
    return 0;
}

static void join_and_exec(void *context)
{
    struct shared *shared = context;
    struct segment *segment = &shared->place->segment;
    bool introduces = shared->holder != 0;
    uint32_t holder = join_briefly(segment, false);
    CHECK(!introduces || process_introduce(segment, holder));
    char former[16];
    snprintf(former, sizeof former, "%u", holder);
    CHECK(execl("/proc/self/exe", "test_brief", "after-exec", shared->place->folder, former, (char *)NULL) != -1);
}

static void an_exec_takes_the_place_over_whether_its_former_image_told_its_start_or_not(void **state)
{
    struct shared *shared = share(*state);
    assert_int_equal(child_run(join_and_exec, shared), 0);
    shared->holder = 1;
    assert_int_equal(child_run(join_and_exec, shared), 0);
}

/* --- what time it is ---------------------------------------------------------------------------------------------- */

static void expect_note(const struct clock_note *note, uint64_t of_monotonic_ns, uint64_t of_boot_ns)
{
    assert_true(atomic_load(&note->of_monotonic_ns) - of_monotonic_ns + NS_PER_S < 2 * NS_PER_S);
    assert_true(atomic_load(&note->of_boot_ns) - of_boot_ns + NS_PER_S < 2 * NS_PER_S);
}

static int64_t wall_step_s, monotonic_step_s;

static int stepped_time(clockid_t clock, struct timespec *time)
{
    static int (*const real_gettime)(clockid_t, struct timespec *) = clock_gettime;
    int result = real_gettime(clock, time);
    time->tv_sec += clock == CLOCK_REALTIME ? wall_step_s : clock == CLOCK_MONOTONIC ? monotonic_step_s : 0;
    return result;
}

static void the_clocks_distance_is_noted_and_noted_anew_when_the_wall_clock_is_set(void **state)
{
    struct clock_note note = {0};
    struct timespec boot;
    (void)state;
    clock_learn_offsets(&note);
    assert_int_equal(clock_gettime(CLOCK_BOOTTIME, &boot), 0);
    const uint64_t boot_ns = (uint64_t)boot.tv_sec * NS_PER_S + (uint64_t)boot.tv_nsec;
    const uint64_t of_monotonic_ns = clock_wall_ns() - clock_real_ns(), of_boot_ns = clock_wall_ns() - boot_ns;
    expect_note(&note, of_monotonic_ns, of_boot_ns);
    clock_use(stepped_time);
    wall_step_s = -3600;
    clock_learn_offsets(&note);
    expect_note(&note, of_monotonic_ns - 3600 * NS_PER_S, of_boot_ns - 3600 * NS_PER_S);
    assert_int_equal(clocks.ahead_ns, 0);
    clock_use(NULL);
}

/* A clock of which /proc knows nothing is not asked about where the note holds. */
static void a_note_that_holds_is_believed(void **state)
{
    struct clock_note note = {0};
    (void)state;
    clock_use(stepped_time);
    wall_step_s = monotonic_step_s = 0;
    clock_learn_offsets(&note);
    uint64_t noted_ns = atomic_load(&note.of_monotonic_ns);
    clock_learn_offsets(&note);
    assert_int_equal(atomic_load(&note.of_monotonic_ns), noted_ns); /* not written again */
    monotonic_step_s = 5;
    clock_learn_offsets(&note);
    assert_int_not_equal(atomic_load(&note.of_monotonic_ns), noted_ns);
    monotonic_step_s = 0;
    clock_use(NULL);
}

#define OFFSETS "monotonic 9936000 5\nboottime 9936000 0\n"
#define ONLY_BOOTTIME "monotonic 0 0\nboottime 5000 0\n"

static void live_ahead(struct clock_note *note, const char *offsets, uint64_t ahead_ns, uint64_t boot_ahead_ns)
{
    uint64_t noted_ns = atomic_load(&note->of_monotonic_ns), noted_boot_ns = atomic_load(&note->of_boot_ns);
    CHECK(unshare(CLONE_NEWTIME) == 0);
    FILE *file = fopen("/proc/self/timens_offsets", "w");
    CHECK(file && fputs(offsets, file) >= 0 && fclose(file) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        clock_learn_offsets(note);
        CHECK(clocks.ahead_ns == ahead_ns && clocks.boot_ahead_ns == boot_ahead_ns);
        /* What it notes is for the host's. */
        CHECK(atomic_load(&note->of_monotonic_ns) - noted_ns + NS_PER_S < 2 * NS_PER_S);
        CHECK(atomic_load(&note->of_boot_ns) - noted_boot_ns + NS_PER_S < 2 * NS_PER_S);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void live_far_ahead(void *context)
{
    struct shared *shared = context;
    live_ahead(&shared->place->segment.map->clock_note, OFFSETS, UINT64_C(9936000) * NS_PER_S + 5,
               UINT64_C(9936000) * NS_PER_S);
}

static void live_ahead_since_boot(void *context)
{
    struct shared *shared = context;
    live_ahead(&shared->place->segment.map->clock_note, ONLY_BOOTTIME, 0, 5000 * NS_PER_S);
}

static void a_time_name_space_is_told_from_the_host_by_the_note(void **state)
{
    struct state *place = *state;
    if (!may_unshare(CLONE_NEWTIME))
        skip();
    segment_learn_time(&place->segment);
    assert_int_not_equal(atomic_load(&place->segment.map->clock_note.of_boot_ns), 0);
    assert_int_equal(child_run(live_far_ahead, share(place)), 0);
    assert_int_equal(child_run(live_ahead_since_boot, share(place)), 0);
}

/* --- where it stands ---------------------------------------------------------------------------------------------- */

static void move_to_other_mounts(void *context)
{
    const struct standpoint *start = context;
    CHECK(standpoint_is_same(start));
    CHECK(unshare(CLONE_NEWNS) == 0);
    CHECK(!standpoint_is_same(start));
}

static void move_to_another_root(void *context)
{
    const struct standpoint *start = context;
    CHECK(chroot("/proc") == 0 && chdir("/") == 0);
    CHECK(!standpoint_is_same(start));
}

static void move_to_a_root_like_it(void *context)
{
    const struct standpoint *start = context;
    CHECK(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    CHECK(mount("/", "/mnt", NULL, MS_BIND | MS_REC, NULL) == 0 && chroot("/mnt") == 0 && chdir("/") == 0);
    CHECK(!standpoint_is_same(start));
}

static void become_another_user(void *context)
{
    const struct standpoint *start = context;
    CHECK(setuid(STATE_OTHER_USER) == 0);
    CHECK(!standpoint_is_same(start));
}

static void stay_without_proc(void *context)
{
    const struct standpoint *start = context;
    lose_proc();
    CHECK(!standpoint_is_same(start));
}

static void who_moves_stands_elsewhere(void **state)
{
    struct standpoint start;
    (void)state;
    standpoint_take(&start);
    assert_true(standpoint_is_same(&start));
    if (geteuid() != 0 || !may_unshare(CLONE_NEWNS))
        skip();
    void (*const moves[])(void *) = {move_to_other_mounts, move_to_another_root, move_to_a_root_like_it,
                                     become_another_user, stay_without_proc};
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
        assert_int_equal(child_run(moves[i], &start), 0);
}

static void take_and_lose_proc(void *context)
{
    struct standpoint start;
    (void)context;
    lose_proc();
    standpoint_take(&start);
    /* It has not moved; but that can't be known any more. */
    CHECK(!start.is_of_mount || !standpoint_is_same(&start));
}

static void without_proc_nobody_is_sure_to_stand_where_he_stood(void **state)
{
    (void)state;
    if (geteuid() != 0 || !may_unshare(CLONE_NEWNS))
        skip();
    assert_int_equal(child_run(take_and_lose_proc, NULL), 0);
}

/* --- what lies about ---------------------------------------------------------------------------------------------- */

static uint64_t used_at(const char *path)
{
    struct stat status = status_of(path);
    return (uint64_t)status.st_mtim.tv_sec;
}

static void set_used(const char *path, long long at_s)
{
    struct timespec times[2] = {{.tv_sec = (time_t)at_s}, {.tv_sec = (time_t)at_s}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void use_is_noted_once_in_a_minute(void **state)
{
    struct state *place = *state;
    const long long now_s = (long long)(clock_wall_ns() / NS_PER_S);
    set_used(place->path, now_s - 20);
    assert_true(state_attach(place));
    assert_int_equal(used_at(place->path), now_s - 20);
    set_used(place->path, now_s - 120);
    assert_true(state_attach(place));
    assert_true(used_at(place->path) >= (uint64_t)now_s);
    set_used(place->path, now_s + 3600); /* the clock was set back */
    assert_true(state_attach(place));
    assert_true(used_at(place->path) < (uint64_t)now_s + 3000);
}

static void of_many_starts_in_a_row_one_sweeps(void **state)
{
    struct state *place = *state;
    clock_use(stepped_time);
    wall_step_s = 3600;
    assert_true(state_attach(place));
    leave_file(place, ".new-0123");
    unsigned int files = count_files(place->folder);
    assert_true(state_attach(place));
    assert_int_equal(count_files(place->folder), files);
    wall_step_s += 11;
    assert_true(state_attach(place));
    assert_int_equal(count_files(place->folder), files - 1);
    clock_use(NULL);
    wall_step_s = 0;
}

#define FRESH(name) cmocka_unit_test(name)
#define ATTACHED(name) cmocka_unit_test_setup_teardown(name, state_setup_attached, state_teardown)

int main(int count, char **arguments)
{
    if (count == 4 && strcmp(arguments[1], "after-exec") == 0)
        return after_exec(arguments[2], arguments[3]);
    const struct CMUnitTest tests[] = {
        ATTACHED(who_joins_briefly_lives_and_is_near_and_tells_its_start_later),
        ATTACHED(the_name_space_of_a_proc_is_asked_for_once),
        ATTACHED(who_has_lost_proc_before_its_first_call_is_of_its_name_space_all_the_same),
        ATTACHED(one_in_another_pid_name_space_is_not_near_and_lives_by_its_lock),
        ATTACHED(a_killed_one_is_dead),
        ATTACHED(without_a_lock_all_is_told_at_once),
        ATTACHED(nobody_is_introduced_by_another_process),
        ATTACHED(an_exec_takes_the_place_over_whether_its_former_image_told_its_start_or_not),
        FRESH(the_clocks_distance_is_noted_and_noted_anew_when_the_wall_clock_is_set),
        FRESH(a_note_that_holds_is_believed),
        ATTACHED(a_time_name_space_is_told_from_the_host_by_the_note),
        FRESH(who_moves_stands_elsewhere),
        FRESH(without_proc_nobody_is_sure_to_stand_where_he_stood),
        ATTACHED(use_is_noted_once_in_a_minute),
        ATTACHED(of_many_starts_in_a_row_one_sweeps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
