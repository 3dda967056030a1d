/*
 * support_breaker.c - a circuit on the bench.
 */
#include "support_breaker.h"

#include <stdlib.h>
#include <string.h>

const struct outcome breaker_success = {.verdict = VERDICT_SUCCESS};
const struct outcome breaker_failure = {.verdict = VERDICT_FAILURE, .kind = FAILURE_REFUSED};
const struct outcome breaker_neutral = {.verdict = VERDICT_NEUTRAL, .reason = NEUTRAL_CANCELLED};
const struct outcome breaker_business = {.verdict = VERDICT_BUSINESS};

static bool is_alive(uint32_t holder, void *context)
{
    struct breaker_bench *bench = context;

    bench->asked++;
    bench->asked_holder = holder;
    return bench->dead_holder == 0 || holder != bench->dead_holder;
}

int breaker_setup(void **state)
{
    struct breaker_bench *bench = calloc(1, sizeof *bench);
    struct circuit *circuit = aligned_alloc(64, sizeof *circuit);

    if (bench == NULL || circuit == NULL) {
        free(bench);
        free(circuit);
        return -1;
    }
    memset(circuit, 0, sizeof *circuit);
    bench->circuit = circuit;
    bench->settings = (struct settings){
        .failure_threshold = 3,
        .success_threshold = 1,
        .half_open_max_calls = 1,
        .backoff_permille = 2000,
        .jitter_permille = 0,
        .reset_timeout_ns = 10 * SECOND,
        .reset_timeout_max_ns = 60 * SECOND,
        .probe_timeout_ns = 5 * SECOND,
    };
    bench->caller = (struct caller){
        .holder = BREAKER_HOLDER, .shard = 1, .address = ADDRESS_NONE, .alive = is_alive, .context = bench};
    bench->now_ns = BREAKER_START_NS;
    bench->state = CIRCUIT_CLOSED;
    *state = bench;
    return 0;
}

/* Each transition that was told is counted by the state that it led to. */
static void compare_made(struct breaker_bench *bench)
{
    assert_int_equal(breaker_sum(bench, COUNT_OPENED), bench->made[CIRCUIT_OPEN]);
    assert_int_equal(breaker_sum(bench, COUNT_HALF_OPENED), bench->made[CIRCUIT_HALF_OPEN]);
    assert_int_equal(breaker_sum(bench, COUNT_CLOSED), bench->made[CIRCUIT_CLOSED]);
}

int breaker_teardown(void **state)
{
    struct breaker_bench *bench = *state;

    compare_made(bench);
    assert_int_equal(breaker_sum(bench, COUNT_ADMITTED), bench->admitted);
    assert_int_equal(breaker_sum(bench, COUNT_REFUSED), bench->refused);
    assert_int_equal(breaker_sum(bench, COUNT_SUCCEEDED) + breaker_sum(bench, COUNT_FAILED) +
                         breaker_sum(bench, COUNT_NEUTRAL) + breaker_sum(bench, COUNT_BUSINESS) +
                         breaker_sum(bench, COUNT_LATE),
                     bench->settled);
    free(bench->circuit);
    free(bench);
    return 0;
}

/* Each transition is reported once, by the call that made it, and begins where the one before ended. */
static void account(struct breaker_bench *bench)
{
    assert_in_range(bench->last.count, 0, TRANSITIONS_MAX);
    for (unsigned int i = 0; i < bench->last.count; i++) {
        const struct transition *made = &bench->last.at[i];

        assert_int_equal(made->from, bench->state);
        assert_int_not_equal(made->to, made->from);
        bench->state = made->to;
        bench->transitions++;
        bench->made[made->to]++;
    }
    compare_made(bench);
}

enum admission breaker_admit(struct breaker_bench *bench)
{
    struct ticket ticket;
    enum admission admission =
        circuit_admit(bench->circuit, &bench->settings, &bench->caller, bench->now_ns, &ticket, &bench->last);

    account(bench);
    if (admission == ADMIT_PASS || admission == ADMIT_PROBE) {
        bench->admitted++;
        bench->ticket = ticket;
        assert_int_equal(ticket.address, bench->caller.address);
        assert_int_equal(ticket.token != 0, admission == ADMIT_PROBE);
    } else {
        bench->refused++;
    }
    return admission;
}

enum admission breaker_admit_as(struct breaker_bench *bench, uint32_t holder, int address, uint32_t addresses)
{
    struct caller own = bench->caller;

    bench->caller.holder = holder;
    bench->caller.address = address;
    bench->caller.addresses = addresses;
    enum admission admission = breaker_admit(bench);
    bench->caller = own;
    return admission;
}

enum settlement breaker_settle(struct breaker_bench *bench, struct ticket ticket, struct outcome outcome)
{
    enum settlement settlement =
        circuit_settle(bench->circuit, &bench->settings, &bench->caller, &ticket, outcome, bench->now_ns, &bench->last);

    bench->settled++;
    account(bench);
    return settlement;
}

void breaker_call(struct breaker_bench *bench, struct outcome outcome)
{
    enum admission admission = breaker_admit(bench);

    assert_true(admission == ADMIT_PASS || admission == ADMIT_PROBE);
    assert_int_equal(breaker_settle(bench, bench->ticket, outcome), SETTLED_COUNTED);
}

void breaker_open(struct breaker_bench *bench)
{
    assert_int_equal(bench->state, CIRCUIT_CLOSED);
    for (uint32_t i = 0; i < bench->settings.failure_threshold && bench->state == CIRCUIT_CLOSED; i++)
        breaker_call(bench, breaker_failure);
    assert_int_equal(bench->state, CIRCUIT_OPEN);
}

void breaker_probe(struct breaker_bench *bench)
{
    bench->now_ns += breaker_view(bench).retry_in_ns;
    assert_int_equal(breaker_admit(bench), ADMIT_PROBE);
    breaker_assert_transition(bench, CIRCUIT_OPEN, CIRCUIT_HALF_OPEN, REASON_PAUSE_OVER);
}

struct circuit_view breaker_view(const struct breaker_bench *bench)
{
    struct circuit_view view;

    circuit_observe(bench->circuit, &bench->settings, bench->now_ns, &view);
    return view;
}

uint64_t breaker_sum(const struct breaker_bench *bench, unsigned int counter)
{
    return counters_sum(&bench->circuit->counters, counter);
}

void breaker_assert_transition(const struct breaker_bench *bench, enum circuit_state from, enum circuit_state to,
                               enum transition_reason reason)
{
    assert_int_equal(bench->last.count, 1);
    assert_int_equal(bench->last.at[0].from, from);
    assert_int_equal(bench->last.at[0].to, to);
    assert_int_equal(bench->last.at[0].reason, reason);
}

uint64_t breaker_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}
