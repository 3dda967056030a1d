/*
 * test_connection_exchange.c - requests and answers on a connection, on a kernel that goes by a script.
 * links: connection
 */
#include "connection/judgement.h"
#include "support_engine.h"

#include <string.h>

#define MS NS_PER_MS

static void each_request_on_a_kept_connection_is_a_call(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_kept();
    for (unsigned int i = 1; i <= 5; i++) {
        program_calls(fd, REQUEST, ANSWER);
        ADMITTED(i + 1);
        SUCCEEDED(i + 1);
    }
    program_send(fd, REQUEST);
    ADMITTED(7);
    OUTCOMES(6);
}

static void what_is_sent_before_the_answer_has_come_is_more_of_the_request(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_kept();
    program_send(fd, REQUEST);
    program_send(fd, REQUEST);
    ADMITTED(2);
    kernel_brings(fd, ANSWER, strlen(ANSWER));
    program_receive(fd);
    kernel_brings(fd, ANSWER, strlen(ANSWER)); /* its rest */
    program_receive(fd);
    ADMITTED(2);
    SUCCEEDED(2);
}

/* A complete request, or what is no HTTP: what looks like half a request behind it keeps nobody waiting. */
static void what_is_sent_behind_a_whole_request_is_no_part_of_it(void **state)
{
    (void)state;
    bench_policy("response_timeout = 5s\n");
    int fd = program_kept(), other = program_kept();
    for (unsigned int i = 0; i < 2; i++) {
        program_send(fd, i == 0 ? REQUEST : "GET / HTTP/1.1\r\nHost: db\r\n\r\n");
        program_send(fd, "POST / HTTP/1.1\r\n");
        kernel_pass_ns(5 * NS_PER_S);
        program_calls(other, REQUEST, ANSWER);
        FAILED(FAILURE_RESPONSE_TIMEOUT, i + 1);
        kernel_brings(fd, ANSWER, strlen(ANSWER));
        program_receive(fd);
    }
}

/* Nothing is known of the request before, then: what begins the next one is looked at. */
static void after_a_send_that_took_nothing_what_is_sent_behind_a_whole_request_is_no_part_of_it(void **state)
{
    (void)state;
    bench_policy("response_timeout = 5s\n");
    int fd = program_kept(), other = program_kept();
    kernel_socket(fd)->is_full = true;
    assert_int_equal(program_send(fd, REQUEST), -1);
    kernel_socket(fd)->is_full = false;
    program_send(fd, REQUEST);
    program_send(fd, "POST / HTTP/1.1\r\n");
    kernel_pass_ns(5 * NS_PER_S);
    program_calls(other, REQUEST, ANSWER);
    FAILED(FAILURE_RESPONSE_TIMEOUT, 1);
}

static void an_answer_that_is_only_peeked_at_has_come(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_kept();
    program_send(fd, REQUEST);
    kernel_brings(fd, ANSWER, strlen(ANSWER));
    program_receive_flags(fd, MSG_PEEK);
    SUCCEEDED(2);
    program_receive(fd);
    ADMITTED(2);
    OUTCOMES(2);
}

static void an_open_circuit_refuses_a_request_on_a_kept_connection_and_breaks_it_off_for_good(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_kept();
    program_opens_circuit();
    assert_int_equal(program_send(fd, REQUEST), -1);
    assert_int_equal(errno, ECONNRESET);
    assert_true(kernel_socket(fd)->shut_read);
    assert_false(kernel_socket(fd)->shut_write);
    assert_int_equal(counted(COUNT_REFUSED), 1);
    kernel_pass_ns(10 * NS_PER_S);
    int probe = program_kept();
    assert_int_equal(counted(COUNT_PROBES_SUCCEEDED), 1);
    assert_int_equal(program_send(fd, REQUEST), -1);
    assert_int_equal(errno, ECONNRESET);
    program_calls(probe, REQUEST, ANSWER);
    assert_int_equal(program_receive(fd), 0);
    program_close(fd);
    OUTCOMES(6);
}

static void existing_connections_may_be_allowed(void **state)
{
    (void)state;
    bench_policy("existing = allow\n");
    int fd = program_kept();
    program_opens_circuit();
    program_calls(fd, REQUEST, ANSWER);
    SUCCEEDED(2);
}

static void a_request_on_a_kept_connection_may_be_the_probe(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_kept(), other = program_kept();
    program_opens_circuit();
    kernel_pass_ns(10 * NS_PER_S);
    assert_int_equal(program_send(fd, REQUEST), strlen(REQUEST));
    assert_int_equal(program_send(other, REQUEST), -1);
    kernel_brings(fd, ANSWER, strlen(ANSWER));
    program_receive(fd);
    assert_int_equal(counted(COUNT_PROBES_SUCCEEDED), 1);
}

