/*
 * explanation_words.c - the sentences of an explanation: by which rule it opened, what comes next, what stands in the
 * way. See explanation.h.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "view/output.h"
#include "view/duration.h"
#include "view/fleet_text.h"
#include "view/explanation.h"
#include "segment/circuits.h"

/* --- the rule ----------------------------------------------------------------------------------------------------- */

/* "60%", "62.5%" */
static const char *percent(uint64_t permille, char text[SPAN_TEXT_MAX])
{
    if (permille % 10 != 0)
        snprintf(text, SPAN_TEXT_MAX, "%" PRIu64 ".%" PRIu64 "%%", permille / 10, permille % 10);
    else
        snprintf(text, SPAN_TEXT_MAX, "%" PRIu64 "%%", permille / 10);
    return text;
}

#define WINDOW_TEXT_MAX 40
static const char *window_text(uint64_t window, char text[WINDOW_TEXT_MAX])
{
    if ((window & WINDOW_CALLS) == 0)
        return span_format(window, text);
    snprintf(text, WINDOW_TEXT_MAX, "%" PRIu64 " calls", window & ~WINDOW_CALLS);
    return text;
}

static char *rate_rule(const struct opening *opening)
{
    char window[WINDOW_TEXT_MAX], was[SPAN_TEXT_MAX], wanted[SPAN_TEXT_MAX], slow[SPAN_TEXT_MAX];
    const bool is_slow = opening->reason == REASON_SLOW_CALL_RATE;
    const uint32_t part = is_slow ? opening->window_slow : opening->window_failed;
    window_text(opening->window, window);
    percent(rate_permille(part, opening->window_calls), was);
    percent(is_slow ? opening->slow_call_rate_permille : opening->failure_rate_permille, wanted);
    if (is_slow)
        return format_text("%" PRIu32 " of the last %" PRIu32 " calls (%s) took longer than %s (slow_call_rate = %s, "
                           "window = %s, minimum_calls = %" PRIu32 ")",
                           part, opening->window_calls, was, span_format(opening->slow_call_ns, slow), wanted, window,
                           opening->minimum_calls);
    return format_text("%" PRIu32 " of the last %" PRIu32 " calls (%s) failed (failure_rate = %s, window = %s, "
                       "minimum_calls = %" PRIu32 ")",
                       part, opening->window_calls, was, wanted, window, opening->minimum_calls);
}

static char *rule_of(const struct opening *opening)
{
    if (opening->reason != REASON_FAILURE_THRESHOLD)
        return rate_rule(opening);
    return format_text("%" PRIu32 " call%s failed%s (failure_threshold = %" PRIu32 ")", opening->failures,
                       opening->failures == 1 ? "" : "s", opening->failures == 1 ? "" : " in a row",
                       opening->failure_threshold);
}

/* --- what comes next ---------------------------------------------------------------------------------------------- */

/* "by the first of 3 processes that asks" */
static char *who_asks(const struct explanation *explanation)
{
    const size_t count = explanation->running->process_count;
    if (count == 0)
        return copy_text("by the first process that asks; none runs under the policy now");
    if (count == 1)
        return copy_text("by the one process that runs, if it asks");
    return format_text("by the first of %zu processes that asks", count);
}

static char *if_the_probe_fails(const struct explanation *explanation)
{
    const struct row *row = explanation->row;
    char span[SPAN_TEXT_MAX];
    if (row->target == NULL)
        return copy_text("");
    const struct settings *settings = &row->target->breaker;
    const uint64_t pause_ns = circuit_pause_ns(settings, row->view.step + 1);
    return format_text("; if that fails, a pause of %s%s", span_format(pause_ns, span),
                       settings->jitter_permille != 0 ? " or a little more" : "");
}

static char *next_of_open(const struct explanation *explanation)
{
    const struct circuit_view *view = &explanation->row->view;
    char span[SPAN_TEXT_MAX];
    char *who = who_asks(explanation), *then = if_the_probe_fails(explanation);
    char *text = view->probe_due ? format_text("the pause is over: the next call is the probe, %s%s", who, then)
                                 : format_text("a probe in %s, %s%s", span_format(view->retry_in_ns, span), who, then);
    free(who);
    free(then);
    return text;
}

