/*
 * test_process.c - who is attached, and whether they live: zombies, reused pids, exec, other name spaces, a full table.
 *
 * Run with "after-exec FOLDER HOLDER" it is the new image of a child that called exec.
 */
#define _GNU_SOURCE
#include "support_segment.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "segment/layout.h"
#include "segment/processes.h"

/* What parent and children share beside the segment. */
struct shared {
    struct segment *segment;
    const char *folder;
    uint32_t holder, second;
};

static struct shared *share(struct state *state)
{
    struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    *shared = (struct shared){.segment = &state->segment, .folder = state->folder};
    return shared;
}

static uint32_t index_of(uint32_t holder)
{
    return (holder >> 20) - 1;
}

static struct process_slot *slot_of(struct state *state, uint32_t holder)
{
    return &state->segment.processes[index_of(holder)];
}

static unsigned int count_living(struct state *state)
{
    struct process_view view;
    unsigned int count = 0;
    for (uint32_t cursor = 0; process_next(&state->segment, &cursor, &view);)
        count++;
    return count;
}

static void join(void *context)
{
    struct shared *shared = context;
    shared->holder = process_join(shared->segment, "child", 2);
    CHECK(shared->holder != 0);
    CHECK(process_alive(shared->segment, shared->holder));
}

/* --- one process -------------------------------------------------------------------------------------------------- */

static void a_process_that_joined_lives_and_is_described(void **state)
{
    struct state *place = *state;
    struct process_view view;
    uint64_t before = clock_wall_ns();
    uint32_t holder = process_join(&place->segment, "curl", 77), cursor = 0;
    assert_int_not_equal(holder, 0);
    assert_true(process_alive(&place->segment, holder));
    assert_true(process_next(&place->segment, &cursor, &view));
    assert_int_equal(view.pid, getpid());
    assert_int_equal(view.holder, holder);
    assert_int_equal(view.revision, 77);
    assert_string_equal(view.program, "curl");
    assert_true(view.attached_ns >= before && view.attached_ns <= clock_wall_ns());
    assert_false(process_next(&place->segment, &cursor, &view));
    assert_true(process_describe(&place->segment, holder, &view));
    assert_string_equal(view.program, "curl");
}

static void what_became_of_an_edited_policy_is_its_holders_word(void **state)
{
    struct state *place = *state;
    struct process_view view;
    uint32_t holder = process_join(&place->segment, "curl", 77);
    assert_true(process_describe(&place->segment, holder, &view));
    assert_int_equal(view.reload_answer, RELOAD_UNANSWERED);
    assert_true(view.is_near);
    process_answers(&place->segment, holder, 12, RELOAD_NO_MEMORY);
    assert_true(process_describe(&place->segment, holder, &view));
    assert_int_equal(view.reload, 12);
    assert_int_equal(view.reload_answer, RELOAD_NO_MEMORY);
    process_leave(&place->segment, holder);
    process_answers(&place->segment, holder, 13, RELOAD_TAKEN); /* the place is not its own any more */
    holder = process_join(&place->segment, "wget", 77);
    assert_true(process_describe(&place->segment, holder, &view));
    assert_int_equal(view.reload, 0);
    assert_int_equal(view.reload_answer, RELOAD_UNANSWERED);
}

static void who_left_is_gone_and_its_place_is_free(void **state)
{
    struct state *place = *state;
    struct process_view view;
    uint32_t first = process_join(&place->segment, "one", 1);
    process_leave(&place->segment, first);
    assert_false(process_alive(&place->segment, first));
    assert_false(process_describe(&place->segment, first, &view));
    assert_int_equal(count_living(place), 0);
    uint32_t second = process_join(&place->segment, "two", 1);
    assert_int_equal(index_of(second), index_of(first));
    assert_int_not_equal(second, first);
    /* The old identity is neither alive nor can it free the new one's place. */
    process_leave(&place->segment, first);
    assert_false(process_alive(&place->segment, first));
    assert_true(process_alive(&place->segment, second));
}

static void a_long_program_name_is_cut(void **state)
{
    struct state *place = *state;
    struct process_view view;
    char name[100];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_true(process_describe(&place->segment, process_join(&place->segment, name, 1), &view));
    assert_int_equal(strlen(view.program), PROGRAM_NAME_MAX - 1);
}

