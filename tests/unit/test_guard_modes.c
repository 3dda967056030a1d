/*
 * test_guard_modes.c - targets that observe, are forced open or closed; and what the journal and the log say of it.
 */
#define _GNU_SOURCE
#include "support_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "segment/journal.h"
#include "segment/layout.h"
#include "base/log.h"

static void observe_counts_and_records_and_never_refuses(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;

    bench->target.mode = MODE_OBSERVE;
    bench_open(bench);
    for (unsigned int i = 0; i < 5; i++) {
        uint32_t call = bench_call(bench);
        assert_int_equal(bench_settle(bench, call, SEEN_BYTES, 0, 0).verdict, VERDICT_SUCCESS);
        bench_forget(bench, call);
    }
    assert_int_equal(bench_state(bench), CIRCUIT_OPEN);
    assert_int_equal(bench_sum(bench, COUNT_REFUSED), 5);
    assert_int_equal(bench_sum(bench, COUNT_REFUSED_BY), 5);
    assert_int_equal(bench_sum(bench, COUNT_LATE), 0);
    assert_int_equal(bench_sum(bench, COUNT_SUCCEEDED), 5);
    assert_int_equal(bench_sum(bench, COUNT_ADMITTED), 8);
    assert_int_equal(bench_events(bench, EVENT_OPEN, NULL), 1);
    assert_int_equal(bench_events(bench, EVENT_REFUSED, NULL), 1);

    bench->now_ns += 10 * NS_PER_S;
    bench_succeed(bench);
    assert_int_equal(bench_events(bench, EVENT_HALF_OPEN, NULL), 1);
    assert_int_equal(bench_events(bench, EVENT_CLOSE, &event), 1);
    assert_int_equal(bench_state(bench), CIRCUIT_CLOSED);
}

static void every_outcome_is_recorded_where_the_policy_says_so(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;

    bench_succeed(bench);
    bench_fail(bench);
    assert_int_equal(bench_events(bench, EVENT_OUTCOME, NULL), 0);
    bench->target.all_recorded = true;
    bench_succeed(bench);
    assert_int_equal(bench_events(bench, EVENT_OUTCOME, &event), 1);
    assert_int_equal(event.verdict, VERDICT_SUCCESS);
    bench_fail(bench);
    assert_int_equal(bench_events(bench, EVENT_OUTCOME, &event), 2);
    assert_int_equal(event.verdict, VERDICT_FAILURE);
    assert_int_equal(event.kind, FAILURE_REFUSED);
    assert_int_equal(event.error, ECONNREFUSED);
    assert_int_equal(bench_events(bench, EVENT_FAILURE, NULL), 2);
    bench_forget(bench, bench_call(bench)); /* nobody saw its end */
    assert_int_equal(bench_events(bench, EVENT_OUTCOME, &event), 3);
    assert_int_equal(event.verdict, VERDICT_NEUTRAL);
    assert_int_equal(event.reason, NEUTRAL_UNKNOWN);

    bench->target.breaker.slow_call_ns = NS_PER_S;
    uint32_t call = bench_call(bench);
    bench_requested(bench, call);
    assert_int_equal(bench_settle(bench, call, SEEN_BYTES, 0, 1500 * NS_PER_MS).verdict, VERDICT_SUCCESS);
    bench_forget(bench, call);
    assert_int_equal(bench_events(bench, EVENT_OUTCOME, &event), 4);
    assert_int_equal(event.elapsed_ms, 1500);
    assert_true(event.slow);

    /* What was never admitted has no outcome. */
    bench_open(bench);
    unsigned int before = bench_events(bench, EVENT_OUTCOME, NULL);
    assert_int_equal(bench_admit(bench, &call), ADMIT_REFUSED_OPEN);
    assert_int_equal(bench_events(bench, EVENT_OUTCOME, NULL), before);
}

static void what_observe_let_pass_is_counted_by_what_became_of_it(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;

    bench->target.mode = MODE_OBSERVE;
    bench_open(bench);
    uint32_t call = bench_call(bench);
    assert_int_equal(bench_settle(bench, call, SEEN_ERROR, ECONNRESET, 0).verdict, VERDICT_FAILURE);
    bench_forget(bench, call);
    bench_forget(bench, bench_call(bench)); /* nobody saw its end */
    call = bench_call(bench);
    bench->now_ns += 10 * NS_PER_S; /* the pause is over, and the call is overdue */
    uint32_t probe;
    assert_int_equal(bench_admit(bench, &probe), ADMIT_PROBE);
    bench_forget(bench, probe);
    bench_forget(bench, call);
    assert_int_equal(bench_sum(bench, COUNT_FAILED), 3 + 2);
    assert_int_equal(bench_sum(bench, COUNT_FAILURE_KIND + FAILURE_RESET), 1);
    assert_int_equal(bench_sum(bench, COUNT_FAILURE_KIND + FAILURE_CONNECT_TIMEOUT), 1);
    assert_int_equal(bench_sum(bench, COUNT_OVERDUE), 1);
    assert_int_equal(bench_sum(bench, COUNT_NEUTRAL), 2);
    assert_int_equal(bench_sum(bench, COUNT_LATE), 0);
    assert_int_equal(bench_sum(bench, COUNT_OPENED), 1);
    /* It is the destination's last failure all the same. */
    assert_true(circuits_last_failure(&bench->segment, bench->circuit, &event));
    assert_int_equal(event.kind, FAILURE_CONNECT_TIMEOUT);
    assert_int_equal(bench_events(bench, EVENT_FAILURE, NULL), 5);
}

