/*
 * test_outage.c - what is told of an outage at its end, of a probe that failed, and of faults on this side.
 */
#include "support_guard.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "breaker/recent_kinds.h"
#include "guard/operator.h"
#include "segment/journal.h"
#include "segment/layout.h"
#include "segment/outage.h"
#include "segment/local_faults.h"

static void refuse(struct guard_bench *bench, unsigned int count)
{
    uint32_t call;
    for (unsigned int i = 0; i < count; i++)
        assert_true(admission_refuses(bench_admit(bench, &call)));
}

static void fail_by(struct guard_bench *bench, int error, uint64_t waited_ns)
{
    uint32_t call = bench_call(bench);
    bench_settle(bench, call, SEEN_ERROR, error, waited_ns);
    bench_forget(bench, call);
}

static uint32_t probe(struct guard_bench *bench)
{
    uint32_t call;
    assert_int_equal(bench_admit(bench, &call), ADMIT_PROBE);
    return call;
}

/* The only closing there was. */
static struct event closing(const struct guard_bench *bench)
{
    struct event event;
    assert_int_equal(bench_events(bench, EVENT_CLOSE, &event), 1);
    return event;
}

static unsigned int failures_of(uint64_t recent_kinds, enum failure_kind kind)
{
    struct kind_count counts[RECENT_KINDS];
    const unsigned int count = recent_kinds_counts(recent_kinds, counts);
    for (unsigned int i = 0; i < count; i++)
        if (counts[i].kind == kind)
            return counts[i].failures;
    return 0;
}

static void the_end_of_an_outage_tells_how_long_how_many_and_why(void **state)
{
    struct guard_bench *bench = *state;
    fail_by(bench, ECONNRESET, 0); /* of another row of failures */
    bench_succeed(bench);
    fail_by(bench, ECONNREFUSED, 0);
    fail_by(bench, ECONNRESET, 0);
    fail_by(bench, ECONNREFUSED, 0);
    assert_int_equal(bench_state(bench), CIRCUIT_OPEN);
    refuse(bench, 5);
    bench->now_ns += 10 * NS_PER_S;
    uint32_t call = probe(bench);
    refuse(bench, 2);
    bench_settle(bench, call, SEEN_ERROR, ECONNREFUSED, 0);
    bench_forget(bench, call);
    bench->now_ns += 20 * NS_PER_S;
    bench_succeed(bench);

    const struct event event = closing(bench);
    assert_true(event.outage.is_known);
    assert_int_equal(event.outage.lasted_ns, 30 * NS_PER_S);
    assert_int_equal(event.outage.refused, 7);
    assert_int_equal(event.outage.probes, 2);
    assert_int_equal(event.outage.probes_failed, 1);
    assert_int_equal(event.outage.reason, REASON_FAILURE_THRESHOLD);
    assert_int_equal(event.failures, 3);
    assert_int_equal(failures_of(event.outage.recent_kinds, FAILURE_REFUSED), 2);
    assert_int_equal(failures_of(event.outage.recent_kinds, FAILURE_RESET), 1);
    assert_false(event.outage.injected);
}

static void an_outage_counts_nothing_of_the_one_before(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;
    for (unsigned int round = 1; round <= 2; round++) {
        bench_open(bench);
        refuse(bench, round);
        bench->now_ns += 10 * NS_PER_S;
        bench_succeed(bench);
        assert_int_equal(bench_events(bench, EVENT_CLOSE, &event), round);
        assert_int_equal(event.outage.refused, round);
        assert_int_equal(event.outage.probes, 1);
        assert_int_equal(event.outage.lasted_ns, 10 * NS_PER_S);
    }
    assert_int_equal(event.refused, 3); /* in all */
}

/* The ring is full of other events by then. */
static void it_is_right_though_the_journal_has_gone_on(void **state)
{
    struct guard_bench *bench = *state;
    struct event other = {.type = EVENT_PROBE};
    bench_open(bench);
    refuse(bench, 4);
    for (unsigned int i = 0; i < 2 * CAPACITY_EVENTS; i++)
        journal_append(&bench->segment, &other);
    bench->now_ns += 10 * NS_PER_S;
    bench_succeed(bench);
    const struct event event = closing(bench);
    assert_int_equal(event.outage.refused, 4);
    assert_int_equal(failures_of(event.outage.recent_kinds, FAILURE_REFUSED), 3);
}

