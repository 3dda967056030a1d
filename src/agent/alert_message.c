/*
 * alert_message.c - what the command of an alert is told. See alert_message.h.
 */
#define _GNU_SOURCE
#include "agent/alert_message.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/date.h"
#include "base/text.h"
#include "policy/alert_value.h"
#include "segment/event_facts.h"
#include "view/output.h"

/* Names are escaped: each of their bytes may become four, or six in JSON. */
#define LINE_MAX_BYTES ((size_t)16384)
#define KINDS_MAX 96u
#define HOST_MAX 256u

static const char *is_now(enum alert_kind kind)
{
    static const char *const words[ALERT_KINDS] = {
        [ALERT_OPEN] = " is open",
        [ALERT_CLOSE] = " is closed again",
        [ALERT_FLAPPING] = " flaps",
        [ALERT_OVERDUE] = " has a call that hangs",
        [ALERT_PROBE_FAILED] = " is still open",
        [ALERT_FORCED] = "",
    };
    return words[kind];
}

/* The names of kinds, with blanks between them. */
static const char *names_of(uint32_t kinds, char room[KINDS_MAX])
{
    struct text text;
    text_start(&text, room, KINDS_MAX);
    for (unsigned int kind = 0; kind < ALERT_KINDS; kind++) {
        if ((kinds & 1u << kind) == 0)
            continue;
        text_add(&text, text.length > 0 ? " " : "");
        text_add(&text, alert_kind_name(kind));
    }
    return room;
}

/* For a subject: what it is, how it stands, and why. */
static void add_summary(struct text *text, const struct alert_told *told)
{
    const struct event *event = told->event;
    char what[EVENT_JSON_MAX], kinds[KINDS_MAX];
    text_add_printable(text, event->target);
    if (event->destination[0] != '\0' && strcmp(event->target, event->destination) != 0) {
        text_add(text, " (");
        text_add_printable(text, event->destination);
        text_add(text, ")");
    }
    text_add(text, is_now(told->kind));
    if (told->kind == ALERT_FLAPPING) {
        flapping_format(told->flapping, what, sizeof what);
        text_add(text, ", ");
        text_add(text, what);
    }
    if (event_what(event, what, sizeof what) > 0) {
        text_add(text, ": ");
        text_add(text, what);
    }
    if (told->unasked[0] != '\0')
        text_add(text, "; other hosts of the fleet may tell of it too");
    if (told->left_out > 0) {
        text_add(text, "; left out before it: ");
        text_add_unsigned(text, told->left_out);
        text_add(text, " (");
        text_add(text, names_of(told->left_out_on, kinds));
        text_add(text, ")");
    }
}

static void add_input(struct text *text, const struct alert_told *told, const char *host, const char *summary)
{
    char event[EVENT_JSON_MAX];
    const size_t length = event_json(told->event, event, sizeof event);
    text_add_bytes(text, event, length > 2 ? length - 2 : 0); /* without the end, which follows */
    text_add(text, ",\"policy\":");
    text_add_json(text, told->identity);
    text_add(text, ",\"host\":");
    text_add_json(text, host);
    text_add(text, ",\"alert\":");
    text_add_json(text, alert_kind_name(told->kind));
    text_add(text, ",\"left_out\":");
    text_add_unsigned(text, told->left_out);
    text_add(text, ",\"left_out_on\":[");
    for (unsigned int kind = 0, count = 0; kind < ALERT_KINDS; kind++) {
        if ((told->left_out_on & 1u << kind) == 0)
            continue;
        text_add(text, count++ > 0 ? "," : "");
        text_add_json(text, alert_kind_name(kind));
    }
    text_add(text, "],\"fleet_unasked\":");
    if (told->unasked[0] != '\0')
        text_add_json(text, told->unasked);
    else
        text_add(text, "null");
    text_add(text, ",\"text\":");
    text_add_json(text, summary);
    text_add(text, "}\n");
}

static char *fact_of(const char *name, const char *value)
{
    char *room = allocate(LINE_MAX_BYTES, 1);
    struct text text;
    text_start(&text, room, LINE_MAX_BYTES);
    text_add(&text, "SOCKFUSE_ALERT");
    text_add(&text, name);
    text_add(&text, "=");
    text_add_printable(&text, value);
    char *fact = copy_text(room);
    free(room);
    return fact;
}

static char *number_fact(const char *name, uint64_t value)
{
    return format_text("SOCKFUSE_ALERT%s=%" PRIu64, name, value);
}

static void make_facts(struct alert_message *message, const struct alert_told *told, const char *host,
                       const char *summary)
{
    const struct event *event = told->event;
    char time[32], kinds[KINDS_MAX];
    size_t count = 0;
    time_rfc3339(event->time_ns, time, sizeof time);
    message->facts[count++] = fact_of("", alert_kind_name(told->kind));
    message->facts[count++] = fact_of("_TEXT", summary);
    message->facts[count++] = fact_of("_TARGET", event->target);
    message->facts[count++] = fact_of("_DESTINATION", event->destination);
    message->facts[count++] = fact_of("_PROGRAM", event_program(event));
    message->facts[count++] = number_fact("_PID", event->pid);
    message->facts[count++] = fact_of("_TIME", time);
    message->facts[count++] = fact_of("_HOST", host);
    message->facts[count++] = fact_of("_POLICY", told->identity);
    message->facts[count++] = number_fact("_LEFT_OUT", told->left_out);
    message->facts[count++] = fact_of("_LEFT_OUT_ON", names_of(told->left_out_on, kinds));
    if (event_is_transition(event) || event->type == EVENT_FORCED)
        message->facts[count++] = fact_of("_STATE", circuit_state_name(event->to));
    if (event_is_by_user(event))
        message->facts[count++] = fact_of("_USER", event->program);
    message->facts[count] = NULL;
}

void alert_message_make(struct alert_message *message, const struct alert_told *told)
{
    char *summary = allocate(LINE_MAX_BYTES, 1), host[HOST_MAX] = "";
    const size_t size = 2 * LINE_MAX_BYTES + 6 * strlen(told->identity);
    struct text text;
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = '\0';
    text_start(&text, summary, LINE_MAX_BYTES);
    add_summary(&text, told);
    message->input = allocate(size, 1);
    text_start(&text, message->input, size);
    add_input(&text, told, host, summary);
    message->input_length = text.length;
    make_facts(message, told, host, summary);
    free(summary);
}

void alert_message_free(struct alert_message *message)
{
    for (char **fact = message->facts; *fact != NULL; fact++)
        free(*fact);
    free(message->input);
}
