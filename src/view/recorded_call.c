/*
 * recorded_call.c - what a recorded call means by a policy's rules. See simulation.h.
 */
#include <errno.h>

#include "view/simulation.h"

/* What was seen of a call, as far as its recorded kind tells. */
static struct observation observation_of(const struct sim_call *call)
{
    switch (call->kind) {
    case FAILURE_CONNECT_TIMEOUT:
        return (struct observation){.phase = PHASE_CONNECTING, .seen = SEEN_OVERDUE};
    case FAILURE_RESPONSE_TIMEOUT:
        return (struct observation){.phase = PHASE_REQUESTED, .seen = SEEN_OVERDUE};
    case FAILURE_REFUSED:
        return (struct observation){.phase = PHASE_CONNECTING, .seen = SEEN_REFUSED};
    case FAILURE_RESET:
        return (struct observation){.phase = PHASE_REQUESTED, .seen = SEEN_ERROR, .error = ECONNRESET};
    case FAILURE_UNREACHABLE:
        return (struct observation){.phase = PHASE_CONNECTING, .seen = SEEN_ERROR, .error = EHOSTUNREACH};
    case FAILURE_EARLY_CLOSE:
        return (struct observation){.phase = PHASE_REQUESTED, .seen = SEEN_END};
    default:
        return (struct observation){.phase = PHASE_REQUESTED, .seen = SEEN_BYTES, .http_status = call->http_status};
    }
}

/* Which of the target's limits a call's wait had; 0: none. */
static uint64_t limit_of(const struct sim_call *call, const struct target *target)
{
    switch (call->kind) {
    case FAILURE_CONNECT_TIMEOUT:
    case FAILURE_REFUSED:
    case FAILURE_UNREACHABLE:
        return target->connect_timeout_ns;
    default:
        return target->response_timeout_ns;
    }
}

static bool is_judged_anew(const struct sim_call *call)
{
    return call->verdict == VERDICT_FAILURE || call->http_status != 0 ||
           (call->verdict == VERDICT_NEUTRAL && call->reason == NEUTRAL_UNLISTED && call->kind != FAILURE_NONE);
}

struct outcome sim_judge(const struct sim_call *call, const struct target *target, uint64_t *known_ns)
{
    const uint64_t elapsed_ns = call->ended_ns > call->began_ns ? call->ended_ns - call->began_ns : 0,
                   limit_ns = limit_of(call, target);
    struct outcome outcome = {.verdict = (enum verdict)call->verdict,
                              .kind = (enum failure_kind)call->kind,
                              .reason = (enum neutral_reason)call->reason};

    *known_ns = call->ended_ns;
    if (call->verdict == VERDICT_NEUTRAL && !is_judged_anew(call))
        return outcome;
    if (limit_ns != 0 && elapsed_ns >= limit_ns) {
        const bool connects = limit_ns == target->connect_timeout_ns && call->kind != FAILURE_NONE &&
                              observation_of(call).phase == PHASE_CONNECTING;
        const struct observation overdue = {.phase = connects ? PHASE_CONNECTING : PHASE_REQUESTED,
                                            .seen = SEEN_OVERDUE};
        *known_ns = call->began_ns + limit_ns;
        return outcome_judge(&overdue, &target->rules);
    }
    if (is_judged_anew(call)) {
        const struct observation seen = observation_of(call);
        outcome = outcome_judge(&seen, &target->rules);
    }
    const uint64_t slow_ns = target->breaker.slow_call_ns;
    /* A recording has milliseconds: at the limit itself it goes by what was said then. */
    outcome.slow = outcome.verdict == VERDICT_SUCCESS && slow_ns != 0 &&
                   (elapsed_ns > slow_ns || (elapsed_ns == slow_ns && call->is_slow));
    return outcome;
}
