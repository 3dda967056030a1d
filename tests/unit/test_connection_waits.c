/*
 * test_connection_waits.c - how long a program waits for what it asked, and what that says; on a kernel that goes by a
 * script. links: connection
 */
#include "support_engine.h"

#include <string.h>

#define MS NS_PER_MS

static void the_program_that_gives_up_after_a_long_wait_has_met_a_silent_peer(void **state)
{
    (void)state;
    bench_policy("");
    int first = program_connected(), kept = program_kept(), soon = program_kept();
    program_send(first, REQUEST);
    program_send(kept, REQUEST);
    program_send(soon, REQUEST);
    kernel_pass_ns(299 * MS);
    program_close(soon);
    NEUTRAL(NEUTRAL_CANCELLED, 1);
    kernel_pass_ns(1 * MS);
    program_close(first);
    program_close(kept);
    FAILED(FAILURE_RESPONSE_TIMEOUT, 2);
    OUTCOMES(5);
}

static void an_answer_that_lies_unread_at_the_close_has_come(void **state)
{
    (void)state;
    bench_policy("");
    int first = program_connected(), kept = program_kept();
    program_send(first, REQUEST);
    program_send(kept, REQUEST);
    kernel_pass_ns(NS_PER_S);
    kernel_brings(first, ANSWER, strlen(ANSWER));
    kernel_brings(kept, ANSWER, strlen(ANSWER));
    program_close(first);
    program_close(kept);
    SUCCEEDED(3);
}

static void kernel_that_counts_no_segments_tells_of_an_unread_answer_too(void **state)
{
    static const socklen_t told[] = {sizeof(uint32_t), 104}; /* by QEMU's user mode, and by Linux before 4.6 */
    (void)state;
    bench_policy("");
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        kernel.info_bytes = told[i];
        int answered = program_connected(), silent = program_connected();
        program_send(answered, REQUEST);
        program_send(silent, REQUEST);
        kernel_pass_ns(NS_PER_S);
        kernel_brings(answered, ANSWER, strlen(ANSWER));
        program_close(answered);
        SUCCEEDED(i + 1);
        program_close(silent);
        FAILED(FAILURE_RESPONSE_TIMEOUT, i + 1);
    }
}

/* stdio: only the kernel knows. */
static void what_was_sent_and_received_unseen_is_found_at_the_close(void **state)
{
    static const struct iovec request = {(void *)(uintptr_t)REQUEST, sizeof REQUEST - 1};
    char bytes[16];
    (void)state;
    bench_policy("");
    int answered = program_connected(), silent = program_connected();
    kernel_send(answered, &request, 1, 0);
    kernel_send(silent, &request, 1, 0);
    kernel_pass_ns(NS_PER_S);
    kernel_brings(answered, ANSWER, strlen(ANSWER));
    kernel_receive(answered, bytes, sizeof bytes, 0);
    program_close(answered);
    SUCCEEDED(1);
    program_close(silent);
    FAILED(FAILURE_RESPONSE_TIMEOUT, 1);
    OUTCOMES(2);
}

static void what_was_sent_unseen_is_no_spare_connections_silence(void **state)
{
    static const struct iovec request = {(void *)(uintptr_t)REQUEST, sizeof REQUEST - 1};
    (void)state;
    bench_policy("");
    program_kept();
    int silent = program_connected();
    kernel_send(silent, &request, 1, 0);
    kernel_pass_ns(NS_PER_S);
    program_close(silent);
    FAILED(FAILURE_RESPONSE_TIMEOUT, 1);
}

static void a_receive_whose_own_timeout_ran_out_is_a_failure_unless_it_is_a_programs_tick(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_connected();
    program_send(fd, REQUEST);
    kernel_pass_ns(100 * MS);
    assert_int_equal(program_receive(fd), -1);
    OUTCOMES(0);
    kernel_pass_ns(300 * MS);
    assert_int_equal(program_receive_flags(fd, MSG_DONTWAIT), -1);
    assert_int_equal(program_receive_flags(fd, MSG_ERRQUEUE), -1); /* of time stamps, and the like */
    OUTCOMES(0);
    assert_int_equal(program_receive(fd), -1);
    FAILED(FAILURE_RESPONSE_TIMEOUT, 1);
    kernel_brings(fd, ANSWER, strlen(ANSWER));
    program_receive(fd);
    OUTCOMES(1);
    program_calls(fd, REQUEST, ANSWER);
    ADMITTED(2);
    SUCCEEDED(1);
}

