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
#include "cli/duration.h"
#include "cli/event_line.h"
#include "cli/json_reader.h"
#include "segment/forced.h"

#define WORD_MAX 32
#define ERRNO_MAX 133

/* The members that are words. */
struct words {
    char time[40], event[WORD_MAX], from[WORD_MAX], to[WORD_MAX], reason[WORD_MAX], kind[WORD_MAX], error[WORD_MAX],
        verdict[WORD_MAX], forced[WORD_MAX], revision[WORD_MAX], user[PROGRAM_NAME_MAX];
};

/* A member by its name, and where its value goes. */
struct text_member {
    const char *key;
    char *at;
    size_t size;
};
struct number_member {
    const char *key;
    uint64_t *at;
};
struct flag_member {
    const char *key;
    bool *at;
};

struct numbers {
    uint64_t mono_ns, pid, failures, pause_ms, refused, elapsed_ms, http_status, for_ms, ended_ago_ms;
    uint64_t calls, failed, slow; /* of `window` */
};
struct flags {
    bool overdue, came, late, slow, injected;
};

struct draft_line {
    struct words words;
    struct numbers numbers;
    struct flags flags;
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

static bool take_text(struct json_reader *reader, const char *key, const struct text_member *members, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(members[i].key, key) == 0) {
            json_read_string(reader, members[i].at, members[i].size);
            return true;
        }
    }
    return false;
}

static bool take_number(struct json_reader *reader, const char *key, const struct number_member *members, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t number;
        if (strcmp(members[i].key, key) == 0) {
            if (json_read_unsigned(reader, &number))
                *members[i].at = number;
            return true;
        }
    }
    return false;
}

static bool take_flag(struct json_reader *reader, const char *key, const struct flag_member *members, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(members[i].key, key) == 0) {
            json_read_bool(reader, members[i].at);
            return true;
        }
    }
    return false;
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void take_window(struct json_reader *reader, struct numbers *numbers)
{
    const struct number_member members[] = {
        {"calls", &numbers->calls}, {"failed", &numbers->failed}, {"slow", &numbers->slow}};
    char key[WORD_MAX];
    if (!json_read_open(reader))
        return;
    while (json_read_key(reader, key, sizeof key)) {
        if (!take_number(reader, key, members, COUNT(members)))
            json_read_skip(reader);
    }
}

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
        {"policy_revision", words->revision, WORD_MAX},
        {"user", words->user, sizeof words->user},
        {"policy", line->policy, sizeof line->policy},
        {"owner", line->owner, sizeof line->owner},
    };
    const struct number_member counts[] = {
        {"mono_ns", &numbers->mono_ns},           {"pid", &numbers->pid},
        {"failures", &numbers->failures},         {"pause_ms", &numbers->pause_ms},
        {"refused", &numbers->refused},           {"elapsed_ms", &numbers->elapsed_ms},
        {"http_status", &numbers->http_status},   {"for_ms", &numbers->for_ms},
        {"ended_ago_ms", &numbers->ended_ago_ms},
    };
    const struct flag_member marks[] = {
        {"overdue", &flags->overdue}, {"came", &flags->came},         {"late", &flags->late},
        {"slow", &flags->slow},       {"injected", &flags->injected},
    };
    if (strcmp(key, "window") == 0) {
        take_window(reader, numbers);
        return true;
    }
    return take_text(reader, key, texts, COUNT(texts)) || take_number(reader, key, counts, COUNT(counts)) ||
           take_flag(reader, key, marks, COUNT(marks));
}

/* "response-timeout", or "http-503" with the status. */
static void set_kind(struct event *event, const char *kind)
{
    event->kind = (uint8_t)failure_kind_named(kind);
    if (event->kind == FAILURE_NONE && strncmp(kind, "http", 4) == 0) {
        event->kind = FAILURE_HTTP;
        if (kind[4] == '-')
            event->http_status = (uint16_t)strtoul(kind + 5, NULL, 10);
    }
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
        set_kind(event, words->kind);
        break;
    case EVENT_FAILURE:
        set_kind(event, words->kind);
        break;
    case EVENT_FORCED:
        event->kind = value_named(words->forced, forced_name, FORCED_WORDS);
        event->reason = value_named(words->reason, transition_reason_name, TRANSITION_REASONS);
        event->pause_ns = (event->reason == REASON_FORCE_ENDED ? numbers->ended_ago_ms : numbers->for_ms) * NS_PER_MS;
        break;
    case EVENT_RELOAD:
        event->refused = strtoull(words->revision, NULL, 16);
        break;
    default:
        event->reason = value_named(words->reason, transition_reason_name, TRANSITION_REASONS);
        event->pause_ns = numbers->pause_ms * NS_PER_MS;
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
    event->failures = number32(numbers->failures);
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
    return EVENT_LINE_GOOD;
}
