/*
 * test_bulkhead.c - max_connections: how many guarded connections a circuit may have over all processes.
 */
#include "support_guard.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "segment/bulkhead.h"
#include "segment/layout.h"

static void assert_refused(struct guard_bench *bench, enum admission reason)
{
    uint64_t before = bench_sum(bench, counter_of_refusal(reason)), all = bench_sum(bench, COUNT_REFUSED);
    uint32_t call = 0;

    assert_int_equal(bench_admit(bench, &call), reason);
    assert_int_equal(call, CALL_NONE);
    assert_int_equal(bench_sum(bench, counter_of_refusal(reason)), before + 1);
    assert_int_equal(bench_sum(bench, COUNT_REFUSED), all + 1);
}

static void one_more_than_the_limit_is_refused_and_has_room_again_when_one_ends(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t calls[3];

    bench->target.max_connections = 3;
    for (unsigned int i = 0; i < 3; i++)
        calls[i] = bench_call(bench);
    assert_refused(bench, ADMIT_REFUSED_BULKHEAD);
    assert_refused(bench, ADMIT_REFUSED_BULKHEAD);
    assert_int_equal(bench_sum(bench, COUNT_ADMITTED), 3);
    assert_int_equal(bulkhead_count(&bench->segment, bench->circuit), 3);

    /* An answer does not end a connection. */
    bench_connected(bench, calls[1]);
    bench_settle(bench, calls[1], SEEN_BYTES, 0, 0);
    assert_refused(bench, ADMIT_REFUSED_BULKHEAD);
    bench_forget(bench, calls[1]);
    calls[1] = bench_call(bench);
    assert_refused(bench, ADMIT_REFUSED_BULKHEAD);
    for (unsigned int i = 0; i < 3; i++)
        bench_forget(bench, calls[i]);
    assert_int_equal(bench_connections(bench), 0);
    assert_int_equal(bulkhead_count(&bench->segment, bench->circuit), 0);
    assert_int_equal(bench_state(bench), CIRCUIT_CLOSED);
}

static void a_share_is_given_back_once(void **state)
{
    struct guard_bench *bench = *state;

    bench->target.max_connections = 2;
    uint32_t stays = bench_call(bench), ends = bench_call(bench);
    bench_forget(bench, ends);
    bench_forget(bench, ends);
    bulkhead_give(&bench->segment, ends, bench->guard.holder, 2);
    assert_int_equal(bench_connections(bench), 1);
    bench_forget(bench, stays);
    assert_int_equal(bench_connections(bench), 0);
}

static void without_a_limit_nothing_is_counted(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t call = bench_call(bench);

    assert_int_equal(atomic_load(&bench_entry(bench)->connections), 0);
    bench_forget(bench, call);
    assert_int_equal(atomic_load(&bench_entry(bench)->connections), 0);
}

static void each_circuit_has_a_limit_of_its_own(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t first = bench->circuit, call;

    bench->target.max_connections = 1;
    call = bench_call(bench);
    bench->circuit = bench_find(bench, "ledger.internal:443");
    uint32_t other = bench_call(bench);
    assert_refused(bench, ADMIT_REFUSED_BULKHEAD);
    bench_forget(bench, other);
    bench->circuit = first;
    assert_refused(bench, ADMIT_REFUSED_BULKHEAD);
    bench_forget(bench, call);
}

/* The order matters: a lease that nobody can use would keep the circuit half-open for ever. */
static void who_finds_no_room_takes_no_probes_lease(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t probe;

    bench->target.max_connections = 1;
    bench->target.connect_timeout_ns = 3600 * NS_PER_S;
    uint32_t stays = bench_call(bench);
    bench->target.max_connections = 2;
    bench_open(bench);
    bench->target.max_connections = 1;
    bench->now_ns += 10 * NS_PER_S;
    assert_refused(bench, ADMIT_REFUSED_BULKHEAD);
    assert_int_equal(bench_state(bench), CIRCUIT_OPEN);
    assert_int_equal(bench_events(bench, EVENT_HALF_OPEN, NULL), 0);
    bench_forget(bench, stays);
    assert_int_equal(bench_admit(bench, &probe), ADMIT_PROBE);
    assert_refused(bench, ADMIT_REFUSED_BULKHEAD);
    bench_forget(bench, probe);
}

