/*
 * test_connection_attempt.c - what a connect comes to, on a kernel that goes by a script. links: connection
 */
#include "support_engine.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "connection/lineage.h"

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

static void a_connection_with_a_request_and_its_answer_is_one_success(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_connected();
    ADMITTED(1);
    OUTCOMES(0);
    assert_int_equal(program_send(fd, REQUEST), strlen(REQUEST));
    OUTCOMES(0);
    kernel_brings(fd, ANSWER, strlen(ANSWER));
    assert_int_equal(program_receive(fd), strlen(ANSWER));
    SUCCEEDED(1);
    program_close(fd);
    ADMITTED(1);
    OUTCOMES(1);
}

static void a_connection_alone_proves_nothing(void **state)
{
    (void)state;
    bench_policy("");
    program_close(program_connected());
    NEUTRAL(NEUTRAL_CANCELLED, 1);
    OUTCOMES(1);
}

static void a_connection_alone_is_a_success_where_the_policy_says_so_and_what_is_sent_is_no_call(void **state)
{
    (void)state;
    bench_policy("success = connect\n");
    int fd = program_connected();
    SUCCEEDED(1);
    program_calls(fd, REQUEST, ANSWER);
    program_calls(fd, REQUEST, ANSWER);
    program_close(fd);
    ADMITTED(1);
    OUTCOMES(1);
}

static void what_connect_says_is_the_outcome(void **state)
{
    static const struct {
        int error;
        uint64_t after_ms;
        unsigned int counter;
    } rows[] = {
        {ECONNREFUSED, 0, COUNT_FAILURE_KIND + FAILURE_REFUSED},
        {ETIMEDOUT, 0, COUNT_FAILURE_KIND + FAILURE_CONNECT_TIMEOUT},
        {ECONNRESET, 0, COUNT_FAILURE_KIND + FAILURE_RESET},
        {ENETUNREACH, 0, COUNT_NEUTRAL_REASON + NEUTRAL_LOCAL},
        {EADDRNOTAVAIL, 0, COUNT_NEUTRAL_REASON + NEUTRAL_LOCAL},
    };
    (void)state;
    bench_policy("failure_threshold = 100\nminimum_calls = 1000\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t before = counted(rows[i].counter);
        attempt(1, rows[i].error);
        assert_int_equal(counted(rows[i].counter), before + 1);
        OUTCOMES(i + 1);
    }
}

/* An answer of the network takes a round trip, after which the socket has a port. */
static void an_unreachable_network_that_somebody_else_knows_of_is_a_failure(void **state)
{
    (void)state;
    bench_policy("");
    int fd = pending(1);
    kernel_pass_ns(20 * MS);
    kernel_fails(fd, EHOSTUNREACH);
    assert_int_equal(program_connect(fd, 1), -1);
    assert_int_equal(errno, EHOSTUNREACH);
    FAILED(FAILURE_UNREACHABLE, 1);
    OUTCOMES(1);
}

static void a_pending_attempt_is_known_by_the_error_option_by_a_second_connect_by_a_send_or_by_a_receive(void **state)
{
    (void)state;
    bench_policy("failure_threshold = 100\nminimum_calls = 1000\n");
    int asked = pending(1), connected = pending(1), sent = pending(1), received = pending(1);
    int all[] = {asked, connected, sent, received};
    for (size_t i = 0; i < 4; i++)
        kernel_fails(all[i], ECONNREFUSED);
    assert_int_equal(program_error(asked), ECONNREFUSED);
    FAILED(FAILURE_REFUSED, 1);
    program_connect(connected, 1);
    FAILED(FAILURE_REFUSED, 2);
    program_send(sent, REQUEST);
    FAILED(FAILURE_REFUSED, 3);
    program_receive(received);
    FAILED(FAILURE_REFUSED, 4);
    for (size_t i = 0; i < 4; i++)
        program_close(all[i]);
    OUTCOMES(4);
}

static void no_error_while_it_is_pending_says_nothing(void **state)
{
    (void)state;
    bench_policy("");
    int fd = pending(1);
    assert_int_equal(program_error(fd), 0);
    assert_int_equal(program_connect(fd, 1), -1);
    assert_int_equal(errno, EALREADY);
    kernel_pass_ns(400 * MS);
    program_close(fd);
    FAILED(FAILURE_CONNECT_TIMEOUT, 1);
    OUTCOMES(1);
}

static void who_gives_up_sooner_than_abandon_after_has_changed_its_mind(void **state)
{
    (void)state;
    bench_policy("");
    int fd = pending(1);
    kernel_pass_ns(299 * MS);
    program_close(fd);
    NEUTRAL(NEUTRAL_CANCELLED, 1);
    int shut = pending(1);
    kernel_pass_ns(300 * MS);
    program_shutdown(shut, SHUT_WR); /* there is nothing to half-close */
    FAILED(FAILURE_CONNECT_TIMEOUT, 1);
    program_close(shut);
    OUTCOMES(2);
}

