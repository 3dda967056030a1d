/*
 * event.h - one event of the journal, and how it is written for people and machines.
 *
 * A fixed-width record that stands alone: it names its target and destination in full. Formatting uses no stdio, no
 * locale and no allocation, for it is also done inside host processes (SOCKFUSE_LOG). Async-signal-safe.
 */
#ifndef SOCKFUSE_SEGMENT_EVENT_H
#define SOCKFUSE_SEGMENT_EVENT_H

#include <stddef.h>
#include <stdint.h>

#include "policy/endpoint.h"
#include "policy/policy.h"

#define PROGRAM_NAME_MAX 32
/* Room for any event as JSON: names that have more escapes than any real one are cut. */
#define EVENT_JSON_MAX 4096
/* A probe makes one attempt to each address of its destination. */
#define EVENT_ATTEMPTS 8u

/* Values are stored in shared memory: append only. */
enum event_type {
    EVENT_NONE = 0,
    EVENT_OPEN,
    EVENT_HALF_OPEN,
    EVENT_CLOSE,
    EVENT_FAILURE,
    EVENT_REFUSED, /* the first refusal after an opening; the rest is counted */
    EVENT_PROBE,
    EVENT_FORCED,
    EVENT_RELOAD,
    EVENT_OUTCOME, /* of any call, with record = all; of a failure beside its EVENT_FAILURE */
    EVENT_HELD,    /* the agent holds a circuit, or does so no more, or ended its pause */
    EVENT_RETRY,   /* an attempt that failed is made again */
    EVENT_ALERT,   /* the command of `alert` has failed */
    EVENT_TYPES
};

/* Whether a call was charged for its limit, and not for what it came to. Values are stored: append only. */
enum overran {
    OVERRAN_NOT,
    OVERRAN_HANGS, /* found while it still hung */
    OVERRAN_CAME,  /* what it waited for came, after the limit */
};

/* How the command of an alert failed. Values are stored: append only. */
enum alert_end {
    ALERT_FAILED,       /* one of which nothing is known */
    ALERT_EXITED,       /* with another exit status than 0 */
    ALERT_SIGNALLED,    /* by a signal */
    ALERT_TIMED_OUT,    /* it was ended for its time */
    ALERT_TALKED,       /* it was ended for what it said */
    ALERT_NOT_EXECUTED, /* it could not be: an errno */
    ALERT_NOT_TRUSTED,  /* the policy's file names none that may be executed */
    ALERT_ENDS
};

/* Of what a command said, so many bytes are kept, with the end. */
#define EVENT_SAID_MAX 64u

/* How one attempt of a probe failed. All zero: there is none. */
struct event_attempt {
    uint32_t elapsed_ms;
    uint16_t http_status; /* of FAILURE_HTTP, or 0 */
    uint8_t kind;         /* enum failure_kind */
    uint8_t error;        /* errno, or 0 */
};

/* An outage at its end: from the opening out of closed to the closing. */
struct event_outage {
    uint64_t lasted_ns;
    uint64_t time_ns;      /* wall clock: when it began */
    uint64_t refused;      /* calls in it */
    uint64_t recent_kinds; /* of the failures that led to it (breaker/recent_kinds.h) */
    uint32_t probes, probes_failed;
    uint8_t is_known; /* how it began: without that all else is 0 */
    uint8_t reason;   /* why it opened: enum transition_reason */
    uint8_t injected; /* by a call that was given a fault in rehearsal */
    uint8_t reserved[5];
};

