/*
 * explanation.c - the evidence of a circuit, put in order. See explanation.h.
 */
#include "view/explanation.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "view/output.h"
#include "view/simulation.h"
#include "segment/circuits.h"

static void add_piece(struct pieces *pieces, const struct evidence *piece)
{
    pieces->at[pieces->count++] = piece;
}

static void keep_last(struct pieces *pieces, unsigned int most)
{
    if (pieces->count <= most)
        return;
    memmove(pieces->at, pieces->at + (pieces->count - most), most * sizeof *pieces->at);
    pieces->count = most;
}

/* Whether a failure, or a slow call, lay in the window by which the opening was judged. */
static bool is_in_window(const struct opening *opening, const struct evidence *piece)
{
    return (opening->window & WINDOW_CALLS) != 0 || opening->counted_ns < opening->window ||
           piece->counted_ns > opening->counted_ns - opening->window;
}

/* What the rule that opened it has counted. */
static bool is_counted(const struct opening *opening, const struct evidence *piece)
{
    const bool is_slow = (piece->marks & EVIDENCE_SLOW) != 0;
    if (piece->generation != opening->generation || piece->counted_ns > opening->mono_ns)
        return false;
    if (opening->reason == REASON_SLOW_CALL_RATE)
        return is_slow && is_in_window(opening, piece);
    return !is_slow && (opening->reason == REASON_FAILURE_THRESHOLD || is_in_window(opening, piece));
}

static uint32_t counted_by(const struct opening *opening)
{
    switch (opening->reason) {
    case REASON_SLOW_CALL_RATE:
        return opening->window_slow;
    case REASON_FAILURE_RATE:
        return opening->window_failed;
    default:
        return opening->failures;
    }
}

static void find_led(struct explanation *explanation)
{
    const struct evidence_view *view = &explanation->evidence;
    const uint32_t wanted = counted_by(&view->opening);
    for (unsigned int i = 0; i < view->count; i++)
        if (view->at[i].ring == EVIDENCE_CLOSED && is_counted(&view->opening, &view->at[i].evidence))
            add_piece(&explanation->led, &view->at[i].evidence);
    keep_last(&explanation->led, wanted);
    explanation->led_missing = wanted - explanation->led.count;
}

/* What failed behind the last opening: probes, and calls once it had closed. */
static void find_since(struct explanation *explanation)
{
    const struct evidence_view *view = &explanation->evidence;
    const struct circuit_view *state = &explanation->row->view;
    for (unsigned int i = 0; i < view->count; i++) {
        const struct evidence *piece = &view->at[i].evidence;
        if (view->at[i].ring == EVIDENCE_PROBES && view->has_opening && piece->mono_ns >= view->opening.mono_ns)
            add_piece(&explanation->probes, piece);
        if (view->at[i].ring == EVIDENCE_CLOSED && state->state == CIRCUIT_CLOSED &&
            piece->generation == (uint32_t)state->generation)
            add_piece(&explanation->recent, piece);
    }
}

/* --- another threshold -------------------------------------------------------------------------------------------- */

/* Of an overdue call the end is its limit. */
static struct sim_call call_of(const struct evidence *piece)
{
    return (struct sim_call){
        .began_ns = piece->mono_ns > piece->elapsed_ns ? piece->mono_ns - piece->elapsed_ns : 0,
        .ended_ns = piece->counted_ns,
        .pid = piece->pid,
        .http_status = piece->kind == FAILURE_HTTP ? HTTP_STATUS_MAX : 0,
        .verdict = VERDICT_FAILURE,
        .kind = piece->kind,
    };
}

