/*
 * test_connection_retries.c - a connect that failed is made again, on a kernel that goes by a script. links: connection
 */
#include "support_engine.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define MS NS_PER_MS
#define RETRY "retry = 2\nretry_budget = 100%\n"
#define NO_RATE "failure_threshold = 1000\nfailure_rate = 0%\n"

/* What connect says after so many attempts that ended so. The socket stays. */
static int fd;
static int try_to(unsigned int last, int ends, unsigned int attempts)
{
    kernel.connect_ends = ends;
    kernel.connect_ends_again = attempts - 1;
    kernel.connects = kernel.sleeps = 0;
    int result = program_connect(fd, last);
    kernel.connect_ends = KERNEL_AS_USUAL;
    kernel.connect_ends_again = 0;
    return result < 0 ? errno : 0;
}

static int try(int ends, unsigned int attempts)
{
    fd = program_socket(true);
    return try_to(1, ends, attempts);
}

static void what_fails_technically_is_made_again_and_each_attempt_is_a_call(void **state)
{
    static const struct {
        int error;
        unsigned int kind;
    } rows[] = {{ECONNREFUSED, FAILURE_REFUSED},    {EHOSTUNREACH, FAILURE_UNREACHABLE},
                {ENETUNREACH, FAILURE_UNREACHABLE}, {ECONNRESET, FAILURE_RESET},
                {EHOSTDOWN, FAILURE_UNREACHABLE},   {EPROTO, FAILURE_UNREACHABLE}};
    (void)state;
    bench_policy(RETRY NO_RATE);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t admitted = counted(COUNT_ADMITTED), failed = counted(COUNT_FAILURE_KIND + rows[i].kind);
        uint64_t retries = counted(COUNT_RETRIES);
        kernel.connect_takes_ns = 2 * MS; /* an answer of the network */
        kernel_pass_ns(80 * NS_PER_S);    /* its budget is fresh */
        assert_int_equal(try(rows[i].error, 1), 0);
        assert_int_equal(kernel.connects, 2);
        assert_int_equal(kernel.sleeps, 1);
        assert_int_equal(counted(COUNT_ADMITTED), admitted + 2);
        assert_int_equal(counted(COUNT_FAILURE_KIND + rows[i].kind), failed + 1);
        assert_int_equal(counted(COUNT_RETRIES), retries + 1);
        program_close(fd);
        assert_int_equal(try(rows[i].error, 100), rows[i].error); /* so many as there may be, and then the last error */
        assert_int_equal(kernel.connects, 3);
        assert_int_equal(counted(COUNT_FAILURE_KIND + rows[i].kind), failed + 4);
        program_close(fd);
    }
}

static void what_is_no_failure_is_not_made_again(void **state)
{
    static const int errors[] = {EADDRNOTAVAIL, EADDRINUSE, EACCES,       EPERM, EINVAL,
                                 EINTR,         ENOBUFS,    EAFNOSUPPORT, EAGAIN};
    (void)state;
    bench_policy(RETRY NO_RATE);
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        assert_int_equal(try(errors[i], 100), errors[i]);
        assert_int_equal(kernel.connects, 1);
        program_close(fd);
    }
    assert_int_equal(try(ENETUNREACH, 100), ENETUNREACH); /* at once: this host has no route */
    assert_int_equal(kernel.connects, 1);
    program_close(fd);
    bench_policy(RETRY NO_RATE "failures = reset\n");
    assert_int_equal(try(ECONNREFUSED, 100), ECONNREFUSED);
    assert_int_equal(kernel.connects, 1);
    program_close(fd);
    assert_int_equal(counted(COUNT_RETRIES), 0);
}

static void without_the_key_nothing_is_made_again(void **state)
{
    (void)state;
    bench_policy(NO_RATE);
    fd = program_socket(true);
    assert_int_equal(try_to(1, ECONNREFUSED, 100), ECONNREFUSED);
    assert_int_equal(kernel.connects, 1);
    assert_int_equal(kernel.sleeps, 0);
    program_close(fd);
}

static void what_does_not_block_is_left_alone(void **state)
{
    (void)state;
    bench_policy(RETRY NO_RATE);
    fd = program_socket(false);
    assert_int_equal(try_to(1, ECONNREFUSED, 100), ECONNREFUSED);
    assert_int_equal(kernel.connects, 1);
    assert_int_equal(try_to(1, EINPROGRESS, 100), EINPROGRESS);
    program_close(fd);
    assert_int_equal(counted(COUNT_RETRIES) + counted(COUNT_RETRIES_DENIED), 0);
}

