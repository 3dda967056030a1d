/*
 * test_label_steps.c - a process is stopped at any instruction while it looks up its circuit, for so long that the
 * place goes to another destination: whatever it writes then, the new circuit comes to bear its own texts.
 */
#include "support_guard.h"
#include "support_stepped.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "segment/layout.h"

#define POINTS_MAX 300u
#define OTHER "other.internal:443"

/* The bench's circuit as its claimer leaves it before it has written anything. */
static void begin(struct guard_bench *bench)
{
    struct circuit_entry *entry = bench_entry(bench);

    atomic_store(&entry->ready, 0);
    memset(entry->target, 0, sizeof entry->target);
    memset(entry->destination, 0, sizeof entry->destination);
}

static void look_up(void *what)
{
    struct guard_bench *bench = what;

    circuits_find(&bench->segment, BENCH_TARGET, BENCH_DESTINATION, bench->now_ns);
}

/* As circuits_find leaves it that took the place over for OTHER. */
static uint64_t change_hands(struct guard_bench *bench, uint64_t other)
{
    struct circuit_entry *entry = bench_entry(bench);
    uint64_t former = atomic_exchange(&entry->hash, 1);

    snprintf(entry->target, sizeof entry->target, BENCH_TARGET);
    snprintf(entry->destination, sizeof entry->destination, OTHER);
    atomic_store(&entry->ready, 1);
    atomic_store(&entry->last_used_ns, bench->now_ns);
    atomic_store(&entry->hash, other);
    return former;
}

static void a_place_that_changed_hands_bears_no_texts_of_who_was_late(void **state)
{
    struct guard_bench *bench = *state;
    struct circuit_entry *entry = bench_entry(bench);
    unsigned int total = STEPPED_MAX, stride = 1;
    char target[TARGET_NAME_MAX], destination[DESTINATION_MAX];

    /* OTHER's key; its own place is given back. */
    uint32_t elsewhere = bench_find(bench, OTHER);
    assert_int_not_equal(elsewhere, bench->circuit);
    uint64_t other = atomic_load(&circuits_entry(&bench->segment, elsewhere)->hash);
    atomic_store(&circuits_entry(&bench->segment, elsewhere)->hash, 0);

    for (unsigned int at = STEPPED_MAX; at <= total; at = at == STEPPED_MAX ? 0 : at + stride) {
        begin(bench);
        pid_t child = stepped_start(look_up, bench);
        unsigned int steps = stepped_go(child, at);
        uint64_t former = change_hands(bench, other);
        stepped_finish(child);
        stepped_kill(child);
        if (atomic_load(&entry->ready) != 0 &&
            circuits_copy_texts(&bench->segment, bench->circuit, target, destination) &&
            strcmp(destination, OTHER) != 0)
            fail_msg("stopped at instruction %u of %u: the new circuit is called %s", steps, total, destination);
        if (at == STEPPED_MAX) {
            total = steps;
            stride = stepped_stride(total, POINTS_MAX);
        }
        /* The late one has found another place, or none. */
        atomic_store(&entry->hash, 0);
        for (uint32_t i = 0; i < bench->segment.capacity.circuits; i++)
            if (atomic_load(&circuits_entry(&bench->segment, i)->hash) == former)
                atomic_store(&circuits_entry(&bench->segment, i)->hash, 0);
        atomic_store(&entry->hash, former);
    }
    begin(bench);
    bench_find(bench, BENCH_DESTINATION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_place_that_changed_hands_bears_no_texts_of_who_was_late, guard_bench_setup,
                                        guard_bench_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