static char *next_of_unprobed(const struct explanation *explanation)
{
    char *who = who_asks(explanation);
    char *text =
        format_text("a probe as soon as its health check passes, or fails for longer than health_patience, %s", who);
    free(who);
    return text;
}

static char *next_of_half_open(const struct explanation *explanation)
{
    const struct row *row = explanation->row;
    const struct event *probe = &explanation->probe;
    char *then = if_the_probe_fails(explanation), *text;
    char span[SPAN_TEXT_MAX];
    const uint32_t wanted = row->target != NULL ? row->target->breaker.success_threshold : 1;
    if (row->view.probe_due) {
        char *who = who_asks(explanation);
        text = format_text("another probe, for who made the last one has ended: %s%s", who, then);
        free(who);
    } else if (explanation->has_probe) {
        text =
            format_text("the end of the probe that %s[%" PRIu32 "] has made for %s; %" PRIu32 " of %" PRIu32
                        " needed ha%s succeeded%s",
                        probe->program, probe->pid, span_format(span_since(probe->mono_ns, explanation->now_ns), span),
                        row->view.successes, wanted, row->view.successes == 1 ? "s" : "ve", then);
    } else {
        text = format_text("the end of a probe that is under way%s", then);
    }
    free(then);
    return text;
}

static char *next_of_closed(const struct explanation *explanation)
{
    const struct row *row = explanation->row;
    if (row->target == NULL)
        return copy_text("calls pass; by which rules it opens is not known");
    const uint32_t threshold = row->target->breaker.failure_threshold, failures = row->view.failures;
    if (threshold == 0)
        return copy_text(window_is_used(&row->target->breaker) ? "calls pass, until a rate opens it"
                                                               : "calls pass; no rule opens it");
    const uint32_t left = failures < threshold ? threshold - failures : 1;
    return format_text("calls pass; %" PRIu32 " %sfailure%s in a row open%s it", left, failures > 0 ? "more " : "",
                       left == 1 ? "" : "s", left == 1 ? "s" : "");
}

static char *next_of(const struct explanation *explanation)
{
    const struct row *row = explanation->row;
    char span[SPAN_TEXT_MAX];
    if (row->forced != FORCED_NONE)
        return row->forced_left_ns != 0 ? format_text("in %s, or with sockfuse auto, it goes by its own rules again",
                                                      span_format(row->forced_left_ns, span))
                                        : copy_text("it goes by its own rules again with sockfuse auto");
    switch (row_mode(row)) {
    case MODE_OPEN:
        return copy_text("all calls are refused, as long as the policy says mode = open");
    case MODE_CLOSED:
    case MODE_OFF:
        return copy_text("no call is refused, as long as the policy says so");
    default:
        break;
    }
    if (row->hold == HOLD_FLEET)
        return copy_text("it goes by its own state again when it is closed in the fleet, or the agent ends");
    if (row->hold == HOLD_UNPROBED)
        return next_of_unprobed(explanation);
    switch (row->view.state) {
    case CIRCUIT_OPEN:
        return next_of_open(explanation);
    case CIRCUIT_HALF_OPEN:
        return next_of_half_open(explanation);
    case CIRCUIT_CLOSED:
        break;
    }
    return next_of_closed(explanation);
}

/* --- what stands in the way --------------------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static void add(struct explanation *explanation, const char *what,
                                                      const char *format, ...)
{
    va_list arguments;
    explanation->obstacles = grow(explanation->obstacles, explanation->obstacle_count, sizeof *explanation->obstacles);
    va_start(arguments, format);
    explanation->obstacles[explanation->obstacle_count++] =
        (struct obstacle){what, format_text_list(format, arguments)};
    va_end(arguments);
}

static void add_forced(struct explanation *explanation)
{
    const struct row *row = explanation->row;
    const struct event *said = &explanation->forcing;
    char span[SPAN_TEXT_MAX];
    if (row->forced == FORCED_NONE)
        return;
    const char *word = forced_name(row->forced);
    if (explanation->has_forcing && said->kind == row->forced)
        add(explanation, "forced", "%s%s%.*s forced it %s %s ago%s: its own state decides nothing", said->program,
            said->hosts[0] != '\0' ? " at " : "", (int)sizeof said->hosts, said->hosts, word,
            span_format(span_since(said->mono_ns, explanation->now_ns), span),
            said->hosts[0] != '\0' ? ", for the fleet" : "");
    else
        add(explanation, "forced", "it was forced %s: its own state decides nothing", word);
}

/* " for 12s" of the agent's last word, if that is what holds it. */
static const char *held_since(const struct explanation *explanation, char text[SPAN_TEXT_MAX + 8])
{
    const struct event *said = &explanation->holding;
    char span[SPAN_TEXT_MAX];
    text[0] = '\0';
    if (explanation->has_holding && said->kind == explanation->row->hold)
        snprintf(text, SPAN_TEXT_MAX + 8, " for %s", span_format(span_since(said->mono_ns, explanation->now_ns), span));
    return text;
}

