/*
 * health_state.c - what follows from health checks. See health_state.h.
 */
#include "agent/health_state.h"

/* So often the rise doubles at most: far beyond any pause by then. */
#define WRONG_MAX 16u

/* Passed so often in a row, the check's word ends a pause. */
static uint32_t wanted(const struct health_state *state, const struct health_rules *rules)
{
    const uint32_t wrong = state->wrong < WRONG_MAX ? state->wrong : WRONG_MAX;
    return rules->rise < UINT32_MAX >> WRONG_MAX ? rules->rise << wrong : rules->rise;
}

static bool is_patient(const struct health_state *state, const struct health_rules *rules, uint64_t now_ns)
{
    uint64_t patience_ns;
    if (now_ns < state->since_ns || __builtin_mul_overflow(state->pause_ns, rules->patience, &patience_ns))
        return true;
    return now_ns - state->since_ns < patience_ns;
}

/* Another opening than the last one that was seen. Behind a word of the check that it is well: a probe has failed. */
static void begin(struct health_state *state, const struct health_view *view, uint64_t now_ns)
{
    const bool was_wrong = state->is_known && state->spent && state->wrong < WRONG_MAX;
    const uint32_t wrong = view->step == 0 ? 0 : state->wrong + was_wrong;
    *state = (struct health_state){
        .is_known = true, .since_ns = view->since_ns, .pause_ns = view->pause_ns, .due_ns = now_ns, .wrong = wrong};
}

/* What a check that fails has to say at this moment. */
static enum health_step fail_or_give_up(struct health_state *state, const struct health_rules *rules, uint64_t now_ns)
{
    if (is_patient(state, rules, now_ns))
        return HEALTH_HOLD;
    if (state->was_patient)
        return HEALTH_NOTHING;
    state->was_patient = true;
    return HEALTH_LOSE_PATIENCE;
}

enum health_step health_look(struct health_state *state, const struct health_rules *rules,
                             const struct health_view *view, uint64_t now_ns, bool *check)
{
    if (!state->is_known || view->since_ns != state->since_ns)
        begin(state, view, now_ns);
    *check =
        *check && (now_ns >= state->due_ns || state->due_ns - now_ns > rules->interval_ns); /* a clock that went back */
    if (*check)
        state->due_ns = now_ns + rules->interval_ns;
    return state->fails ? fail_or_give_up(state, rules, now_ns) : HEALTH_NOTHING;
}

enum health_step health_result(struct health_state *state, const struct health_rules *rules, bool passed,
                               uint64_t now_ns)
{
    if (!state->is_known)
        return HEALTH_NOTHING;
    if (!passed) {
        state->passed = 0;
        state->fails = true;
        return fail_or_give_up(state, rules, now_ns);
    }
    if (state->passed < UINT32_MAX)
        state->passed++;
    if (!state->spent && state->passed >= wanted(state, rules)) {
        state->fails = false;
        state->spent = true;
        return HEALTH_END_PAUSE;
    }
    if (state->passed < rules->rise || !state->fails)
        return state->fails ? fail_or_give_up(state, rules, now_ns) : HEALTH_NOTHING;
    state->fails = false;
    return HEALTH_LET_GO;
}

void health_probed(struct health_state *state)
{
    state->fails = false;
    state->passed = 0;
}

void health_closed(struct health_state *state)
{
    *state = (struct health_state){0};
}
