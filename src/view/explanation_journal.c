/*
 * explanation_journal.c - what the journal has of a circuit, as far back as it goes. See explanation.h.
 */
#include <stdlib.h>
#include <string.h>

#include "view/output.h"
#include "view/explanation.h"
#include "view/simulation.h"
#include "segment/journal.h"

static bool is_of(const struct event *event, const struct row *row)
{
    return strcmp(event->target, row->target_name) == 0 && strcmp(event->destination, row->destination) == 0;
}

/* Whether it happened behind the last opening. */
static bool is_since(const struct explanation *explanation, const struct event *event)
{
    return explanation->evidence.has_opening && event->mono_ns >= explanation->evidence.opening.mono_ns;
}

static void take_event(struct explanation *explanation, const struct event *event)
{
    switch (event->type) {
    case EVENT_FORCED:
        explanation->forcing = *event;
        explanation->has_forcing = true;
        break;
    case EVENT_HELD:
        explanation->holding = *event;
        explanation->has_holding = true;
        break;
    case EVENT_PROBE:
        explanation->probe = *event;
        explanation->has_probe = true;
        break;
    case EVENT_REFUSED:
        if (is_since(explanation, event) && !explanation->has_refusal) {
            explanation->refusal = *event;
            explanation->has_refusal = true;
        }
        break;
    case EVENT_OPEN:
        explanation->probes_failed += is_since(explanation, event) && event->from == CIRCUIT_HALF_OPEN;
        break;
    case EVENT_FAILURE:
        explanation->late_failures += is_since(explanation, event) && event->late;
        break;
    default:
        break;
    }
}

void explanation_read_journal(struct explanation *explanation)
{
    const struct segment *segment = &explanation->selected->segment;
    uint64_t oldest, head;
    struct event event;
    journal_span(segment, &oldest, &head);
    for (uint64_t number = oldest; number < head; number++)
        if (journal_read(segment, number, &event) && is_of(&event, explanation->row))
            take_event(explanation, &event);
}

/* A call that was under way at the opening, and whose end came behind it. */
static bool is_late_call(const struct explanation *explanation, const struct event *event)
{
    const bool ended =
        event->type == EVENT_FAILURE || (event->type == EVENT_OUTCOME && event->verdict != VERDICT_FAILURE);
    const uint64_t elapsed_ns = event->elapsed_ms * NS_PER_MS, opened_ns = explanation->evidence.opening.counted_ns;
    return ended && event->late && is_since(explanation, event) && is_of(event, explanation->row) &&
           event->mono_ns >= elapsed_ns && event->mono_ns - elapsed_ns <= opened_ns;
}

struct sim_call *explanation_late_calls(const struct explanation *explanation, size_t *count)
{
    const struct segment *segment = &explanation->selected->segment;
    struct sim_call *calls = NULL;
    uint64_t oldest, head;
    struct event event;
    *count = 0;
    journal_span(segment, &oldest, &head);
    for (uint64_t number = oldest; number < head; number++) {
        if (!journal_read(segment, number, &event) || !is_late_call(explanation, &event))
            continue;
        calls = grow(calls, *count, sizeof *calls);
        calls[(*count)++] = (struct sim_call){
            .began_ns = event.mono_ns - event.elapsed_ms * NS_PER_MS,
            .ended_ns = event.mono_ns,
            .pid = event.pid,
            .http_status = event.type == EVENT_FAILURE && event.kind == FAILURE_HTTP ? HTTP_STATUS_MAX : 0,
            .verdict = event.type == EVENT_FAILURE ? VERDICT_FAILURE : event.verdict,
            .kind = event.kind,
            .reason = event.type == EVENT_OUTCOME ? event.reason : NEUTRAL_NONE,
        };
    }
    return calls;
}
