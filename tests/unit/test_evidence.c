/*
 * test_evidence.c - what a circuit keeps of the outcomes that its transitions are made of.
 */
#include "support_guard.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "policy/endpoint.h"
#include "segment/circuit_evidence.h"
#include "segment/layout.h"

static struct evidence_view *read_all(const struct guard_bench *bench)
{
    static struct evidence_view view;

    assert_true(evidence_read(&bench->segment, bench->circuit, &view));
    return &view;
}

static unsigned int count_in(const struct guard_bench *bench, enum evidence_ring ring)
{
    const struct evidence_view *view = read_all(bench);
    unsigned int count = 0;

    for (unsigned int i = 0; i < view->count; i++)
        count += view->at[i].ring == ring;
    return count;
}

/* The pause is over, and the probe is refused by the peer. */
static void fail_a_probe(struct guard_bench *bench)
{
    uint32_t call;

    bench->now_ns += 60 * NS_PER_S;
    assert_int_equal(bench_admit(bench, &call), ADMIT_PROBE);
    assert_int_equal(bench_settle(bench, call, SEEN_ERROR, ECONNRESET, 0).verdict, VERDICT_FAILURE);
    bench_forget(bench, call);
}

static void a_failure_is_kept_with_all_that_there_is_to_tell_of_it(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call = bench_call(bench);

    bench_requested(bench, call);
    bench->now_ns += 5;
    bench_settle(bench, call, SEEN_ERROR, ECONNRESET, 1234567);
    bench_forget(bench, call);
    const struct evidence_view *view = read_all(bench);
    assert_int_equal(view->count, 1);
    assert_int_equal(view->unreadable, 0);
    assert_false(view->has_opening);
    const struct evidence *kept = &view->at[0].evidence;
    assert_int_equal(view->at[0].ring, EVIDENCE_CLOSED);
    assert_int_equal(kept->kind, FAILURE_RESET);
    assert_int_equal(kept->error, ECONNRESET);
    assert_int_equal(kept->elapsed_ns, 1234567);
    assert_int_equal(kept->phase, PHASE_REQUESTED);
    assert_int_equal(kept->mono_ns, bench->now_ns);
    assert_int_equal(kept->counted_ns, bench->now_ns);
    assert_int_equal(kept->pid, getpid());
    assert_int_equal(kept->address, ADDRESS_A);
    assert_string_equal(kept->program, "bench");
}

static void an_overdue_call_counts_as_of_its_limit(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t hangs = bench_call(bench), other;

    bench->now_ns += 17 * NS_PER_S;
    bench_admit(bench, &other);
    bench_forget(bench, other);
    const struct evidence *kept = &read_all(bench)->at[0].evidence;
    assert_int_equal(kept->overran, OVERRAN_HANGS);
    assert_int_equal(kept->mono_ns, bench->now_ns);
    assert_int_equal(kept->counted_ns, bench->now_ns - 7 * NS_PER_S);
    bench_forget(bench, hangs);
}

static void what_opened_the_circuit_stays_through_all_failed_probes(void **state)
{
    struct guard_bench *bench = *state;

    bench_fail(bench);
    bench_succeed(bench);
    bench_open(bench);
    const uint64_t opened_ns = bench->now_ns;
    for (unsigned int i = 0; i < 10; i++)
        fail_a_probe(bench);
    const struct evidence_view *view = read_all(bench);
    assert_int_equal(count_in(bench, EVIDENCE_CLOSED), 4);
    assert_int_equal(count_in(bench, EVIDENCE_PROBES), EVIDENCE_PROBES_SIZE);
    assert_true(view->has_opening);
    assert_int_equal(view->opening.mono_ns, opened_ns);
    assert_int_equal(view->opening.counted_ns, opened_ns);
    assert_int_equal(view->opening.reason, REASON_FAILURE_THRESHOLD);
    assert_int_equal(view->opening.failures, 3);
    assert_int_equal(view->opening.failure_threshold, 3);
    assert_int_equal(view->opening.pause_ns, 10 * NS_PER_S);
    for (unsigned int i = 0; i < view->count; i++)
        if (view->at[i].ring == EVIDENCE_CLOSED)
            assert_int_equal(view->at[i].evidence.generation, view->opening.generation);
}

static void the_next_opening_takes_the_formers_place_with_its_own_settings(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call;

    for (uint32_t threshold = 3; threshold < 9; threshold++) {
        bench->target.breaker.failure_threshold = threshold;
        bench_open(bench);
        assert_int_equal(read_all(bench)->opening.failure_threshold, threshold);
        assert_int_equal(read_all(bench)->opening.failures, threshold);
        bench->now_ns += 10 * NS_PER_S;
        assert_int_equal(bench_admit(bench, &call), ADMIT_PROBE);
        bench_settle(bench, call, SEEN_BYTES, 0, 0);
        bench_forget(bench, call);
    }
    assert_int_equal(count_in(bench, EVIDENCE_CLOSED), EVIDENCE_CLOSED_SIZE);
}

static void what_came_late_is_no_evidence(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t early = bench_call(bench);

    bench_open(bench);
    bench_settle(bench, early, SEEN_ERROR, ECONNRESET, 0);
    bench_forget(bench, early);
    assert_int_equal(read_all(bench)->count, 3);
}

