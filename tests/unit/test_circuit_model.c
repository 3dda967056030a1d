/*
 * test_circuit_model.c - random sequences of calls, outcomes, deaths and moments against a slow, obvious model.
 *
 * The model is the rules in plain data: a list of probes, a clock, no bits and no races. After each step the answer,
 * the transitions, the counters and what an observer sees must be the model's. Seeds are fixed; a failure names its
 * own.
 */
#include "support_breaker.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SEQUENCES 3000u
#define STEPS 250u
#define HOLDERS 4u
#define TICKETS 24u

struct model_probe {
    uint64_t token, deadline;
    uint32_t holder, expected, tried, failed;
};

struct model_call {
    uint64_t time;
    bool failed, slow;
};

struct model {
    enum circuit_state state;
    uint32_t failures, step, successes;
    uint64_t deadline; /* of the pause */
    uint64_t not_before;
    unsigned int era;               /* grows when the circuit leaves open */
    unsigned int overrun;           /* the era whose probes ran out of time, if that opened it last; 0: no */
    struct model_call calls[STEPS]; /* completed while closed, in this era */
    unsigned int call_count;
    struct model_probe probes[CIRCUIT_LEASES];
    unsigned int probe_count;
    uint64_t counts[COUNTERS];
    struct transitions made; /* by this step */
};

/* A ticket with what the model knows of it. */
struct held {
    struct ticket ticket;
    unsigned int era;
    bool used;
};

struct trial {
    struct circuit *circuit;
    struct settings settings;
    struct model model;
    struct transitions real; /* by this step */
    struct held held[TICKETS];
    uint32_t holders[HOLDERS]; /* living ones */
    uint64_t now, random, seed;
    uint64_t bucket; /* how wide the window's are */
    unsigned int step;
};

#define check(trial, condition)                                                                                        \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            fail_msg("seed %" PRIu64 ", step %u: not %s", (trial)->seed, (trial)->step, #condition);                   \
    } while (0)

static uint64_t draw(struct trial *trial, uint64_t below)
{
    return breaker_random(&trial->random) % below;
}

static bool is_living(uint32_t holder, void *context)
{
    const struct trial *trial = context;

    for (unsigned int i = 0; i < HOLDERS; i++) {
        if (trial->holders[i] == holder)
            return true;
    }
    return false;
}

/* --- the model --- */

static void model_note(struct model *model, enum circuit_state to, enum transition_reason reason)
{
    model->overrun = reason == REASON_PROBE_TIMEOUT ? model->era : 0;
    model->made.at[model->made.count++] = (struct transition){.from = model->state, .to = to, .reason = reason};
    model->counts[counter_of_state(to)]++;
    model->state = to;
}

/* The jitter is the circuit's own affair, within its bounds: the pause is taken from the real record. */
static void model_open(struct trial *trial, uint32_t step, uint64_t at, enum transition_reason reason)
{
    struct model *model = &trial->model;
    uint64_t plain = trial->settings.reset_timeout_ns;

    for (uint32_t i = 0; i < step && plain < trial->settings.reset_timeout_max_ns; i++)
        plain = plain * trial->settings.backoff_permille / 1000;
    if (plain > trial->settings.reset_timeout_max_ns)
        plain = trial->settings.reset_timeout_max_ns;

    check(trial, trial->real.count > model->made.count);
    uint64_t pause = trial->real.at[model->made.count].pause_ns;
    uint64_t held = model->not_before > at ? model->not_before - at : 0;
    uint64_t longest = plain + plain * trial->settings.jitter_permille / 1000;
    check(trial, pause >= plain && pause >= held);
    check(trial, pause <= (longest > held ? longest : held));
    model_note(model, CIRCUIT_OPEN, reason);
    model->step = step;
    model->deadline = at + pause;
    model->failures = model->successes = model->probe_count = 0;
}

static bool model_expire(struct trial *trial)
{
    struct model *model = &trial->model;
    uint64_t earliest = UINT64_MAX;

    for (unsigned int i = 0; i < model->probe_count; i++) {
        if (model->probes[i].deadline < earliest)
            earliest = model->probes[i].deadline;
    }
    if (trial->now < earliest)
        return false;
    model->counts[COUNT_PROBES_FAILED]++;
    model_open(trial, model->step < 31 ? model->step + 1 : 31, earliest, REASON_PROBE_TIMEOUT);
    return true;
}

static void model_drop(struct model *model, struct model_probe *probe)
{
    *probe = model->probes[--model->probe_count];
}

