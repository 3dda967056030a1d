/*
 * test_circuit_counters.c - what a circuit counts, what a call leaves unwritten, and a place given to another.
 */
#include "support_breaker.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * A circuit of which all but the counters lies on a page of its own, so that the page can be made read-only: whoever
 * writes there, if only the value that is there already, is killed by SIGSEGV.
 */
static struct circuit *circuit_on_pages(unsigned char **pages, size_t *page_size)
{
    *page_size = (size_t)sysconf(_SC_PAGESIZE);
    *pages =
        mmap(NULL, *page_size + sizeof(struct circuit), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(*pages != MAP_FAILED);
    return (struct circuit *)(void *)(*pages + *page_size - offsetof(struct circuit, counters));
}

static void healthy_calls_and_refusals_write_nothing_but_their_counters(void **state)
{
    struct breaker_bench *bench = *state;
    struct circuit *own = bench->circuit;
    unsigned char *pages;
    size_t page_size;

    bench->circuit = circuit_on_pages(&pages, &page_size);
    bench->caller.address = circuit_address_index(bench->circuit, 99);
    assert_int_equal(mprotect(pages, page_size, PROT_READ), 0);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(circuit_address_index(bench->circuit, 99), bench->caller.address);
        breaker_call(bench, breaker_success);
        circuit_address_answered(bench->circuit, bench->caller.address);
        breaker_call(bench, breaker_neutral);
    }
    assert_int_equal(bench->transitions, 0);

    assert_int_equal(mprotect(pages, page_size, PROT_READ | PROT_WRITE), 0);
    breaker_open(bench);
    assert_int_equal(mprotect(pages, page_size, PROT_READ), 0);
    for (int i = 0; i < 100; i++)
        assert_int_equal(breaker_admit(bench), ADMIT_REFUSED_OPEN);
    assert_int_equal(mprotect(pages, page_size, PROT_READ | PROT_WRITE), 0);
    breaker_probe(bench);
    assert_int_equal(mprotect(pages, page_size, PROT_READ), 0);
    for (int i = 0; i < 100; i++)
        assert_int_equal(breaker_admit_as(bench, BREAKER_HOLDER + 1, ADDRESS_NONE, 0), ADMIT_REFUSED_HALF_OPEN);
    assert_int_equal(bench->transitions, 2);

    memcpy(own, bench->circuit, sizeof *own); /* for the bench's last account */
    bench->circuit = own;
    assert_int_equal(munmap(pages, page_size + sizeof *own), 0);
}

static void every_outcome_is_counted_once_with_its_kind(void **state)
{
    struct breaker_bench *bench = *state;

    bench->settings.failure_threshold = 0;
    for (unsigned int kind = FAILURE_CONNECT_TIMEOUT; kind < FAILURE_KINDS; kind++) {
        for (unsigned int i = 0; i < kind; i++)
            breaker_call(bench, (struct outcome){.verdict = VERDICT_FAILURE, .kind = (enum failure_kind)kind});
    }
    for (unsigned int reason = NEUTRAL_LOCAL; reason < NEUTRAL_REASONS; reason++) {
        for (unsigned int i = 0; i < reason; i++)
            breaker_call(bench, (struct outcome){.verdict = VERDICT_NEUTRAL,
                                                 .kind = FAILURE_REFUSED,
                                                 .reason = (enum neutral_reason)reason});
    }
    breaker_call(bench, breaker_success);
    breaker_call(bench, breaker_business);

    for (unsigned int kind = FAILURE_CONNECT_TIMEOUT; kind < FAILURE_KINDS; kind++)
        assert_int_equal(breaker_sum(bench, COUNT_FAILURE_KIND + kind), kind);
    for (unsigned int reason = NEUTRAL_LOCAL; reason < NEUTRAL_REASONS; reason++)
        assert_int_equal(breaker_sum(bench, COUNT_NEUTRAL_REASON + reason), reason);
    assert_int_equal(breaker_sum(bench, COUNT_FAILED), FAILURE_KINDS * (FAILURE_KINDS - 1) / 2);
    assert_int_equal(breaker_sum(bench, COUNT_NEUTRAL), NEUTRAL_REASONS * (NEUTRAL_REASONS - 1) / 2);
    assert_int_equal(breaker_sum(bench, COUNT_SUCCEEDED), 1);
    assert_int_equal(breaker_sum(bench, COUNT_BUSINESS), 1);
    assert_int_equal(breaker_sum(bench, COUNT_LATE), 0);
    assert_int_equal(breaker_sum(bench, COUNT_ADMITTED), bench->settled);
    assert_int_equal(bench->transitions, 0);
}

