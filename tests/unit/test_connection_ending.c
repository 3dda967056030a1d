/*
 * test_connection_ending.c - the ends of a connection: closes of all kinds, duplicates, children, other programs, the
 * program's own end; on a kernel that goes by a script. links: connection
 */
#include "support_engine.h"

#include <signal.h>
#include <string.h>

#include "connection/deferred.h"
#include "connection/inherited.h"
#include "connection/left_behind.h"
#include "connection/lineage.h"
#include "connection/socket_swap.h"
#include "connection/stopping.h"
#include "support_segment.h"

#define MS NS_PER_MS

static int waiting(void)
{
    int fd = program_connected();
    program_send(fd, REQUEST);
    kernel_pass_ns(NS_PER_S);
    return fd;
}

/* --- numbers --- */

static void the_close_of_one_number_of_two_is_not_the_end(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_connected(), other = program_dup(fd);
    program_send(other, REQUEST);
    kernel_pass_ns(NS_PER_S);
    program_close(fd);
    OUTCOMES(0);
    kernel_brings(other, ANSWER, strlen(ANSWER));
    program_receive(other);
    SUCCEEDED(1);
    program_send(other, REQUEST);
    kernel_pass_ns(NS_PER_S);
    program_close(other);
    FAILED(FAILURE_RESPONSE_TIMEOUT, 1);
}

static void numbers_that_a_socket_had_before_its_connect_are_numbers_of_the_connection(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_socket(true), other = program_dup(fd);
    assert_int_equal(program_connect(fd, 1), 0);
    assert_ptr_equal(bench_connection(fd), bench_connection(other));
    program_send(fd, REQUEST);
    kernel_pass_ns(NS_PER_S);
    program_close(fd);
    OUTCOMES(0);
    program_disconnect(other);
    FAILED(FAILURE_RESPONSE_TIMEOUT, 1);
}

static void a_dup_over_a_number_ends_what_it_was(void **state)
{
    (void)state;
    bench_policy("");
    int fd = waiting(), other = program_kept();
    program_dup2(other, fd);
    FAILED(FAILURE_RESPONSE_TIMEOUT, 1);
    program_calls(fd, REQUEST, ANSWER);
    SUCCEEDED(2);
}

static void a_range_that_is_closed_ends_all_in_it(void **state)
{
    (void)state;
    bench_policy("");
    int first = waiting(), second = program_connected();
    program_send(second, REQUEST);
    connection_closing_range((unsigned int)first, ~0u);
    FAILED(FAILURE_RESPONSE_TIMEOUT, 1);
    NEUTRAL(NEUTRAL_CANCELLED, 1);
}

/* The number is another socket's: a close by another way was missed. */
static void a_close_that_nobody_saw_charges_nothing(void **state)
{
    (void)state;
    bench_policy("");
    int fd = waiting(), kept = program_kept();
    kernel_replaces(fd);
    program_close(fd);
    NEUTRAL(NEUTRAL_UNKNOWN, 1);
    program_opens_circuit();
    kernel_replaces(kept);
    kernel_establishes(kept);
    assert_int_equal(program_send(kept, REQUEST), strlen(REQUEST)); /* and refuses nothing */
    assert_int_equal(program_send(kept, REQUEST), strlen(REQUEST));
    assert_int_equal(counted(COUNT_REFUSED), 1);
}

static void a_new_socket_under_the_number_ends_what_it_was(void **state)
{
    (void)state;
    bench_policy("");
    int fd = waiting();
    kernel_close(fd);
    assert_int_equal(program_socket(true), fd);
    NEUTRAL(NEUTRAL_UNKNOWN, 1);
    assert_null(bench_connection(fd));
}

static void stdio_that_still_writes_finds_the_error_in_its_socket(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_connected();
    program_send(fd, REQUEST);
    kernel_fails(fd, ECONNRESET);
    connection_leaving(fd);
    FAILED(FAILURE_RESET, 1);
    assert_int_equal(kernel_socket(fd)->error, ECONNRESET);
}

static void a_socket_that_another_preload_puts_under_the_number_while_it_connects_goes_on_as_the_attempt(void **state)
{
    struct sockaddr_in in = address_of(1);
    struct attempt_ticket ticket = {0};
    (void)state;
    bench_policy("");
    int fd = program_socket(true), proxy = kernel_make(AF_INET, SOCK_STREAM, IPPROTO_TCP);
    swap_is_possible = true;
    assert_int_equal(connection_begin(fd, (struct sockaddr *)&in, sizeof in, 0, &ticket), PASSAGE_GUARDED);
    swap_enter(ticket.entry, UINTPTR_MAX, &ticket.outer);
    kernel_connect(proxy, (struct sockaddr *)&in, sizeof in);
    kernel_duplicate(proxy, fd);
    connection_duplicated(proxy, fd);
    kernel_close(proxy);
    swap_leave(&ticket.outer);
    connection_returned(&ticket, 0, 0);
    OUTCOMES(0);
    program_calls(fd, REQUEST, ANSWER);
    SUCCEEDED(1);
    swap_is_possible = false;
}

