/*
 * alert_send.c - an alert's command. See alert_send.h.
 */
#define _GNU_SOURCE
#include "agent/alert_send.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/as_user.h"
#include "agent/trusted.h"
#include "base/clock.h"
#include "policy/command_words.h"
#include "segment/journal.h"
#include "view/output.h"

/* Of one user so many at a time, and so many in all; but each may have one. */
#define EACH_MAX 8u
#define ALL_MAX 64u
#define WORDS_MAX (ALERT_SIZE / 2)
#define OUTPUT_MAX 65536u

struct alert_sending {
    struct watched *watched; /* NULL: gone */
    struct alert_sender sender;
    enum alert_kind kind;
    uint64_t left_out;
    char target[TARGET_NAME_MAX], destination[DESTINATION_MAX];
};

/* Where the command is found. */
struct source {
    const char *identity, *target;
    uid_t uid;
};

static size_t sending_count;

size_t alerts_sending(void)
{
    return sending_count;
}

bool alert_may_send(const struct alert_user *user)
{
    const unsigned int own = user->sending + user->asking;
    return own == 0 || (own < EACH_MAX && sending_count < ALL_MAX);
}

/* As that user: the file's words; what keeps them from being executed is said. */
static const char *const *find_words(const void *context)
{
    static char value[ALERT_SIZE], *argv[WORDS_MAX + 1];
    const struct source *source = context;
    struct trusted trusted;
    const char *why = NULL;
    if (!trusted_open(&trusted, source->identity, source->target, source->uid))
        why = trusted.why;
    else if (trusted.target->alert[0] == '\0')
        why = "the policy's file has no `alert` for it";
    else
        memcpy(value, trusted.target->alert, sizeof value);
    trusted_free(&trusted);
    if (why != NULL) {
        dprintf(STDOUT_FILENO, "%s", why);
        return NULL;
    }
    words_split(value, argv, WORDS_MAX + 1);
    return (const char *const *)argv;
}

/* How what it said begins: the first line that is not empty, as much of it as there is room for. */
static void copy_said(char said[EVENT_SAID_MAX], const char *output)
{
    output += strspn(output, " \t\r\n");
    size_t length = strcspn(output, "\r\n");
    if (length >= EVENT_SAID_MAX) {
        length = EVENT_SAID_MAX - 1;
        while (length > 0 && ((unsigned char)output[length] & 0xc0) == 0x80) /* not in the midst of a character */
            length--;
    }
    memcpy(said, output, length);
    said[length] = '\0';
}

static enum alert_end end_of(const struct as_user_result *result)
{
    switch (result->end) {
    case AS_USER_EXITED:
        return ALERT_EXITED;
    case AS_USER_SIGNALLED:
        return ALERT_SIGNALLED;
    case AS_USER_TIMED_OUT:
        return ALERT_TIMED_OUT;
    case AS_USER_TALKED:
        return ALERT_TALKED;
    case AS_USER_NOT_EXECUTED:
        return ALERT_NOT_EXECUTED;
    case AS_USER_NO_COMMAND:
        return ALERT_NOT_TRUSTED;
    default:
        return ALERT_FAILED;
    }
}

static void report_failure(const struct alert_sending *sending, const struct as_user_result *result)
{
    struct event event;
    memset(&event, 0, sizeof event); /* all of its bytes go into the file */
    event.type = EVENT_ALERT;
    event.time_ns = clock_wall_ns();
    event.mono_ns = clock_circuit_ns();
    event.pid = (uint32_t)getpid();
    strcpy(event.program, "sockfuse-agent");
    memcpy(event.target, sending->target, sizeof event.target);
    memcpy(event.destination, sending->destination, sizeof event.destination);
    event.kind = (uint8_t)sending->kind;
    event.reason = (uint8_t)end_of(result);
    event.refused = sending->left_out;
    if (result->end == AS_USER_NOT_EXECUTED)
        event.error = result->code;
    else if (result->end == AS_USER_EXITED || result->end == AS_USER_SIGNALLED)
        event.failures = (uint32_t)result->code;
    copy_said(event.said, result->output);
    journal_append(sending->watched->writable, &event);
}

static void note_end(const struct as_user_result *result, void *context)
{
    struct alert_sending *sending = context;
    const bool is_good = result->end == AS_USER_EXITED && result->code == 0;
    sending_count--;
    sending->sender.user->sending--;
    if (sending->watched != NULL && sending->watched->writable != NULL && !is_good)
        report_failure(sending, result);
    if (sending->watched != NULL)
        sending->sender.ended(sending->sender.context);
    free(sending);
}

struct alert_sending *alert_send(struct ev_loop *loop, struct watched *watched, const struct alert_told *told,
                                 uint64_t limit_ns, const struct alert_sender *sender)
{
    struct alert_sending *sending = allocate(1, sizeof *sending);
    struct alert_message message;
    *sending =
        (struct alert_sending){.watched = watched, .sender = *sender, .kind = told->kind, .left_out = told->left_out};
    memcpy(sending->target, told->event->target, sizeof sending->target);
    memcpy(sending->destination, told->event->destination, sizeof sending->destination);
    const struct source source = {watched->selected->identity, sending->target, watched->selected->uid};
    alert_message_make(&message, told);
    const struct as_user_order order = {.user = watched->selected->uid,
                                        .find_words = find_words,
                                        .job_context = &source,
                                        .environment = (const char *const *)message.facts,
                                        .input = message.input,
                                        .input_length = message.input_length,
                                        .limit_ms = limit_ns / NS_PER_MS,
                                        .output_max = OUTPUT_MAX};
    const bool begun = as_user_run(loop, &order, note_end, sending);
    alert_message_free(&message);
    if (!begun) {
        free(sending);
        return NULL;
    }
    sending_count++;
    sender->user->sending++;
    return sending;
}

void alert_forget(struct alert_sending *sending)
{
    sending->watched = NULL;
}
