/*
 * test_connection_short_way.c - what comes between two steps of a request on the short way, on a kernel that goes by a
 * script. links: connection
 */
#include "breaker/latency.h"
#include "connection/judgement.h"
#include "segment/circuits.h"
#include "support_engine.h"

#include <string.h>

#define MS NS_PER_MS

/* The kernel's coarse clock stands at the last tick. */
static int time_with_a_tick(clockid_t clock, struct timespec *time)
{
    uint64_t now_ns = clock == CLOCK_MONOTONIC_COARSE ? kernel.now_ns - 3 * MS : kernel.now_ns;
    *time = (struct timespec){.tv_sec = (time_t)(now_ns / NS_PER_S), .tv_nsec = (long)(now_ns % NS_PER_S)};
    return 0;
}

static void a_request_of_the_tick_in_which_the_segment_was_looked_at_does_not_look_again(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_kept();
    program_calls(fd, REQUEST, ANSWER);
    kernel_pass_ns(NS_PER_S);
    program_connected(); /* which looks */
    uint64_t looked_ns = atomic_load(&engine.checked_ns);
    assert_int_equal(looked_ns, clock_real_ns());
    clock_use(time_with_a_tick);
    program_calls(fd, REQUEST, ANSWER);
    assert_int_equal(atomic_load(&engine.checked_ns), looked_ns);
    kernel_pass_ns(NS_PER_S + 3 * MS);
    program_calls(fd, REQUEST, ANSWER);
    assert_int_not_equal(atomic_load(&engine.checked_ns), looked_ns);
}

/* --- a record whose connection goes while a request begins on it --- */

static int closed_meanwhile = -1;

/* The short way has just looked at the connection when it asks for the time: then another thread closes it. */
static int time_at_which_another_closes(clockid_t clock, struct timespec *time)
{
    int fd = closed_meanwhile;
    (void)clock;
    closed_meanwhile = -1;
    if (fd >= 0)
        program_close(fd);
    *time =
        (struct timespec){.tv_sec = (time_t)(kernel.now_ns / NS_PER_S), .tv_nsec = (long)(kernel.now_ns % NS_PER_S)};
    return 0;
}

/* The next attempt, which has the record now. */
static void next_attempt_is_an_attempt(const struct connection *record)
{
    int fd = program_socket(false);
    kernel.connect_ends = EINPROGRESS;
    program_connect(fd, 1);
    assert_ptr_equal(bench_connection(fd), record);
    assert_int_equal(connection_state(record), STATE_CONNECTING);
    kernel_fails(fd, ECONNREFUSED);
    assert_int_equal(program_error(fd), ECONNREFUSED);
    FAILED(FAILURE_REFUSED, 1);
}

static void a_request_that_meets_a_close_leaves_the_record_nobodys(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_kept();
    const struct connection *record = bench_connection(fd);
    program_calls(fd, REQUEST, ANSWER); /* from now on the short way is gone */
    clock_use(time_at_which_another_closes);
    closed_meanwhile = fd;
    program_send(fd, REQUEST);
    assert_int_equal(closed_meanwhile, -1);
    assert_int_equal(connection_state(record), STATE_NONE);
    next_attempt_is_an_attempt(record);
}

/* So late that the record lies in the list of free ones. */
static void what_a_late_thread_says_of_a_record_does_not_outlive_its_taking(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_kept();
    struct connection *record = bench_connection(fd);
    program_close(fd);
    connection_moves_on(record, STATE_IDLE, ON_BEGINNING);
    next_attempt_is_an_attempt(record);
}

/* --- what is measured --- */

static uint64_t connects_noted(uint32_t circuit)
{
    struct latency_view view;
    latency_read(circuits_latency(&bench_station.segment, circuit), kernel.now_ns, &view);
    return view.connects.total;
}

/* On one socket, for the kernel has few: each is another attempt. */
static void attempt_again(int fd, unsigned int count)
{
    for (unsigned int i = 0; i < count; i++) {
        assert_int_equal(program_disconnect(fd), 0);
        assert_int_equal(program_connect(fd, 1), 0);
    }
}

static void of_a_busy_process_some_connections_are_measured_and_stand_for_all(void **state)
{
    enum { EACH = 32, BUSY = 4096 }; /* as in measured.c */
    (void)state;
    bench_policy("");
    kernel_pass_ns(NS_PER_S);
    int fd = program_connected();
    uint32_t circuit = bench_connection(fd)->place.circuit;
    attempt_again(fd, EACH - 1);
    assert_int_equal(connects_noted(circuit), EACH);
    attempt_again(fd, BUSY);
    uint64_t noted = connects_noted(circuit);
    assert_in_range(noted, EACH + BUSY / 2, EACH + 2 * BUSY);
    assert_int_equal((noted - EACH) % MEASURED_OF_MANY, 0);
    kernel_pass_ns(NS_PER_S); /* where there are few, all are */
    attempt_again(fd, 1);
    assert_int_equal(connects_noted(circuit), noted + 1);
    ADMITTED(EACH + BUSY + 1); /* what counts otherwise is never drawn */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ENGINE_TEST(of_a_busy_process_some_connections_are_measured_and_stand_for_all),
        BOTH_WAYS(a_request_of_the_tick_in_which_the_segment_was_looked_at_does_not_look_again),
        BOTH_WAYS(a_request_that_meets_a_close_leaves_the_record_nobodys),
        BOTH_WAYS(what_a_late_thread_says_of_a_record_does_not_outlive_its_taking),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
