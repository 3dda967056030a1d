/*
 * test_circuit_corrupt.c - any bit pattern in the shared memory: no crash, no endless loop, no index out of range.
 */
#include "support_breaker.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "breaker/word.h"

/* A bench of its own: with corrupt memory the bench's account of transitions can't hold. */
static struct circuit *fresh_circuit(void)
{
    struct circuit *circuit = aligned_alloc(64, sizeof *circuit);

    assert_non_null(circuit);
    memset(circuit, 0, sizeof *circuit);
    return circuit;
}

static void every_word_survives_packing(void **state)
{
    uint64_t random = 1;

    (void)state;
    for (int i = 0; i < 200000; i++) {
        uint64_t raw = breaker_random(&random);
        struct word word = word_unpack(raw);

        assert_in_range(word.state, 0, 3);
        if (word.state != WORD_BROKEN)
            assert_true(word_pack(word) == raw);
    }
}

static void a_broken_state_becomes_a_fresh_closed_circuit(void **state)
{
    struct breaker_bench *bench = *state;

    for (uint64_t low = 0; low < 1000; low += 37) {
        atomic_store(&bench->circuit->word, UINT64_C(3) << 62 | low);
        assert_int_equal(breaker_view(bench).state, CIRCUIT_CLOSED);
        uint64_t generation = bench->ticket.generation;
        assert_int_equal(breaker_admit(bench), ADMIT_PASS);
        assert_int_not_equal(bench->ticket.generation, generation);
        assert_int_equal(breaker_view(bench).failures, 0);
    }
    /* an outcome changes nothing in it, and is late */
    atomic_store(&bench->circuit->word, UINT64_MAX);
    assert_int_equal(breaker_settle(bench, bench->ticket, breaker_failure), SETTLED_LATE);
    assert_true(atomic_load(&bench->circuit->word) == UINT64_MAX);
    assert_int_equal(bench->transitions, 0);
}

static bool random_alive(uint32_t holder, void *context)
{
    (void)holder;
    return (breaker_random(context) & 1) != 0;
}

/* Random bytes, half of the time with a plausible state, so that all paths are taken. */
static void scramble(struct circuit *circuit, uint64_t *random)
{
    uint64_t word = breaker_random(random);

    for (size_t i = 0; i < offsetof(struct circuit, counters) / sizeof(uint64_t); i++) {
        uint64_t bits = breaker_random(random) >> (breaker_random(random) % 64);
        memcpy((char *)circuit + i * sizeof bits, &bits, sizeof bits);
    }
    if ((breaker_random(random) & 1) != 0)
        word = (word & ~(UINT64_C(3) << 62)) | UINT64_C(2) << 62;
    /* The window is large: some of its words are changed each time, its two heads among them now and then. */
    _Atomic uint64_t *window = (_Atomic uint64_t *)&circuit->window;
    const size_t words = sizeof circuit->window / sizeof(uint64_t);
    for (int i = 0; i < 20; i++)
        atomic_store(&window[breaker_random(random) % words], breaker_random(random));
    atomic_store(&circuit->window.epoch, breaker_random(random) >> (breaker_random(random) % 64));
    atomic_store(&circuit->window.head, breaker_random(random) >> (breaker_random(random) % 64));
    atomic_store(&circuit->word, word);
}