static struct model_probe *model_find(struct model *model, uint64_t token)
{
    for (unsigned int i = 0; i < model->probe_count; i++) {
        if (model->probes[i].token == token)
            return &model->probes[i];
    }
    return NULL;
}

static void model_bury(struct trial *trial, const struct caller *caller)
{
    struct model *model = &trial->model;

    for (unsigned int i = model->probe_count; i-- > 0;) {
        if (model->probes[i].holder != caller->holder && !is_living(model->probes[i].holder, trial))
            model_drop(model, &model->probes[i]);
    }
}

static uint32_t mask_of(int address)
{
    return address == ADDRESS_NONE ? 0 : 1u << address;
}

static bool model_joins(const struct model_probe *probe, const struct caller *caller)
{
    return caller->address != ADDRESS_NONE && probe->holder == caller->holder && probe->tried != 0 &&
           (probe->tried & mask_of(caller->address)) == 0;
}

static void model_probe(struct trial *trial, const struct caller *caller, uint64_t token)
{
    struct model *model = &trial->model;
    uint32_t own = mask_of(caller->address);
    uint64_t deadline = trial->now + trial->settings.probe_timeout_ns;

    check(trial, token >> 32 == caller->holder);
    check(trial, model_find(model, token) == NULL);
    model->counts[COUNT_PROBES]++;
    model->probes[model->probe_count++] = (struct model_probe){.token = token,
                                                               .deadline = deadline,
                                                               .holder = caller->holder,
                                                               .expected = caller->addresses | own,
                                                               .tried = own};
}

static enum admission model_admit_half_open(struct trial *trial, const struct caller *caller,
                                            const struct ticket *ticket)
{
    struct model *model = &trial->model;
    bool may_join = false;

    model_bury(trial, caller);
    for (unsigned int i = 0; i < model->probe_count; i++)
        may_join = may_join || model_joins(&model->probes[i], caller);
    if (may_join) { /* whichever of its own probes */
        struct model_probe *joined = model_find(model, ticket->token);
        check(trial, joined != NULL && model_joins(joined, caller));
        joined->tried |= mask_of(caller->address);
        joined->expected |= mask_of(caller->address) | caller->addresses;
        return ADMIT_PROBE;
    }
    if (model->probe_count >= trial->settings.half_open_max_calls)
        return ADMIT_REFUSED_HALF_OPEN;
    model_probe(trial, caller, ticket->token);
    return ADMIT_PROBE;
}

static enum admission model_admit(struct trial *trial, const struct caller *caller, const struct ticket *ticket)
{
    struct model *model = &trial->model;

    if (model->state == CIRCUIT_CLOSED)
        return ADMIT_PASS;
    if (model->state == CIRCUIT_HALF_OPEN && !model_expire(trial))
        return model_admit_half_open(trial, caller, ticket);
    if (trial->now < model->deadline)
        return ADMIT_REFUSED_OPEN;
    model_note(model, CIRCUIT_HALF_OPEN, REASON_PAUSE_OVER);
    model->era++;
    model->call_count = 0;
    model_probe(trial, caller, ticket->token);
    return ADMIT_PROBE;
}

/* The calls whose bucket began less than a window ago, or the last N. */
static struct window_counts model_window(const struct trial *trial)
{
    const struct model *model = &trial->model;
    const uint64_t window = trial->settings.window;
    struct window_counts counts = {0};

    for (unsigned int i = model->call_count; i-- > 0;) {
        const struct model_call *call = &model->calls[i];
        bool is_in = window >= WINDOW_CALLS ? counts.calls < window - WINDOW_CALLS
                                            : call->time - call->time % trial->bucket + window > trial->now;

        counts.calls += is_in;
        counts.failed += is_in && call->failed;
        counts.slow += is_in && call->slow;
    }
    return counts;
}

static void model_judge(struct trial *trial, const struct outcome *outcome)
{
    const struct settings *settings = &trial->settings;
    struct window_counts counts = model_window(trial);
    bool failed = outcome->verdict == VERDICT_FAILURE, enough = counts.calls >= settings->minimum_calls;

    if (failed && settings->failure_threshold != 0 && trial->model.failures >= settings->failure_threshold)
        model_open(trial, 0, trial->now, REASON_FAILURE_THRESHOLD);
    else if (failed && settings->failure_rate_permille != 0 && enough &&
             1000 * counts.failed >= settings->failure_rate_permille * counts.calls)
        model_open(trial, 0, trial->now, REASON_FAILURE_RATE);
    else if (outcome->slow && settings->slow_call_rate_permille != 0 && enough &&
             1000 * counts.slow >= settings->slow_call_rate_permille * counts.calls)
        model_open(trial, 0, trial->now, REASON_SLOW_CALL_RATE);
}