/* The first opening that a run of calls makes with that threshold and no other rule. False: none. */
static bool opens_with(const struct target *present, uint32_t threshold, const struct sim_call *calls, size_t count,
                       struct other_threshold *other)
{
    struct target target = {.mode = MODE_ENFORCE, .rules = {.failure_mask = UINT32_MAX}};
    const struct sim_rule rule = {.target = &target};
    struct simulation simulation;
    target.breaker = (struct settings){.failure_threshold = threshold,
                                       .success_threshold = 1,
                                       .half_open_max_calls = 1,
                                       .reset_timeout_ns = SETTING_MAX_NS,
                                       .reset_timeout_max_ns = SETTING_MAX_NS,
                                       .backoff_permille = PERMILLE,
                                       .probe_timeout_ns = SETTING_MAX_NS};
    /* An answer's status was judged when it was counted; what was a failure then is one. */
    target.rules.http_failures[0] = (struct status_range){HTTP_STATUS_MIN, HTTP_STATUS_MAX};
    target.rules.http_failure_count = 1;
    if (present != NULL) {
        target.connect_timeout_ns = present->connect_timeout_ns;
        target.response_timeout_ns = present->response_timeout_ns;
    }
    simulation_run(&simulation, calls, count, &rule, 1);
    const bool opens = simulation.transition_count > 0;
    if (opens)
        other->at_ns = simulation.transitions[0].at_ns;
    simulation_free(&simulation);
    for (size_t i = 0; opens && i < count; i++) {
        uint64_t known_ns;
        sim_judge(&calls[i], &target, &known_ns);
        if (known_ns == other->at_ns)
            other->pid = calls[i].pid;
    }
    return opens;
}

static void try_threshold(const struct target *present, struct other_threshold *other, uint32_t threshold,
                          const struct sim_call *calls, size_t count)
{
    other->is_asked = threshold > 0;
    other->threshold = threshold;
    if (!other->is_asked)
        return;
    other->is_known = true;
    other->opens = opens_with(present, threshold, calls, count, other);
}

/* All that the circuit has counted, and what was under way when it opened; these began before, so they had gone. */
static void try_others(struct explanation *explanation)
{
    const struct opening *opening = &explanation->evidence.opening;
    size_t late, count = 0;
    struct sim_call *late_calls = explanation_late_calls(explanation, &late);
    struct sim_call *calls = allocate(explanation->led.count + late, sizeof *calls);
    for (unsigned int i = 0; i < explanation->led.count; i++)
        calls[count++] = call_of(explanation->led.at[i]);
    const size_t led = count;
    for (size_t i = 0; i < late; i++)
        calls[count++] = late_calls[i];
    qsort(calls, led, sizeof *calls, sim_call_compare);
    if (explanation->led_missing == 0)
        try_threshold(explanation->row->target, &explanation->lower, opening->failure_threshold - 1, calls, led);
    else
        explanation->lower = (struct other_threshold){.is_asked = opening->failure_threshold > 1,
                                                      .threshold = opening->failure_threshold - 1};
    qsort(calls, count, sizeof *calls, sim_call_compare);
    if (explanation->led_missing == 0)
        try_threshold(explanation->row->target, &explanation->higher, opening->failure_threshold + 1, calls, count);
    else
        explanation->higher = (struct other_threshold){.is_asked = true, .threshold = opening->failure_threshold + 1};
    free(calls);
    free(late_calls);
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

void explanation_make(struct explanation *explanation, const struct selected *selected, const struct running *running,
                      const struct row *row, uint64_t now_ns)
{
    *explanation = (struct explanation){
        .selected = selected,
        .running = running,
        .row = row,
        .circuit =
            row->called ? circuits_stand(&selected->segment, row->target_name, row->destination) : CIRCUIT_INDEX_NONE,
        .now_ns = now_ns,
        .wall_ns = clock_wall_ns(),
    };
    if (explanation->circuit != CIRCUIT_INDEX_NONE &&
        evidence_read(&selected->segment, explanation->circuit, &explanation->evidence)) {
        const struct opening *opening = &explanation->evidence.opening;
        explanation->is_outage = explanation->evidence.has_opening && row->view.state != CIRCUIT_CLOSED;
        explanation->has_answer = latency_last_seconds(circuits_latency(&selected->segment, explanation->circuit),
                                                       now_ns, &explanation->answer_seconds);
        explanation_read_journal(explanation);
        if (explanation->evidence.has_opening)
            find_led(explanation);
        find_since(explanation);
        if (explanation->evidence.has_opening && opening->reason == REASON_FAILURE_THRESHOLD &&
            opening->failure_threshold != 0)
            try_others(explanation);
    }
    explanation_find_words(explanation);
}

void explanation_free(struct explanation *explanation)
{
    for (size_t i = 0; i < explanation->obstacle_count; i++)
        free(explanation->obstacles[i].text);
    free(explanation->obstacles);
    free(explanation->rule);
    free(explanation->next);
}
