/*
 * test_cli_unended.c - what an observation makes of calls that have no end when it is told.
 *
 * links: command
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/unended.h"
#include "support_guard.h"

#define US_PER_S (NS_PER_S / NS_PER_US)

static const struct row *row_after(struct guard_bench *bench, struct rows *rows, const struct unended *unended,
                                   pid_t pid, uint64_t now_ns)
{
    rows_collect(rows, &bench->segment, NULL, now_ns);
    unended_add(unended, rows, &bench->segment, pid, now_ns);
    for (size_t i = 0; i < rows->count; i++)
        if (rows->at[i].called)
            return &rows->at[i];
    fail_msg("no circuit");
    return NULL;
}

static void put_away(struct guard_bench *bench, struct rows *rows, struct unended *unended)
{
    rows_free(rows);
    unended_free(unended);
    while (bench->child_count > 0)
        bench_kill(bench, bench->children[0]);
    bench_bury(bench);
}

static void a_call_that_waits_on_has_waited_until_now(void **state)
{
    struct guard_bench *bench = *state;
    struct rows rows;
    bench_child(bench, live_requested);
    bench_child(bench, live_connecting);
    const struct row *row = row_after(bench, &rows, NULL, 0, bench->now_ns + 7 * NS_PER_S);
    assert_int_equal(row->waits.waited_us, 14 * US_PER_S);
    assert_int_equal(row->waits.longest_ns, 7 * NS_PER_S);
    assert_int_equal(row->waits.most_in_flight, 2);
    put_away(bench, &rows, NULL);
}

static void what_a_charge_at_the_limit_has_noted_is_not_noted_twice(void **state)
{
    struct guard_bench *bench = *state;
    struct rows rows;
    bench_child(bench, live_connecting);
    bench->now_ns += 12 * NS_PER_S;
    bench_call(bench); /* finds it overdue: its limit is 10 s */
    assert_int_equal(bench_sum(bench, COUNT_FAILED), 1);
    const struct row *row = row_after(bench, &rows, NULL, 0, bench->now_ns + NS_PER_S);
    assert_int_equal(row->waits.waited_us, 13 * US_PER_S + US_PER_S);
    put_away(bench, &rows, NULL);
}

static void the_process_that_was_seen_to_end_had_waited_until_then(void **state)
{
    struct guard_bench *bench = *state;
    struct rows rows;
    const pid_t child = bench_child(bench, live_requested);
    bench_kill(bench, child);
    const struct row *row = row_after(bench, &rows, NULL, child, bench->now_ns + 3 * NS_PER_S);
    assert_int_equal(row->waits.waited_us, 3 * US_PER_S);
    assert_int_equal(row->waits.most_in_flight, 1);
    assert_int_equal(row->timeouts.count, 1);
    assert_int_equal(row->timeouts.at[0].killed_ns, 3 * NS_PER_S);
    assert_false(row->timeouts.at[0].killed_later);
    put_away(bench, &rows, NULL);
}

static void of_others_that_were_killed_it_is_said_how_long_they_were_seen_to_wait(void **state)
{
    struct guard_bench *bench = *state;
    struct unended *unended = unended_start(&bench->segment);
    struct rows rows;
    const pid_t first = bench_child(bench, live_requested), second = bench_child(bench, live_requested);
    unended_look(unended, bench->now_ns + NS_PER_S);
    unended_look(unended, bench->now_ns + 4 * NS_PER_S);
    bench_kill(bench, first);
    unended_look(unended, bench->now_ns + 6 * NS_PER_S);
    bench_kill(bench, second);
    const struct row *row = row_after(bench, &rows, unended, 0, bench->now_ns + 9 * NS_PER_S);
    assert_int_equal(row->waits.waited_us, (4 + 6) * US_PER_S);
    assert_int_equal(row->waits.longest_ns, 6 * NS_PER_S);
    assert_int_equal(row->waits.most_in_flight, 2);
    assert_int_equal(row->timeouts.at[0].killed_ns, 6 * NS_PER_S);
    assert_true(row->timeouts.at[0].killed_later);
    put_away(bench, &rows, unended);
}

static void of_who_was_killed_unseen_nothing_is_claimed(void **state)
{
    struct guard_bench *bench = *state;
    struct unended *unended = unended_start(&bench->segment);
    struct rows rows;
    const pid_t child = bench_child(bench, live_requested);
    unended_look(unended, bench->now_ns + NS_PER_S); /* once: it may have ended the moment after */
    bench_kill(bench, child);
    const struct row *row = row_after(bench, &rows, unended, 0, bench->now_ns + 9 * NS_PER_S);
    assert_int_equal(row->waits.waited_us, 0);
    assert_int_equal(row->waits.most_in_flight, 0);
    assert_int_equal(row->timeouts.count, 0);
    put_away(bench, &rows, unended);
}

static void another_call_at_the_same_place_was_not_seen_before(void **state)
{
    struct guard_bench *bench = *state;
    struct unended *unended = unended_start(&bench->segment);
    struct rows rows;
    bench_forget(bench, bench_call(bench)); /* so that the next takes its place */
    const uint32_t call = bench_call(bench);
    bench_connected(bench, call);
    bench_requested(bench, call);
    unended_look(unended, bench->now_ns);
    bench_settle(bench, call, SEEN_BYTES, 0, 0);
    bench_forget(bench, call);
    const pid_t child = bench_child(bench, live_requested);
    unended_look(unended, bench->now_ns + NS_PER_S);
    bench_kill(bench, child);
    const struct row *row = row_after(bench, &rows, unended, 0, bench->now_ns + 2 * NS_PER_S);
    assert_int_equal(row->waits.waited_us, 0);
    put_away(bench, &rows, unended);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GUARD_TEST(a_call_that_waits_on_has_waited_until_now),
        GUARD_TEST(what_a_charge_at_the_limit_has_noted_is_not_noted_twice),
        GUARD_TEST(the_process_that_was_seen_to_end_had_waited_until_then),
        GUARD_TEST(of_others_that_were_killed_it_is_said_how_long_they_were_seen_to_wait),
        GUARD_TEST(of_who_was_killed_unseen_nothing_is_claimed),
        GUARD_TEST(another_call_at_the_same_place_was_not_seen_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
