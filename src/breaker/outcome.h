/*
 * outcome.h - what a call's end means: the classifier.
 *
 * One table (phase x what was seen -> outcome) and one pure function. It knows no socket and no clock: whoever watched
 * the call fills an observation. Everybody may call it; async-signal-safe.
 */
#ifndef SOCKFUSE_BREAKER_OUTCOME_H
#define SOCKFUSE_BREAKER_OUTCOME_H

#include <stdbool.h>
#include <stdint.h>

/* How far a call had come. */
enum phase {
    PHASE_CONNECTING, /* connect was called, the answer is not known */
    PHASE_CONNECTED,  /* connected, nothing was sent: perhaps the server speaks first */
    PHASE_REQUESTED,  /* a request was sent, no byte of the answer came */
    PHASE_ANSWERED,   /* the first byte of the answer was seen: the call is over */
};

/* What was seen of its end. */
enum seen {
    SEEN_CONNECTED,  /* the attempt succeeded */
    SEEN_BYTES,      /* the first byte of the answer */
    SEEN_END,        /* end of stream */
    SEEN_ERROR,      /* an errno, by whatever channel */
    SEEN_WAIT_ENDED, /* the socket's own SO_SNDTIMEO (connecting) or SO_RCVTIMEO ran out on a blocking call */
    SEEN_GAVE_UP,    /* the program closed, shut down or exited while it waited */
    SEEN_OVERDUE,    /* the call still hangs after connect_timeout or response_timeout */
    SEEN_REFUSED,    /* nobody takes the connection, whatever the errno: a listener's full queue, a self-connect */
    SEEN_HANDED,     /* another program goes on with the connection, and what it sees of it is not known here */
};

/* Values are stored in shared memory: append only. */
enum verdict {
    VERDICT_NONE = 0, /* nothing is decided yet: the call goes on */
    VERDICT_SUCCESS,
    VERDICT_FAILURE,
    VERDICT_NEUTRAL,
    VERDICT_BUSINESS, /* the peer answered and said no */
};
#define VERDICTS (VERDICT_BUSINESS + 1)

/* The kinds of failure, in the order in which they are written. Values are stored in shared memory: append only. */
enum failure_kind {
    FAILURE_NONE = 0,
    FAILURE_CONNECT_TIMEOUT,
    FAILURE_RESPONSE_TIMEOUT,
    FAILURE_REFUSED,
    FAILURE_RESET,
    FAILURE_UNREACHABLE,
    FAILURE_EARLY_CLOSE,
    FAILURE_HTTP,
    FAILURE_KINDS
};

/* Why an outcome is neutral. Values are stored in shared memory: append only. */
enum neutral_reason {
    NEUTRAL_NONE = 0,
    NEUTRAL_LOCAL,     /* the fault is on this side */
    NEUTRAL_CANCELLED, /* the program gave up sooner than abandon_after */
    NEUTRAL_SIBLING,   /* another attempt of the same program won (Happy Eyeballs) */
    NEUTRAL_ADDRESS,   /* one address of several; another one answers */
    NEUTRAL_STALE,     /* an idle connection that had answered before went away */
    NEUTRAL_UNLISTED,  /* a kind of failure that the policy does not count */
    NEUTRAL_UNKNOWN,   /* it ended and nobody can say how (owner killed, error consumed elsewhere) */
    NEUTRAL_REASONS
};

struct outcome {
    enum verdict verdict;
    enum failure_kind kind;     /* of a failure, also of one that is neutral by ADDRESS or UNLISTED */
    enum neutral_reason reason; /* of a neutral outcome */
    unsigned int http_status;   /* of FAILURE_HTTP, of HTTP or of gRPC; else 0 */
    bool slow;                  /* of a success: its answer took longer than slow_call */
};