static void an_operators_close_ends_an_outage_too(void **state)
{
    struct guard_bench *bench = *state;
    bench_open(bench);
    refuse(bench, 2);
    bench->now_ns += 3 * NS_PER_S;
    force_set(&bench->guard, "alice", bench->circuit, (struct force){FORCED_CLOSED, 0}, MODE_ENFORCE, bench->now_ns);
    const struct event event = closing(bench);
    assert_int_equal(event.reason, REASON_FORCED);
    assert_int_equal(event.outage.lasted_ns, 3 * NS_PER_S);
    assert_int_equal(event.outage.refused, 2);
    assert_int_equal(event.outage.probes, 0);
}

static void an_outage_by_a_rate_tells_what_the_window_held(void **state)
{
    struct guard_bench *bench = *state;
    bench->target.breaker.failure_threshold = 0;
    bench->target.breaker.failure_rate_permille = 500;
    bench->target.breaker.minimum_calls = 4;
    bench->target.breaker.window = 30 * NS_PER_S;
    bench_succeed(bench);
    bench_succeed(bench);
    fail_by(bench, ECONNRESET, 0);
    fail_by(bench, ECONNREFUSED, 0);
    assert_int_equal(bench_state(bench), CIRCUIT_OPEN);
    bench->now_ns += 10 * NS_PER_S;
    bench_succeed(bench);
    const struct event event = closing(bench);
    assert_int_equal(event.outage.reason, REASON_FAILURE_RATE);
    assert_int_equal(event.window_calls, 4);
    assert_int_equal(event.window_failed, 2);
    assert_int_equal(failures_of(event.outage.recent_kinds, FAILURE_RESET), 1);
    assert_int_equal(failures_of(event.outage.recent_kinds, FAILURE_REFUSED), 1);
}

/* Found a while later, as of the limit: the outage has lasted since then. */
static void an_outage_begins_when_the_overdue_call_failed_and_not_when_it_was_found(void **state)
{
    struct guard_bench *bench = *state;
    bench->target.breaker.failure_threshold = 1;
    uint32_t hangs = bench_call(bench), call;
    struct event event;
    bench->now_ns += 14 * NS_PER_S; /* connect_timeout is 10 s */
    assert_true(admission_refuses(bench_admit(bench, &call)));
    /* The journal has when that was found, and how long after. */
    assert_int_equal(bench_events(bench, EVENT_OPEN, &event), 1);
    assert_int_equal(event.mono_ns, bench->now_ns);
    assert_int_equal(event.elapsed_ms, 4000);
    bench->now_ns += 6 * NS_PER_S;
    bench_succeed(bench);
    bench_events(bench, EVENT_CLOSE, &event);
    assert_int_equal(event.elapsed_ms, 0);
    assert_int_equal(closing(bench).outage.lasted_ns, 10 * NS_PER_S);
    bench_forget(bench, hangs);
}

/* Who opened it was killed behind the step that did. */
static void an_outage_whose_beginning_nobody_wrote_down_is_unknown(void **state)
{
    struct guard_bench *bench = *state;
    bench_open(bench);
    outage_clear(bench_entry(bench));
    bench->now_ns += 10 * NS_PER_S;
    bench_succeed(bench);
    assert_false(closing(bench).outage.is_known);
}

static void a_beginning_that_was_told_at_its_end_is_never_told_again(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;
    struct outage_start start;
    bench_open(bench);
    assert_true(outage_lasts(bench_entry(bench), &start));
    bench->now_ns += 10 * NS_PER_S;
    bench_succeed(bench);
    assert_false(outage_lasts(bench_entry(bench), &start));
    const struct outage as_it_was = bench_entry(bench)->outage;
    bench_open(bench);
    bench_entry(bench)->outage = as_it_was; /* who opens is killed before it comes to write */
    bench->now_ns += 10 * NS_PER_S;
    bench_succeed(bench);
    assert_int_equal(bench_events(bench, EVENT_CLOSE, &event), 2);
    assert_false(event.outage.is_known);
}