static void the_error_of_a_dead_socket_is_taken_right_before_the_close_and_no_sooner(void **state)
{
    (void)state;
    bench_policy("");
    int fd = pending(1), shut = pending(1);
    kernel_fails(fd, ECONNREFUSED);
    program_close(fd);
    FAILED(FAILURE_REFUSED, 1);
    kernel_fails(shut, ECONNREFUSED);
    program_shutdown(shut, SHUT_RDWR);
    OUTCOMES(1);
    assert_int_equal(kernel_socket(shut)->error, ECONNREFUSED);
    program_close(shut);
    FAILED(FAILURE_REFUSED, 2);
}

static void a_connection_that_nobody_asked_about_waited_for_its_server_to_speak(void **state)
{
    (void)state;
    bench_policy("");
    int fd = pending(1);
    kernel_establishes(fd);
    kernel_pass_ns(500 * MS);
    program_close(fd);
    FAILED(FAILURE_RESPONSE_TIMEOUT, 1);
    OUTCOMES(1);
}

static void after_the_threshold_connect_is_refused_and_the_system_is_asked_nothing(void **state)
{
    (void)state;
    bench_policy("on_open = ENETUNREACH\n");
    program_opens_circuit();
    int fd = program_socket(true);
    assert_int_equal(program_connect(fd, 1), -1); /* what is once in a second is over */
    unsigned int asked = kernel.asked;
    assert_int_equal(program_connect(fd, 1), -1);
    assert_int_equal(errno, ENETUNREACH);
    /* Whether the address can be read is the kernel's to say, once for each place in memory. */
    assert_true(kernel.asked - asked <= 1);
    assert_int_equal(counted(COUNT_REFUSED), 2);
    ADMITTED(3);
    assert_null(bench_connection(fd));
}

static void when_the_pause_is_over_one_probe_goes_and_its_answer_closes_the_circuit(void **state)
{
    (void)state;
    bench_policy("");
    program_opens_circuit();
    kernel_pass_ns(10 * NS_PER_S);
    int probe = program_connected(), second = program_socket(true);
    assert_int_equal(program_connect(second, 1), -1);
    assert_int_equal(errno, ECONNREFUSED);
    program_calls(probe, REQUEST, ANSWER);
    assert_int_equal(counted(COUNT_PROBES_SUCCEEDED), 1);
    assert_int_equal(program_connect(second, 1), 0);
}

static void a_failed_attempt_and_the_next_on_the_same_socket_are_two_calls(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_socket(true);
    kernel.connect_ends = ECONNREFUSED;
    assert_int_equal(program_connect(fd, 1), -1);
    assert_int_equal(program_connect(fd, 2), 0);
    ADMITTED(2);
    program_calls(fd, REQUEST, ANSWER);
    FAILED(FAILURE_REFUSED, 1);
    SUCCEEDED(1);
}

/* The kernel's answer where the former attempt's error was read. */
static void a_connection_that_is_aborted_behind_a_failed_one_says_nothing_of_the_peer(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_socket(true);
    kernel.connect_ends = ECONNREFUSED;
    assert_int_equal(program_connect(fd, 1), -1);
    kernel.connect_ends = ECONNABORTED;
    assert_int_equal(program_connect(fd, 1), -1);
    FAILED(FAILURE_REFUSED, 1);
    NEUTRAL(NEUTRAL_LOCAL, 1);
    OUTCOMES(2);
}

static void a_connect_on_a_connected_socket_is_none(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_kept();
    assert_int_equal(program_connect(fd, 1), -1);
    assert_int_equal(errno, EISCONN);
    ADMITTED(1);
    OUTCOMES(1);
}

static void who_dissolves_the_association_gives_the_attempt_up_and_may_begin_another(void **state)
{
    (void)state;
    bench_policy("");
    int fd = pending(1);
    kernel_pass_ns(NS_PER_S);
    assert_int_equal(program_disconnect(fd), 0);
    FAILED(FAILURE_CONNECT_TIMEOUT, 1);
    assert_null(bench_connection(fd));
    program_error(fd);
    assert_int_equal(program_connect(fd, 1), -1);
    ADMITTED(2);
}

static void a_blocking_connect_whose_own_timeout_ran_out_is_a_connect_timeout(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_socket(true);
    kernel.connect_ends = EINPROGRESS;
    assert_int_equal(program_connect(fd, 1), -1);
    FAILED(FAILURE_CONNECT_TIMEOUT, 1);
    program_close(fd);
    OUTCOMES(1);
}

