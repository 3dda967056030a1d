/*
 * test_clock.c - the real clocks, and the file that replaces the circuits' clock.
 */
#define _GNU_SOURCE
#include "support_segment.h"

#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "segment/processes.h"

static const char *clock_file(struct state *state)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/clock", state->parent);
    return path;
}

static void write_clock(struct state *state, const void *bytes, size_t count)
{
    int fd = open(clock_file(state), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, count), count);
    close(fd);
}

static int teardown(void **state)
{
    clock_start(NULL);
    clock_use(NULL);
    return state_teardown(state);
}

static void without_a_file_the_circuits_clock_is_the_monotonic_one(void **state)
{
    (void)state;
    assert_true(clock_start(NULL));
    assert_true(clock_start(""));
    assert_false(clock_is_replaced());
    uint64_t before = clock_real_ns(), circuit = clock_circuit_ns(), after = clock_real_ns();
    assert_true(before > 0 && before <= circuit && circuit <= after);
}

static void the_file_moves_the_circuits_clock_alone(void **state)
{
    uint64_t now = 5 * NS_PER_S;
    write_clock(*state, &now, sizeof now);
    unsigned int descriptors = open_descriptors();
    assert_true(clock_start(clock_file(*state)));
    assert_int_equal(open_descriptors(), descriptors);
    assert_true(clock_is_replaced());
    assert_int_equal(clock_circuit_ns(), 5 * NS_PER_S);
    now = 7 * NS_PER_S + 1;
    write_clock(*state, &now, sizeof now);
    assert_int_equal(clock_circuit_ns(), 7 * NS_PER_S + 1);
    assert_true(clock_real_ns() != now);
    assert_true(clock_wall_ns() > UINT64_C(1700000000) * NS_PER_S);
}

static void the_file_may_be_longer_than_its_eight_bytes(void **state)
{
    uint64_t words[2] = {3, 4};
    write_clock(*state, words, sizeof words);
    assert_true(clock_start(clock_file(*state)));
    assert_int_equal(clock_circuit_ns(), 3);
}

static void what_is_no_clock_leaves_the_real_one(void **state)
{
    struct state *place = *state;
    uint64_t now = 5;
    write_clock(place, &now, sizeof now);
    assert_true(clock_start(clock_file(place)));
    assert_int_equal(truncate(clock_file(place), 7), 0);
    assert_false(clock_start(clock_file(place)));
    assert_false(clock_is_replaced());
    assert_true(clock_circuit_ns() > 5);
    assert_int_equal(unlink(clock_file(place)), 0);
    assert_false(clock_start(clock_file(place)));
    assert_false(clock_start(place->parent));
    /* A pipe would hang who opens it, if the opening waited for a writer. */
    assert_int_equal(mkfifo(clock_file(place), 0600), 0);
    assert_false(clock_start(clock_file(place)));
    assert_false(clock_is_replaced());
}

static int fixed_time(clockid_t clock, struct timespec *time)
{
    *time = (struct timespec){.tv_sec = clock == CLOCK_MONOTONIC ? 11 : 22, .tv_nsec = 33};
    return 0;
}

static int no_time(clockid_t clock, struct timespec *time)
{
    (void)clock;
    (void)time;
    return -1;
}

static void time_comes_through_the_function_that_was_given(void **state)
{
    (void)state;
    clock_use(fixed_time);
    assert_int_equal(clock_real_ns(), 11 * NS_PER_S + 33);
    assert_int_equal(clock_circuit_ns(), 11 * NS_PER_S + 33);
    assert_int_equal(clock_wall_ns(), 22 * NS_PER_S + 33);
    clock_use(no_time);
    assert_int_equal(clock_real_ns(), 0);
    clock_use(NULL);
    assert_true(clock_wall_ns() > UINT64_C(1700000000) * NS_PER_S);
}

/* --- other time name spaces: as root only --- */

#define OFFSETS "monotonic 9936000 5\nboottime 9936000 0\n"

static uint64_t kernels_time(void)
{
    struct timespec time;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &time) == 0);
    return (uint64_t)time.tv_sec * NS_PER_S + (uint64_t)time.tv_nsec;
}

/* 115 days ahead, and in agreement with the parent all the same. */
static void live_ahead(struct state *place, uint64_t before_ns)
{
    const uint64_t ahead_ns = UINT64_C(9936000) * NS_PER_S;
    CHECK(kernels_time() - before_ns > ahead_ns);
    CHECK(clock_start(NULL));
    CHECK(clock_real_ns() - before_ns < ahead_ns / 2);
    CHECK(clock_circuit_ns() - before_ns < ahead_ns / 2);
    CHECK(clock_coarse_ns() + NS_PER_S - before_ns < ahead_ns / 2);
    CHECK(clock_to_kernel_ns(clock_real_ns()) >= before_ns + ahead_ns);
    /* /proc shows it another start than it shows to the others. */
    uint32_t holder = process_join(&place->segment, "ahead", 1);
    CHECK(process_alive(&place->segment, holder));
    CHECK(process_alive(&place->segment, 1u << 20 | 1));
}

static void live_in_another_time(void *context)
{
    struct state *place = context;
    uint64_t before_ns = clock_real_ns();
    CHECK(unshare(CLONE_NEWTIME) == 0);
    int fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0 && write(fd, OFFSETS, strlen(OFFSETS)) == (ssize_t)strlen(OFFSETS));
    close(fd);
    /* Itself it is not there yet; its children are. */
    CHECK(clock_start(NULL) && clock_real_ns() - before_ns < 3600 * NS_PER_S);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        live_ahead(place, before_ns);
        /* As others see it. */
        if (fork() == 0) {
            CHECK(clock_start(NULL));
            CHECK(process_alive(&place->segment, 2u << 20 | 1));
            _exit(0);
        }
        int ended;
        CHECK(wait(&ended) > 0 && ended == 0);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void a_process_in_another_time_name_space_has_the_hosts_clock(void **state)
{
    struct state *place = *state;
    if (!may_unshare(CLONE_NEWTIME))
        skip();
    assert_true(state_attach(place));
    assert_int_equal(process_join(&place->segment, "here", 1), 1u << 20 | 1);
    assert_int_equal(child_run(live_in_another_time, place), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_a_file_the_circuits_clock_is_the_monotonic_one, state_setup, teardown),
        cmocka_unit_test_setup_teardown(the_file_moves_the_circuits_clock_alone, state_setup, teardown),
        cmocka_unit_test_setup_teardown(the_file_may_be_longer_than_its_eight_bytes, state_setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_no_clock_leaves_the_real_one, state_setup, teardown),
        cmocka_unit_test_setup_teardown(time_comes_through_the_function_that_was_given, state_setup, teardown),
        cmocka_unit_test_setup_teardown(a_process_in_another_time_name_space_has_the_hosts_clock, state_setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
