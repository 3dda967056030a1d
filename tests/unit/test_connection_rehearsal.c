/*
 * test_connection_rehearsal.c - injected faults, as the program meets them on a kernel that goes by a script.
 * links: connection
 */
#include "support_engine.h"

#include <string.h>

#define GET "GET / HTTP/1.1\r\nHost: db\r\n\r\n"

static void a_refused_attempt_meets_a_refusal_of_this_host(void **state)
{
    (void)state;
    bench_policy("inject = refuse\n");
    int fd = program_socket(true);
    assert_int_equal(program_connect(fd, 1), -1);
    assert_int_equal(errno, ECONNREFUSED);
    FAILED(FAILURE_REFUSED, 1);
    assert_int_equal(counted(COUNT_INJECTED), 1);
}

static void a_reset_comes_after_the_first_request(void **state)
{
    (void)state;
    bench_policy("inject = reset\n");
    int fd = program_connected();
    OUTCOMES(0);
    assert_int_equal(program_send(fd, REQUEST), strlen(REQUEST));
    assert_int_equal(program_receive(fd), -1);
    assert_int_equal(errno, ECONNRESET);
    FAILED(FAILURE_RESET, 1);
    program_close(fd);
    OUTCOMES(1);
}

static void a_canned_answer_is_read_as_any_other_and_ends_the_connection(void **state)
{
    (void)state;
    bench_policy("inject = http-503\n");
    int fd = program_connected();
    assert_int_equal(program_send(fd, GET), strlen(GET));
    assert_true(program_receive(fd) > 0);
    FAILED(FAILURE_HTTP, 1);
    assert_int_equal(program_receive(fd), 0);
    assert_true(connection_is_over(descriptor_get(fd)));
    program_close(fd);
    OUTCOMES(1);
}

static void silence_is_a_wait_in_vain(void **state)
{
    (void)state;
    bench_policy("inject = silence\n");
    int fd = program_connected();
    assert_int_equal(program_send(fd, REQUEST), strlen(REQUEST));
    assert_int_equal(program_receive_flags(fd, MSG_DONTWAIT), -1);
    kernel_pass_ns(NS_PER_S);
    program_close(fd);
    FAILED(FAILURE_RESPONSE_TIMEOUT, 1);
}

static void a_delayed_attempt_begins_later_and_may_be_given_up_before(void **state)
{
    (void)state;
    bench_policy("inject = delay 2s\n");
    uint64_t began_ns = kernel.now_ns;
    int fd = program_connected();
    assert_int_equal(kernel.now_ns - began_ns, 2 * NS_PER_S);
    program_send(fd, REQUEST);
    kernel_brings(fd, ANSWER, strlen(ANSWER));
    program_receive(fd);
    SUCCEEDED(1);
}

static void a_request_on_a_kept_connection_meets_its_fault_there(void **state)
{
    (void)state;
    bench_policy("");
    int reset = program_kept(), ended = program_kept(), refused = program_kept();
    bench_policy("inject = reset\n");
    assert_int_equal(program_send(reset, REQUEST), strlen(REQUEST));
    assert_int_equal(program_receive(reset), -1);
    bench_policy("inject = early-close\n");
    assert_int_equal(program_send(ended, REQUEST), strlen(REQUEST));
    assert_int_equal(program_receive(ended), 0);
    NEUTRAL(NEUTRAL_STALE, 2); /* as of any connection that had answered */
    bench_policy("inject = refuse\n");
    assert_int_equal(program_send(refused, REQUEST), -1);
    assert_int_equal(errno, ECONNRESET);
    OUTCOMES(6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH_WAYS(a_refused_attempt_meets_a_refusal_of_this_host),
        BOTH_WAYS(a_reset_comes_after_the_first_request),
        BOTH_WAYS(a_canned_answer_is_read_as_any_other_and_ends_the_connection),
        BOTH_WAYS(silence_is_a_wait_in_vain),
        BOTH_WAYS(a_delayed_attempt_begins_later_and_may_be_given_up_before),
        BOTH_WAYS(a_request_on_a_kept_connection_meets_its_fault_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