static void a_call_that_observe_let_pass_changes_nothing_in_half_open(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t probe;

    bench->target.mode = MODE_OBSERVE;
    bench->target.connect_timeout_ns = 60 * NS_PER_S;
    bench_open(bench);
    uint32_t shadow = bench_call(bench);
    bench->now_ns += 10 * NS_PER_S;
    assert_int_equal(bench_admit(bench, &probe), ADMIT_PROBE);
    uint32_t other = bench_call(bench);
    assert_int_equal(bench_settle(bench, shadow, SEEN_BYTES, 0, 0).verdict, VERDICT_SUCCESS);
    assert_int_equal(bench_settle(bench, other, SEEN_ERROR, ECONNRESET, 0).verdict, VERDICT_FAILURE);
    assert_int_equal(bench_state(bench), CIRCUIT_HALF_OPEN);
    bench_forget(bench, probe);
    bench_forget(bench, shadow);
    bench_forget(bench, other);
}

static void open_always_refuses_without_asking_the_circuit(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;
    uint32_t call;

    bench->target.mode = MODE_OPEN;
    for (unsigned int i = 0; i < 3; i++) {
        assert_int_equal(bench_admit(bench, &call), ADMIT_REFUSED_OPEN);
        assert_int_equal(call, CALL_NONE);
    }
    assert_int_equal(bench_state(bench), CIRCUIT_CLOSED);
    assert_int_equal(bench_sum(bench, COUNT_REFUSED), 3);
    assert_int_equal(bench_sum(bench, COUNT_ADMITTED), 0);
    assert_int_equal(bench_events(bench, EVENT_REFUSED, &event), 1);
    bench->circuit = CIRCUIT_INDEX_NONE;
    assert_int_equal(bench_admit(bench, &call), ADMIT_REFUSED_OPEN);
    bench->circuit = circuits_find(&bench->segment, BENCH_TARGET, BENCH_DESTINATION, bench->now_ns);
}

static void closed_counts_failures_and_never_opens(void **state)
{
    struct guard_bench *bench = *state;

    bench->target.mode = MODE_CLOSED;
    for (unsigned int i = 0; i < 100; i++)
        bench_fail(bench);
    assert_int_equal(bench_sum(bench, COUNT_FAILED), 100);
    assert_int_equal(bench_sum(bench, COUNT_OPENED), 0);
    assert_int_equal(bench_state(bench), CIRCUIT_CLOSED);
    bench->now_ns += NS_PER_S;
    uint32_t call = bench_call(bench);
    bench->now_ns += 10 * NS_PER_S; /* overdue: neither does this open it */
    bench_succeed(bench);
    assert_int_equal(bench_sum(bench, COUNT_OVERDUE), 1);
    assert_int_equal(bench_state(bench), CIRCUIT_CLOSED);
    bench_forget(bench, call);
}

static void closed_lets_pass_what_an_open_circuit_would_refuse(void **state)
{
    struct guard_bench *bench = *state;

    bench_open(bench);
    bench->target.mode = MODE_CLOSED;
    bench_succeed(bench);
    bench_fail(bench);
    assert_int_equal(bench_sum(bench, COUNT_SUCCEEDED), 1);
    assert_int_equal(bench_sum(bench, COUNT_FAILED), 3 + 1);
    assert_int_equal(bench_sum(bench, COUNT_LATE), 0);
    assert_int_equal(bench_state(bench), CIRCUIT_OPEN);
}

static void a_destination_without_a_circuit_passes_unguarded(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t own = bench->circuit, call;

    bench->circuit = CIRCUIT_INDEX_NONE;
    assert_int_equal(bench_admit(bench, &call), ADMIT_PASS);
    assert_int_equal(call, CALL_NONE);
    bench->circuit = own;
    assert_int_equal(bench_sum(bench, COUNT_ADMITTED), 0);
}

/* --- the first refusal --- */