static enum settlement model_settle_call(struct trial *trial, const struct held *held, const struct outcome *outcome)
{
    struct model *model = &trial->model;

    if (model->state != CIRCUIT_CLOSED || held->era != model->era)
        return SETTLED_LATE;
    if (outcome->verdict == VERDICT_SUCCESS)
        model->failures = 0;
    if (outcome->verdict == VERDICT_FAILURE)
        model->failures++;
    if (outcome->verdict == VERDICT_SUCCESS || outcome->verdict == VERDICT_FAILURE)
        model->calls[model->call_count++] =
            (struct model_call){trial->now, outcome->verdict == VERDICT_FAILURE, outcome->slow};
    model_judge(trial, outcome);
    return SETTLED_COUNTED;
}

/* The peer answers a probe that has run out of time: slow, but alive. */
static enum settlement model_settle_overrun(struct model *model, const struct held *held, struct outcome outcome)
{
    if (model->state != CIRCUIT_OPEN || model->overrun != held->era ||
        (outcome.verdict != VERDICT_SUCCESS && outcome.verdict != VERDICT_BUSINESS))
        return SETTLED_LATE;
    model->counts[COUNT_PROBES_SUCCEEDED]++;
    model_note(model, CIRCUIT_CLOSED, REASON_PROBE_SUCCEEDED);
    model->failures = model->step = model->successes = model->call_count = 0;
    model->era++;
    return SETTLED_COUNTED;
}

static enum settlement model_settle_probe(struct trial *trial, const struct held *held, struct outcome outcome)
{
    struct model *model = &trial->model;
    const struct ticket *ticket = &held->ticket;
    struct model_probe *probe = model_find(model, ticket->token);

    if (model->state != CIRCUIT_HALF_OPEN)
        return model_settle_overrun(model, held, outcome);
    if (probe == NULL)
        return SETTLED_LATE;
    if (model_expire(trial))
        return model_settle_overrun(model, held, outcome);
    switch (outcome.verdict) {
    case VERDICT_SUCCESS:
    case VERDICT_BUSINESS:
        model->counts[COUNT_PROBES_SUCCEEDED]++;
        model_drop(model, probe);
        if (++model->successes >= trial->settings.success_threshold) {
            model_note(model, CIRCUIT_CLOSED, REASON_PROBE_SUCCEEDED);
            model->failures = model->step = model->successes = model->probe_count = 0;
        }
        break;
    case VERDICT_FAILURE:
        probe->failed |= mask_of(ticket->address);
        if (outcome.kind == FAILURE_HTTP || ticket->address == ADDRESS_NONE ||
            (probe->expected & ~probe->failed) == 0) {
            model->counts[COUNT_PROBES_FAILED]++;
            model_open(trial, model->step < 31 ? model->step + 1 : 31, trial->now, REASON_PROBE_FAILED);
        }
        break;
    default:
        probe->tried &= ~mask_of(ticket->address);
        if ((probe->tried & ~probe->failed) == 0)
            model_drop(model, probe);
        break;
    }
    return SETTLED_COUNTED;
}

/* --- one step of both --- */

static void compare_transitions(struct trial *trial)
{
    struct model *model = &trial->model;

    check(trial, trial->real.count == model->made.count);
    for (unsigned int i = 0; i < model->made.count; i++) {
        check(trial, trial->real.at[i].from == model->made.at[i].from);
        check(trial, trial->real.at[i].to == model->made.at[i].to);
        check(trial, trial->real.at[i].reason == model->made.at[i].reason);
        check(trial, trial->real.at[i].refused <= model->counts[COUNT_REFUSED]);
    }
}

static void compare_view(struct trial *trial)
{
    const struct model *model = &trial->model;
    struct circuit_view view;

    circuit_observe(trial->circuit, &trial->settings, trial->now, &view);
    for (unsigned int i = 0; model->state == CIRCUIT_HALF_OPEN && i < model->probe_count; i++) {
        if (trial->now < model->probes[i].deadline)
            continue;
        check(trial, view.state == CIRCUIT_OPEN && view.step > 0 && view.probes == 0);
        return;
    }
    check(trial, view.state == model->state);
    check(trial, view.failures == model->failures);
    check(trial, view.successes == model->successes);
    check(trial, view.probes == model->probe_count);
    check(trial, view.step == model->step);
    uint64_t left = model->state == CIRCUIT_OPEN && trial->now < model->deadline ? model->deadline - trial->now : 0;
    check(trial, view.retry_in_ns == left);
    check(trial, view.probe_due == (model->state == CIRCUIT_OPEN && left == 0));
    struct window_counts counts = {0};
    if (model->state == CIRCUIT_CLOSED && trial->settings.failure_rate_permille != 0)
        counts = model_window(trial);
    check(trial, view.window.calls == counts.calls);
    check(trial, view.window.failed == counts.failed);
    check(trial, view.window.slow == counts.slow);
    for (unsigned int counter = 0; counter < COUNTERS; counter++)
        check(trial, counters_sum(&trial->circuit->counters, counter) == model->counts[counter]);
}

