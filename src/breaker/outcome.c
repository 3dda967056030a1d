/*
 * outcome.c - the classifier: what the end of a call says about the destination.
 *
 * One table says, for each phase of a call and each thing that can be seen, which rule judges it; a second one says
 * what an errno means. The rules are small functions of the observation. The frame around them applies what holds for
 * every failure: a neighbour that answers, and the kinds that the policy counts. Pure; knows no socket and no clock.
 */
#include "breaker/outcome.h"

#include <errno.h>
#include <string.h>

#include "base/text.h"

/*
 * The last words of a program that is done (a TLS close_notify, an HTTP/2 GOAWAY, "quit") look like a request: only a
 * longer wait than this was a wait for an answer.
 */
#define WAIT_MIN_NS UINT64_C(50000000)

/* What an errno says, before the phase is considered. */
enum meaning {
    MEANS_LOCAL, /* the fault is on this side: every errno that is not named below */
    MEANS_TIMEOUT,
    MEANS_REFUSED,
    MEANS_UNREACHABLE,
    MEANS_RESET,
};

static enum meaning meaning_of(int error)
{
    switch (error) {
    case ETIMEDOUT:
        return MEANS_TIMEOUT;
    case ECONNREFUSED:
    case ENOENT: /* AF_UNIX: the path is missing, so nobody listens there, as with a closed port */
        return MEANS_REFUSED;
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EHOSTDOWN:
    case ENETDOWN:
    case EPROTO:      /* these two are how Linux reports an ICMP parameter problem and an */
    case ENOPROTOOPT: /* unreachable protocol or port */
        return MEANS_UNREACHABLE;
    case ECONNRESET:
    case ECONNABORTED:
    case EPIPE:
        return MEANS_RESET;
    default:
        return MEANS_LOCAL;
    }
}

bool outcome_is_from_peer(int error)
{
    return error != ENOENT && meaning_of(error) != MEANS_LOCAL;
}

static const struct outcome undecided = {.verdict = VERDICT_NONE};
static const struct outcome success = {.verdict = VERDICT_SUCCESS};

static struct outcome failure(enum failure_kind kind)
{
    return (struct outcome){.verdict = VERDICT_FAILURE, .kind = kind};
}

static struct outcome neutral(enum neutral_reason reason)
{
    return (struct outcome){.verdict = VERDICT_NEUTRAL, .reason = reason};
}

/* Long enough for the program's giving up to be a timeout of its own, and not a change of mind. */
static bool waited_long(const struct observation *seen, const struct outcome_rules *rules)
{
    return seen->waited_ns >= rules->abandon_after_ns && seen->waited_ns >= WAIT_MIN_NS;
}

/* --- the rules --- */

typedef struct outcome rule_fn(const struct observation *seen, const struct outcome_rules *rules);

/* Accept, then silence must open the circuit: a connection alone proves nothing, unless the policy says so. */
static struct outcome connected(const struct observation *seen, const struct outcome_rules *rules)
{
    (void)seen;
    return connect_is_success(rules) ? success : undecided;
}

static bool is_listed(unsigned int status, const struct outcome_rules *rules)
{
    if (status_is_grpc(status))
        return rules->grpc_failures >> (status - GRPC_STATUS_BASE) & 1;
    for (uint32_t i = 0; i < rules->http_failure_count && i < STATUS_RANGES_MAX; i++) {
        if (status >= rules->http_failures[i].first && status <= rules->http_failures[i].last)
            return true;
    }
    return false;
}

/* The status of an answer that is not HTTP is 0, and says nothing more. */
static struct outcome answered(const struct observation *seen, const struct outcome_rules *rules)
{
    const unsigned int status = seen->http_status;

    if (status == 0)
        return success;
    if (is_listed(status, rules))
        return (struct outcome){.verdict = VERDICT_FAILURE, .kind = FAILURE_HTTP, .http_status = status};
    if (http_status_says_no(status) || status_is_grpc(status))
        return (struct outcome){.verdict = VERDICT_BUSINESS};
    return success;
}

