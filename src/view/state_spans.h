/*
 * state_spans.h - a circuit's states one behind the other, as its calls met them.
 *
 * An operator's word goes over the circuit's own state, and behind that the agent's. Before the first event that tells it the state is that from
 * which this one came; without any, the present one, or closed if calls counted, or unknown.
 */
#ifndef SOCKFUSE_VIEW_STATE_SPANS_H
#define SOCKFUSE_VIEW_STATE_SPANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "view/story_model.h"
#include "segment/forced.h"

struct state_span {
    uint64_t from_ns, to_ns; /* wall clock */
    bool is_known;
    enum circuit_state state;
    enum forced forced;          /* by whose word it is so, if it is */
    bool by_fleet;               /* or because the agent holds it open */
    const struct event *because; /* NULL: it was so from the start */
};

/* Returns how many, at least 1; `*spans` is to be freed. */
size_t state_spans(const struct story *story, const struct story_circuit *circuit, struct state_span **spans);

/* "closed", "open", "half-open", "unknown" */
const char *state_span_name(const struct state_span *span);

#endif
