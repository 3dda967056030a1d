/*
 * event_line.c - reads an event as event_json writes it.
 *
 * What a word means may depend on a member that comes later (`reason` is of a transition, a refusal or an outcome), so
 * words are kept until the line was read.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/errno_name.h"
#include "base/units.h"
#include "breaker/circuit.h"
#include "breaker/recent_kinds.h"
#include "view/duration.h"
#include "view/event_line.h"
#include "view/json_members.h"
#include "view/json_reader.h"
#include "segment/forced.h"
#include "segment/held.h"

#define WORD_MAX 32
#define ERRNO_MAX 133

/* The members that are words. */
struct words {
    char time[40], event[WORD_MAX], from[WORD_MAX], to[WORD_MAX], reason[WORD_MAX], kind[WORD_MAX], error[WORD_MAX],
        verdict[WORD_MAX], forced[WORD_MAX], held[WORD_MAX], revision[WORD_MAX], user[PROGRAM_NAME_MAX];
};

struct numbers {
    uint64_t mono_ns, pid, failures, pause_ms, refused, elapsed_ms, http_status, for_ms, ended_ago_ms, noticed_after_ms,
        exit_status, left_ms, retry_after_ms;
    uint64_t number, of, waited_ms; /* of a retry */
    uint64_t calls, failed, slow;   /* of `window` */
};
struct flags {
    bool overdue, came, late, passed, slow, injected;
};

struct draft_line {
    struct words words;
    struct numbers numbers;
    struct flags flags;
    uint64_t recent_kinds; /* of `kinds` */
    struct event_attempt attempts[EVENT_ATTEMPTS];
    struct event_outage outage;
};

/* The value whose name is `word`; 0, which is none of anything, if there is none. */
static uint8_t value_named(const char *word, const char *(*name)(unsigned int), unsigned int count)
{
    for (unsigned int value = 0; value < count; value++) {
        const char *text = name(value);
        if (text != NULL && strcmp(text, word) == 0)
            return (uint8_t)value;
    }
    return 0;
}

static int errno_named(const char *word)
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