static void who_is_refused_by_the_circuit_gives_his_share_back(void **state)
{
    struct guard_bench *bench = *state;

    bench->target.max_connections = 1;
    bench_open(bench);
    for (unsigned int i = 0; i < 10; i++)
        assert_refused(bench, ADMIT_REFUSED_OPEN);
    assert_int_equal(bench_connections(bench), 0);
    assert_int_equal(bulkhead_count(&bench->segment, bench->circuit), 0);
}

static void observe_counts_what_the_bulkhead_would_refuse_and_lets_it_pass(void **state)
{
    struct guard_bench *bench = *state;

    bench->target.max_connections = 1;
    bench->target.mode = MODE_OBSERVE;
    uint32_t first = bench_call(bench), second = bench_call(bench);
    assert_int_equal(bench_sum(bench, counter_of_refusal(ADMIT_REFUSED_BULKHEAD)), 1);
    assert_int_equal(bench_sum(bench, COUNT_ADMITTED), 2);
    assert_int_equal(bench_connections(bench), 1);
    /* It would not have been made: it does not count for the circuit. */
    for (unsigned int i = 0; i < 5; i++) {
        uint32_t call = bench_call(bench);
        bench_settle(bench, call, SEEN_ERROR, ECONNREFUSED, 0);
        bench_forget(bench, call);
    }
    assert_int_equal(bench_sum(bench, COUNT_FAILED), 5);
    assert_int_equal(bench_failures(bench), 0);
    bench_forget(bench, first);
    bench_forget(bench, second);
    assert_int_equal(bench_connections(bench), 0);
}

static void closed_counts_its_connections_and_refuses_none(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t calls[3];

    bench->target.max_connections = 1;
    bench->target.mode = MODE_CLOSED;
    for (unsigned int i = 0; i < 3; i++)
        calls[i] = bench_call(bench);
    assert_int_equal(bench_sum(bench, COUNT_REFUSED), 0);
    bench->target.mode = MODE_ENFORCE;
    for (unsigned int i = 0; i < 3; i++) {
        assert_refused(bench, ADMIT_REFUSED_BULKHEAD);
        bench_forget(bench, calls[i]);
    }
    bench_forget(bench, bench_call(bench));
}

/* --- the dead --- */

static void a_dead_processs_shares_come_back(void **state)
{
    struct guard_bench *bench = *state;

    bench->target.max_connections = 3;
    pid_t first = bench_child(bench, live_connecting), second = bench_child(bench, live_answered);
    uint32_t own = bench_call(bench);
    assert_refused(bench, ADMIT_REFUSED_BULKHEAD);
    bench_kill(bench, first);
    bench_let_ask(bench);
    uint32_t call = bench_call(bench);
    assert_refused(bench, ADMIT_REFUSED_BULKHEAD);
    bench_kill(bench, second);
    bench_let_ask(bench);
    uint32_t other = bench_call(bench);
    assert_refused(bench, ADMIT_REFUSED_BULKHEAD);
    assert_int_equal(bench_connections(bench), 3);
    bench_forget(bench, own);
    bench_forget(bench, call);
    bench_forget(bench, other);
    assert_int_equal(bench_connections(bench), 0);
    /* What the dead left in the table is found by the scan for overdue calls. */
    bench->now_ns += 3600 * NS_PER_S;
    bench_forget(bench, bench_call(bench));
}

static void a_corrupt_count_is_looked_into_once_a_second(void **state)
{
    struct guard_bench *bench = *state;

    bench->target.max_connections = 1;
    uint32_t call = bench_call(bench);
    assert_refused(bench, ADMIT_REFUSED_BULKHEAD);
    atomic_store(&bench_entry(bench)->recounted_ns, clock_real_ns());
    atomic_store(&bench_entry(bench)->connections, 7); /* too high: only a recount could tell */
    for (unsigned int i = 0; i < 3; i++)
        assert_refused(bench, ADMIT_REFUSED_BULKHEAD);
    bench_let_ask(bench);
    assert_refused(bench, ADMIT_REFUSED_BULKHEAD);
    assert_int_equal(bench_connections(bench), 1);
    bench_forget(bench, call);
    bench_forget(bench, bench_call(bench));
}