bool outcome_status_succeeds(const struct outcome_rules *rules, unsigned int http_status)
{
    return !http_status_says_no(http_status) && !is_listed(http_status, rules);
}

static struct outcome connect_timeout(const struct observation *seen, const struct outcome_rules *rules)
{
    (void)seen, (void)rules;
    return failure(FAILURE_CONNECT_TIMEOUT);
}

static struct outcome response_timeout(const struct observation *seen, const struct outcome_rules *rules)
{
    (void)seen, (void)rules;
    return failure(FAILURE_RESPONSE_TIMEOUT);
}

static struct outcome refused(const struct observation *seen, const struct outcome_rules *rules)
{
    (void)seen, (void)rules;
    return failure(FAILURE_REFUSED);
}

static struct outcome attempt_failed(const struct observation *seen, const struct outcome_rules *rules)
{
    (void)rules;
    switch (meaning_of(seen->error)) {
    case MEANS_TIMEOUT:
        return failure(FAILURE_CONNECT_TIMEOUT);
    case MEANS_REFUSED:
        return failure(FAILURE_REFUSED);
    case MEANS_UNREACHABLE: /* at once: this host has no route; later: an answer of the network */
        return seen->at_once ? neutral(NEUTRAL_LOCAL) : failure(FAILURE_UNREACHABLE);
    case MEANS_RESET: /* a reset right after the handshake shows up here half of the time */
        return failure(FAILURE_RESET);
    case MEANS_LOCAL:
        break;
    }
    return neutral(NEUTRAL_LOCAL);
}

static struct outcome attempt_abandoned(const struct observation *seen, const struct outcome_rules *rules)
{
    if (seen->sibling_won)
        return neutral(NEUTRAL_SIBLING);
    return waited_long(seen, rules) ? failure(FAILURE_CONNECT_TIMEOUT) : neutral(NEUTRAL_CANCELLED);
}

static struct outcome connection_failed(const struct observation *seen, const struct outcome_rules *rules)
{
    (void)rules;
    switch (meaning_of(seen->error)) {
    case MEANS_TIMEOUT:
        return failure(FAILURE_RESPONSE_TIMEOUT);
    case MEANS_REFUSED:
        return failure(FAILURE_REFUSED);
    case MEANS_UNREACHABLE:
        return failure(FAILURE_UNREACHABLE);
    case MEANS_RESET: /* of an idle connection that had answered: a pooled one gone stale, or a rolling deployment */
        if (seen->gave_up)
            return failure(FAILURE_RESPONSE_TIMEOUT);
        return seen->answered_before ? neutral(NEUTRAL_STALE) : failure(FAILURE_RESET);
    case MEANS_LOCAL:
        break;
    }
    return neutral(NEUTRAL_LOCAL);
}

/*
 * `own_end` is the program's doing: it ended its side without having asked anything, or shut its receiving side, which
 * makes the kernel report an end of stream by itself. A program that had waited in vain has ended the call: what the
 * peer says to that (a service stops when its client has) is no end of the peer's.
 */
static struct outcome ended(const struct observation *seen, const struct outcome_rules *rules)
{
    if (seen->own_end)
        return neutral(NEUTRAL_CANCELLED);
    if (seen->gave_up)
        return failure(FAILURE_RESPONSE_TIMEOUT);
    if (seen->answered_before) /* that a kept connection has ended says nothing of what was sent on it last */
        return neutral(NEUTRAL_STALE);
    bool is_answer = seen->end_answers || rules->success == SUCCESS_CLOSE;
    return is_answer && seen->phase == PHASE_REQUESTED ? success : failure(FAILURE_EARLY_CLOSE);
}

