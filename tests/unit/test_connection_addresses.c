/*
 * test_connection_addresses.c - attempts that are not judged by themselves: one of several addresses, one that hangs,
 * one that goes to the fallback; on a kernel that goes by a script. links: connection
 */
#include "support_engine.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "connection/engine.h"

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

static void who_was_connected_before_the_attempt_began_has_won_no_race_against_it(void **state)
{
    (void)state;
    bench_policy("");
    program_resolves(2);
    int first = pending(2);
    kernel_establishes(first);
    assert_int_equal(program_error(first), 0);
    int hangs = pending(1);
    kernel_pass_ns(NS_PER_S);
    program_close(hangs);
    program_exit(0);
    NEUTRAL(NEUTRAL_SIBLING, 0);
    FAILED(FAILURE_CONNECT_TIMEOUT, 1);
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

/* --- what is kept of where the last attempts went --- */

/* The circuit of the target db with this text, PORT behind it. */
static uint32_t circuit_of(const char *host)
{
    char text[64];
    snprintf(text, sizeof text, "%.32s:%u", host, bench_port);
    return circuits_stand(&bench_station.segment, "db", text);
}

static void succeed(unsigned int last)
{
    int fd = program_socket(true);
    assert_int_equal(program_connect(fd, last), 0);
    program_calls(fd, REQUEST, ANSWER);
    program_close(fd);
}

static void a_name_that_is_learnt_between_two_attempts_is_the_second_ones(void **state)
{
    char name[32];
    (void)state;
    bench_policy("");
    snprintf(name, sizeof name, "db%u.internal", bench_port);
    succeed(1);
    succeed(1);
    assert_int_not_equal(circuit_of("10.0.0.1"), CIRCUIT_INDEX_NONE);
    assert_int_equal(circuit_of(name), CIRCUIT_INDEX_NONE);
    program_resolves(1);
    succeed(1);
    assert_int_not_equal(circuit_of(name), CIRCUIT_INDEX_NONE);
    /* And its addresses are those of the latest answer. */
    program_resolves(2);
    attempt(1, ECONNREFUSED);
    assert_int_equal(counted(COUNT_FAILURE_KIND + FAILURE_REFUSED), 0);
    succeed(2);
    NEUTRAL(NEUTRAL_ADDRESS, 1);
}

static void a_policy_is_asked_anew_even_where_the_former_one_lay(void **state)
{
    (void)state;
    bench_policy("");
    succeed(1);
    succeed(1);
    ADMITTED(2);
    struct target *target = (struct target *)(uintptr_t)policy_target_named(engine_policy(), "db");
    target->mode = MODE_OFF;
    engine_put_policy(engine_policy());
    attempt(1, 0);
    ADMITTED(2);
    target->mode = MODE_ENFORCE;
    engine_put_policy(engine_policy());
    succeed(1);
    ADMITTED(3);
    bench_policy(NULL);
    attempt(1, 0);
    ADMITTED(3);
}

static void a_circuit_whose_place_is_gone_is_made_again(void **state)
{
    (void)state;
    bench_policy("");
    succeed(1);
    succeed(1);
    assert_true(circuits_forget(&bench_station.segment, circuit_of("10.0.0.1"), false, kernel.now_ns));
    assert_int_equal(circuit_of("10.0.0.1"), CIRCUIT_INDEX_NONE);
    succeed(1);
    assert_int_not_equal(circuit_of("10.0.0.1"), CIRCUIT_INDEX_NONE);
    ADMITTED(1);
}

static void each_of_many_addresses_keeps_its_own_circuit(void **state)
{
    enum { ADDRESSES = 30 }; /* some of them in one place of what is kept */
    char host[32];
    (void)state;
    bench_policy("");
    for (unsigned int round = 0; round < 2; round++)
        for (unsigned int last = 1; last <= ADDRESSES; last++)
            succeed(last);
    ADMITTED(2 * ADDRESSES);
    for (unsigned int last = 1; last <= ADDRESSES; last++) {
        snprintf(host, sizeof host, "10.0.0.%u", last);
        struct circuit *circuit = circuits_at(&bench_station.segment, circuit_of(host));
        assert_non_null(circuit);
        assert_int_equal(counters_sum(&circuit->counters, COUNT_ADMITTED), 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ENGINE_TEST(a_dead_first_address_waits_for_the_second_and_is_neutral),
        ENGINE_TEST(who_does_not_go_on_to_another_address_has_met_a_dead_destination),
        ENGINE_TEST(the_loser_of_a_race_is_neutral),
        ENGINE_TEST(who_was_connected_before_the_attempt_began_has_won_no_race_against_it),
        ENGINE_TEST(the_kernel_is_asked_who_has_won_where_the_program_has_not),
        ENGINE_TEST(an_attempt_that_hangs_is_charged_by_the_next_one_and_its_end_counts_apart),
        ENGINE_TEST(an_attempt_that_was_connected_unseen_does_not_hang),
        ENGINE_TEST(a_connection_that_comes_after_the_limit_is_the_timeout_that_it_was),
        ENGINE_TEST(an_attempt_that_was_charged_and_is_answered_after_all_takes_further_calls),
        ENGINE_TEST(with_enforced_timeouts_a_blocking_connect_ends_at_its_limit),
        ENGINE_TEST(while_the_circuit_is_open_connections_stand_at_the_fallback_and_are_given_back_one_by_one),
        ENGINE_TEST(a_socket_that_failed_at_the_fallback_is_a_fresh_one),
        ENGINE_TEST(a_name_that_is_learnt_between_two_attempts_is_the_second_ones),
        ENGINE_TEST(a_policy_is_asked_anew_even_where_the_former_one_lay),
        ENGINE_TEST(a_circuit_whose_place_is_gone_is_made_again),
        ENGINE_TEST(each_of_many_addresses_keeps_its_own_circuit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