static uint32_t number32(uint64_t number)
{
    return number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* "response-timeout", or "http-503" with the status. */
static void read_kind(const char *word, enum failure_kind *kind, unsigned int *http_status)
{
    *kind = failure_kind_named(word);
    *http_status = 0;
    if (*kind == FAILURE_NONE && strncmp(word, "http", 4) == 0) {
        *kind = FAILURE_HTTP;
        if (word[4] == '-')
            *http_status = (uint16_t)strtoul(word + 5, NULL, 10);
    }
}

/* --- members that are objects ------------------------------------------------------------------------------------- */

static void take_window(struct json_reader *reader, struct numbers *numbers)
{
    const struct number_member members[] = {
        {"calls", &numbers->calls}, {"failed", &numbers->failed}, {"slow", &numbers->slow}};
    json_members_read(reader, &(struct json_members){.numbers = members, .number_count = COUNT(members)});
}

static void take_kinds(struct json_reader *reader, uint64_t *recent_kinds)
{
    char key[WORD_MAX];
    *recent_kinds = 0;
    if (!json_read_object(reader))
        return;
    while (json_read_key(reader, key, sizeof key)) {
        struct outcome failure = {.verdict = VERDICT_FAILURE};
        uint64_t count = 0;
        read_kind(key, &failure.kind, &failure.http_status);
        if (json_read_unsigned(reader, &count) && failure.kind != FAILURE_NONE)
            for (uint64_t i = 0; i < count && i < RECENT_KINDS; i++)
                *recent_kinds = recent_kinds_with(*recent_kinds, &failure);
    }
}

static void take_attempt(struct json_reader *reader, struct event_attempt *attempt)
{
    char word[WORD_MAX] = "", error[WORD_MAX] = "";
    uint64_t elapsed_ms = 0;
    const struct text_member texts[] = {{"kind", word, sizeof word}, {"errno", error, sizeof error}};
    const struct number_member numbers[] = {{"elapsed_ms", &elapsed_ms}};
    enum failure_kind kind;
    unsigned int http_status;
    json_members_read(reader, &(struct json_members){texts, COUNT(texts), numbers, COUNT(numbers), NULL, 0});
    read_kind(word, &kind, &http_status);
    *attempt = (struct event_attempt){.elapsed_ms = number32(elapsed_ms),
                                      .http_status = (uint16_t)http_status,
                                      .kind = (uint8_t)kind,
                                      .error = (uint8_t)errno_named(error)};
}

static void take_attempts(struct json_reader *reader, struct event_attempt attempts[EVENT_ATTEMPTS])
{
    if (!json_read_list(reader))
        return;
    for (unsigned int i = 0; json_read_item(reader); i++) {
        if (i < EVENT_ATTEMPTS)
            take_attempt(reader, &attempts[i]);
        else
            json_read_skip(reader);
    }
}

/* Why the outage began. */
static void take_cause(struct json_reader *reader, struct draft_line *draft)
{
    char key[WORD_MAX], reason[WORD_MAX] = "";
    bool injected = false;
    const struct text_member texts[] = {{"reason", reason, sizeof reason}};
    const struct number_member numbers[] = {{"failures", &draft->numbers.failures}};
    const struct flag_member flags[] = {{"injected", &injected}};
    const struct json_members members = {texts, COUNT(texts), numbers, COUNT(numbers), flags, COUNT(flags)};
    if (!json_read_object(reader))
        return;
    while (json_read_key(reader, key, sizeof key)) {
        if (strcmp(key, "kinds") == 0)
            take_kinds(reader, &draft->outage.recent_kinds);
        else if (strcmp(key, "window") == 0)
            take_window(reader, &draft->numbers);
        else if (!json_members_take(reader, key, &members))
            json_read_skip(reader);
    }
    draft->outage.reason = value_named(reason, transition_reason_name, TRANSITION_REASONS);
    draft->outage.injected = injected;
}

static void take_outage(struct json_reader *reader, struct draft_line *draft)
{
    char key[WORD_MAX], since[40] = "";
    uint64_t lasted_ms = 0, probes = 0, failed = 0;
    const struct text_member texts[] = {{"since", since, sizeof since}};
    const struct number_member numbers[] = {{"lasted_ms", &lasted_ms},
                                            {"refused", &draft->outage.refused},
                                            {"probes", &probes},
                                            {"probes_failed", &failed}};
    const struct json_members members = {texts, COUNT(texts), numbers, COUNT(numbers), NULL, 0};
    if (!json_read_object(reader))
        return;
    while (json_read_key(reader, key, sizeof key)) {
        if (strcmp(key, "cause") == 0)
            take_cause(reader, draft);
        else if (!json_members_take(reader, key, &members))
            json_read_skip(reader);
    }
    draft->outage.lasted_ns = lasted_ms < UINT64_MAX / NS_PER_MS ? lasted_ms * NS_PER_MS : 0;
    draft->outage.probes = number32(probes);
    draft->outage.probes_failed = number32(failed);
    draft->outage.is_known = moment_parse(since, &draft->outage.time_ns);
}

/* False: it is none of them. */
static bool take_part(struct json_reader *reader, const char *key, struct draft_line *draft)
{
    if (strcmp(key, "window") == 0)
        take_window(reader, &draft->numbers);
    else if (strcmp(key, "kinds") == 0)
        take_kinds(reader, &draft->recent_kinds);
    else if (strcmp(key, "attempts") == 0)
        take_attempts(reader, draft->attempts);
    else if (strcmp(key, "outage") == 0)
        take_outage(reader, draft);
    else
        return false;
    return true;
}

/* --- the line ----------------------------------------------------------------------------------------------------- */

/* Any of the members; false: unknown. */
static bool take_member(struct json_reader *reader, const char *key, struct event_line *line, struct draft_line *draft)
{
    struct words *words = &draft->words;
    struct numbers *numbers = &draft->numbers;
    struct flags *flags = &draft->flags;
    struct event *event = &line->event;
    const struct text_member texts[] = {
        {"time", words->time, sizeof words->time},
        {"program", event->program, sizeof event->program},
        {"target", event->target, sizeof event->target},
        {"destination", event->destination, sizeof event->destination},
        {"event", words->event, WORD_MAX},
        {"from", words->from, WORD_MAX},
        {"to", words->to, WORD_MAX},
        {"reason", words->reason, WORD_MAX},
        {"kind", words->kind, WORD_MAX},
        {"errno", words->error, WORD_MAX},
        {"verdict", words->verdict, WORD_MAX},
        {"forced", words->forced, WORD_MAX},
        {"held", words->held, WORD_MAX},
        {"policy_revision", words->revision, WORD_MAX},
        {"user", words->user, sizeof words->user},
        {"policy", line->policy, sizeof line->policy},
        {"owner", line->owner, sizeof line->owner},
    };
    const struct number_member counts[] = {
        {"mono_ns", &numbers->mono_ns},
        {"pid", &numbers->pid},
        {"failures", &numbers->failures},
        {"pause_ms", &numbers->pause_ms},
        {"refused", &numbers->refused},
        {"elapsed_ms", &numbers->elapsed_ms},
        {"http_status", &numbers->http_status},
        {"for_ms", &numbers->for_ms},
        {"ended_ago_ms", &numbers->ended_ago_ms},
        {"noticed_after_ms", &numbers->noticed_after_ms},
        {"exit_status", &numbers->exit_status},
        {"left_ms", &numbers->left_ms},
        {"retry_after_ms", &numbers->retry_after_ms},
        {"number", &numbers->number},
        {"of", &numbers->of},
        {"waited_ms", &numbers->waited_ms},
    };
    const struct flag_member marks[] = {
        {"overdue", &flags->overdue}, {"came", &flags->came}, {"late", &flags->late},
        {"passed", &flags->passed},   {"slow", &flags->slow}, {"injected", &flags->injected},
    };
    const struct json_members members = {texts, COUNT(texts), counts, COUNT(counts), marks, COUNT(marks)};
    return take_part(reader, key, draft) || json_members_take(reader, key, &members);
}

static void set_kind(struct event *event, const char *word)
{
    enum failure_kind kind;
    unsigned int http_status;
    read_kind(word, &kind, &http_status);
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
    case EVENT_RETRY:
        event->retries_most = number32(draft->numbers.of);
        event->failures = number32(draft->numbers.number);
        event->elapsed_ms = number32(draft->numbers.waited_ms);
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
    event->from = value_named(words->from, circuit_state_name, CIRCUIT_HALF_OPEN + 1);
    event->to = value_named(words->to, circuit_state_name, CIRCUIT_HALF_OPEN + 1);
    event->refused = numbers->refused;
    switch (event->type) {
    case EVENT_REFUSED:
        event->reason = value_named(words->reason, admission_name, ADMISSIONS);
        break;
    case EVENT_OUTCOME:
        event->http_status = (uint16_t)(numbers->http_status <= UINT16_MAX ? numbers->http_status : 0);
        event->verdict = value_named(words->verdict, verdict_name, VERDICTS);
        event->reason = value_named(words->reason, neutral_reason_name, NEUTRAL_REASONS);
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
        event->kind = value_named(words->forced, forced_name, FORCED_WORDS);
        event->reason = value_named(words->reason, transition_reason_name, TRANSITION_REASONS);
        event->pause_ns = (event->reason == REASON_FORCE_ENDED ? numbers->ended_ago_ms : numbers->for_ms) * NS_PER_MS;
        break;
    case EVENT_HELD:
        event->kind = value_named(words->held, held_name, HOLDS);
        event->reason = value_named(words->reason, hold_reason_name, HOLD_REASONS);
        event->http_status = (uint16_t)(numbers->http_status <= UINT16_MAX ? numbers->http_status : 0);
        event->pause_ns = (event->reason == HOLD_RAN_OUT ? numbers->ended_ago_ms : numbers->left_ms) * NS_PER_MS;
        break;
    case EVENT_RELOAD:
        event->refused = strtoull(words->revision, NULL, 16);
        break;
    default:
        event->reason = value_named(words->reason, transition_reason_name, TRANSITION_REASONS);
        event->pause_ns = numbers->pause_ms * NS_PER_MS;
        event->elapsed_ms = number32(numbers->noticed_after_ms);
        break;
    }
    /* The command keeps its user's name in the program's place. */
    if (event->type == EVENT_RELOAD || (event->type == EVENT_FORCED && event->reason != REASON_FORCE_ENDED))
        memcpy(event->program, words->user, sizeof event->program);
}

static void set_rest(struct event *event, const struct draft_line *draft)
{
    const struct numbers *numbers = &draft->numbers;
    const struct flags *flags = &draft->flags;
    event->mono_ns = numbers->mono_ns;
    event->pid = number32(numbers->pid);
    event->failures = number32(event->type == EVENT_HELD ? numbers->exit_status : numbers->failures);
    if (numbers->elapsed_ms > 0)
        event->elapsed_ms = number32(numbers->elapsed_ms);
    event->error = errno_named(draft->words.error);
    event->overran = flags->overdue ? OVERRAN_HANGS : flags->came ? OVERRAN_CAME : OVERRAN_NOT;
    event->late = flags->late;
    event->slow = flags->slow;
    event->injected = flags->injected;
    event->window_calls = number32(numbers->calls);
    event->window_failed = number32(numbers->failed);
    event->window_slow = number32(numbers->slow);
}

enum event_line_result event_line_read(struct event_line *line, const char *text, size_t length)
{
    struct json_reader reader;
    struct draft_line draft = {0};
    char key[WORD_MAX];
    memset(&line->event, 0, sizeof line->event);
    line->policy[0] = line->owner[0] = '\0';
    json_read_start(&reader, text, length);
    json_read_open(&reader);
    while (json_read_key(&reader, key, sizeof key)) {
        if (!take_member(&reader, key, line, &draft))
            json_read_skip(&reader);
    }
    if (!json_read_end(&reader) || draft.words.event[0] == '\0' ||
        !moment_parse(draft.words.time, &line->event.time_ns))
        return EVENT_LINE_BAD;
    line->event.type = value_named(draft.words.event, event_type_name, EVENT_TYPES);
    if (line->event.type == EVENT_NONE)
        return EVENT_LINE_UNKNOWN;
    set_by_type(&line->event, &draft);
    set_rest(&line->event, &draft);
    set_last(&line->event, &draft);
    return EVENT_LINE_GOOD;
}
