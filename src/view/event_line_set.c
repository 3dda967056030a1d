/*
 * event_line_set.c - what an event's type makes of the words and numbers of its line. See event_line_draft.h.
 */
#include "view/event_line_draft.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/errno_name.h"
#include "base/units.h"
#include "breaker/circuit.h"
#include "policy/alert_value.h"
#include "segment/forced.h"
#include "segment/held.h"

#define ERRNO_MAX 133

uint8_t draft_value(const char *word, const char *(*name)(unsigned int), unsigned int count)
{
    for (unsigned int value = 0; value < count; value++) {
        const char *text = name(value);
        if (text != NULL && strcmp(text, word) == 0)
            return (uint8_t)value;
    }
    return 0;
}

int draft_errno(const char *word)
{
    uint64_t number;
    if (strncmp(word, "errno ", 6) == 0)
        return ascii_is_number(word + 6, &number) && number <= INT_MAX ? (int)number : 0;
    for (int error = 1; word[0] == 'E' && error <= ERRNO_MAX; error++) {
        if (strcmp(errno_name(error), word) == 0)
            return error;
    }
    return 0;
}

uint32_t draft_number(uint64_t number)
{
    return number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
}

void draft_kind(const char *word, enum failure_kind *kind, unsigned int *http_status)
{
    *kind = failure_kind_named(word);
    *http_status = 0;
    const bool is_grpc = strncmp(word, "grpc-", 5) == 0;
    if (*kind == FAILURE_NONE && (is_grpc || strncmp(word, "http", 4) == 0)) {
        *kind = FAILURE_HTTP;
        if (word[4] == '-')
            *http_status = (uint16_t)(strtoul(word + 5, NULL, 10) + (is_grpc ? GRPC_STATUS_BASE : 0));
    }
}

/* Of the answer: HTTP's, or gRPC's. */
static uint16_t status_of(const struct numbers *numbers)
{
    if (numbers->grpc_status != 0 && numbers->grpc_status < GRPC_STATUSES)
        return (uint16_t)(GRPC_STATUS_BASE + numbers->grpc_status);
    return (uint16_t)(numbers->http_status <= HTTP_STATUS_MAX ? numbers->http_status : 0);
}

static void set_kind(struct event *event, const char *word)
{
    enum failure_kind kind;
    unsigned int http_status;
    draft_kind(word, &kind, &http_status);
    event->kind = (uint8_t)kind;
    if (http_status != 0)
        event->http_status = (uint16_t)http_status;
}

/* What lies in the last words: by the type. */
static void set_last(struct event *event, const struct draft_line *draft)
{
    switch (event->type) {
    case EVENT_FAILURE:
    case EVENT_OUTCOME:
        event->passed = draft->flags.passed;
        break;
    case EVENT_OPEN:
        if (event->from == CIRCUIT_CLOSED)
            event->recent_kinds = draft->recent_kinds;
        else
            memcpy(event->attempts, draft->attempts, sizeof event->attempts);
        break;
    case EVENT_CLOSE:
        event->outage = draft->outage;
        break;
    case EVENT_ALERT:
        memcpy(event->said, draft->words.said, sizeof event->said);
        break;
    case EVENT_RETRY:
        event->retries_most = draft_number(draft->numbers.of);
        event->failures = draft_number(draft->numbers.number);
        event->elapsed_ms = draft_number(draft->numbers.waited_ms);
        break;
    default:
        break;
    }
}

static uint64_t span_of(uint64_t ms)
{
    return ms < UINT64_MAX / NS_PER_MS ? ms * NS_PER_MS : 0;
}