static void who_is_interrupted_goes_on_connecting(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_socket(true);
    kernel.connect_ends = EINTR;
    assert_int_equal(program_connect(fd, 1), -1);
    OUTCOMES(0);
    kernel_establishes(fd);
    assert_int_equal(program_connect(fd, 1), 0);
    program_calls(fd, REQUEST, ANSWER);
    SUCCEEDED(1);
    ADMITTED(1);
}

static int unix_socket(bool blocks)
{
    int fd = kernel_make(AF_UNIX, SOCK_STREAM | (blocks ? 0 : SOCK_NONBLOCK), 0);
    connection_created(fd, AF_UNIX, SOCK_STREAM, 0);
    return fd;
}

static int connect_unix(int fd)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    snprintf(un.sun_path, sizeof un.sun_path, "/run/%u", bench_port);
    return program_connect_to(fd, &un, sizeof un);
}

static void a_unix_listener_whose_queue_is_full_refuses_or_lets_a_blocking_connect_time_out(void **state)
{
    (void)state;
    bench_policy("");
    int without = unix_socket(false), blocks = unix_socket(true);
    kernel.connect_ends = EAGAIN;
    assert_int_equal(connect_unix(without), -1);
    FAILED(FAILURE_REFUSED, 1);
    kernel.connect_ends = EAGAIN;
    assert_int_equal(connect_unix(blocks), -1);
    FAILED(FAILURE_CONNECT_TIMEOUT, 1);
    int answers = unix_socket(true);
    assert_int_equal(connect_unix(answers), 0);
    program_calls(answers, REQUEST, ANSWER);
    SUCCEEDED(1);
}

static void who_is_connected_to_itself_was_refused(void **state)
{
    (void)state;
    bench_port = KERNEL_PORT; /* where the kernel puts every socket of the script */
    bench_policy("");
    struct sockaddr_in own = address_of(0);
    int fd = program_socket(false);
    own.sin_addr.s_addr = htonl(0x0a000000u);
    program_connect_to(fd, &own, sizeof own);
    ((struct sockaddr_in *)&kernel_socket(fd)->own)->sin_addr = own.sin_addr;
    kernel_establishes(fd);
    assert_int_equal(program_error(fd), 0);
    FAILED(FAILURE_REFUSED, 1);
}

/* A second connect shows that it is connected; with whom, it does not ask. */
static int connected_to_itself(void)
{
    struct sockaddr_in own = address_of(0);
    own.sin_addr.s_addr = htonl(0x0a000000u);
    int fd = program_socket(false);
    program_connect_to(fd, &own, sizeof own);
    ((struct sockaddr_in *)&kernel_socket(fd)->own)->sin_addr = own.sin_addr;
    kernel_establishes(fd);
    assert_int_equal(program_connect_to(fd, &own, sizeof own), 0);
    return fd;
}

static void who_is_connected_to_itself_is_refused_when_its_call_is_judged(void **state)
{
    (void)state;
    bench_port = KERNEL_PORT;
    bench_policy("");
    int fd = connected_to_itself();
    OUTCOMES(0);
    program_send(fd, REQUEST);
    kernel_brings(fd, REQUEST, strlen(REQUEST));
    OUTCOMES(0);
    assert_int_equal(program_receive(fd), strlen(REQUEST));
    FAILED(FAILURE_REFUSED, 1);
    OUTCOMES(1);
    program_close(connected_to_itself());
    FAILED(FAILURE_REFUSED, 2);
    fd = connected_to_itself();
    kernel_brings(fd, REQUEST, 1); /* of what was sent unseen */
    program_receive(fd);
    FAILED(FAILURE_REFUSED, 3);
}

static void an_answer_that_begins_otherwise_than_its_request_shows_a_peer_and_the_system_is_not_asked(void **state)
{
    static const struct {
        const char *request, *answer;
        unsigned int questions;
    } cases[] = {{"query", "rows", 0}, {"+1", "+2", 0}, {"+", "+2", 1},
                 {"+2", "+", 1},       {"+2", "+2", 1}, {"", "rows", 1}};
    (void)state;
    bench_port = KERNEL_PORT;
    bench_policy("");
    for (unsigned int i = 0; i < sizeof cases / sizeof *cases; i++) {
        int fd = program_socket(false);
        kernel.connect_ends = EINPROGRESS;
        program_connect(fd, 1);
        kernel_establishes(fd);
        kernel.connect_ends = KERNEL_AS_USUAL;
        program_connect(fd, 1);
        if (*cases[i].request)
            program_send(fd, cases[i].request);
        kernel_brings(fd, cases[i].answer, strlen(cases[i].answer));
        unsigned int asked = kernel.asked;
        program_receive(fd);
        assert_int_equal(kernel.asked - asked, 1 + cases[i].questions); /* one is the program's own */
        SUCCEEDED(i + 1);
        program_close(fd);
    }
}