/* Nothing was asked: perhaps it waited for a server that speaks first. */
static struct outcome greeting_abandoned(const struct observation *seen, const struct outcome_rules *rules)
{
    if (connect_is_success(rules))
        return success;
    if (seen->own_end || !waited_long(seen, rules))
        return neutral(NEUTRAL_CANCELLED);
    return failure(FAILURE_RESPONSE_TIMEOUT);
}

/* `success = connect` is for protocols without answers: a program that sent and then closed has missed nothing. */
static struct outcome request_abandoned(const struct observation *seen, const struct outcome_rules *rules)
{
    if (connect_is_success(rules))
        return success;
    return waited_long(seen, rules) ? failure(FAILURE_RESPONSE_TIMEOUT) : neutral(NEUTRAL_CANCELLED);
}

/*
 * No better answer will be seen than that the peer has taken the connection: a probe that waits for one would keep the
 * circuit from ever closing, where all who use it hand their connections on.
 */
static struct outcome handed(const struct observation *seen, const struct outcome_rules *rules)
{
    (void)rules;
    return seen->is_probe ? success : undecided;
}

/* --- the table --- */

#define PHASES (PHASE_ANSWERED + 1)
#define SEEN_KINDS (SEEN_HANDED + 1)

/* No rule: nothing is decided. Once the answer has come the call is over, and what follows says nothing about it. */
static rule_fn *const table[PHASES][SEEN_KINDS] = {
    [PHASE_CONNECTING] =
        {
            [SEEN_CONNECTED] = connected,
            [SEEN_BYTES] = answered,
            [SEEN_END] = ended,
            [SEEN_ERROR] = attempt_failed,
            [SEEN_WAIT_ENDED] = connect_timeout,
            [SEEN_GAVE_UP] = attempt_abandoned,
            [SEEN_OVERDUE] = connect_timeout,
            [SEEN_REFUSED] = refused,
        },
    [PHASE_CONNECTED] =
        {
            [SEEN_CONNECTED] = connected,
            [SEEN_BYTES] = answered,
            [SEEN_END] = ended,
            [SEEN_ERROR] = connection_failed,
            [SEEN_WAIT_ENDED] = response_timeout,
            [SEEN_GAVE_UP] = greeting_abandoned,
            [SEEN_OVERDUE] = response_timeout,
            [SEEN_REFUSED] = refused,
            [SEEN_HANDED] = handed,
        },
    [PHASE_REQUESTED] =
        {
            [SEEN_CONNECTED] = connected,
            [SEEN_BYTES] = answered,
            [SEEN_END] = ended,
            [SEEN_ERROR] = connection_failed,
            [SEEN_WAIT_ENDED] = response_timeout,
            [SEEN_GAVE_UP] = request_abandoned,
            [SEEN_OVERDUE] = response_timeout,
            [SEEN_REFUSED] = refused,
            [SEEN_HANDED] = handed,
        },
};

/*
 * What holds for every failure, whatever rule found it. Its kind is kept, to be shown. But the peer itself has said
 * that it failed where the kind is FAILURE_HTTP: no other address is an excuse for that, and `http_failures` lists it.
 */
static struct outcome excused(struct outcome outcome, const struct observation *seen, const struct outcome_rules *rules)
{
    if (outcome.kind == FAILURE_HTTP)
        return outcome;
    /* One address of several, and another one answers. A connection that had answered itself is past that question. */
    bool answers = seen->other_answered && (seen->phase == PHASE_CONNECTING || !seen->answered_before);
    /* Or may yet answer: only whether one can connect is a question of the address. */
    bool may_answer = seen->other_tried && seen->phase == PHASE_CONNECTING;
    if (answers || may_answer) {
        outcome.verdict = VERDICT_NEUTRAL;
        outcome.reason = NEUTRAL_ADDRESS;
    } else if ((rules->failure_mask >> outcome.kind & 1) == 0) {
        outcome.verdict = VERDICT_NEUTRAL;
        outcome.reason = NEUTRAL_UNLISTED;
    }
    return outcome;
}