static void waits_double_and_stay_within_their_bounds(void **state)
{
    (void)state;
    bench_policy("retry = 3\nretry_backoff = 40ms\n" NO_RATE);
    for (unsigned int round = 0; round < 20; round++) {
        kernel_pass_ns(80 * NS_PER_S);
        assert_int_equal(try(ECONNREFUSED, 100), ECONNREFUSED);
        assert_int_equal(kernel.sleeps, 3);
        for (unsigned int i = 0; i < 3; i++)
            assert_true(kernel.slept_ns[i] >= (UINT64_C(20) << i) * MS &&
                        kernel.slept_ns[i] <= (UINT64_C(40) << i) * MS);
        program_close(fd);
    }
}

static void the_circuit_that_opens_ends_it(void **state)
{
    (void)state;
    bench_policy(RETRY "failure_threshold = 2\n");
    assert_int_equal(try(ECONNREFUSED, 100), ECONNREFUSED);
    assert_int_equal(kernel.connects, 2); /* the second one opened it */
    assert_int_equal(kernel.sleeps, 1);
    assert_int_equal(counted(COUNT_OPENED), 1);
    assert_int_equal(counted(COUNT_REFUSED), 0);
    program_close(fd);
}

static void open_it(void)
{
    int other = program_socket(true);
    kernel.connect_ends = ECONNREFUSED;
    kernel.connect_ends_again = 100;
    program_connect(other, 1);
    program_close(other);
    kernel.connect_ends = KERNEL_AS_USUAL;
    kernel.connect_ends_again = 0;
}

static void the_circuit_that_others_open_meanwhile_ends_it(void **state)
{
    (void)state;
    bench_policy(RETRY "on_open = EACCES\nfallback = 10.0.0.9:1\n");
    kernel.meanwhile = open_it;
    kernel.connects = 0;
    assert_int_equal(try(ECONNREFUSED, 1), ECONNREFUSED); /* the last attempt's, and no refusal */
    assert_int_equal(counted(COUNT_OPENED), 1);
    assert_int_equal(counted(COUNT_REFUSED), 0);
    assert_int_equal(counted(COUNT_FALLBACK), 0);
    assert_int_equal(counted(COUNT_RETRIES), 1); /* the other's */
    program_close(fd);
    kernel_pass_ns(60 * NS_PER_S);
    assert_int_equal(try(ECONNREFUSED, 100), ECONNREFUSED); /* a probe is never made again */
    assert_int_equal(kernel.connects, 1);
    assert_int_equal(counted(COUNT_PROBES_FAILED), 1);
    program_close(fd);
}

static void stop_retrying(void)
{
    bench_policy(NO_RATE "mode = off\n");
}

static void policy_that_is_edited_meanwhile_ends_it(void **state)
{
    (void)state;
    bench_policy(RETRY NO_RATE);
    kernel.meanwhile = stop_retrying;
    assert_int_equal(try(ECONNREFUSED, 100), ECONNREFUSED);
    assert_int_equal(kernel.connects, 1);
    program_close(fd);
}

/* --- the program's own patience --- */

static int patient(uint64_t wait_ms, int ends, unsigned int attempts)
{
    fd = program_socket(true);
    kernel_socket(fd)->wait_ns = wait_ms * MS;
    return try_to(1, ends, attempts);
}

static void nothing_is_made_again_beyond_the_programs_own_time_out(void **state)
{
    (void)state;
    bench_policy(RETRY NO_RATE);
    assert_int_equal(patient(50, ECONNREFUSED, 100), ECONNREFUSED); /* every wait is as long */
    assert_int_equal(kernel.connects, 1);
    assert_int_equal(kernel.sleeps, 0);
    program_close(fd);
    uint64_t began_ns = kernel.now_ns;
    assert_int_equal(patient(160, ECONNREFUSED, 100), ECONNREFUSED); /* the first may be, the second hardly */
    assert_true(kernel.connects >= 2 && kernel.now_ns - began_ns < 160 * MS);
    program_close(fd);
}

static void what_hangs_then_ends_with_what_is_left_of_it(void **state)
{
    (void)state;
    bench_policy(RETRY NO_RATE);
    kernel.meanwhile = NULL;
    fd = program_socket(true);
    kernel_socket(fd)->wait_ns = 250 * MS;
    kernel.connect_ends = ECONNREFUSED;
    uint64_t began_ns = kernel.now_ns;
    /* The second attempt is made without blocking, and nobody answers it. */
    kernel_socket(fd)->was_made_to_block = false;
    assert_int_equal(program_connect(fd, 1), -1);
    assert_int_equal(errno, EINPROGRESS); /* as the kernel says it of a time-out of the socket's own */
    assert_true(kernel.now_ns - began_ns >= 250 * MS && kernel.now_ns - began_ns <= 252 * MS);
    assert_true(kernel_socket(fd)->blocks);
    FAILED(FAILURE_CONNECT_TIMEOUT, 0); /* a part of its patience is no limit of the peer's */
    NEUTRAL(NEUTRAL_CANCELLED, 1);
    program_close(fd);
}