static void add_held(struct explanation *explanation)
{
    const enum hold hold = explanation->row->hold;
    char since[SPAN_TEXT_MAX + 8];
    char *fleet = row_fleet_text(&explanation->row->fleet, &explanation->selected->segment, explanation->now_ns);
    if (hold == HOLD_FLEET)
        add(explanation, "held",
            "it is open in the fleet: the agent has held it%s, and its own state decides nothing%s%s%s",
            held_since(explanation, since), fleet != NULL ? " (" : "", fleet != NULL ? fleet : "",
            fleet != NULL ? ")" : "");
    free(fleet);
    if (hold == HOLD_UNPROBED)
        add(explanation, "held", "its health check fails: the agent has kept calls from probing it%s",
            held_since(explanation, since));
}

static void add_mode(struct explanation *explanation)
{
    const struct row *row = explanation->row;
    if (row->target == NULL || row->forced != FORCED_NONE)
        return;
    switch (row->target->mode) {
    case MODE_OBSERVE:
        add(explanation, "mode", "mode = observe: it refuses nothing");
        break;
    case MODE_OPEN:
        add(explanation, "mode", "mode = open: it refuses everything, whatever its own state is");
        break;
    case MODE_CLOSED:
        add(explanation, "mode", "mode = closed: it refuses nothing, and opens by no rule");
        break;
    case MODE_OFF:
        add(explanation, "mode", "mode = off: calls are left alone");
        break;
    default:
        break;
    }
}

/* The addresses whose last word was a failure, while others answer. */
static char *failing_addresses(const struct explanation *explanation)
{
    const struct circuit *circuit = circuits_at(&explanation->selected->segment, explanation->circuit);
    char *text = copy_text("");
    for (unsigned int i = 0; i < CIRCUIT_ADDRESSES; i++) {
        const struct circuit_address *at = &circuit->addresses[i];
        char address[DESTINATION_MAX];
        const uint64_t key = atomic_load_explicit(&at->key, memory_order_relaxed);
        if (key == 0 || atomic_load_explicit(&at->failed_sequence, memory_order_relaxed) <=
                            atomic_load_explicit(&at->answered_sequence, memory_order_relaxed))
            continue;
        if (!evidence_address(&explanation->selected->segment, explanation->circuit, (uint32_t)key, address))
            continue;
        char *longer = format_text("%s%s%s", text, text[0] != '\0' ? ", " : "", address);
        free(text);
        text = longer;
    }
    return text;
}

static void add_addresses(struct explanation *explanation)
{
    const uint64_t count = explanation->row->counts[COUNT_NEUTRAL_REASON + NEUTRAL_ADDRESS];
    if (count == 0)
        return;
    char *failing = failing_addresses(explanation);
    add(explanation, "address", "%" PRIu64 " failure%s did not count, for another of its addresses answers%s%s%s",
        count, count == 1 ? "" : "s", failing[0] != '\0' ? " (failing: " : "", failing, failing[0] != '\0' ? ")" : "");
    free(failing);
}

