/*
 * timeouts.h - timeouts as they really are: after how long each program was seen to give up on one destination.
 *
 * Of what the circuit's calls have taught (segment/learnt.h), and of the calls that wait now. A program that was never
 * seen to give up is told of only if some wait of it was long. Names come from outside.
 */
#ifndef SOCKFUSE_VIEW_TIMEOUTS_H
#define SOCKFUSE_VIEW_TIMEOUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "view/inflight.h"
#include "view/json.h"
#include "segment/learnt.h"

/* One program's in one kind of wait. */
struct timeout {
    char program[PROGRAM_NAME_MAX];
    enum learnt_wait waits;
    struct patience_view seen;
    uint64_t present_ns; /* the longest wait that goes on now, of LEARNT_LONG_NS or more; 0: there is none */
    uint64_t killed_ns;  /* the longest that went on when its process was killed, as far as that is known */
    bool killed_later;   /* it went on longer than that: so long it was seen */
};

#define TIMEOUTS_MAX ((size_t)24) /* of eight programs both waits, and as many that wait now */
struct timeouts {
    struct timeout at[TIMEOUTS_MAX];
    size_t count;
    uint64_t without_room; /* waits that were not noted: of more programs than a circuit keeps */
};

/* By program. `inflight` has the calls of the circuit's segment; NULL: none is looked at. */
void timeouts_read(struct timeouts *timeouts, const struct learnt_view *learnt, const struct inflight *inflight,
                   uint32_t circuit);

/* A wait went on when its process was killed; `is_exact`: that was seen, else it went on so long at least. */
void timeouts_note_killed(struct timeouts *timeouts, const char *program, enum learnt_wait waits, uint64_t waited_ns,
                          bool is_exact);

/* After how long it usually gives up; false: it was never seen to. */
bool timeout_usual(const struct timeout *timeout, uint64_t *after_ns);
/* For how long it was seen to wait, whoever ended that. */
uint64_t timeout_longest(const struct timeout *timeout);

/* "after 5.0s, 41 times since 14:03:22", "never seen to; waits for 34s now". To be freed. */
char *timeout_text(const struct timeout *timeout);
/* "waiting for the answer" */
const char *timeout_wait_text(enum learnt_wait waits);
/* "14:03:22", with the day if that is not today's; local time. To be freed. */
char *moment_text(uint64_t wall_ns);
/*
 * How often something was given up: "once, at 14:03:22", "41 times today, since 09:12:03", "3 times today, 302 since
 * 2026-11-28 09:12:03". No more than is recorded of this day. `now_ns` is the wall clock. To be freed.
 */
char *given_up_text(const struct patience_view *seen, uint64_t now_ns);
/* The beginning of the day in which a time of the wall clock lies: local time. */
uint64_t day_start(uint64_t wall_ns);

/* A member "today" with what of it was in this day, and since when it is counted. */
void given_up_today_json(struct json *json, const struct patience_view *seen);
/* An array of that key. */
void timeouts_json(struct json *json, const char *key, const struct timeouts *timeouts);

#endif