struct event {
    uint64_t time_ns;  /* wall clock */
    uint64_t mono_ns;  /* the circuits' clock */
    uint64_t pause_ns; /* OPEN: the pause; FORCED: how long it holds (0: no end), or how long ago it ended;
                          FAILURE, OUTCOME: for which the answer asked (Retry-After), or 0;
                          HELD: how long ago it ran out, or what is left of a pause that a check has ended */
    uint64_t refused;  /* transitions: calls refused so far; RELOAD: the new policy's revision; ALERT: how many were
                          left out */
    uint32_t pid;
    int32_t error;       /* FAILURE, OUTCOME, HELD, ALERT: the errno, or 0; RETRY: that of the attempt that failed */
    uint32_t elapsed_ms; /* FAILURE, OUTCOME: how long the call had taken; transitions: how long before it was noticed,
                            by a limit that had passed; RETRY: the wait since; PROBE: 0 */
    uint32_t
        failures; /* OPEN: consecutive failures; CLOSE: those of its outage's opening; HELD: an exit status; ALERT: that, or a signal;
                            RETRY: which one it is */
    uint8_t type;     /* enum event_type */
    uint8_t kind;     /* FAILURE, OUTCOME, RETRY: enum failure_kind; FORCED: enum forced; HELD: enum hold, from now on;
                     ALERT: enum alert_kind */
    uint8_t from, to; /* transitions, FORCED, HELD: enum circuit_state */
    uint8_t reason;   /* transitions: enum transition_reason; REFUSED: enum admission; OUTCOME: enum neutral_reason;
                            HELD: enum hold_reason; ALERT: enum alert_end */
    uint8_t overran;  /* FAILURE, OUTCOME: enum overran */
    uint8_t late;     /* FAILURE, OUTCOME: it did not count, for the circuit had changed since the call was admitted */
    uint8_t injected; /* FAILURE, OUTCOME, transitions: of a call that was given a fault in rehearsal */
    char program[PROGRAM_NAME_MAX]; /* FORCED, RELOAD: the user who said so (but for an end by itself);
                                       the program is the command itself */
    char target[TARGET_NAME_MAX];
    char destination[DESTINATION_MAX];
    uint16_t http_status;  /* FAILURE: of FAILURE_HTTP, or 0; OUTCOME, HELD: of the answer, or 0 */
    uint8_t verdict;       /* OUTCOME: enum verdict */
    uint8_t slow;          /* OUTCOME: a success that took longer than slow_call */
    uint32_t window_calls; /* OPEN: what the window of the rates held, if it was judged: all, failed, slow; CLOSE: the
                              same of its outage's opening */
    uint32_t window_failed;
    uint32_t window_slow;
    union {
        uint64_t recent_kinds;                         /* OPEN, from closed: of the failures that led to it */
        struct event_attempt attempts[EVENT_ATTEMPTS]; /* OPEN, from half-open: of the probe that failed */
        struct event_outage outage;                    /* CLOSE */
        char hosts[64];                                /* HELD, FORCED: of the fleet, who did it: names of hosts */
        uint32_t retries_most;                         /* RETRY: so many there may be of one connect */
        char said[EVENT_SAID_MAX];                     /* ALERT: how what it said begins */
        uint8_t passed; /* FAILURE, OUTCOME: it did not count: it was to be refused and passed (mode, existing) */
    };
};
_Static_assert(sizeof(struct event_outage) <= 64, "no larger than the attempts");
_Static_assert(sizeof(struct event) == 568, "an event and its stamp fill nine lines");

const char *alert_end_name(unsigned int end);   /* "exit-status", "timed-out", … */
const char *event_type_name(unsigned int type); /* "open", "half-open", "close", "failure", … */

/*
 * One JSON object and a newline; returns its length, or 0 if `size` is too small. A byte that is no UTF-8 is written
 * as \u00NN. Keys: time, mono_ns, pid, program, target, destination, event; of a transition also from, to, reason,
 * refused (so far), noticed_after_ms if it was noticed later than it was, and of one to open failures, pause_ms, window {calls, failed, slow} if the rates were judged, and
 * from closed kinds, an object of the last failures by kind, else attempts [{kind, errno, elapsed_ms}] of the probe that
 * failed; of one to closed outage {since, lasted_ms, refused, probes, probes_failed, cause {reason, failures, kinds,
 * window, injected}}, or null if it is not known how it began; of a failure kind (failure_label), errno (its name, or
 * null), elapsed_ms, overdue, came, late, passed; of an outcome verdict, kind and reason (or null), errno, http_status
 * (or null), grpc_status in its place where that is no OK, elapsed_ms, slow, overdue, came, late, passed; of both retry_after_ms if the answer asked; of a retry number,
 * of (how many there may be), kind and errno of the attempt before, waited_ms; of a refusal
 * reason (admission_name); of what an operator
 * did user, and forced (with from, to, reason; for_ms if its end was said) or policy_revision; of such an end, which a
 * call noticed, the same without a user, and ended_ago_ms; of an agent's hold held (held_name, or null: it ended), from,
 * to, reason (hold_reason_name), errno, http_status, exit_status (or null), and ended_ago_ms or left_ms of a pause; hosts, a text,
 * where some of the fleet did it; of an alert that failed alert (alert_kind_name), reason
 * (alert_end_name), errno, exit_status, signal, said (or null), and left_out. What a rehearsal brought about also has injected, true.
 */
size_t event_json(const struct event *event, char *text, size_t size);
/*
 * What happened, for people, without a newline. Control characters are escaped. Returns its length, or 0 if `size` is
 * too small; EVENT_JSON_MAX always does.
 */
size_t event_what(const struct event *event, char *text, size_t size);
/* Of a closing whose outage is known: what that came to, without how long it was. Otherwise the same. */
size_t event_outage_text(const struct event *event, char *text, size_t size);

#endif