/* Outcomes that a user may have expected to count. */
static void add_neutral(struct explanation *explanation)
{
    const struct row *row = explanation->row;
    const uint64_t unlisted = row->counts[COUNT_NEUTRAL_REASON + NEUTRAL_UNLISTED],
                   cancelled = row->counts[COUNT_NEUTRAL_REASON + NEUTRAL_CANCELLED],
                   local = row->counts[COUNT_NEUTRAL_REASON + NEUTRAL_LOCAL];
    char span[SPAN_TEXT_MAX];
    if (unlisted > 0)
        add(explanation, "failures", "%" PRIu64 " failure%s of kinds that the key failures does not list", unlisted,
            unlisted == 1 ? " was" : "s were");
    if (cancelled > 0 && row->target != NULL)
        add(explanation, "abandon_after", "%" PRIu64 " call%s given up sooner than abandon_after = %s, so %s not count",
            cancelled, cancelled == 1 ? " was" : "s were", span_format(row->target->rules.abandon_after_ns, span),
            cancelled == 1 ? "it does" : "they do");
    if (local > 0)
        add(explanation, "local", "%" PRIu64 " call%s on this side (sockfuse status has which), which %s not count",
            local, local == 1 ? " failed by a fault" : "s failed by faults", local == 1 ? "does" : "do");
}

/* Calls that hang while nothing comes of it. */
static void add_waiting(struct explanation *explanation)
{
    const struct row *row = explanation->row;
    char span[SPAN_TEXT_MAX];
    if (row->target == NULL || row->waiting.calls == 0)
        return;
    const uint32_t uncharged = row->waiting.overdue - row->waiting.charged;
    if (row->waiting.overdue > row->waiting.charged)
        add(explanation, "overdue", "%" PRIu32 " call%s beyond %s limit; the next call charges %s", uncharged,
            uncharged == 1 ? " waits" : "s wait", uncharged == 1 ? "its" : "their", uncharged == 1 ? "it" : "them");
    else if (row->target->response_timeout_ns == 0 && row->waiting.oldest_ns >= NS_PER_S)
        add(explanation, "response_timeout",
            "a call waits for %s, and response_timeout is off: waiting is no failure, however long",
            span_format(row->waiting.oldest_ns, span));
}

static void add_limits(struct explanation *explanation)
{
    const struct row *row = explanation->row;
    char window[WINDOW_TEXT_MAX];
    if (row->target == NULL)
        return;
    if (row->target->max_connections != 0 && row->connections >= row->target->max_connections)
        add(explanation, "bulkhead", "all %" PRIu32 " connections are taken (max_connections): more are refused",
            row->target->max_connections);
    const struct settings *settings = &row->target->breaker;
    if (row_has_rates(row) && row->view.window.failed + row->view.window.slow > 0 &&
        row->view.window.calls < settings->minimum_calls)
        add(explanation, "minimum_calls",
            "no rate is judged yet: %" PRIu64 " of minimum_calls = %" PRIu32 " calls in the window of %s",
            row->view.window.calls, settings->minimum_calls, window_text(settings->window, window));
}

static void add_floor(struct explanation *explanation)
{
    const struct circuit *circuit = circuits_at(&explanation->selected->segment, explanation->circuit);
    const uint64_t not_before_ns = atomic_load_explicit(&circuit->not_before_ns, memory_order_relaxed);
    char span[SPAN_TEXT_MAX];
    if (explanation->row->view.state == CIRCUIT_OPEN && not_before_ns > explanation->now_ns)
        add(explanation, "retry_after", "the destination asked (Retry-After) not to be called for another %s",
            span_format(not_before_ns - explanation->now_ns, span));
}

static void add_programs(struct explanation *explanation)
{
    const struct running *running = explanation->running;
    const struct row *row = explanation->row;
    if (running->process_count == 0)
        add(explanation, "programs", "no program runs under the policy");
    else if (row->ended == ENDED_TARGET)
        add(explanation, "programs", "no running program's policy has this target any more");
    if (row->target == NULL)
        add(explanation, "policy", "the policy can't be read, or has this target no more: its limits are unknown");
    else if (running_differ(running))
        add(explanation, "policy", "running programs go by different revisions of the policy");
}

void explanation_find_words(struct explanation *explanation)
{
    if (explanation->evidence.has_opening)
        explanation->rule = rule_of(&explanation->evidence.opening);
    explanation->next = next_of(explanation);
    add_forced(explanation);
    add_held(explanation);
    add_mode(explanation);
    add_limits(explanation);
    add_waiting(explanation);
    if (explanation->circuit != CIRCUIT_INDEX_NONE) {
        add_floor(explanation);
        add_addresses(explanation);
        add_neutral(explanation);
    }
    add_programs(explanation);
}
