/*
 * test_connection_addresses.c - attempts that are not judged by themselves: one of several addresses, one that hangs,
 * one that goes to the fallback; on a kernel that goes by a script. links: connection
 */
#include "support_engine.h"

#include <netinet/in.h>
#include <string.h>

#define MS NS_PER_MS

/* A socket whose attempt is pending, to 10.0.0.LAST. */
static int pending(unsigned int last)
{
    int fd = program_socket(false);
    assert_int_equal(program_connect(fd, last), -1);
    assert_int_equal(errno, EINPROGRESS);
    return fd;
}

/* An attempt to 10.0.0.LAST that ends so, and whose socket is closed. */
static void attempt(unsigned int last, int ends)
{
    int fd = program_socket(true);
    kernel.connect_ends = ends;
    program_connect(fd, last);
    program_close(fd);
}

#define FALLBACK "fallback = 10.0.1.1:9\n"

static void a_dead_first_address_waits_for_the_second_and_is_neutral(void **state)
{
    (void)state;
    bench_policy("");
    program_resolves(2);
    attempt(1, ECONNREFUSED);
    OUTCOMES(0);
    int fd = program_socket(true);
    assert_int_equal(program_connect(fd, 2), 0);
    program_calls(fd, REQUEST, ANSWER);
    NEUTRAL(NEUTRAL_ADDRESS, 1);
    SUCCEEDED(1);
    OUTCOMES(2);
}

static void who_does_not_go_on_to_another_address_has_met_a_dead_destination(void **state)
{
    (void)state;
    bench_policy("");
    program_resolves(2);
    attempt(1, ECONNREFUSED);
    kernel_pass_ns(2 * NS_PER_S);
    attempt(1, ECONNREFUSED);
    FAILED(FAILURE_REFUSED, 1);
    program_exit(0); /* what still waits is judged at the end */
    FAILED(FAILURE_REFUSED, 2);
    OUTCOMES(2);
}

static void the_loser_of_a_race_is_neutral(void **state)
{
    (void)state;
    bench_policy("");
    program_resolves(2);
    int loser = pending(1), winner = pending(2);
    kernel_establishes(winner);
    assert_int_equal(program_error(winner), 0);
    kernel_pass_ns(NS_PER_S);
    program_close(loser);
    NEUTRAL(NEUTRAL_SIBLING, 1);
    OUTCOMES(1);
}

static void the_kernel_is_asked_who_has_won_where_the_program_has_not(void **state)
{
    (void)state;
    bench_policy("");
    program_resolves(2);
    int loser = pending(1), winner = pending(2);
    kernel_establishes(winner);
    kernel_pass_ns(NS_PER_S);
    program_close(loser);
    NEUTRAL(NEUTRAL_SIBLING, 1);
    program_calls(winner, REQUEST, ANSWER);
    SUCCEEDED(1);
    OUTCOMES(2);
}

static void an_attempt_that_hangs_is_charged_by_the_next_one_and_its_end_counts_apart(void **state)
{
    (void)state;
    bench_policy("");
    int hangs = pending(1);
    kernel_pass_ns(10 * NS_PER_S);
    int next = pending(1);
    FAILED(FAILURE_CONNECT_TIMEOUT, 1);
    assert_int_equal(counted(COUNT_OVERDUE), 1);
    OUTCOMES(1);
    kernel_fails(hangs, ETIMEDOUT);
    assert_int_equal(program_error(hangs), ETIMEDOUT);
    assert_int_equal(counted(COUNT_OVERDUE_ENDED), 1);
    OUTCOMES(1);
    program_close(hangs);
    program_close(next);
    assert_int_equal(counted(COUNT_OVERDUE_ENDED), 1);
}

static void an_attempt_that_was_connected_unseen_does_not_hang(void **state)
{
    (void)state;
    bench_policy("");
    int fd = pending(1);
    kernel_pass_ns(100 * MS);
    kernel_establishes(fd);
    kernel_pass_ns(10 * NS_PER_S);
    int next = pending(1);
    assert_int_equal(counted(COUNT_OVERDUE), 0);
    program_calls(fd, REQUEST, ANSWER);
    SUCCEEDED(1);
    program_close(next);
}

/* Whether anybody looked makes no difference. */
static void a_connection_that_comes_after_the_limit_is_the_timeout_that_it_was(void **state)
{
    (void)state;
    bench_policy("");
    int fd = pending(1);
    kernel_pass_ns(11 * NS_PER_S);
    kernel_establishes(fd);
    assert_int_equal(program_error(fd), 0);
    FAILED(FAILURE_CONNECT_TIMEOUT, 1);
    program_calls(fd, REQUEST, ANSWER);
    OUTCOMES(1);
    assert_int_equal(counted(COUNT_OVERDUE_ENDED), 1);
    program_calls(fd, REQUEST, ANSWER); /* and the next one is a call like any other */
    ADMITTED(2);
    SUCCEEDED(1);
}