static void a_writer_that_slept_through_its_outage_changes_no_later_one(void **state)
{
    struct guard_bench *bench = *state;
    struct circuit_entry *entry = bench_entry(bench);
    struct outage_start start, sleeper;
    bench_open(bench);
    assert_true(outage_lasts(entry, &sleeper));
    const uint32_t former = atomic_load(&entry->outage.slot.stamp.stamp);
    sleeper.refused = 1000;
    bench->now_ns += 10 * NS_PER_S;
    bench_succeed(bench);
    bench_open(bench);
    outage_begins(entry, former - 1, &sleeper);
    assert_true(outage_lasts(entry, &start));
    assert_int_not_equal(start.refused, 1000);
}

/* The next opening was written down before the one who closed came to read. */
static void one_that_closes_late_does_not_take_the_next_outage_for_its_own(void **state)
{
    struct guard_bench *bench = *state;
    struct circuit_entry *entry = bench_entry(bench);
    struct outage_start start;
    bench_open(bench);
    const uint64_t number = atomic_load(&entry->outage.slot.stamp.stamp) - 1;
    assert_false(outage_ends(entry, number, &start));
    assert_true(outage_lasts(entry, &start));
    assert_true(outage_ends(entry, number + 1, &start));
}

static void a_forgotten_circuit_has_no_outage_and_no_faults(void **state)
{
    struct guard_bench *bench = *state;
    struct local_fault_view faults[LOCAL_FAULTS];
    struct outage_start start;
    fail_by(bench, EMFILE, 0);
    bench_open(bench);
    assert_true(circuits_forget(&bench->segment, bench->circuit, true, bench->now_ns));
    assert_false(outage_lasts(bench_entry(bench), &start));
    assert_int_equal(atomic_load(&bench_entry(bench)->outage.slot.stamp.stamp), 0);
    assert_int_equal(local_faults_read(bench_entry(bench), faults), 0);
    assert_int_equal(atomic_load(&bench_entry(bench)->circuit.recent_kinds), 0);
}

/* --- probes ------------------------------------------------------------------------------------------------------- */

static struct event opening(const struct guard_bench *bench, unsigned int count)
{
    struct event event;
    assert_int_equal(bench_events(bench, EVENT_OPEN, &event), count);
    return event;
}

static void a_failed_probe_tells_how_it_failed(void **state)
{
    struct guard_bench *bench = *state;
    bench_open(bench);
    bench->now_ns += 10 * NS_PER_S;
    uint32_t call = probe(bench);
    bench_settle(bench, call, SEEN_ERROR, ECONNRESET, 70 * NS_PER_MS);
    bench_forget(bench, call);
    struct event event = opening(bench, 2);
    assert_int_equal(event.reason, REASON_PROBE_FAILED);
    assert_int_equal(event.attempts[0].kind, FAILURE_RESET);
    assert_int_equal(event.attempts[0].error, ECONNRESET);
    assert_int_equal(event.attempts[0].elapsed_ms, 70);
    assert_int_equal(event.attempts[1].kind, FAILURE_NONE);

    bench->now_ns += 20 * NS_PER_S;
    call = probe(bench);
    bench_settle(bench, call, SEEN_ERROR, ECONNREFUSED, 3 * NS_PER_MS);
    bench_forget(bench, call);
    event = opening(bench, 3);
    assert_int_equal(event.attempts[0].kind, FAILURE_REFUSED); /* and nothing of the former probe */
    assert_int_equal(event.attempts[1].kind, FAILURE_NONE);
}