/* What the type of the event says of the words and numbers. */
static void set_by_type(struct event *event, const struct draft_line *draft)
{
    const struct words *words = &draft->words;
    const struct numbers *numbers = &draft->numbers;
    event->from = draft_value(words->from, circuit_state_name, CIRCUIT_HALF_OPEN + 1);
    event->to = draft_value(words->to, circuit_state_name, CIRCUIT_HALF_OPEN + 1);
    event->refused = numbers->refused;
    switch (event->type) {
    case EVENT_REFUSED:
        event->reason = draft_value(words->reason, admission_name, ADMISSIONS);
        break;
    case EVENT_OUTCOME:
        event->http_status = status_of(numbers);
        event->verdict = draft_value(words->verdict, verdict_name, VERDICTS);
        event->reason = draft_value(words->reason, neutral_reason_name, NEUTRAL_REASONS);
        event->pause_ns = span_of(numbers->retry_after_ms);
        set_kind(event, words->kind);
        break;
    case EVENT_FAILURE:
        event->pause_ns = span_of(numbers->retry_after_ms);
        set_kind(event, words->kind);
        break;
    case EVENT_RETRY:
        set_kind(event, words->kind);
        break;
    case EVENT_FORCED:
        event->kind = draft_value(words->forced, forced_name, FORCED_WORDS);
        event->reason = draft_value(words->reason, transition_reason_name, TRANSITION_REASONS);
        event->pause_ns = (event->reason == REASON_FORCE_ENDED ? numbers->ended_ago_ms : numbers->for_ms) * NS_PER_MS;
        break;
    case EVENT_HELD:
        event->kind = draft_value(words->held, held_name, HOLDS);
        event->reason = draft_value(words->reason, hold_reason_name, HOLD_REASONS);
        event->http_status = (uint16_t)(numbers->http_status <= UINT16_MAX ? numbers->http_status : 0);
        event->pause_ns = (event->reason == HOLD_RAN_OUT ? numbers->ended_ago_ms : numbers->left_ms) * NS_PER_MS;
        break;
    case EVENT_ALERT:
        event->kind = draft_value(words->alert, alert_kind_name, ALERT_KINDS);
        event->reason = draft_value(words->reason, alert_end_name, ALERT_ENDS);
        event->refused = numbers->left_out;
        break;
    case EVENT_RELOAD:
        event->refused = strtoull(words->revision, NULL, 16);
        break;
    default:
        event->reason = draft_value(words->reason, transition_reason_name, TRANSITION_REASONS);
        event->pause_ns = numbers->pause_ms * NS_PER_MS;
        event->elapsed_ms = draft_number(numbers->noticed_after_ms);
        break;
    }
    /* The command keeps its user's name in the program's place. */
    if (event->type == EVENT_RELOAD || (event->type == EVENT_FORCED && event->reason != REASON_FORCE_ENDED))
        memcpy(event->program, words->user, sizeof event->program);
}

static uint64_t failures_of(const struct event *event, const struct numbers *numbers)
{
    if (event->type == EVENT_ALERT && event->reason == ALERT_SIGNALLED)
        return numbers->signal;
    return event->type == EVENT_HELD || event->type == EVENT_ALERT ? numbers->exit_status : numbers->failures;
}

static void set_rest(struct event *event, const struct draft_line *draft)
{
    const struct numbers *numbers = &draft->numbers;
    const struct flags *flags = &draft->flags;
    event->mono_ns = numbers->mono_ns;
    event->pid = draft_number(numbers->pid);
    event->failures = draft_number(failures_of(event, numbers));
    if (numbers->elapsed_ms > 0)
        event->elapsed_ms = draft_number(numbers->elapsed_ms);
    event->error = draft_errno(draft->words.error);
    event->overran = flags->overdue ? OVERRAN_HANGS : flags->came ? OVERRAN_CAME : OVERRAN_NOT;
    event->late = flags->late;
    event->slow = flags->slow;
    event->injected = flags->injected;
    event->window_calls = draft_number(numbers->calls);
    event->window_failed = draft_number(numbers->failed);
    event->window_slow = draft_number(numbers->slow);
}

void draft_set(struct event *event, const struct draft_line *draft)
{
    set_by_type(event, draft);
    set_rest(event, draft);
    set_last(event, draft);
}