static void who_looks_now_and_then_without_blocking_has_not_run_out_of_time(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_socket(false);
    program_connect(fd, 1);
    kernel_establishes(fd);
    program_send(fd, REQUEST);
    kernel_pass_ns(NS_PER_S);
    assert_int_equal(program_receive(fd), -1);
    OUTCOMES(0);
    kernel_brings(fd, ANSWER, strlen(ANSWER));
    program_receive(fd);
    SUCCEEDED(1);
}

static void after_a_half_close_the_wait_begins_anew(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_connected();
    program_send(fd, REQUEST);
    kernel_pass_ns(100 * MS);
    program_shutdown(fd, SHUT_WR);
    kernel_pass_ns(250 * MS);
    program_close(fd);
    NEUTRAL(NEUTRAL_CANCELLED, 1);
    OUTCOMES(1);
    /* Unless it comes right before the close: then it belongs to that. */
    fd = program_connected();
    program_send(fd, REQUEST);
    kernel_pass_ns(NS_PER_S);
    program_shutdown(fd, SHUT_WR);
    kernel_pass_ns(10 * MS);
    program_close(fd);
    FAILED(FAILURE_RESPONSE_TIMEOUT, 1);
}

static void who_waits_for_a_server_that_speaks_first_waits_since_the_connection(void **state)
{
    (void)state;
    bench_policy("");
    int silent = program_connected(), greets = program_connected();
    kernel_brings(greets, "220 ", 4);
    program_receive(greets);
    SUCCEEDED(1);
    kernel_pass_ns(NS_PER_S);
    program_close(silent);
    FAILED(FAILURE_RESPONSE_TIMEOUT, 1);
    OUTCOMES(2);
}

/* A spare one, as node's fetch keeps: its server does not speak first. */
static void an_unused_connection_to_a_server_that_never_speaks_first_has_waited_for_nothing(void **state)
{
    (void)state;
    bench_policy("");
    program_kept();
    int spare = program_connected();
    kernel_pass_ns(NS_PER_S);
    program_close(spare);
    FAILED(FAILURE_RESPONSE_TIMEOUT, 0);
    OUTCOMES(2);
}

static void a_half_close_is_the_end_of_the_request_unless_it_ends_a_long_wait(void **state)
{
    (void)state;
    bench_policy("");
    int answered = program_connected(), silent = program_connected();
    program_send(answered, REQUEST);
    program_shutdown(answered, SHUT_WR);
    kernel_brings(answered, ANSWER, strlen(ANSWER));
    program_receive(answered);
    SUCCEEDED(1);
    program_send(silent, REQUEST);
    kernel_pass_ns(NS_PER_S);
    program_shutdown(silent, SHUT_WR);
    kernel_peer_ends(silent);
    program_receive(silent);
    FAILED(FAILURE_RESPONSE_TIMEOUT, 1);
    OUTCOMES(2);
}

static void an_answer_after_response_timeout_is_that_failure_whoever_looked(void **state)
{
    (void)state;
    bench_policy("response_timeout = 2s\n");
    int fd = program_kept(), looked_at = program_kept();
    program_send(fd, REQUEST);
    program_send(looked_at, REQUEST);
    kernel_pass_ns(3 * NS_PER_S);
    kernel_brings(fd, ANSWER, strlen(ANSWER));
    program_receive(fd);
    FAILED(FAILURE_RESPONSE_TIMEOUT, 1);
    program_close(program_connected());
    FAILED(FAILURE_RESPONSE_TIMEOUT, 2);
    assert_int_equal(counted(COUNT_OVERDUE), 1);
    kernel_brings(looked_at, ANSWER, strlen(ANSWER));
    program_receive(looked_at);
    assert_int_equal(counted(COUNT_OVERDUE_ENDED), 1);
    program_calls(looked_at, REQUEST, ANSWER);
    program_calls(fd, REQUEST, ANSWER);
    SUCCEEDED(4);
}