static void an_attempt_that_timed_out_or_took_as_long_is_not_made_again(void **state)
{
    (void)state;
    bench_policy(RETRY NO_RATE);
    kernel.connect_takes_ns = 10 * NS_PER_S;
    assert_int_equal(try(EHOSTUNREACH, 100), EHOSTUNREACH);
    assert_int_equal(kernel.connects, 1);
    program_close(fd);
    kernel.connect_takes_ns = NS_PER_S; /* the kernel's own limit may be the program's (TCP_USER_TIMEOUT) */
    assert_int_equal(try(ETIMEDOUT, 100), ETIMEDOUT);
    assert_int_equal(kernel.connects, 1);
    program_close(fd);
    kernel.connect_takes_ns = 10 * NS_PER_S - 1;
    assert_int_equal(try(EHOSTUNREACH, 100), EHOSTUNREACH);
    assert_int_equal(kernel.connects, 3);
    program_close(fd);
}

static void an_attempt_that_the_library_ended_is_made_again(void **state)
{
    (void)state;
    bench_policy(RETRY NO_RATE "enforce_timeouts = yes\nconnect_timeout = 1s\n");
    uint64_t began_ns = kernel.now_ns;
    assert_int_equal(try(EINPROGRESS, 100), ETIMEDOUT);
    assert_int_equal(kernel.connects, 3);
    FAILED(FAILURE_CONNECT_TIMEOUT, 3);
    assert_true(kernel.now_ns - began_ns >= 3 * NS_PER_S && kernel.now_ns - began_ns <= 3400 * MS);
    program_close(fd);
}

static void charge_it(void)
{
    const int ends = kernel.connect_ends;
    const unsigned int again = kernel.connect_ends_again;
    kernel.connect_ends = KERNEL_AS_USUAL;
    kernel.connect_ends_again = 0;
    kernel_pass_ns(NS_PER_S);
    program_close(program_connected()); /* which finds what is overdue */
    assert_int_equal(counted(COUNT_OVERDUE), 1);
    kernel.connect_ends = ends;
    kernel.connect_ends_again = again;
}

static void an_attempt_that_was_charged_before_the_library_ended_it_is_made_again(void **state)
{
    (void)state;
    bench_policy(RETRY NO_RATE "enforce_timeouts = yes\nconnect_timeout = 1s\n");
    kernel.meanwhile = charge_it;
    assert_int_equal(try(EINPROGRESS, 3), ETIMEDOUT);
    FAILED(FAILURE_CONNECT_TIMEOUT, 3);
    assert_int_equal(counted(COUNT_RETRIES), 2);
    program_close(fd);
}

/* --- what happens to the socket meanwhile --- */

static void close_it(void)
{
    program_close(fd);
}

static void close_it_and_use_its_number(void)
{
    program_close(fd);
    assert_int_equal(program_socket(true), fd);
}

static void overwrite_it(void)
{
    program_dup2(program_connected(), fd);
}

static void shut_it(void)
{
    program_shutdown(fd, SHUT_RDWR);
}

static void make_it_not_block(void)
{
    kernel_socket(fd)->blocks = false;
}

static void connect_it(void)
{
    assert_int_equal(program_connect(fd, 1), 0);
}

static void close_it_unseen(void)
{
    kernel_close(fd);
    assert_int_equal(kernel_make(AF_INET, SOCK_STREAM, IPPROTO_TCP), fd);
}

static void what_the_program_does_with_the_socket_meanwhile_ends_it(void **state)
{
    static void (*const acts[])(void) = {
        close_it, close_it_and_use_its_number, overwrite_it, shut_it, make_it_not_block, connect_it, close_it_unseen};
    (void)state;
    bench_policy(RETRY NO_RATE);
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
        kernel_pass_ns(80 * NS_PER_S);
        kernel.meanwhile = acts[i];
        assert_int_equal(try(ECONNREFUSED, 1), ECONNREFUSED);
        assert_int_equal(kernel.sleeps, 1);
        assert_int_equal(counted(COUNT_RETRIES), 0);
        for (int number = 0; number < KERNEL_NUMBERS; number++)
            if (kernel.numbers[number])
                program_close(number);
    }
}

static void a_signal_that_interrupts_ends_it_with_the_last_failure(void **state)
{
    (void)state;
    bench_policy(RETRY NO_RATE);
    kernel.handlers[SIGUSR1] = 4096;
    kernel.interrupts = true;
    assert_int_equal(try(ECONNREFUSED, 100), ECONNREFUSED);
    assert_int_equal(kernel.connects, 1);
    program_close(fd);
}