static struct caller draw_caller(struct trial *trial)
{
    uint32_t mask = (uint32_t)draw(trial, 8);
    int address = (int)draw(trial, 4) - 1;

    return (struct caller){.holder = trial->holders[draw(trial, HOLDERS)],
                           .shard = (unsigned int)draw(trial, 9),
                           .address = address,
                           .addresses = mask,
                           .alive = is_living,
                           .context = trial};
}

static void step_admit(struct trial *trial)
{
    struct model *model = &trial->model;
    struct held *held = &trial->held[draw(trial, TICKETS)];
    struct caller caller = draw_caller(trial);
    struct ticket ticket = {.generation = 0};

    enum admission real = circuit_admit(trial->circuit, &trial->settings, &caller, trial->now, &ticket, &trial->real);
    enum admission expected = model_admit(trial, &caller, &ticket);
    check(trial, real == expected);
    if (real == ADMIT_PASS || real == ADMIT_PROBE) {
        model->counts[COUNT_ADMITTED]++;
        check(trial, (ticket.token != 0) == (real == ADMIT_PROBE));
        *held = (struct held){ticket, model->era, true}; /* a call that is overwritten never comes back */
    } else {
        model->counts[COUNT_REFUSED]++;
        model->counts[counter_of_refusal(real)]++;
    }
}

static void step_settle(struct trial *trial)
{
    static const enum verdict verdicts[] = {VERDICT_SUCCESS, VERDICT_SUCCESS, VERDICT_FAILURE, VERDICT_FAILURE,
                                            VERDICT_FAILURE, VERDICT_NEUTRAL, VERDICT_BUSINESS};
    static const enum counter sums[] = {[VERDICT_SUCCESS] = COUNT_SUCCEEDED,
                                        [VERDICT_FAILURE] = COUNT_FAILED,
                                        [VERDICT_NEUTRAL] = COUNT_NEUTRAL,
                                        [VERDICT_BUSINESS] = COUNT_BUSINESS};
    struct model *model = &trial->model;
    struct held *held = &trial->held[draw(trial, TICKETS)];

    for (unsigned int i = 0; i < TICKETS && !held->used; i++)
        held = &trial->held[(unsigned int)(held - trial->held + 1) % TICKETS];
    if (!held->used)
        return;
    struct outcome outcome = {.verdict = verdicts[draw(trial, sizeof verdicts / sizeof *verdicts)]};
    if (outcome.verdict == VERDICT_SUCCESS)
        outcome.slow = trial->settings.slow_call_ns != 0 && draw(trial, 3) == 0;
    if (outcome.verdict == VERDICT_FAILURE)
        outcome.kind = (enum failure_kind)(1 + draw(trial, FAILURE_KINDS - 1));
    if (outcome.kind == FAILURE_HTTP)
        outcome.http_status = 500 + (unsigned int)draw(trial, 100);
    if (draw(trial, 8) == 0) {
        uint64_t not_before = trial->now + draw(trial, 3 * trial->settings.reset_timeout_ns);

        circuit_hold_open(trial->circuit, not_before);
        if (not_before > model->not_before)
            model->not_before = not_before;
    }
    if (outcome.verdict == VERDICT_NEUTRAL)
        outcome.reason = (enum neutral_reason)(1 + draw(trial, NEUTRAL_REASONS - 1));
    struct caller caller = draw_caller(trial);

    enum settlement real =
        circuit_settle(trial->circuit, &trial->settings, &caller, &held->ticket, outcome, trial->now, &trial->real);
    enum settlement expected =
        held->ticket.token != 0 ? model_settle_probe(trial, held, outcome) : model_settle_call(trial, held, &outcome);
    check(trial, real == expected);
    held->used = false;
    if (expected == SETTLED_LATE) {
        model->counts[COUNT_LATE]++;
        return;
    }
    model->counts[sums[outcome.verdict]]++;
    model->counts[COUNT_SLOW] += outcome.slow;
    if (outcome.verdict == VERDICT_FAILURE)
        model->counts[COUNT_FAILURE_KIND + outcome.kind]++;
    if (outcome.kind == FAILURE_HTTP)
        model->counts[counter_of_status(outcome.http_status)]++;
    if (outcome.verdict == VERDICT_NEUTRAL)
        model->counts[COUNT_NEUTRAL_REASON + outcome.reason]++;
}