static void a_record_that_a_dead_owner_left_brings_no_share_to_the_next(void **state)
{
    struct guard_bench *bench = *state;
    uint32_t calls[8];

    bench->target.max_connections = 1;
    bench_kill(bench, bench_child(bench, live_connecting));
    assert_int_not_equal(atomic_load(&bench->segment.calls[0].share), 0);
    bench->target.max_connections = 0;
    bench->now_ns += 3600 * NS_PER_S; /* the next one finds the dead one's call, and one of these takes its record */
    for (unsigned int i = 0; i < 8; i++)
        calls[i] = bench_call(bench);
    assert_int_equal(atomic_load(&bench->segment.call_owner[0]), bench->guard.holder);
    assert_int_equal(bulkhead_count(&bench->segment, bench->circuit), 0);
    for (unsigned int i = 0; i < 8; i++)
        bench_forget(bench, calls[i]);
}

/* --- corrupt memory --- */

static void a_corrupt_count_is_counted_anew(void **state)
{
    struct guard_bench *bench = *state;
    static const uint64_t counts[] = {UINT32_MAX, UINT64_MAX, CAPACITY_CALLS, UINT64_C(1) << 63 | 5000};

    bench->target.max_connections = 2;
    for (unsigned int i = 0; i < sizeof counts / sizeof *counts; i++) {
        uint32_t first = bench_call(bench);
        atomic_store(&bench_entry(bench)->connections, counts[i]);
        atomic_store(&bench_entry(bench)->recounted_ns, i % 2 ? UINT64_MAX : clock_real_ns() + NS_PER_S);
        uint32_t second = bench_call(bench);
        bench_let_ask(bench);
        assert_refused(bench, ADMIT_REFUSED_BULKHEAD);
        bench_forget(bench, first);
        atomic_store(&bench_entry(bench)->connections, 0); /* too low: nothing goes below */
        bench_forget(bench, second);
        assert_int_equal(bench_connections(bench), 0);
    }
}

static void a_corrupt_share_is_nobodys(void **state)
{
    struct guard_bench *bench = *state;

    bench->target.max_connections = 2;
    uint32_t call = bench_call(bench);
    atomic_store(&bench->segment.calls[call].share, UINT32_C(2) << 30 | 0x3fffffff);
    assert_int_equal(bulkhead_count(&bench->segment, bench->circuit), 0);
    bulkhead_give(&bench->segment, call, bench->guard.holder, 2);
    bulkhead_give(&bench->segment, CALL_NONE, 1, 2);
    assert_int_equal(bulkhead_count(&bench->segment, CIRCUIT_INDEX_NONE), 0);
    assert_int_equal(bench_connections(bench), 1);
    bench_forget(bench, call);
    atomic_store(&bench_entry(bench)->connections, 0);
}

/* --- what is told --- */

static void a_crowd_is_told_once_until_half_of_it_is_gone(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;
    uint32_t calls[4];

    bench->target.max_connections = 4;
    for (unsigned int i = 0; i < 4; i++)
        calls[i] = bench_call(bench);
    for (unsigned int i = 0; i < 3; i++)
        assert_refused(bench, ADMIT_REFUSED_BULKHEAD);
    assert_int_equal(bench_events(bench, EVENT_REFUSED, &event), 1);
    assert_int_equal(event.reason, ADMIT_REFUSED_BULKHEAD);
    assert_string_equal(event.destination, BENCH_DESTINATION);

    bench_forget(bench, calls[0]); /* to and fro at the limit is the same crowd */
    calls[0] = bench_call(bench);
    assert_refused(bench, ADMIT_REFUSED_BULKHEAD);
    assert_int_equal(bench_events(bench, EVENT_REFUSED, NULL), 1);

    bench_forget(bench, calls[0]);
    bench_forget(bench, calls[1]);
    calls[0] = bench_call(bench);
    calls[1] = bench_call(bench);
    assert_refused(bench, ADMIT_REFUSED_BULKHEAD);
    assert_int_equal(bench_events(bench, EVENT_REFUSED, NULL), 2);
    for (unsigned int i = 0; i < 4; i++)
        bench_forget(bench, calls[i]);
}

