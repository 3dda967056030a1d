/*
 * alert_state.c - when a circuit's alert is sent. See alert_state.h.
 */
#include "agent/alert_state.h"

/* What tells more than what came before or behind it: it keeps its place from what tells less. */
static unsigned int rank(enum alert_kind kind)
{
    return kind == ALERT_FLAPPING ? 2 : kind == ALERT_OVERDUE || kind == ALERT_PROBE_FAILED ? 0 : 1;
}

void alert_happened(struct alert_state *state, enum alert_kind kind, const struct event *event)
{
    const bool stays = state->is_waiting && rank(kind) < rank(state->kind);
    if (state->is_waiting) {
        state->left_out++;
        state->left_out_on |= 1u << (stays ? kind : state->kind);
    }
    if (stays)
        return;
    state->is_waiting = true;
    state->kind = kind;
    state->event = *event;
}

void alert_drop(struct alert_state *state)
{
    state->is_waiting = false;
    state->left_out = 0;
    state->left_out_on = 0;
}

/* AT the end of the time the next one may begin. */
static bool may_begin(const struct alert_state *state, uint64_t every_ns, uint64_t now_ns)
{
    return !state->is_running &&
           (!state->has_begun || now_ns < state->begun_ns || now_ns - state->begun_ns >= every_ns);
}

bool alert_is_due(const struct alert_state *state, uint64_t every_ns, uint64_t now_ns)
{
    return state->is_waiting && may_begin(state, every_ns, now_ns);
}

void alert_began(struct alert_state *state, uint64_t now_ns)
{
    alert_drop(state);
    state->is_running = state->has_begun = true;
    state->begun_ns = now_ns;
}

void alert_ended(struct alert_state *state)
{
    state->is_running = false;
}

void alert_undone(struct alert_state *state, enum alert_kind kind, const struct event *event)
{
    state->is_running = state->has_begun = false;
    if (!state->is_waiting)
        alert_happened(state, kind, event);
}

bool alert_is_over(const struct alert_state *state, uint64_t every_ns, uint64_t now_ns)
{
    return !state->is_waiting && may_begin(state, every_ns, now_ns);
}