struct observation {
    enum phase phase;
    enum seen seen;
    int error;            /* errno of SEEN_ERROR */
    bool is_probe;        /* the call is a probe's */
    bool at_once;         /* SEEN_ERROR: connect itself returned it without having waited for the network */
    bool answered_before; /* an earlier call on this connection got an answer to what it asked */
    bool end_answers;     /* what was asked has no other answer than the end of the stream */
    bool gave_up;         /* the program had waited long before it shut its own side down, or said goodbye */
    bool own_end;         /* the program had shut its own side down before it sent anything, or its receiving side */
    bool sibling_won;     /* SEEN_GAVE_UP: another address of the circuit was connected since this attempt began */
    bool other_answered;  /* another address of the destination answered since this one last failed */
    bool other_tried;     /* the program went on to another address of the destination, of which no failure is known */
    unsigned int http_status; /* SEEN_BYTES: of the answer, if it is one of HTTP, or gRPC's; else 0 */
    uint64_t retry_after_ns;  /* the answer asks not to be called for so long; 0: it does not */
    uint64_t waited_ns;       /* real time: since the attempt began, or since the last byte of the request */
    uint32_t stands_for;      /* of a measured answer: so many calls, as latency.h has it */
    uint64_t came_ns; /* circuits' clock: when it came, if that was before it was seen; 0: just now, or unknown */
    bool after_limit; /* it came after connect_timeout or response_timeout */
};

/* The part of a target's policy that the classifier needs. */
struct status_range {
    uint16_t first, last;
};
#define STATUS_RANGES_MAX 16u
#define HTTP_STATUS_MIN 100u
#define HTTP_STATUS_MAX 999u
/*
 * An answer of gRPC has a status of its own (grpc-status). One that is no OK stands where HTTP's would, so much higher.
 */
#define GRPC_STATUSES 17u /* 0 is OK */
#define GRPC_STATUS_BASE 1000u
#define ANSWER_STATUS_MAX (GRPC_STATUS_BASE + GRPC_STATUSES - 1)
#define GRPC_FAILURES (((1u << GRPC_STATUSES) - 1) & ~1u) /* the mask of all that are no OK */
static inline bool status_is_grpc(unsigned int status)
{
    return status > GRPC_STATUS_BASE && status <= ANSWER_STATUS_MAX;
}
/* The answer says no: the client's fault, or the server's. */
static inline bool http_status_says_no(unsigned int status)
{
    return status >= 400 && status <= 599;
}

/* What proves that a destination works, beside an answer. Stored with a policy: append only. */
enum success_rule {
    SUCCESS_ANSWER,
    SUCCESS_CONNECT, /* a connection */
    SUCCESS_CLOSE,   /* the peer's end of the stream, once something was sent */
};

struct outcome_rules {
    uint64_t abandon_after_ns;
    uint32_t failure_mask;  /* bit FAILURE_x set: that kind counts */
    uint32_t success;       /* enum success_rule */
    uint32_t grpc_failures; /* bit n set: grpc-status n is a failure */
    uint32_t http_failure_count;
    struct status_range http_failures[STATUS_RANGES_MAX]; /* HTTP statuses that are failures, ascending */
};

static inline bool connect_is_success(const struct outcome_rules *rules)
{
    return rules->success == SUCCESS_CONNECT;
}

/* Judges one observation. Pure; async-signal-safe. Section "Outcomes" of the manual has the table in words. */
struct outcome outcome_judge(const struct observation *seen, const struct outcome_rules *rules);

/*
 * Whether a send or receive on a connection that stands failed by the peer, or the way to it; all other errors are the
 * program's own affair. (ENOENT says that the path of a UNIX socket is missing, and only connect says it; of sendfile
 * it is the file's.) Pure; async-signal-safe.
 */
bool outcome_is_from_peer(int error);

/* Whether an answer with that HTTP status is a success: neither listed as a failure, nor the business's no. Pure. */
bool outcome_status_succeeds(const struct outcome_rules *rules, unsigned int http_status);

/* "success", "connect-timeout", "local", …; "unknown" for a value out of range. Never NULL. Async-signal-safe. */
const char *verdict_name(unsigned int verdict);
const char *failure_kind_name(unsigned int kind);
const char *neutral_reason_name(unsigned int reason);
/*
 * A failure as people are shown it: its kind's name, or "http-503" or "grpc-14" with the status of FAILURE_HTTP where it
 * is known.
 * Returns `text` or a constant. Async-signal-safe.
 */
#define FAILURE_LABEL_MAX 16
const char *failure_label(unsigned int kind, unsigned int http_status, char text[FAILURE_LABEL_MAX]);
/* The kind of that name, or FAILURE_NONE. */
enum failure_kind failure_kind_named(const char *name);

#endif