static void calls_that_pass_against_the_word_push_out_nothing(void **state)
{
    struct guard_bench *bench = *state;

    bench->target.mode = MODE_OBSERVE;
    for (unsigned int i = 0; i < 20; i++)
        bench_fail(bench);
    assert_int_equal(count_in(bench, EVIDENCE_CLOSED), 3);
    assert_int_equal(count_in(bench, EVIDENCE_OBSERVED), EVIDENCE_OBSERVED_SIZE);
}

static void a_slow_call_is_kept_where_slow_calls_count_and_no_other_success(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;

    for (unsigned int i = 0; i < 2; i++) {
        uint32_t call = bench_call(bench);
        bench_requested(bench, call);
        bench_settle(bench, call, SEEN_BYTES, 0, 3 * NS_PER_S);
        bench_forget(bench, call);
        assert_int_equal(read_all(bench)->count, i);
        bench->target.breaker.slow_call_ns = 2 * NS_PER_S;
    }
    assert_int_equal(read_all(bench)->at[0].evidence.marks, EVIDENCE_SLOW);
    bench_succeed(bench);
    assert_int_equal(read_all(bench)->count, 1);
    assert_false(circuits_last_failure(&bench->segment, bench->circuit, &event));
}

static void the_last_twelve_are_kept_in_order(void **state)
{
    struct guard_bench *bench = *state;

    bench->target.breaker.failure_threshold = 0;
    bench->target.breaker.failure_rate_permille = 0;
    for (unsigned int i = 0; i < 30; i++) {
        bench->now_ns++;
        bench_fail(bench);
    }
    const struct evidence_view *view = read_all(bench);
    assert_int_equal(view->count, EVIDENCE_CLOSED_SIZE);
    for (unsigned int i = 0; i < view->count; i++)
        assert_int_equal(view->at[i].evidence.mono_ns, bench->now_ns - (view->count - 1 - i));
}

static void a_circuit_that_begins_anew_has_no_evidence(void **state)
{
    struct guard_bench *bench = *state;

    bench_open(bench);
    assert_true(circuits_forget(&bench->segment, bench->circuit, true, bench->now_ns));
    const struct evidence_view *view = read_all(bench);
    assert_int_equal(view->count, 0);
    assert_int_equal(view->unreadable, 0);
    assert_false(view->has_opening);
}

static void an_address_is_known_by_its_text_unless_that_does_not_fit_its_key(void **state)
{
    static const char *const addresses[] = {"192.0.2.7:80", "[2001:db8::5]:443", "[fe80::1%3]:1"};
    struct guard_bench *bench = *state;
    struct circuit_evidence *evidence = &bench_entry(bench)->evidence;
    char text[DESTINATION_MAX];

    for (int i = 0; i < 3; i++) {
        struct endpoint endpoint;
        assert_true(endpoint_parse(&endpoint, addresses[i]));
        const uint64_t key = endpoint_hash(&endpoint);
        assert_false(evidence_address(&bench->segment, bench->circuit, (uint32_t)key, text));
        evidence_note_address(evidence, i, key, &endpoint);
        assert_true(evidence_address(&bench->segment, bench->circuit, (uint32_t)key, text));
        assert_string_equal(text, addresses[i]);
        atomic_fetch_xor(&evidence->addresses[i].halves[0], 1);
        assert_false(evidence_address(&bench->segment, bench->circuit, (uint32_t)key, text));
    }
    struct endpoint local;
    assert_true(endpoint_parse(&local, "unix:/run/x"));
    evidence_note_address(evidence, 5, endpoint_hash(&local), &local);
    assert_int_equal(atomic_load(&evidence->addresses[5].key), 0);
    evidence_note_address(evidence, CIRCUIT_ADDRESSES, 1, &local);
    evidence_note_address(evidence, ADDRESS_NONE, 1, &local);
    assert_false(evidence_address(&bench->segment, bench->circuit, 0, text));
}

static void what_is_torn_is_counted_and_left_out(void **state)
{
    struct guard_bench *bench = *state;
    struct circuit_evidence *evidence = &bench_entry(bench)->evidence;

    bench_open(bench);
    evidence->slots[1].evidence.pid++;
    atomic_store(&evidence->slots[2].stamp, 0);
    const struct evidence_view *view = read_all(bench);
    assert_int_equal(view->count, 1);
    assert_int_equal(view->unreadable, 2);
    evidence->openings[0].opening.failures++;
    evidence->openings[1].opening.failures++;
    assert_false(read_all(bench)->has_opening);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GUARD_TEST(a_failure_is_kept_with_all_that_there_is_to_tell_of_it),
        GUARD_TEST(an_overdue_call_counts_as_of_its_limit),
        GUARD_TEST(what_opened_the_circuit_stays_through_all_failed_probes),
        GUARD_TEST(the_next_opening_takes_the_formers_place_with_its_own_settings),
        GUARD_TEST(what_came_late_is_no_evidence),
        GUARD_TEST(calls_that_pass_against_the_word_push_out_nothing),
        GUARD_TEST(a_slow_call_is_kept_where_slow_calls_count_and_no_other_success),
        GUARD_TEST(the_last_twelve_are_kept_in_order),
        GUARD_TEST(a_circuit_that_begins_anew_has_no_evidence),
        GUARD_TEST(an_address_is_known_by_its_text_unless_that_does_not_fit_its_key),
        GUARD_TEST(what_is_torn_is_counted_and_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