static void an_attempt_that_was_charged_and_is_answered_after_all_takes_further_calls(void **state)
{
    (void)state;
    bench_policy("");
    int fd = pending(1);
    kernel_pass_ns(11 * NS_PER_S);
    program_close(pending(1));
    assert_int_equal(counted(COUNT_OVERDUE), 1);
    kernel_establishes(fd);
    program_calls(fd, REQUEST, ANSWER);
    assert_int_equal(counted(COUNT_OVERDUE_ENDED), 1);
    SUCCEEDED(0);
    program_calls(fd, REQUEST, ANSWER);
    ADMITTED(3);
    SUCCEEDED(1);
}

static void with_enforced_timeouts_a_blocking_connect_ends_at_its_limit(void **state)
{
    (void)state;
    bench_policy("enforce_timeouts = yes\nconnect_timeout = 2s\n");
    int fd = program_socket(true);
    uint64_t began_ns = kernel.now_ns;
    kernel.connect_ends = EINPROGRESS;
    assert_int_equal(program_connect(fd, 1), -1);
    assert_int_equal(errno, ETIMEDOUT);
    assert_int_equal(kernel.now_ns - began_ns, 2 * NS_PER_S);
    FAILED(FAILURE_CONNECT_TIMEOUT, 1);
    assert_true(kernel_socket(fd)->blocks);
}

static void while_the_circuit_is_open_connections_stand_at_the_fallback_and_are_given_back_one_by_one(void **state)
{
    (void)state;
    bench_policy(FALLBACK);
    program_opens_circuit();
    int fd = program_socket(true), other = program_socket(true);
    assert_int_equal(program_connect(fd, 1), 0);
    assert_int_equal(program_connect(other, 1), 0);
    assert_int_equal(ntohs(((struct sockaddr_in *)&kernel_socket(fd)->peer)->sin_port), 9);
    assert_int_equal(counted(COUNT_FALLBACK), 2);
    program_calls(fd, REQUEST, ANSWER);
    program_calls(fd, REQUEST, ANSWER);
    program_calls(other, REQUEST, ANSWER);
    ADMITTED(3);
    kernel_pass_ns(10 * NS_PER_S);
    assert_int_equal(program_send(fd, REQUEST), -1);
    assert_int_equal(errno, ECONNRESET);
    assert_true(kernel_socket(fd)->shut_read);
    program_calls(other, REQUEST, ANSWER); /* one is enough for a probe */
    assert_int_equal(program_send(fd, REQUEST), -1);
    program_close(fd);
    ADMITTED(3);
    int probe = program_kept();
    assert_int_equal(counted(COUNT_PROBES_SUCCEEDED), 1);
    assert_int_equal(program_send(other, REQUEST), -1);
    program_close(probe);
}

static void a_socket_that_failed_at_the_fallback_is_a_fresh_one(void **state)
{
    (void)state;
    bench_policy(FALLBACK);
    program_opens_circuit();
    int fd = program_socket(true);
    kernel.connect_ends = ECONNREFUSED;
    assert_int_equal(program_connect(fd, 1), -1);
    assert_null(bench_connection(fd));
    kernel_pass_ns(10 * NS_PER_S);
    assert_int_equal(program_connect(fd, 1), 0);
    ADMITTED(4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ENGINE_TEST(a_dead_first_address_waits_for_the_second_and_is_neutral),
        ENGINE_TEST(who_does_not_go_on_to_another_address_has_met_a_dead_destination),
        ENGINE_TEST(the_loser_of_a_race_is_neutral),
        ENGINE_TEST(the_kernel_is_asked_who_has_won_where_the_program_has_not),
        ENGINE_TEST(an_attempt_that_hangs_is_charged_by_the_next_one_and_its_end_counts_apart),
        ENGINE_TEST(an_attempt_that_was_connected_unseen_does_not_hang),
        ENGINE_TEST(a_connection_that_comes_after_the_limit_is_the_timeout_that_it_was),
        ENGINE_TEST(an_attempt_that_was_charged_and_is_answered_after_all_takes_further_calls),
        ENGINE_TEST(with_enforced_timeouts_a_blocking_connect_ends_at_its_limit),
        ENGINE_TEST(while_the_circuit_is_open_connections_stand_at_the_fallback_and_are_given_back_one_by_one),
        ENGINE_TEST(a_socket_that_failed_at_the_fallback_is_a_fresh_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