static void a_pooled_connection_that_has_gone_stale_is_no_failure(void **state)
{
    (void)state;
    bench_policy("");
    int ended = program_kept(), reset = program_kept(), unsent = program_kept();
    kernel_peer_ends(ended);
    program_send(ended, REQUEST);
    assert_int_equal(program_receive(ended), 0);
    NEUTRAL(NEUTRAL_STALE, 1);
    program_send(reset, REQUEST);
    kernel_fails(reset, ECONNRESET);
    assert_int_equal(program_receive(reset), -1);
    NEUTRAL(NEUTRAL_STALE, 2);
    kernel_fails(unsent, ECONNRESET);
    assert_int_equal(program_send(unsent, REQUEST), -1);
    NEUTRAL(NEUTRAL_STALE, 3);
    OUTCOMES(6);
}

static void a_connection_that_has_never_answered_is_not_stale(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_connected();
    program_send(fd, REQUEST);
    kernel_pass_ns(400 * NS_PER_MS);
    assert_int_equal(program_receive(fd), -1); /* its own timeout ran out */
    FAILED(FAILURE_RESPONSE_TIMEOUT, 1);
    program_send(fd, REQUEST);
    kernel_peer_ends(fd);
    assert_int_equal(program_receive(fd), 0);
    FAILED(FAILURE_EARLY_CLOSE, 1);
    NEUTRAL(NEUTRAL_STALE, 0);
}

/* The peer is gone: what is sent to it from now on is no request. */
static void what_is_sent_to_a_peer_that_is_known_to_be_gone_is_no_call(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_kept();
    program_send(fd, REQUEST);
    kernel_peer_ends(fd);
    program_receive(fd);
    NEUTRAL(NEUTRAL_STALE, 1);
    program_send(fd, "quit");
    program_send(fd, "quit");
    ADMITTED(2);
    program_close(fd);
    OUTCOMES(2);
}

static void the_end_of_an_idle_connection_says_nothing(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_kept(), other = program_kept();
    kernel_peer_ends(fd);
    assert_int_equal(program_receive(fd), 0);
    program_close(fd);
    kernel_fails(other, ECONNRESET);
    assert_int_equal(program_receive(other), -1);
    assert_int_equal(program_error(other), 0);
    program_close(other);
    ADMITTED(2);
    OUTCOMES(2);
}

static void an_end_before_the_first_byte_is_an_early_close_and_a_reset_a_reset(void **state)
{
    (void)state;
    bench_policy("");
    int ended = program_connected(), reset = program_connected();
    program_send(ended, REQUEST);
    kernel_peer_ends(ended);
    assert_int_equal(program_receive(ended), 0);
    FAILED(FAILURE_EARLY_CLOSE, 1);
    program_send(reset, REQUEST);
    kernel_fails(reset, ECONNRESET);
    assert_int_equal(program_receive(reset), -1);
    FAILED(FAILURE_RESET, 1);
    program_close(ended);
    program_close(reset);
    OUTCOMES(2);
}

/* The greeting answered nothing that was asked: what then becomes of the first request is no stale connection. */
static void an_end_after_the_greeting_and_a_first_request_is_an_early_close(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_connected();
    kernel_brings(fd, "220 ", 4);
    program_receive(fd);
    program_send(fd, REQUEST);
    ADMITTED(2);
    kernel_peer_ends(fd);
    program_receive(fd);
    FAILED(FAILURE_EARLY_CLOSE, 1);
    int answers = program_connected();
    kernel_brings(answers, "220 ", 4);
    program_receive(answers);
    program_calls(answers, REQUEST, ANSWER);
    program_send(answers, REQUEST);
    kernel_peer_ends(answers);
    program_receive(answers);
    NEUTRAL(NEUTRAL_STALE, 1);
}

static void what_the_program_has_shut_itself_says_nothing_of_the_peer(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_connected(), other = program_connected();
    program_send(fd, REQUEST);
    program_shutdown(fd, SHUT_WR);
    assert_int_equal(program_send(fd, REQUEST), -1);
    assert_int_equal(errno, EPIPE);
    OUTCOMES(0);
    program_send(other, REQUEST);
    program_shutdown(other, SHUT_RD);
    assert_int_equal(program_receive(other), 0);
    assert_int_equal(counted(COUNT_FAILED), 0);
    program_close(other);
    program_close(fd);
    assert_int_equal(counted(COUNT_FAILED), 0);
}