static void each_opening_has_its_first_refusal_in_the_journal(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;
    uint32_t call;

    for (unsigned int opening = 1; opening <= 3; opening++) {
        if (opening == 1)
            bench_open(bench);
        else
            bench_fail(bench); /* the probe */
        for (unsigned int i = 0; i < 10; i++)
            assert_int_equal(bench_admit(bench, &call), ADMIT_REFUSED_OPEN);
        assert_int_equal(bench_events(bench, EVENT_REFUSED, &event), opening);
        assert_int_equal(event.reason, ADMIT_REFUSED_OPEN);
        bench->now_ns += 60 * NS_PER_S;
    }
}

static void a_first_refusal_beside_a_probe_is_noted_too(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;
    uint32_t probe, call;

    bench_open(bench);
    bench->now_ns += 10 * NS_PER_S;
    assert_int_equal(bench_admit(bench, &probe), ADMIT_PROBE);
    assert_int_equal(bench_admit(bench, &call), ADMIT_REFUSED_HALF_OPEN);
    assert_int_equal(bench_admit(bench, &call), ADMIT_REFUSED_HALF_OPEN);
    assert_int_equal(bench_events(bench, EVENT_REFUSED, &event), 1);
    assert_int_equal(event.reason, ADMIT_REFUSED_HALF_OPEN);
    bench_forget(bench, probe);
}

enum { ROUNDS = 3000 };
static _Atomic unsigned int round_begun, round_ended;

static void *refused_each_round(void *context)
{
    struct guard_bench *bench = context;
    uint32_t call;

    for (unsigned int round = 1; round <= ROUNDS; round++) {
        while (atomic_load(&round_begun) < round)
            sched_yield();
        bench_admit(bench, &call);
        bench_admit(bench, &call);
        atomic_store(&round_ended, round);
    }
    return NULL;
}

static void of_many_who_are_refused_at_once_one_notes_it(void **state)
{
    struct guard_bench *bench = *state;
    struct circuit_entry *entry = circuits_entry(&bench->segment, bench->circuit);
    pthread_t thread;
    uint32_t call;

    bench_open(bench);
    assert_int_equal(pthread_create(&thread, NULL, refused_each_round, bench), 0);
    for (unsigned int round = 1; round <= ROUNDS; round++) {
        uint64_t before = journal_head(&bench->segment);

        atomic_store(&entry->refusal_noted, 0); /* as after an opening */
        atomic_store(&round_begun, round);
        for (volatile unsigned int pause = 0; pause < round % 64; pause++) {
        }
        bench_admit(bench, &call);
        while (atomic_load(&round_ended) < round)
            sched_yield();
        assert_int_equal(journal_head(&bench->segment), before + 1);
    }
    pthread_join(thread, NULL);
    assert_int_equal(bench_sum(bench, COUNT_REFUSED), ROUNDS * 3);
}

/* --- the log --- */

static size_t read_back(const char *file, char *text, size_t size)
{
    int descriptor = open(file, O_RDONLY | O_CLOEXEC);
    ssize_t length = descriptor >= 0 ? read(descriptor, text, size - 1) : -1;

    if (descriptor >= 0)
        close(descriptor);
    text[length > 0 ? length : 0] = '\0';
    return length > 0 ? (size_t)length : 0;
}

static void name_log(struct guard_bench *bench)
{
    snprintf(bench->log, sizeof bench->log, "%s/log", bench->folder);
}

static unsigned int lines_of(const char *text)
{
    unsigned int count = 0;

    for (; *text != '\0'; text++)
        count += *text == '\n';
    return count;
}

static void the_log_has_a_line_for_each_transition_and_nothing_else(void **state)
{
    struct guard_bench *bench = *state;
    char text[8192];
    struct stat made;
    uint32_t call;

    mode_t mask = umask(027);
    name_log(bench);
    bench_open(bench);
    umask(mask);
    bench_admit(bench, &call);
    bench->now_ns += 10 * NS_PER_S;
    bench_succeed(bench);
    read_back(bench->log, text, sizeof text);
    assert_int_equal(lines_of(text), 3);
    const char *open = strstr(text, "\"event\":\"open\""), *half_open = strstr(text, "\"event\":\"half-open\""),
               *close = strstr(text, "\"event\":\"close\"");
    assert_true(open != NULL && half_open > open && close > half_open);
    assert_non_null(strstr(text, "\"destination\":\"" BENCH_DESTINATION "\""));
    assert_int_equal(stat(bench->log, &made), 0);
    assert_int_equal(made.st_mode & 0777, 0640);
}