/* Often to the very boundary, or a nanosecond to either side of it; never back. */
static void step_time(struct trial *trial)
{
    const struct model *model = &trial->model;
    uint64_t goal = trial->now + draw(trial, 3 * trial->settings.reset_timeout_ns);

    if (model->state == CIRCUIT_OPEN && draw(trial, 4) != 0)
        goal = model->deadline + draw(trial, 3) - 1;
    if (model->state == CIRCUIT_HALF_OPEN && model->probe_count > 0)
        goal = draw(trial, 6) == 0 ? model->probes[0].deadline + draw(trial, 3) - 1
                                   : trial->now + draw(trial, trial->settings.probe_timeout_ns / 8);
    if (goal > trial->now)
        trial->now = goal;
}

/* Somebody else has seen that the peer is well, or thinks so. */
static void step_end_pause(struct trial *trial)
{
    struct model *model = &trial->model;
    const uint64_t earliest = model->not_before > trial->now ? model->not_before : trial->now;
    const bool ends = model->state == CIRCUIT_OPEN && model->deadline > earliest;

    check(trial, circuit_end_pause(trial->circuit, &trial->settings, trial->now) == ends);
    if (ends)
        model->deadline = earliest;
}

static void step_death(struct trial *trial)
{
    static uint32_t next_holder = 1000;

    trial->holders[draw(trial, HOLDERS)] = next_holder++;
}

/* A third of the trials has none. The failure rate is on wherever the slow-call rate is. */
static void draw_rates(struct trial *trial)
{
    struct settings *settings = &trial->settings;
    uint64_t kind = draw(trial, 3);

    if (kind == 0)
        return;
    settings->window = kind == 1 ? 17000000 + draw(trial, 100000000) : WINDOW_CALLS + 1 + draw(trial, 40);
    for (trial->bucket = 1; 32 * trial->bucket <= settings->window && kind == 1;)
        trial->bucket *= 2;
    settings->minimum_calls = 1 + (uint32_t)draw(trial, 8);
    settings->failure_rate_permille = 300 + (uint32_t)draw(trial, 701);
    if (draw(trial, 2) == 0) {
        settings->slow_call_ns = 1;
        settings->slow_call_rate_permille = (uint32_t)draw(trial, 600);
    }
}

static void run_trial(struct circuit *circuit, uint64_t seed)
{
    struct trial trial = {.circuit = circuit, .random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1, .seed = seed};

    memset(circuit, 0, sizeof *circuit);
    trial.now = draw(&trial, UINT64_C(1) << 58);
    trial.settings = (struct settings){
        .failure_threshold = (uint32_t)draw(&trial, 5),
        .success_threshold = 1 + (uint32_t)draw(&trial, 3),
        .half_open_max_calls = 1 + (uint32_t)draw(&trial, 3),
        .backoff_permille = 1000 + (uint32_t)draw(&trial, 3) * 500,
        .jitter_permille = (uint32_t)draw(&trial, 3) * 100,
        .reset_timeout_ns = 1000000 + draw(&trial, 1000000),
        .reset_timeout_max_ns = 4000000,
        .probe_timeout_ns = 400000 + draw(&trial, 1000000),
    };
    trial.bucket = 1;
    draw_rates(&trial);
    for (uint32_t i = 0; i < HOLDERS; i++)
        trial.holders[i] = i + 1;

    for (trial.step = 0; trial.step < STEPS; trial.step++) {
        trial.model.made.count = trial.real.count = 0;
        uint64_t choice = draw(&trial, 100);
        if (choice < 40)
            step_admit(&trial);
        else if (choice < 75)
            step_settle(&trial);
        else if (choice < 94)
            step_time(&trial);
        else if (choice < 97)
            step_end_pause(&trial);
        else
            step_death(&trial);
        compare_transitions(&trial);
        compare_view(&trial);
    }
}

static void random_sequences_behave_as_the_model_says(void **state)
{
    struct circuit *circuit = aligned_alloc(64, sizeof *circuit);

    (void)state;
    assert_non_null(circuit);
    for (uint64_t seed = 1; seed <= SEQUENCES; seed++)
        run_trial(circuit, seed);
    free(circuit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_sequences_behave_as_the_model_says),
    };

    return cmocka_run_group_tests_name("model", tests, NULL, NULL);
}