static void random_memory_is_lived_with(void **state)
{
    struct circuit *circuit = fresh_circuit();
    uint64_t random = 20240229;
    unsigned int admitted = 0, refused = 0;

    (void)state;
    for (int i = 0; i < 100000; i++) {
        struct settings settings;
        struct transitions transitions;
        struct ticket ticket = {.generation = breaker_random(&random),
                                .token = breaker_random(&random),
                                .address = (int)breaker_random(&random)};
        struct caller caller = {.holder = (uint32_t)breaker_random(&random),
                                .shard = (unsigned int)breaker_random(&random),
                                .address = (int)(breaker_random(&random) % 20) - 5,
                                .addresses = (uint32_t)breaker_random(&random),
                                .alive = (random & 1) != 0 ? random_alive : NULL,
                                .context = &random};
        struct outcome outcome = {(enum verdict)(breaker_random(&random) % 5),
                                  (enum failure_kind)(breaker_random(&random) % 20),
                                  (enum neutral_reason)(breaker_random(&random) % 20),
                                  (unsigned int)breaker_random(&random), (breaker_random(&random) & 1) != 0};
        struct circuit_view view;
        uint64_t now = breaker_random(&random) >> (breaker_random(&random) % 64);

        for (size_t byte = 0; byte < sizeof settings; byte++)
            ((unsigned char *)&settings)[byte] = (unsigned char)breaker_random(&random);
        scramble(circuit, &random);
        for (int call = 0; call < 3; call++) {
            circuit_observe(circuit, &settings, now, &view);
            assert_in_range(view.state, CIRCUIT_CLOSED, CIRCUIT_HALF_OPEN);
            assert_in_range(view.probes, 0, CIRCUIT_LEASES);
            enum admission admission = circuit_admit(circuit, &settings, &caller, now, &ticket, &transitions);
            assert_in_range(transitions.count, 0, TRANSITIONS_MAX);
            if (admission == ADMIT_PASS || admission == ADMIT_PROBE)
                admitted++;
            else
                refused++;
            circuit_settle(circuit, &settings, &caller, &ticket, outcome, now, &transitions);
            assert_in_range(transitions.count, 0, TRANSITIONS_MAX);
            int address = circuit_address_index(circuit, breaker_random(&random));
            assert_in_range(address + 1, 0, CIRCUIT_ADDRESSES);
            circuit_address_answered(circuit, caller.address);
            circuit_other_answered(circuit, caller.address);
            circuit_address_failed(circuit, caller.address);
        }
    }
    assert_true(admitted > 10000);
    assert_true(refused > 10000);
    free(circuit);
}

static void a_lease_with_an_ancient_deadline_leads_to_a_probe_and_not_to_years_of_refusals(void **state)
{
    struct breaker_bench *bench = *state;

    /* so far back that 57 bits would take the end of its pause for a time to come */
    bench->now_ns = UINT64_C(7) << 57;
    breaker_open(bench);
    breaker_probe(bench);
    for (unsigned int slot = 0; slot < CIRCUIT_LEASES; slot++)
        atomic_store(&bench->circuit->leases[slot].deadline_ns, bench->now_ns - (UINT64_C(3) << 55));
    assert_int_equal(breaker_admit(bench), ADMIT_PROBE);
    assert_int_equal(bench->transitions, 4);
}

static void serials_and_tokens_are_never_zero_when_the_counter_wraps(void **state)
{
    struct breaker_bench *bench = *state;
    const uint64_t wraps[] = {UINT64_C(1) << 32, UINT64_C(1) << 34, UINT64_C(5) << 34, 0};

    bench->caller.holder = 0; /* as bad as it gets: then only the serial makes a token of it */
    for (size_t i = 0; i < sizeof wraps / sizeof *wraps; i++) {
        for (uint64_t before = 1; before <= 4; before++) {
            breaker_open(bench);
            bench->now_ns += 10 * SECOND;
            atomic_store(&bench->circuit->serial, wraps[i] - before);
            assert_int_equal(breaker_admit(bench), ADMIT_PROBE);
            assert_true((uint32_t)bench->ticket.token != 0);
            assert_true(bench->ticket.generation != 0);
            assert_int_equal(breaker_settle(bench, bench->ticket, breaker_success), SETTLED_COUNTED);
        }
    }
    assert_int_equal(bench->transitions, 48);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_word_survives_packing),
        breaker_test(a_broken_state_becomes_a_fresh_closed_circuit),
        cmocka_unit_test(random_memory_is_lived_with),
        breaker_test(a_lease_with_an_ancient_deadline_leads_to_a_probe_and_not_to_years_of_refusals),
        breaker_test(serials_and_tokens_are_never_zero_when_the_counter_wraps),
    };

    return cmocka_run_group_tests_name("corrupt memory", tests, NULL, NULL);
}