static void with_fast_open_a_connect_and_a_send_succeed_into_a_black_hole(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_socket(true);
    kernel.connect_ends = KERNEL_FAST_OPEN;
    assert_int_equal(program_connect(fd, 1), 0);
    assert_int_equal(program_send(fd, REQUEST), strlen(REQUEST));
    kernel_pass_ns(NS_PER_S);
    program_close(fd);
    FAILED(FAILURE_CONNECT_TIMEOUT, 1);
    fd = program_socket(true);
    kernel.connect_ends = KERNEL_FAST_OPEN;
    program_connect(fd, 1);
    kernel_establishes(fd);
    program_calls(fd, REQUEST, ANSWER);
    SUCCEEDED(1);
}

/* --- whose it is --- */

static void a_vforks_child_connects_past_the_tables_which_are_its_parents(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_socket(true);
    lineage_lend_to_vfork();
    kernel.pid = 4242;
    assert_int_equal(program_connect(fd, 1), 0);
    assert_null(bench_connection(fd));
    kernel.pid = 0;
    kernel_pass_ns(2 * NS_PER_S); /* and the child is gone */
    OUTCOMES(1);
    NEUTRAL(NEUTRAL_UNKNOWN, 1);
}

static void other_destinations_and_other_sockets_pass(void **state)
{
    (void)state;
    bench_policy("");
    struct sockaddr_in in = address_of(1);
    in.sin_port = htons((uint16_t)(bench_port + 1000));
    int fd = program_socket(true);
    assert_int_equal(program_connect_to(fd, &in, sizeof in), 0);
    int datagrams = kernel_make(AF_INET, SOCK_DGRAM, 0);
    connection_created(datagrams, AF_INET, SOCK_DGRAM, 0);
    assert_int_equal(program_connect(datagrams, 1), 0);
    ADMITTED(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ENGINE_TEST(a_connection_with_a_request_and_its_answer_is_one_success),
        ENGINE_TEST(a_connection_alone_proves_nothing),
        ENGINE_TEST(a_connection_alone_is_a_success_where_the_policy_says_so_and_what_is_sent_is_no_call),
        ENGINE_TEST(what_connect_says_is_the_outcome),
        ENGINE_TEST(an_unreachable_network_that_somebody_else_knows_of_is_a_failure),
        ENGINE_TEST(a_pending_attempt_is_known_by_the_error_option_by_a_second_connect_by_a_send_or_by_a_receive),
        ENGINE_TEST(no_error_while_it_is_pending_says_nothing),
        ENGINE_TEST(who_gives_up_sooner_than_abandon_after_has_changed_its_mind),
        ENGINE_TEST(the_error_of_a_dead_socket_is_taken_right_before_the_close_and_no_sooner),
        ENGINE_TEST(a_connection_that_nobody_asked_about_waited_for_its_server_to_speak),
        ENGINE_TEST(after_the_threshold_connect_is_refused_and_the_system_is_asked_nothing),
        ENGINE_TEST(when_the_pause_is_over_one_probe_goes_and_its_answer_closes_the_circuit),
        ENGINE_TEST(a_failed_attempt_and_the_next_on_the_same_socket_are_two_calls),
        ENGINE_TEST(a_connection_that_is_aborted_behind_a_failed_one_says_nothing_of_the_peer),
        ENGINE_TEST(a_connect_on_a_connected_socket_is_none),
        ENGINE_TEST(who_dissolves_the_association_gives_the_attempt_up_and_may_begin_another),
        ENGINE_TEST(a_blocking_connect_whose_own_timeout_ran_out_is_a_connect_timeout),
        ENGINE_TEST(who_is_interrupted_goes_on_connecting),
        ENGINE_TEST(a_unix_listener_whose_queue_is_full_refuses_or_lets_a_blocking_connect_time_out),
        ENGINE_TEST(who_is_connected_to_itself_was_refused),
        BOTH_WAYS(who_is_connected_to_itself_is_refused_when_its_call_is_judged),
        BOTH_WAYS(an_answer_that_begins_otherwise_than_its_request_shows_a_peer_and_the_system_is_not_asked),
        ENGINE_TEST(with_fast_open_a_connect_and_a_send_succeed_into_a_black_hole),
        ENGINE_TEST(a_vforks_child_connects_past_the_tables_which_are_its_parents),
        ENGINE_TEST(other_destinations_and_other_sockets_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