static void a_crowd_is_told_although_the_circuits_own_refusal_was(void **state)
{
    struct guard_bench *bench = *state;
    struct event event;

    bench->target.max_connections = 2;
    bench_open(bench);
    assert_refused(bench, ADMIT_REFUSED_OPEN);
    bench->now_ns += 10 * NS_PER_S;
    bench_succeed(bench);
    assert_int_equal(bench_events(bench, EVENT_REFUSED, NULL), 1);
    uint32_t first = bench_call(bench), second = bench_call(bench);
    assert_refused(bench, ADMIT_REFUSED_BULKHEAD);
    assert_int_equal(bench_events(bench, EVENT_REFUSED, &event), 2);
    assert_int_equal(event.reason, ADMIT_REFUSED_BULKHEAD);
    bench_forget(bench, first);
    bench_forget(bench, second);
}

/* --- many at once --- */

/* ThreadSanitizer sees what is not in order whether or not it comes to blows, and is ten times slower. */
#ifdef __SANITIZE_THREAD__
#define ROUNDS 30000u
#else
#define ROUNDS 200000u
#endif
enum { THREADS = 4, LIMIT = 3 };
static _Atomic uint32_t within, most_within;
static _Atomic uint64_t refused;

static void *come_and_go(void *context)
{
    struct guard_bench *bench = context;

    for (unsigned int round = 0; round < ROUNDS; round++) {
        uint32_t call;

        if (bench_admit(bench, &call) == ADMIT_REFUSED_BULKHEAD) {
            atomic_fetch_add(&refused, 1);
            bench_let_ask(bench); /* so that there is always one who counts while others come and go */
            continue;
        }
        uint32_t now = atomic_fetch_add(&within, 1) + 1, most = atomic_load(&most_within);
        while (now > most && !atomic_compare_exchange_weak(&most_within, &most, now)) {
        }
        if (round % 8 == 0)
            sched_yield();
        atomic_fetch_sub(&within, 1);
        bench_forget(bench, call);
    }
    return NULL;
}

static void of_many_at_once_no_more_than_the_limit_are_within(void **state)
{
    struct guard_bench *bench = *state;
    pthread_t threads[THREADS];

    bench->target.max_connections = LIMIT;
    uint32_t stays = bench_call(bench);
    atomic_store(&within, 1);
    atomic_store(&most_within, 1);
    for (unsigned int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, bench), 0);
    for (unsigned int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_in_range(atomic_load(&most_within), 1, LIMIT);
    assert_int_equal(atomic_load(&within), 1);
    assert_int_equal(bench_sum(bench, counter_of_refusal(ADMIT_REFUSED_BULKHEAD)), atomic_load(&refused));
    assert_int_equal(bench_sum(bench, COUNT_REFUSED), atomic_load(&refused));
    assert_int_equal(bulkhead_count(&bench->segment, bench->circuit), 1);
    /* Too high it may be, for a moment; never too low. */
    assert_in_range(bench_connections(bench), 1, LIMIT);
    bench_let_ask(bench);
    uint32_t more[LIMIT - 1];
    for (unsigned int i = 0; i < LIMIT - 1; i++)
        more[i] = bench_call(bench);
    assert_refused(bench, ADMIT_REFUSED_BULKHEAD);
    for (unsigned int i = 0; i < LIMIT - 1; i++)
        bench_forget(bench, more[i]);
    bench_forget(bench, stays);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GUARD_TEST(one_more_than_the_limit_is_refused_and_has_room_again_when_one_ends),
        GUARD_TEST(a_share_is_given_back_once),
        GUARD_TEST(without_a_limit_nothing_is_counted),
        GUARD_TEST(each_circuit_has_a_limit_of_its_own),
        GUARD_TEST(who_finds_no_room_takes_no_probes_lease),
        GUARD_TEST(who_is_refused_by_the_circuit_gives_his_share_back),
        GUARD_TEST(observe_counts_what_the_bulkhead_would_refuse_and_lets_it_pass),
        GUARD_TEST(closed_counts_its_connections_and_refuses_none),
        GUARD_TEST(a_dead_processs_shares_come_back),
        GUARD_TEST(a_corrupt_count_is_looked_into_once_a_second),
        GUARD_TEST(a_record_that_a_dead_owner_left_brings_no_share_to_the_next),
        GUARD_TEST(a_corrupt_count_is_counted_anew),
        GUARD_TEST(a_corrupt_share_is_nobodys),
        GUARD_TEST(a_crowd_is_told_once_until_half_of_it_is_gone),
        GUARD_TEST(a_crowd_is_told_although_the_circuits_own_refusal_was),
        GUARD_TEST(of_many_at_once_no_more_than_the_limit_are_within),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
