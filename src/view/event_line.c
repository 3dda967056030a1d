/*
 * event_line.c - reads an event as event_json writes it.
 *
 * What a word means may depend on a member that comes later (`reason` is of a transition, a refusal or an outcome), so
 * words are kept until the line was read.
 */
#include <string.h>

#include "base/units.h"
#include "breaker/circuit.h"
#include "breaker/recent_kinds.h"
#include "view/duration.h"
#include "view/event_line.h"
#include "view/event_line_draft.h"
#include "view/json_members.h"
#include "view/json_reader.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

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
        draft_kind(key, &failure.kind, &failure.http_status);
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
    draft_kind(word, &kind, &http_status);
    *attempt = (struct event_attempt){.elapsed_ms = draft_number(elapsed_ms),
                                      .http_status = (uint16_t)http_status,
                                      .kind = (uint8_t)kind,
                                      .error = (uint8_t)draft_errno(error)};
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
    draft->outage.reason = draft_value(reason, transition_reason_name, TRANSITION_REASONS);
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
    draft->outage.probes = draft_number(probes);
    draft->outage.probes_failed = draft_number(failed);
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
        {"alert", words->alert, WORD_MAX},
        {"said", words->said, sizeof words->said},
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
        {"grpc_status", &numbers->grpc_status},
        {"for_ms", &numbers->for_ms},
        {"ended_ago_ms", &numbers->ended_ago_ms},
        {"noticed_after_ms", &numbers->noticed_after_ms},
        {"exit_status", &numbers->exit_status},
        {"left_ms", &numbers->left_ms},
        {"signal", &numbers->signal},
        {"left_out", &numbers->left_out},
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
    line->event.type = draft_value(draft.words.event, event_type_name, EVENT_TYPES);
    if (line->event.type == EVENT_NONE)
        return EVENT_LINE_UNKNOWN;
    draft_set(&line->event, &draft);
    return EVENT_LINE_GOOD;
}