static void a_second_join_of_the_same_image_takes_another_place(void **state)
{
    struct state *place = *state;
    uint32_t first = process_join(&place->segment, "one", 1), second = process_join(&place->segment, "one", 1);
    assert_int_not_equal(index_of(first), index_of(second));
    assert_true(process_alive(&place->segment, first));
    assert_true(process_alive(&place->segment, second));
}

static void identities_that_nobody_has_are_dead(void **state)
{
    struct state *place = *state;
    struct process_view view;
    const uint32_t holders[] = {0, 1, 0xfffff, UINT32_MAX, (CAPACITY_PROCESSES + 1) << 20, CAPACITY_PROCESSES << 20};
    process_join(&place->segment, "one", 1);
    for (size_t at = 0; at < sizeof holders / sizeof holders[0]; at++) {
        assert_false(process_alive(&place->segment, holders[at]));
        assert_false(process_describe(&place->segment, holders[at], &view));
        process_leave(&place->segment, holders[at]);
    }
    assert_int_equal(count_living(place), 1);
}

static void joining_and_asking_keep_no_descriptor(void **state)
{
    struct state *place = *state;
    unsigned int before = open_descriptors();
    uint32_t holder = process_join(&place->segment, "one", 1);
    process_alive(&place->segment, holder);
    assert_int_equal(open_descriptors(), before);
}

/* --- others' life and death --------------------------------------------------------------------------------------- */

static void a_killed_process_is_dead_even_as_a_zombie(void **state)
{
    struct state *place = *state;
    struct shared *shared = share(place);
    struct process_view view;
    siginfo_t info;
    pid_t child = child_hang(join, shared);
    assert_true(process_alive(&place->segment, shared->holder));
    assert_int_equal(kill(child, SIGKILL), 0);
    /* It has ended, but is not reaped: kill(2) would still find it. */
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(kill(child, 0), 0);
    assert_false(process_alive(&place->segment, shared->holder));
    /* Who it was is still known, for the event about its call. */
    assert_true(process_describe(&place->segment, shared->holder, &view));
    assert_int_equal(view.pid, child);
    assert_string_equal(view.program, "child");
    child_end(child);
    assert_false(process_alive(&place->segment, shared->holder));
}

static void *outlive_the_main_thread(void *unused)
{
    (void)unused;
    for (;;)
        pause();
    return NULL;
}

static void join_and_end_the_main_thread(void *context)
{
    pthread_t thread;
    join(context);
    CHECK(pthread_create(&thread, NULL, outlive_the_main_thread, NULL) == 0);
    pthread_exit(NULL);
}

static void a_process_lives_while_any_of_its_threads_does(void **state)
{
    struct state *place = *state;
    struct shared *shared = share(place);
    pid_t child = child_start(join_and_end_the_main_thread, shared);
    char path[64], text[256] = "";
    /* Until its main thread is a zombie. */
    for (unsigned int tries = 0; tries < 5000 && !strstr(text, ") Z"); tries++) {
        snprintf(path, sizeof path, "/proc/%d/stat", (int)child);
        FILE *file = fopen(path, "re");
        assert_non_null(file);
        assert_non_null(fgets(text, sizeof text, file));
        fclose(file);
        usleep(1000);
    }
    assert_non_null(strstr(text, ") Z"));
    assert_true(process_alive(&place->segment, shared->holder));
    child_kill(child);
    assert_false(process_alive(&place->segment, shared->holder));
}

static void join_under_a_strange_name(void *context)
{
    CHECK(prctl(PR_SET_NAME, ") R 1 (x) ") == 0);
    join(context);
}

static void a_process_may_have_any_name(void **state)
{
    struct state *place = *state;
    struct shared *shared = share(place);
    siginfo_t info;
    pid_t child = child_hang(join_under_a_strange_name, shared);
    assert_true(process_alive(&place->segment, shared->holder));
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    assert_false(process_alive(&place->segment, shared->holder));
    child_end(child);
}

static void another_process_with_the_same_pid_is_not_the_holder(void **state)
{
    struct state *place = *state;
    uint32_t holder = process_join(&place->segment, "one", 1);
    struct process_slot *slot = slot_of(place, holder);
    /* The pid was given out again: its process started one tick later. */
    atomic_fetch_sub(&slot->start, 1);
    assert_false(process_alive(&place->segment, holder));
    assert_int_equal(count_living(place), 0);
}

static void a_forks_child_has_a_place_of_its_own(void **state)
{
    struct state *place = *state;
    struct shared *shared = share(place);
    uint32_t parent = process_join(&place->segment, "parent", 1);
    pid_t child = child_hang(join, shared);
    assert_int_not_equal(index_of(shared->holder), index_of(parent));
    assert_int_equal(count_living(place), 2);
    child_kill(child);
    assert_true(process_alive(&place->segment, parent));
    assert_int_equal(count_living(place), 1);
}