static void an_answer_that_lies_unread_is_not_overdue(void **state)
{
    (void)state;
    bench_policy("response_timeout = 2s\n");
    int fd = program_kept();
    program_send(fd, REQUEST);
    kernel_brings(fd, ANSWER, strlen(ANSWER));
    kernel_pass_ns(3 * NS_PER_S);
    program_close(program_connected());
    assert_int_equal(counted(COUNT_OVERDUE), 0);
    program_receive(fd);
    SUCCEEDED(2);
}

static void with_enforced_timeouts_a_blocking_receive_ends_at_its_limit(void **state)
{
    (void)state;
    bench_policy("response_timeout = 2s\nenforce_timeouts = yes\n");
    int fd = program_kept();
    program_send(fd, REQUEST);
    uint64_t began_ns = kernel.now_ns;
    assert_int_equal(program_receive(fd), -1);
    assert_int_equal(errno, ETIMEDOUT);
    assert_int_equal(kernel.now_ns - began_ns, 2 * NS_PER_S);
    FAILED(FAILURE_RESPONSE_TIMEOUT, 1);
}

static void where_the_sockets_own_timeout_is_shorter_it_is_the_one_that_runs_out(void **state)
{
    (void)state;
    bench_policy("response_timeout = 2s\nenforce_timeouts = yes\n");
    int fd = program_kept();
    kernel_socket(fd)->wait_ns = NS_PER_S;
    program_send(fd, REQUEST);
    uint64_t began_ns = kernel.now_ns;
    assert_int_equal(program_receive(fd), -1);
    assert_int_equal(errno, EAGAIN);
    assert_true(kernel.now_ns - began_ns <= NS_PER_S);
}

/* A pool that drains its connection before it is used again. */
static void the_last_words_of_a_program_are_no_new_request(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_connected();
    program_send(fd, REQUEST);
    kernel_pass_ns(NS_PER_S);
    program_send(fd, "quit");
    kernel_pass_ns(1 * MS);
    program_close(fd);
    FAILED(FAILURE_RESPONSE_TIMEOUT, 1);
}

static void slow_answers_are_counted(void **state)
{
    (void)state;
    bench_policy("slow_call = 1s\n");
    int fd = program_kept();
    program_send(fd, REQUEST);
    kernel_pass_ns(1001 * MS);
    kernel_brings(fd, ANSWER, strlen(ANSWER));
    program_receive(fd);
    program_calls(fd, REQUEST, ANSWER);
    assert_int_equal(counted(COUNT_SLOW), 1);
    SUCCEEDED(3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH_WAYS(the_program_that_gives_up_after_a_long_wait_has_met_a_silent_peer),
        BOTH_WAYS(an_answer_that_lies_unread_at_the_close_has_come),
        BOTH_WAYS(kernel_that_counts_no_segments_tells_of_an_unread_answer_too),
        BOTH_WAYS(what_was_sent_and_received_unseen_is_found_at_the_close),
        BOTH_WAYS(what_was_sent_unseen_is_no_spare_connections_silence),
        BOTH_WAYS(a_receive_whose_own_timeout_ran_out_is_a_failure_unless_it_is_a_programs_tick),
        BOTH_WAYS(who_looks_now_and_then_without_blocking_has_not_run_out_of_time),
        BOTH_WAYS(after_a_half_close_the_wait_begins_anew),
        BOTH_WAYS(who_waits_for_a_server_that_speaks_first_waits_since_the_connection),
        BOTH_WAYS(an_unused_connection_to_a_server_that_never_speaks_first_has_waited_for_nothing),
        BOTH_WAYS(a_half_close_is_the_end_of_the_request_unless_it_ends_a_long_wait),
        BOTH_WAYS(an_answer_after_response_timeout_is_that_failure_whoever_looked),
        BOTH_WAYS(an_answer_that_lies_unread_is_not_overdue),
        BOTH_WAYS(with_enforced_timeouts_a_blocking_receive_ends_at_its_limit),
        BOTH_WAYS(where_the_sockets_own_timeout_is_shorter_it_is_the_one_that_runs_out),
        BOTH_WAYS(the_last_words_of_a_program_are_no_new_request),
        BOTH_WAYS(slow_answers_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