/* --- children and other programs --- */

static void a_vforks_child_closes_nothing(void **state)
{
    (void)state;
    bench_policy("");
    int fd = waiting();
    kernel.pid = 4242;
    connection_closing(fd);
    connection_closing_range(0, ~0u);
    program_shutdown(fd, SHUT_RDWR);
    kernel.pid = 0;
    OUTCOMES(0);
    assert_non_null(bench_connection(fd));
}

static int childs; /* the number that a child has from its parent */

static void child_reads(void *context)
{
    (void)context;
    kernel_brings(childs, ANSWER, strlen(ANSWER));
    program_receive(childs);
}

static void child_closes(void *context)
{
    (void)context;
    program_close(childs);
    program_exit(0);
}

static void child_hears_the_end(void *context)
{
    (void)context;
    kernel_peer_ends(childs);
    program_receive(childs);
}

static void what_a_child_reads_on_its_parents_connection_is_the_parents_answer(void **state)
{
    (void)state;
    bench_policy("");
    childs = waiting();
    assert_int_equal(child_run(child_reads, NULL), 0);
    SUCCEEDED(1);
    /* The next request is a call, though the parent has not seen the answer. */
    program_send(childs, REQUEST);
    ADMITTED(2);
    assert_int_equal(child_run(child_hears_the_end, NULL), 0);
    NEUTRAL(NEUTRAL_STALE, 1);
    program_close(childs);
    OUTCOMES(2);
}

static void what_a_child_closes_and_how_it_ends_is_nothing_to_its_parents_calls(void **state)
{
    (void)state;
    bench_policy("");
    childs = waiting();
    assert_int_equal(child_run(child_closes, NULL), 0);
    OUTCOMES(0);
    kernel_pass_ns(NS_PER_S);
    program_close(childs);
    FAILED(FAILURE_RESPONSE_TIMEOUT, 1);
}

static void a_connection_that_was_passed_on_before_anything_was_asked_is_not_given_up(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_connected(), asked = waiting();
    connection_handed(fd);
    connection_handed(asked);
    kernel_pass_ns(NS_PER_S);
    program_close(fd);
    program_close(asked);
    NEUTRAL(NEUTRAL_UNKNOWN, 2);
    OUTCOMES(2);
}

static void a_probe_that_is_handed_to_another_program_has_succeeded(void **state)
{
    (void)state;
    bench_policy("");
    program_opens_circuit();
    kernel_pass_ns(10 * NS_PER_S);
    int fd = program_connected();
    connection_executing(false);
    assert_int_equal(counted(COUNT_PROBES_SUCCEEDED), 1);
    program_close(fd);
    assert_int_equal(counted(COUNT_OPENED), 1);
}

static void so_has_one_of_which_nobody_has_asked_whether_it_is_connected(void **state)
{
    (void)state;
    bench_policy("");
    program_opens_circuit();
    kernel_pass_ns(10 * NS_PER_S);
    int fd = program_socket(false);
    program_connect(fd, 1);
    kernel_establishes(fd);
    connection_executing(false);
    assert_int_equal(counted(COUNT_PROBES_SUCCEEDED), 1);
}

static void a_probe_whose_descriptor_an_exec_closes_is_not_handed_on(void **state)
{
    (void)state;
    bench_policy("");
    program_opens_circuit();
    kernel_pass_ns(10 * NS_PER_S);
    int fd = program_connected();
    kernel.close_on_exec[fd] = true;
    connection_executing(false);
    assert_int_equal(counted(COUNT_PROBES_SUCCEEDED), 0);
}

/* --- the program's end --- */

static void at_a_good_end_who_waits_for_an_answer_has_not_given_it_up(void **state)
{
    (void)state;
    bench_policy("");
    waiting();
    int fd = program_socket(false);
    program_connect(fd, 1);
    kernel_pass_ns(NS_PER_S);
    program_exit(0);
    NEUTRAL(NEUTRAL_UNKNOWN, 1);
    FAILED(FAILURE_CONNECT_TIMEOUT, 1);
    OUTCOMES(2);
}

static void at_a_bad_end_it_has(void **state)
{
    (void)state;
    bench_policy("");
    waiting();
    program_exit(1);
    FAILED(FAILURE_RESPONSE_TIMEOUT, 1);
    OUTCOMES(1);
}