/*
 * Whoever looked at the limit would have found the call overdue: what it came to afterwards is that same failure. But
 * what says nothing of the peer (an error of this side, a stale connection, the program's own end) says as little then.
 */
static bool is_overrun(const struct observation *seen, struct outcome outcome)
{
    if (!seen->after_limit || outcome.verdict == VERDICT_NONE || seen->own_end)
        return false;
    return outcome.verdict != VERDICT_NEUTRAL || outcome.reason == NEUTRAL_CANCELLED;
}

struct outcome outcome_judge(const struct observation *seen, const struct outcome_rules *rules)
{
    if ((unsigned int)seen->phase >= PHASES || (unsigned int)seen->seen >= SEEN_KINDS)
        return undecided;

    rule_fn *rule = table[seen->phase][seen->seen];
    struct outcome outcome = rule != NULL ? rule(seen, rules) : undecided;
    if (is_overrun(seen, outcome))
        outcome = table[seen->phase][SEEN_OVERDUE](seen, rules);
    return outcome.verdict == VERDICT_FAILURE ? excused(outcome, seen, rules) : outcome;
}

/* --- names --- */

static const char *const kind_names[FAILURE_KINDS] = {
    [FAILURE_NONE] = "none",
    [FAILURE_CONNECT_TIMEOUT] = "connect-timeout",
    [FAILURE_RESPONSE_TIMEOUT] = "response-timeout",
    [FAILURE_REFUSED] = "refused",
    [FAILURE_RESET] = "reset",
    [FAILURE_UNREACHABLE] = "unreachable",
    [FAILURE_EARLY_CLOSE] = "early-close",
    [FAILURE_HTTP] = "http",
};

static const char *const reason_names[NEUTRAL_REASONS] = {
    [NEUTRAL_NONE] = "none",         [NEUTRAL_LOCAL] = "local",     [NEUTRAL_CANCELLED] = "cancelled",
    [NEUTRAL_SIBLING] = "sibling",   [NEUTRAL_ADDRESS] = "address", [NEUTRAL_STALE] = "stale",
    [NEUTRAL_UNLISTED] = "unlisted", [NEUTRAL_UNKNOWN] = "unknown",
};

static const char *const verdict_names[VERDICTS] = {
    [VERDICT_NONE] = "none",       [VERDICT_SUCCESS] = "success",   [VERDICT_FAILURE] = "failure",
    [VERDICT_NEUTRAL] = "neutral", [VERDICT_BUSINESS] = "business",
};

const char *verdict_name(unsigned int verdict)
{
    return verdict < VERDICTS ? verdict_names[verdict] : "unknown";
}

const char *failure_kind_name(unsigned int kind)
{
    return kind < FAILURE_KINDS ? kind_names[kind] : "unknown";
}

const char *neutral_reason_name(unsigned int reason)
{
    return reason < NEUTRAL_REASONS ? reason_names[reason] : "unknown";
}

const char *failure_label(unsigned int kind, unsigned int http_status, char text[FAILURE_LABEL_MAX])
{
    struct text label;
    const bool is_known =
        (http_status >= HTTP_STATUS_MIN && http_status <= HTTP_STATUS_MAX) || status_is_grpc(http_status);

    if (kind != FAILURE_HTTP || !is_known)
        return failure_kind_name(kind);
    text_start(&label, text, FAILURE_LABEL_MAX);
    text_add(&label, status_is_grpc(http_status) ? "grpc-" : "http-");
    text_add_unsigned(&label, status_is_grpc(http_status) ? http_status - GRPC_STATUS_BASE : http_status);
    return text;
}

enum failure_kind failure_kind_named(const char *name)
{
    for (unsigned int kind = FAILURE_NONE + 1; kind < FAILURE_KINDS; kind++) {
        if (strcmp(name, kind_names[kind]) == 0)
            return (enum failure_kind)kind;
    }
    return FAILURE_NONE;
}
