/*
 * event_line_draft.h - an event's line while it is read: its words and numbers, of which the type makes something.
 * Private to event_line.c and event_line_set.c.
 */
#ifndef SOCKFUSE_VIEW_EVENT_LINE_DRAFT_H
#define SOCKFUSE_VIEW_EVENT_LINE_DRAFT_H

#include <stdbool.h>
#include <stdint.h>

#include "breaker/outcome.h"
#include "segment/event.h"

#define WORD_MAX 32

/* The members that are words. */
struct words {
    char time[40], event[WORD_MAX], from[WORD_MAX], to[WORD_MAX], reason[WORD_MAX], kind[WORD_MAX], error[WORD_MAX],
        verdict[WORD_MAX], forced[WORD_MAX], held[WORD_MAX], alert[WORD_MAX], said[EVENT_SAID_MAX], revision[WORD_MAX],
        user[PROGRAM_NAME_MAX];
};

struct numbers {
    uint64_t mono_ns, pid, failures, pause_ms, refused, elapsed_ms, http_status, grpc_status, for_ms, ended_ago_ms,
        noticed_after_ms, exit_status, left_ms, retry_after_ms, signal, left_out;
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
uint8_t draft_value(const char *word, const char *(*name)(unsigned int), unsigned int count);
int draft_errno(const char *word);
uint32_t draft_number(uint64_t number);
/* "response-timeout", or "http-503" with the status. */
void draft_kind(const char *word, enum failure_kind *kind, unsigned int *http_status);

/* Of an event whose type is known, all that the type says of the draft. */
void draft_set(struct event *event, const struct draft_line *draft);

#endif