#define PARTS_NS (PARTING_NS / 2)

static void a_program_that_is_stopped_gives_nothing_up(void **state)
{
    (void)state;
    bench_policy("");
    int fd = waiting();
    stopping_note_signal(SIGTERM);
    program_close(fd);
    OUTCOMES(0);
    kernel_pass_ns(PARTS_NS);
    program_exit(128 + SIGTERM);
    NEUTRAL(NEUTRAL_UNKNOWN, 1);
    OUTCOMES(1);
}

static void at_the_end_to_which_a_signal_leads_who_waits_has_given_nothing_up_either(void **state)
{
    (void)state;
    bench_policy("");
    waiting();
    stopping_note_signal(SIGTERM);
    kernel_pass_ns(PARTS_NS);
    program_exit(1);
    FAILED(FAILURE_RESPONSE_TIMEOUT, 0);
    NEUTRAL(NEUTRAL_UNKNOWN, 1);
}

static void one_that_lives_on_has_lost_its_patience(void **state)
{
    (void)state;
    bench_policy("");
    kernel_pass_ns(60 * NS_PER_S);
    int fd = waiting();
    stopping_note_signal(SIGTERM);
    program_close(fd);
    OUTCOMES(0);
    kernel_pass_ns(NS_PER_S);
    program_close(program_connected());
    FAILED(FAILURE_RESPONSE_TIMEOUT, 1);
    OUTCOMES(2);
}

/* --- jumps --- */

/* A handler of a signal jumped out of connect behind the entry: the number was closed by another way since. */
static void what_a_jump_left_without_a_number_is_given_back_by_later_attempts(void **state)
{
    descriptor former;
    (void)state;
    bench_policy("");
    int fd = waiting();
    assert_true(descriptor_set(fd, 0, &former));
    kernel_close(fd);
    for (unsigned int round = 0; round < 4; round++) {
        kernel_pass_ns(2 * NS_PER_S);
        program_close(program_connected());
    }
    ADMITTED(5);
    OUTCOMES(5);
    NEUTRAL(NEUTRAL_UNKNOWN, 1);
}

/* The word of the state says that a call is in flight, and the record that it is over: a jump between the two. */
static void a_request_begins_a_call_whatever_a_jump_left(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_kept();
    struct connection *connection = bench_connection(fd);
    struct observation seen = {.seen = SEEN_BYTES};
    program_send(fd, REQUEST);
    guard_settle(&bench_station.guard, connection->place.call, connection_target(connection), 0, &seen,
                 clock_circuit_ns());
    program_calls(fd, REQUEST, ANSWER);
    ADMITTED(3);
    SUCCEEDED(3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH_WAYS(the_close_of_one_number_of_two_is_not_the_end),
        BOTH_WAYS(numbers_that_a_socket_had_before_its_connect_are_numbers_of_the_connection),
        BOTH_WAYS(a_dup_over_a_number_ends_what_it_was),
        BOTH_WAYS(a_range_that_is_closed_ends_all_in_it),
        BOTH_WAYS(a_close_that_nobody_saw_charges_nothing),
        BOTH_WAYS(a_new_socket_under_the_number_ends_what_it_was),
        BOTH_WAYS(stdio_that_still_writes_finds_the_error_in_its_socket),
        BOTH_WAYS(a_socket_that_another_preload_puts_under_the_number_while_it_connects_goes_on_as_the_attempt),
        BOTH_WAYS(a_vforks_child_closes_nothing),
        BOTH_WAYS(what_a_child_reads_on_its_parents_connection_is_the_parents_answer),
        BOTH_WAYS(what_a_child_closes_and_how_it_ends_is_nothing_to_its_parents_calls),
        BOTH_WAYS(a_connection_that_was_passed_on_before_anything_was_asked_is_not_given_up),
        BOTH_WAYS(a_probe_that_is_handed_to_another_program_has_succeeded),
        BOTH_WAYS(so_has_one_of_which_nobody_has_asked_whether_it_is_connected),
        BOTH_WAYS(a_probe_whose_descriptor_an_exec_closes_is_not_handed_on),
        BOTH_WAYS(at_a_good_end_who_waits_for_an_answer_has_not_given_it_up),
        BOTH_WAYS(at_a_bad_end_it_has),
        BOTH_WAYS(a_program_that_is_stopped_gives_nothing_up),
        BOTH_WAYS(at_the_end_to_which_a_signal_leads_who_waits_has_given_nothing_up_either),
        BOTH_WAYS(one_that_lives_on_has_lost_its_patience),
        BOTH_WAYS(what_a_jump_left_without_a_number_is_given_back_by_later_attempts),
        BOTH_WAYS(a_request_begins_a_call_whatever_a_jump_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