/* An EPIPE on a socket that lives: another process shut it. */
static void a_broken_pipe_on_a_living_socket_is_of_this_sides_making(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_connected();
    program_send(fd, REQUEST);
    kernel_socket(fd)->shut_write = true;
    assert_int_equal(program_send(fd, REQUEST), -1);
    OUTCOMES(0);
    kernel_brings(fd, ANSWER, strlen(ANSWER));
    program_receive(fd);
    SUCCEEDED(1);
    kernel_socket(fd)->shut_write = true;
    program_send(fd, REQUEST);
    ADMITTED(1);
}

static void a_send_that_takes_nothing_for_a_reason_of_the_programs_own_is_no_call(void **state)
{
    static char large[65536];
    (void)state;
    bench_policy("");
    int fd = program_kept();
    kernel_socket(fd)->is_full = true; /* and nothing on its way: it is not the peer that is waited for */
    assert_int_equal(program_send_bytes(fd, large, sizeof large, 0), -1);
    NEUTRAL(NEUTRAL_CANCELLED, 1);
    assert_int_equal(program_connect(fd, 1), -1); /* which is none: it stands as before */
    assert_int_equal(errno, EISCONN);
    ADMITTED(2);
    kernel_socket(fd)->is_full = false;
    program_calls(fd, REQUEST, ANSWER);
    SUCCEEDED(2);
    ADMITTED(3);
    kernel_peer_ends(fd);
    program_send(fd, REQUEST);
    program_receive(fd);
    NEUTRAL(NEUTRAL_STALE, 1);
}

static void
a_reload_that_takes_the_target_away_lets_the_connection_go_and_one_that_brings_it_back_takes_it(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_kept();
    bench_policy(NULL);
    program_calls(fd, REQUEST, ANSWER);
    program_calls(fd, REQUEST, ANSWER);
    ADMITTED(1);
    bench_policy("failure_threshold = 1\n");
    program_calls(fd, REQUEST, ANSWER);
    ADMITTED(2);
    program_send(fd, REQUEST);
    kernel_pass_ns(NS_PER_S);
    program_close(fd);
    FAILED(FAILURE_RESPONSE_TIMEOUT, 1);
    assert_int_equal(counted(COUNT_OPENED), 1);
}

static void what_comes_after_a_reload_that_says_connect_is_no_call(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_kept();
    bench_policy("success = connect\n");
    program_calls(fd, REQUEST, ANSWER);
    ADMITTED(1);
    bench_policy("");
    program_calls(fd, REQUEST, ANSWER);
    ADMITTED(2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH_WAYS(each_request_on_a_kept_connection_is_a_call),
        BOTH_WAYS(what_is_sent_before_the_answer_has_come_is_more_of_the_request),
        BOTH_WAYS(what_is_sent_behind_a_whole_request_is_no_part_of_it),
        BOTH_WAYS(after_a_send_that_took_nothing_what_is_sent_behind_a_whole_request_is_no_part_of_it),
        BOTH_WAYS(an_answer_that_is_only_peeked_at_has_come),
        BOTH_WAYS(an_open_circuit_refuses_a_request_on_a_kept_connection_and_breaks_it_off_for_good),
        BOTH_WAYS(existing_connections_may_be_allowed),
        BOTH_WAYS(a_request_on_a_kept_connection_may_be_the_probe),
        BOTH_WAYS(a_pooled_connection_that_has_gone_stale_is_no_failure),
        BOTH_WAYS(a_connection_that_has_never_answered_is_not_stale),
        BOTH_WAYS(what_is_sent_to_a_peer_that_is_known_to_be_gone_is_no_call),
        BOTH_WAYS(the_end_of_an_idle_connection_says_nothing),
        BOTH_WAYS(an_end_before_the_first_byte_is_an_early_close_and_a_reset_a_reset),
        BOTH_WAYS(an_end_after_the_greeting_and_a_first_request_is_an_early_close),
        BOTH_WAYS(what_the_program_has_shut_itself_says_nothing_of_the_peer),
        BOTH_WAYS(a_broken_pipe_on_a_living_socket_is_of_this_sides_making),
        BOTH_WAYS(a_send_that_takes_nothing_for_a_reason_of_the_programs_own_is_no_call),
        BOTH_WAYS(a_reload_that_takes_the_target_away_lets_the_connection_go_and_one_that_brings_it_back_takes_it),
        BOTH_WAYS(what_comes_after_a_reload_that_says_connect_is_no_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