static void a_probe_of_two_addresses_tells_both(void **state)
{
    static const uint64_t both[] = {ADDRESS_A, ADDRESS_B};
    struct guard_bench *bench = *state;
    uint32_t first, second;
    bench_open(bench);
    bench->now_ns += 10 * NS_PER_S;
    assert_int_equal(bench_admit_to(bench, ADDRESS_A, both, 2, &first), ADMIT_PROBE);
    bench_settle(bench, first, SEEN_ERROR, ECONNREFUSED, NS_PER_MS);
    bench_forget(bench, first);
    assert_int_equal(bench_admit_to(bench, ADDRESS_B, both, 2, &second), ADMIT_PROBE);
    bench_connected(bench, second);
    bench_requested(bench, second);
    bench_settle(bench, second, SEEN_ERROR, ECONNRESET, 2 * NS_PER_MS);
    bench_forget(bench, second);
    const struct event event = opening(bench, 2);
    assert_int_equal(event.attempts[0].kind, FAILURE_REFUSED);
    assert_int_equal(event.attempts[1].kind, FAILURE_RESET);
    assert_int_equal(event.attempts[1].elapsed_ms, 2);
    assert_int_equal(event.attempts[2].kind, FAILURE_NONE);
}

/* The rest of it hangs. */
static void a_probe_whose_time_ran_out_tells_what_had_failed(void **state)
{
    static const uint64_t both[] = {ADDRESS_A, ADDRESS_B};
    struct guard_bench *bench = *state;
    uint32_t first, second, other;
    bench->target.connect_timeout_ns = 3600 * NS_PER_S;
    bench_open(bench);
    bench->now_ns += 10 * NS_PER_S;
    assert_int_equal(bench_admit_to(bench, ADDRESS_A, both, 2, &first), ADMIT_PROBE);
    bench_settle(bench, first, SEEN_ERROR, ECONNREFUSED, NS_PER_MS);
    bench_forget(bench, first);
    assert_int_equal(bench_admit_to(bench, ADDRESS_B, both, 2, &second), ADMIT_PROBE);
    bench->now_ns += 11 * NS_PER_S;
    assert_true(admission_refuses(bench_admit(bench, &other)));
    const struct event event = opening(bench, 2);
    assert_int_equal(event.reason, REASON_PROBE_TIMEOUT);
    assert_int_equal(event.attempts[0].kind, FAILURE_REFUSED);
    assert_int_equal(event.attempts[1].kind, FAILURE_NONE);
    bench_forget(bench, second);
}

/* --- what did not count ------------------------------------------------------------------------------------------- */

static void a_failure_of_a_call_that_passed_an_open_circuit_says_so(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;
    bench_open(bench);
    bench->target.mode = MODE_OBSERVE;
    fail_by(bench, ECONNREFUSED, 0);
    bench_events(bench, EVENT_FAILURE, &event);
    assert_true(event.passed);
    assert_false(event.late);
}

/* --- faults on this side ------------------------------------------------------------------------------------------ */

static void faults_on_this_side_are_counted_by_errno_with_who_and_when(void **state)
{
    struct guard_bench *bench = *state;
    struct local_fault_view faults[LOCAL_FAULTS];
    fail_by(bench, EADDRNOTAVAIL, 0);
    fail_by(bench, EMFILE, 0);
    bench->now_ns += NS_PER_S;
    fail_by(bench, EADDRNOTAVAIL, 0);
    assert_int_equal(local_faults_read(bench_entry(bench), faults), 2);
    assert_int_equal(faults[0].error, EADDRNOTAVAIL);
    assert_int_equal(faults[0].count, 2);
    assert_int_equal(faults[0].pid, getpid());
    assert_string_equal(faults[0].program, "bench");
    assert_int_equal(faults[0].mono_ns, bench->now_ns);
    assert_int_equal(faults[1].error, EMFILE);
    assert_int_equal(faults[1].count, 1);
}

static void what_the_peer_did_is_no_fault_on_this_side(void **state)
{
    struct guard_bench *bench = *state;
    struct local_fault_view faults[LOCAL_FAULTS];
    bench_fail(bench);
    bench_succeed(bench);
    assert_int_equal(local_faults_read(bench_entry(bench), faults), 0);
}

static void more_kinds_of_faults_than_places_share_the_last_one(void **state)
{
    struct guard_bench *bench = *state;
    struct local_fault_view faults[LOCAL_FAULTS];
    const struct local_fault_view any = {.pid = 7, .program = "any"};
    for (int error = 1; error <= 20; error++) {
        struct local_fault_view fault = any;
        fault.error = error;
        local_fault_note(bench_entry(bench), &fault);
    }
    assert_int_equal(local_faults_read(bench_entry(bench), faults), LOCAL_FAULTS);
    assert_int_equal(faults[LOCAL_FAULTS - 1].error, 0);
    assert_int_equal(faults[LOCAL_FAULTS - 1].count, 20 - (LOCAL_FAULTS - 1));
}