static void a_late_outcome_is_counted_as_late_and_as_nothing_else(void **state)
{
    struct breaker_bench *bench = *state;

    assert_int_equal(breaker_admit(bench), ADMIT_PASS);
    struct ticket early = bench->ticket;
    breaker_open(bench);
    assert_int_equal(breaker_settle(bench, early, breaker_failure), SETTLED_LATE);
    assert_int_equal(breaker_sum(bench, COUNT_LATE), 1);
    assert_int_equal(breaker_sum(bench, COUNT_FAILED), 3);
    assert_int_equal(breaker_sum(bench, COUNT_FAILURE_KIND + FAILURE_REFUSED), 3);
    assert_int_equal(bench->transitions, 1);
}

static void counters_sum_their_shards_and_ignore_what_is_no_counter(void **state)
{
    struct breaker_bench *bench = *state;
    struct counters *counters = &bench->circuit->counters;

    for (unsigned int shard = 0; shard < 3 * COUNTER_SHARDS; shard++)
        counters_add(counters, shard, COUNT_SLOW);
    counters_add(counters, UINT32_MAX, COUNT_SLOW);
    assert_int_equal(counters_sum(counters, COUNT_SLOW), 3 * COUNTER_SHARDS + 1);
    for (unsigned int shard = 0; shard < COUNTER_SHARDS - 1; shard++)
        assert_int_equal(atomic_load(&counters->shard[shard][COUNT_SLOW]), 3);
    counters_add(counters, 0, COUNTERS);
    counters_add(counters, COUNTER_SHARDS - 1, UINT32_MAX);
    assert_int_equal(counters_sum(counters, COUNTERS), 0);
    for (unsigned int counter = 0; counter < COUNTERS; counter++)
        assert_int_equal(counters_sum(counters, counter), counter == COUNT_SLOW ? 3 * COUNTER_SHARDS + 1 : 0);
}

static void closed_and_well_tell_what_they_say(void **state)
{
    struct breaker_bench *bench = *state;
    const struct circuit *circuit = bench->circuit;

    assert_true(circuit_is_closed(circuit) && circuit_is_well(circuit, NULL));
    breaker_call(bench, breaker_failure);
    assert_true(circuit_is_closed(circuit) && !circuit_is_well(circuit, NULL));
    breaker_open(bench);
    assert_true(!circuit_is_closed(circuit) && !circuit_is_well(circuit, NULL));
    breaker_probe(bench);
    assert_true(!circuit_is_closed(circuit) && !circuit_is_well(circuit, NULL));
    assert_int_equal(breaker_settle(bench, bench->ticket, breaker_success), SETTLED_COUNTED);
    assert_true(circuit_is_closed(circuit) && circuit_is_well(circuit, NULL));
    assert_int_equal(bench->transitions, 3);
}

static void a_circuit_that_is_reset_forgets_all_and_its_old_calls_are_late(void **state)
{
    struct breaker_bench *bench = *state;
    struct ticket before_opening, before_reset;

    assert_int_equal(breaker_admit(bench), ADMIT_PASS);
    before_opening = bench->ticket;
    breaker_open(bench);
    breaker_probe(bench);
    assert_int_equal(breaker_settle(bench, bench->ticket, breaker_success), SETTLED_COUNTED);
    assert_int_equal(breaker_admit(bench), ADMIT_PASS);
    before_reset = bench->ticket;
    circuit_address_failed(bench->circuit, circuit_address_index(bench->circuit, 5));

    circuit_reset(bench->circuit);
    for (unsigned int counter = 0; counter < COUNTERS; counter++)
        assert_int_equal(breaker_sum(bench, counter), 0);
    assert_int_equal(circuit_address_index(bench->circuit, 6), 0);
    assert_true(circuit_is_well(bench->circuit, NULL));
    assert_int_equal(breaker_view(bench).since_ns, 0);
    bench->admitted = bench->refused = bench->settled = 0;
    memset(bench->made, 0, sizeof bench->made);
    assert_int_equal(breaker_settle(bench, before_opening, breaker_failure), SETTLED_LATE);
    assert_int_equal(breaker_settle(bench, before_reset, breaker_failure), SETTLED_LATE);
    assert_int_equal(breaker_view(bench).failures, 0);
    assert_int_equal(bench->transitions, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        breaker_test(healthy_calls_and_refusals_write_nothing_but_their_counters),
        breaker_test(every_outcome_is_counted_once_with_its_kind),
        breaker_test(a_late_outcome_is_counted_as_late_and_as_nothing_else),
        breaker_test(counters_sum_their_shards_and_ignore_what_is_no_counter),
        breaker_test(closed_and_well_tell_what_they_say),
        breaker_test(a_circuit_that_is_reset_forgets_all_and_its_old_calls_are_late),
    };

    return cmocka_run_group_tests_name("counters", tests, NULL, NULL);
}