static int others[8];
static void take_the_room(void)
{
    kernel.connect_ends_again = 0;
    kernel.connect_ends = KERNEL_AS_USUAL;
    others[0] = program_connected();
}

static void its_room_is_others_while_it_waits(void **state)
{
    (void)state;
    bench_policy(RETRY NO_RATE "max_connections = 1\non_open = EACCES\nfallback = 10.0.0.9:1\n");
    kernel.meanwhile = take_the_room;
    assert_int_equal(try(ECONNREFUSED, 1), ECONNREFUSED); /* without room it is over, with the last failure */
    assert_int_equal(kernel.connects, 2);                 /* its own, and the other's */
    assert_int_equal(counted(COUNT_FALLBACK), 0);
    assert_int_equal(counted(COUNT_REFUSED_BY + ADMIT_REFUSED_BULKHEAD - ADMIT_REFUSED_OPEN), 1);
    assert_int_equal(counted(COUNT_RETRIES), 0);
    program_close(fd);
    program_close(others[0]);
    assert_int_equal(try(ECONNREFUSED, 1), 0);
    program_close(fd);
}

/* --- several addresses --- */

static void an_address_of_several_is_left_to_the_program_until_the_last(void **state)
{
    (void)state;
    bench_policy(RETRY NO_RATE);
    program_resolves(2);
    assert_int_equal(try(ECONNREFUSED, 1), ECONNREFUSED); /* it goes on to the second one */
    assert_int_equal(kernel.connects, 1);
    program_close(fd);
    fd = program_socket(true);
    assert_int_equal(try_to(2, ECONNREFUSED, 1), 0);
    assert_int_equal(kernel.connects, 2);
    program_calls(fd, REQUEST, ANSWER);
    program_close(fd);
    assert_int_equal(try(ECONNREFUSED, 1), ECONNREFUSED); /* and one beside one that answers is never waited for */
    assert_int_equal(kernel.connects, 1);
    program_close(fd);
}

/* --- the budget --- */

static void without_budget_it_is_the_programs_affair(void **state)
{
    (void)state;
    bench_policy("retry = 2\n" NO_RATE);
    assert_int_equal(try(ECONNREFUSED, 100), ECONNREFUSED);
    assert_int_equal(kernel.connects, 3);
    program_close(fd);
    assert_int_equal(try(ECONNREFUSED, 100), ECONNREFUSED);
    assert_int_equal(kernel.connects, 2); /* there may always be three */
    assert_int_equal(kernel.sleeps, 1);
    assert_int_equal(counted(COUNT_RETRIES), 3);
    assert_int_equal(counted(COUNT_RETRIES_DENIED), 1);
    program_close(fd);
}

static void a_rehearsals_refusal_is_made_again_too(void **state)
{
    (void)state;
    bench_policy(RETRY NO_RATE "inject = refuse at 100%\n");
    assert_int_equal(try(KERNEL_AS_USUAL, 1), ECONNREFUSED);
    assert_int_equal(counted(COUNT_INJECTED), 3);
    assert_int_equal(counted(COUNT_RETRIES), 2);
    program_close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ENGINE_TEST(what_fails_technically_is_made_again_and_each_attempt_is_a_call),
        ENGINE_TEST(what_is_no_failure_is_not_made_again),
        ENGINE_TEST(without_the_key_nothing_is_made_again),
        ENGINE_TEST(what_does_not_block_is_left_alone),
        ENGINE_TEST(waits_double_and_stay_within_their_bounds),
        ENGINE_TEST(the_circuit_that_opens_ends_it),
        ENGINE_TEST(the_circuit_that_others_open_meanwhile_ends_it),
        ENGINE_TEST(policy_that_is_edited_meanwhile_ends_it),
        ENGINE_TEST(nothing_is_made_again_beyond_the_programs_own_time_out),
        ENGINE_TEST(what_hangs_then_ends_with_what_is_left_of_it),
        ENGINE_TEST(an_attempt_that_timed_out_or_took_as_long_is_not_made_again),
        ENGINE_TEST(an_attempt_that_the_library_ended_is_made_again),
        ENGINE_TEST(an_attempt_that_was_charged_before_the_library_ended_it_is_made_again),
        ENGINE_TEST(what_the_program_does_with_the_socket_meanwhile_ends_it),
        ENGINE_TEST(a_signal_that_interrupts_ends_it_with_the_last_failure),
        ENGINE_TEST(its_room_is_others_while_it_waits),
        ENGINE_TEST(an_address_of_several_is_left_to_the_program_until_the_last),
        ENGINE_TEST(without_budget_it_is_the_programs_affair),
        ENGINE_TEST(a_rehearsals_refusal_is_made_again_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