/* Of two that write at once, the name of one may stand beside the pid of the other. */
static void a_program_that_does_not_belong_to_its_pid_is_not_told(void **state)
{
    struct guard_bench *bench = *state;
    struct local_fault_view faults[LOCAL_FAULTS];
    fail_by(bench, EMFILE, 0);
    memcpy(bench_entry(bench)->local_faults[0].program, "other", 6);
    assert_int_equal(local_faults_read(bench_entry(bench), faults), 1);
    assert_string_equal(faults[0].program, "");
    assert_int_equal(faults[0].pid, getpid());
}

static void any_bytes_in_the_tables_are_harmless(void **state)
{
    struct guard_bench *bench = *state;
    struct circuit_entry *entry = bench_entry(bench);
    struct local_fault_view faults[LOCAL_FAULTS];
    struct event_attempt attempts[EVENT_ATTEMPTS];
    struct outage_start start;
    const struct event_attempt refused = {.kind = FAILURE_REFUSED, .error = 111, .elapsed_ms = 3};
    outage_note_attempt(entry, 7, &refused);
    memset(attempts, 0, sizeof attempts);
    assert_int_equal(outage_attempts(entry, 8, attempts), 0);
    assert_int_equal(attempts[0].kind, FAILURE_NONE); /* of another probe nothing at all */
    assert_int_equal(outage_attempts(entry, 7, attempts), 1);
    memset(&entry->outage, 0xff, sizeof entry->outage);
    memset(entry->local_faults, 0xff, sizeof entry->local_faults);
    assert_false(outage_ends(entry, 1, &start));
    assert_true(outage_attempts(entry, UINT64_MAX, attempts) <= EVENT_ATTEMPTS);
    const unsigned int count = local_faults_read(entry, faults);
    for (unsigned int i = 0; i < count; i++)
        assert_true(strnlen(faults[i].program, PROGRAM_NAME_MAX) < PROGRAM_NAME_MAX);
    fail_by(bench, EMFILE, 0);
    bench_open(bench);
    bench->now_ns += 10 * NS_PER_S;
    bench_succeed(bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GUARD_TEST(the_end_of_an_outage_tells_how_long_how_many_and_why),
        GUARD_TEST(an_outage_counts_nothing_of_the_one_before),
        GUARD_TEST(it_is_right_though_the_journal_has_gone_on),
        GUARD_TEST(an_operators_close_ends_an_outage_too),
        GUARD_TEST(an_outage_by_a_rate_tells_what_the_window_held),
        GUARD_TEST(an_outage_begins_when_the_overdue_call_failed_and_not_when_it_was_found),
        GUARD_TEST(an_outage_whose_beginning_nobody_wrote_down_is_unknown),
        GUARD_TEST(a_beginning_that_was_told_at_its_end_is_never_told_again),
        GUARD_TEST(a_writer_that_slept_through_its_outage_changes_no_later_one),
        GUARD_TEST(one_that_closes_late_does_not_take_the_next_outage_for_its_own),
        GUARD_TEST(a_forgotten_circuit_has_no_outage_and_no_faults),
        GUARD_TEST(a_failed_probe_tells_how_it_failed),
        GUARD_TEST(a_probe_of_two_addresses_tells_both),
        GUARD_TEST(a_probe_whose_time_ran_out_tells_what_had_failed),
        GUARD_TEST(a_failure_of_a_call_that_passed_an_open_circuit_says_so),
        GUARD_TEST(faults_on_this_side_are_counted_by_errno_with_who_and_when),
        GUARD_TEST(what_the_peer_did_is_no_fault_on_this_side),
        GUARD_TEST(more_kinds_of_faults_than_places_share_the_last_one),
        GUARD_TEST(a_program_that_does_not_belong_to_its_pid_is_not_told),
        GUARD_TEST(any_bytes_in_the_tables_are_harmless),
    };
    return cmocka_run_group_tests_name("outage", tests, NULL, NULL);
}