/* --- exec --------------------------------------------------------------------------------------------------------- */

static int after_exec(const char *folder, const char *former_text)
{
    static struct segment segment;
    struct segment_error error;
    uint32_t former = (uint32_t)strtoul(former_text, NULL, 10);
    CHECK(segment_attach(&segment, folder, STATE_IDENTITY, NULL, &error));
    /* The pid is the same and lives, but the lock went with the former image. */
    CHECK(!process_alive(&segment, former));
    uint32_t holder = process_join(&segment, "after", 1);
    CHECK(holder != 0 && holder != former && index_of(holder) == index_of(former));
    CHECK(!process_alive(&segment, former));
    CHECK(process_alive(&segment, holder));
    return 0;
}

static void join_and_exec(void *context)
{
    struct shared *shared = context;
    char former[16];
    join(shared);
    snprintf(former, sizeof former, "%u", shared->holder);
    CHECK(execl("/proc/self/exe", "test_process", "after-exec", shared->folder, former, (char *)NULL) != -1);
}

static void an_exec_takes_its_former_images_place_over(void **state)
{
    struct state *place = *state;
    uint32_t parent = process_join(&place->segment, "parent", 1), gap = process_join(&place->segment, "gap", 1);
    struct shared *shared = share(place);
    pid_t child;
    /* Also when a place before its own is free. */
    child = child_start(join_and_exec, shared);
    assert_int_equal(child_end(child), 0);
    process_leave(&place->segment, gap);
    assert_int_equal(child_run(join_and_exec, shared), 0);
    assert_true(process_alive(&place->segment, parent));
}

static void join_twice_leave_the_first_and_exec(void *context)
{
    struct shared *shared = context;
    uint32_t first = process_join(shared->segment, "first", 1);
    join(shared);
    process_leave(shared->segment, first);
    char former[16];
    snprintf(former, sizeof former, "%u", shared->holder);
    CHECK(execl("/proc/self/exe", "test_process", "after-exec", shared->folder, former, (char *)NULL) != -1);
}

