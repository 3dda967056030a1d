/*
 * alert_state.h - when a circuit's alert is sent: at once, or at alert_every's end, and with how many left out. Pure.
 *
 * One that has to wait gives way to a later one, which tells how it stands by then; but a change of the circuit's state
 * does not to a call that hangs or a probe that fails, and flapping to nothing. How many gave way, and about what they
 * were, is told with it.
 */
#ifndef SOCKFUSE_AGENT_ALERT_STATE_H
#define SOCKFUSE_AGENT_ALERT_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/policy_model.h"
#include "segment/event.h"

/* Begins as zeros. */
struct alert_state {
    bool is_waiting, is_running, has_begun;
    uint64_t begun_ns;    /* circuits' clock: the last one */
    struct event event;   /* that waits */
    enum alert_kind kind; /* what it is about */
    uint64_t left_out;
    uint32_t left_out_on; /* bit n: enum alert_kind n */
};

void alert_happened(struct alert_state *state, enum alert_kind kind, const struct event *event);
/* What waits is not to be sent any more. */
void alert_drop(struct alert_state *state);
/* Whether one is to begin now. */
bool alert_is_due(const struct alert_state *state, uint64_t every_ns, uint64_t now_ns);
void alert_began(struct alert_state *state, uint64_t now_ns);
void alert_ended(struct alert_state *state);
/* It could not be begun after all: it waits again, unless a later one does, and may begin at once. */
void alert_undone(struct alert_state *state, enum alert_kind kind, const struct event *event);
/* Whether nothing is kept of it but what is over. */
bool alert_is_over(const struct alert_state *state, uint64_t every_ns, uint64_t now_ns);

#endif