static void a_line_of_the_log_is_one_write(void **state)
{
    struct guard_bench *bench = *state;
    char text[PIPE_BUF + 1];
    int packets[2];

    /* A pipe in packet mode gives one write for each read. */
    assert_int_equal(pipe(packets), 0);
    assert_int_equal(fcntl(packets[1], F_SETFL, O_DIRECT), 0);
    int own = dup(STDERR_FILENO);
    dup2(packets[1], STDERR_FILENO);
    log_begin();
    strcpy(bench->log, "stderr");
    bench_open(bench);
    bench->now_ns += 10 * NS_PER_S;
    bench_succeed(bench);
    dup2(own, STDERR_FILENO);
    close(own);
    close(packets[1]);
    for (unsigned int i = 0; i < 3; i++) {
        ssize_t length = read(packets[0], text, sizeof text - 1);

        assert_true(length > 0 && text[length - 1] == '\n' && text[0] == '{');
        text[length] = '\0';
        assert_int_equal(lines_of(text), 1);
    }
    assert_int_equal(read(packets[0], text, sizeof text), 0);
    close(packets[0]);
}

static void a_log_that_nobody_reads_neither_stops_nor_kills_the_host(void **state)
{
    struct guard_bench *bench = *state;
    int broken[2];
    sigset_t pending;

    /* A FIFO without a reader. */
    name_log(bench);
    assert_int_equal(mkfifo(bench->log, 0600), 0);
    bench_open(bench);

    /* A standard error whose reader has gone: a write there raises SIGPIPE. */
    strcpy(bench->log, "stderr");
    assert_int_equal(pipe(broken), 0);
    close(broken[0]);
    int own = dup(STDERR_FILENO);
    dup2(broken[1], STDERR_FILENO);
    log_begin();
    close(broken[1]);
    bench->now_ns += 10 * NS_PER_S;
    bench_succeed(bench);
    dup2(own, STDERR_FILENO);
    close(own);
    assert_int_equal(sigpending(&pending), 0);
    assert_false(sigismember(&pending, SIGPIPE));

    /* A file at the limit of its size. */
    struct rlimit limit, small;
    getrlimit(RLIMIT_FSIZE, &limit);
    snprintf(bench->log, sizeof bench->log, "%s/full", bench->folder);
    small = (struct rlimit){.rlim_cur = 1, .rlim_max = limit.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    bench_open(bench);
    bench->now_ns += 10 * NS_PER_S;
    bench_succeed(bench);
    setrlimit(RLIMIT_FSIZE, &limit);
    assert_int_equal(sigpending(&pending), 0);
    assert_false(sigismember(&pending, SIGXFSZ));
}

static void the_log_keeps_a_pending_signal_and_the_mask_of_the_host(void **state)
{
    struct guard_bench *bench = *state;
    sigset_t own, pipe_only, mask, pending;
    int broken[2];

    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    sigprocmask(SIG_BLOCK, &pipe_only, &own);
    raise(SIGPIPE);
    assert_int_equal(pipe(broken), 0);
    close(broken[0]);
    int stderr_copy = dup(STDERR_FILENO);
    dup2(broken[1], STDERR_FILENO);
    close(broken[1]);
    log_begin();
    strcpy(bench->log, "stderr");
    bench_open(bench);
    dup2(stderr_copy, STDERR_FILENO);
    close(stderr_copy);
    sigpending(&pending);
    assert_true(sigismember(&pending, SIGPIPE));
    sigprocmask(SIG_SETMASK, NULL, &mask);
    assert_true(sigismember(&mask, SIGPIPE));
    assert_false(sigismember(&mask, SIGXFSZ));
    signal(SIGPIPE, SIG_IGN); /* drops it */
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &own, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GUARD_TEST(observe_counts_and_records_and_never_refuses),
        GUARD_TEST(every_outcome_is_recorded_where_the_policy_says_so),
        GUARD_TEST(what_observe_let_pass_is_counted_by_what_became_of_it),
        GUARD_TEST(a_call_that_observe_let_pass_changes_nothing_in_half_open),
        GUARD_TEST(open_always_refuses_without_asking_the_circuit),
        GUARD_TEST(closed_counts_failures_and_never_opens),
        GUARD_TEST(closed_lets_pass_what_an_open_circuit_would_refuse),
        GUARD_TEST(a_destination_without_a_circuit_passes_unguarded),
        GUARD_TEST(each_opening_has_its_first_refusal_in_the_journal),
        GUARD_TEST(a_first_refusal_beside_a_probe_is_noted_too),
        GUARD_TEST(of_many_who_are_refused_at_once_one_notes_it),
        GUARD_TEST(the_log_has_a_line_for_each_transition_and_nothing_else),
        GUARD_TEST(a_line_of_the_log_is_one_write),
        GUARD_TEST(a_log_that_nobody_reads_neither_stops_nor_kills_the_host),
        GUARD_TEST(the_log_keeps_a_pending_signal_and_the_mask_of_the_host),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