static void the_place_that_exec_left_comes_before_a_free_one(void **state)
{
    assert_int_equal(child_run(join_twice_leave_the_first_and_exec, share(*state)), 0);
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

/* Makes a holder dead: as if its pid had been given out again. */
static void bury(struct state *state, uint32_t holder)
{
    atomic_fetch_sub(&slot_of(state, holder)->start, 1);
}

static void fill_with_the_living(struct state *state)
{
    for (uint32_t count = 0; count < CAPACITY_PROCESSES; count++)
        assert_int_not_equal(process_join(&state->segment, "filler", 1), 0);
}

static void a_table_full_of_the_living_takes_nobody(void **state)
{
    struct state *place = *state;
    fill_with_the_living(place);
    assert_int_equal(process_join(&place->segment, "one", 1), 0);
    assert_int_equal(count_living(place), CAPACITY_PROCESSES);
}

/* Each try asks for a few; after so many everybody has been asked for. 0: nobody is dead. */
static uint32_t join_in_the_end(struct state *state)
{
    uint32_t holder = 0;
    for (uint32_t tries = 0; holder == 0 && tries < CAPACITY_PROCESSES / 8; tries++)
        holder = process_join(&state->segment, "one", 1);
    return holder;
}

static void a_full_table_gives_a_dead_ones_place(void **state)
{
    struct state *place = *state;
    fill_with_the_living(place);
    uint32_t dead = (700 + 1) << 20 | 1;
    bury(place, dead);
    uint32_t holder = join_in_the_end(place);
    assert_int_equal(index_of(holder), 700);
    assert_int_not_equal(holder, dead);
    assert_false(process_alive(&place->segment, dead));
    assert_int_equal(join_in_the_end(place), 0);
}

static void a_full_table_gives_the_place_of_one_that_left(void **state)
{
    struct state *place = *state;
    fill_with_the_living(place);
    process_leave(&place->segment, (1023 + 1) << 20 | 1);
    assert_int_equal(index_of(process_join(&place->segment, "one", 1)), 1023);
    assert_int_equal(process_join(&place->segment, "two", 1), 0);
}

static void killed_processes_do_not_fill_the_table(void **state)
{
    struct state *place = *state;
    for (unsigned int count = 0; count < 3 * CAPACITY_PROCESSES; count++) {
        uint32_t holder = process_join(&place->segment, "killed", 1);
        assert_int_not_equal(holder, 0);
        bury(place, holder);
    }
    assert_true(atomic_load(&place->segment.map->processes_high) <= 64);
}

static void a_claimer_killed_in_the_middle_is_known_by_its_pid(void **state)
{
    struct state *place = *state;
    pid_t dead = child_hang(NULL, NULL);
    child_kill(dead);
    fill_with_the_living(place);
    struct process_slot *slot = &place->segment.processes[5];
    bury(place, 6 << 20 | 1);
    /* The claim stands, the words behind it are the former owner's. */
    atomic_store(&slot->claim, UINT64_C(2) << 32 | (uint32_t)getpid());
    assert_true(process_alive(&place->segment, 6 << 20 | 2));
    assert_int_equal(process_join(&place->segment, "one", 1), 0);
    atomic_store(&slot->claim, UINT64_C(2) << 32 | (uint32_t)dead);
    assert_false(process_alive(&place->segment, 6 << 20 | 2));
    assert_int_equal(join_in_the_end(place), 6 << 20 | 3);
}

static void the_epoch_goes_on_behind_its_bits(void **state)
{
    struct state *place = *state;
    struct process_slot *slot = &place->segment.processes[0];
    atomic_store(&slot->claim, UINT64_C(0xfffff) << 32);
    uint32_t first = process_join(&place->segment, "one", 1);
    assert_int_equal(first, 1 << 20);
    assert_true(process_alive(&place->segment, first));
    process_leave(&place->segment, first);
    uint32_t second = process_join(&place->segment, "one", 1);
    assert_int_equal(second, 1 << 20 | 1);
    atomic_store(&slot->claim, UINT64_C(0xffffffff) << 32);
    assert_int_equal(process_join(&place->segment, "one", 1), 1 << 20);
}

static void a_corrupt_table_is_harmless(void **state)
{
    struct state *place = *state;
    memset(place->segment.processes, 0xff, place->segment.capacity.processes * sizeof *place->segment.processes);
    atomic_store(&place->segment.map->processes_high, UINT32_MAX);
    assert_int_equal(count_living(place), 0);
    uint32_t holder = process_join(&place->segment, "one", 1);
    assert_int_not_equal(holder, 0);
    assert_true(process_alive(&place->segment, holder));
    assert_int_equal(count_living(place), 1);
}

/* --- other name spaces, and no /proc: as root only ---------------------------------------------------------------- */

static void join_in_another_space(void *context)
{
    CHECK(unshare(CLONE_NEWPID) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        /* In there the pid is 1, and /proc is not that of this space. */
        struct shared *shared = context;
        CHECK(getpid() == 1);
        shared->holder = process_join(shared->segment, "elsewhere", 1);
        CHECK(shared->holder != 0);
        CHECK(process_alive(shared->segment, shared->holder));
        /* The parent's is of another space, where its lock is seen all the same. */
        CHECK(process_alive(shared->segment, shared->second));
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}

static void one_in_another_name_space_is_known_by_its_lock(void **state)
{
    if (!may_unshare(CLONE_NEWPID))
        skip();
    struct state *place = *state;
    struct shared *shared = share(place);
    shared->second = process_join(&place->segment, "parent", 1);
    assert_int_equal(child_run(join_in_another_space, shared), 0);
    assert_false(process_alive(&place->segment, shared->holder));
    assert_true(process_alive(&place->segment, shared->second));
    assert_int_equal(count_living(place), 1);
}

/* As if it could not have opened the segment's file. */
static void take_its_proof(struct state *place, uint32_t holder)
{
    atomic_store(&slot_of(place, holder)->proof, 0);
}

static void one_without_a_lock_in_another_name_space_lives_until_its_place_is_needed(void **state)
{
    if (!may_unshare(CLONE_NEWPID))
        skip();
    struct state *place = *state;
    struct shared *shared = share(place);
    shared->second = process_join(&place->segment, "parent", 1);
    assert_int_equal(child_run(join_in_another_space, shared), 0);
    uint32_t first = shared->holder;
    assert_int_equal(child_run(join_in_another_space, shared), 0);
    uint32_t second = shared->holder;
    assert_int_not_equal(index_of(first), index_of(second));
    /* Both have ended; only nobody here can know. */
    take_its_proof(place, first);
    take_its_proof(place, second);
    assert_true(process_alive(&place->segment, first));
    assert_true(process_alive(&place->segment, second));
    for (uint32_t count = 3; count < CAPACITY_PROCESSES; count++)
        assert_int_not_equal(process_join(&place->segment, "filler", 1), 0);
    assert_true(process_alive(&place->segment, first));
    /* The table is full: the one that attached first goes first. */
    assert_int_equal(index_of(process_join(&place->segment, "one", 1)), index_of(first));
    assert_false(process_alive(&place->segment, first));
    assert_true(process_alive(&place->segment, second));
    assert_int_equal(index_of(process_join(&place->segment, "two", 1)), index_of(second));
    assert_int_equal(join_in_the_end(place), 0);
    assert_true(process_alive(&place->segment, shared->second));
}

static void live_without_proc(void *context)
{
    struct shared *shared = context;
    CHECK(unshare(CLONE_NEWNS) == 0);
    CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    CHECK(umount2("/proc", MNT_DETACH) == 0);
    CHECK(process_join(shared->segment, "without", 1) != 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(60);
        shared->holder = process_join(shared->segment, "child", 1);
        for (;;)
            pause();
    }
    for (unsigned int tries = 0; tries < 10000 && *(volatile uint32_t *)&shared->holder == 0; tries++)
        usleep(1000);
    CHECK(process_alive(shared->segment, shared->holder));
    CHECK(kill(child, SIGKILL) == 0);
    CHECK(waitpid(child, NULL, 0) == child);
    CHECK(!process_alive(shared->segment, shared->holder));
}

static void without_proc_the_pid_must_do(void **state)
{
    if (!may_unshare(CLONE_NEWNS))
        skip();
    assert_int_equal(child_run(live_without_proc, share(*state)), 0);
}

static void live_without_descriptors(void *context)
{
    struct shared *shared = context;
    const struct rlimit none = {0, 0};
    join(shared);
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    CHECK(process_alive(shared->segment, shared->holder));
    CHECK(process_alive(shared->segment, shared->second));
    CHECK(process_join(shared->segment, "again", 1) != 0);
    /* What is not there needs no descriptor to be seen. */
    atomic_store(&shared->segment->processes[index_of(shared->holder)].claim,
                 atomic_load(&shared->segment->processes[index_of(shared->holder)].claim) | 0x7fffff00);
    CHECK(!process_alive(shared->segment, shared->holder));
}

static void without_a_descriptor_left_the_pid_must_do(void **state)
{
    struct state *place = *state;
    struct shared *shared = share(place);
    shared->second = process_join(&place->segment, "parent", 1);
    assert_int_equal(child_run(live_without_descriptors, shared), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, state_setup_attached, state_teardown)

int main(int count, char **arguments)
{
    if (count == 4 && strcmp(arguments[1], "after-exec") == 0)
        return after_exec(arguments[2], arguments[3]);
    const struct CMUnitTest tests[] = {
        TEST(a_process_that_joined_lives_and_is_described),
        TEST(what_became_of_an_edited_policy_is_its_holders_word),
        TEST(who_left_is_gone_and_its_place_is_free),
        TEST(a_long_program_name_is_cut),
        TEST(a_second_join_of_the_same_image_takes_another_place),
        TEST(identities_that_nobody_has_are_dead),
        TEST(joining_and_asking_keep_no_descriptor),
        TEST(a_killed_process_is_dead_even_as_a_zombie),
        TEST(a_process_lives_while_any_of_its_threads_does),
        TEST(a_process_may_have_any_name),
        TEST(another_process_with_the_same_pid_is_not_the_holder),
        TEST(a_forks_child_has_a_place_of_its_own),
        TEST(an_exec_takes_its_former_images_place_over),
        TEST(the_place_that_exec_left_comes_before_a_free_one),
        TEST(a_table_full_of_the_living_takes_nobody),
        TEST(a_full_table_gives_a_dead_ones_place),
        TEST(a_full_table_gives_the_place_of_one_that_left),
        TEST(killed_processes_do_not_fill_the_table),
        TEST(a_claimer_killed_in_the_middle_is_known_by_its_pid),
        TEST(the_epoch_goes_on_behind_its_bits),
        TEST(a_corrupt_table_is_harmless),
        TEST(one_in_another_name_space_is_known_by_its_lock),
        TEST(one_without_a_lock_in_another_name_space_lives_until_its_place_is_needed),
        TEST(without_proc_the_pid_must_do),
        TEST(without_a_descriptor_left_the_pid_must_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
