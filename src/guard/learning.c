/*
 * learning.c - what a call's end teaches. See learning.h.
 *
 * A program gives up by closing while it waits, or by a time-out of the socket's own. That the kernel gave up (ETIMEDOUT)
 * shows that the program would have waited longer; that sockfuse ended the wait shows nothing of either.
 */
#include "guard/learning.h"

#include <errno.h>

#include "base/clock.h"
#include "base/frame.h"
#include "segment/circuits.h"
#include "segment/processes.h"

/* A wait that enforce_timeouts ends ends at its limit; on a busy machine somewhat later. */
#define LIMIT_EARLY_NS (50 * NS_PER_MS)
#define LIMIT_LATE_NS NS_PER_S

/* Whether the limit that ETIMEDOUT came by was sockfuse's. */
static bool is_by_limit(const struct target *target, const struct observation *observation)
{
    const uint64_t limit_ns =
        observation->phase == PHASE_CONNECTING ? target->connect_timeout_ns : target->response_timeout_ns;

    return target->enforce_timeouts && limit_ns != 0 && observation->waited_ns + LIMIT_EARLY_NS >= limit_ns &&
           observation->waited_ns - limit_ns / 2 <= limit_ns + LIMIT_LATE_NS;
}

/* Whether the program was waiting for something that it then did without. */
static bool gives_up(const struct target *target, const struct observation *observation)
{
    if (observation->own_end || (observation->phase != PHASE_CONNECTING && connect_is_success(&target->rules)))
        return false;
    return observation->seen == SEEN_WAIT_ENDED || (observation->seen == SEEN_GAVE_UP && !observation->sibling_won) ||
           ((observation->seen == SEEN_END || observation->seen == SEEN_ERROR) && observation->gave_up);
}

/* False: the end tells nothing of anybody's patience. */
static bool end_of(const struct target *target, const struct observation *observation, enum learnt_end *end)
{
    if (gives_up(target, observation)) {
        *end = LEARNT_GIVEN_UP;
        return true;
    }
    switch (observation->seen) {
    case SEEN_ERROR:
        *end = observation->error != ETIMEDOUT    ? LEARNT_OUTLASTED
               : is_by_limit(target, observation) ? LEARNT_BY_LIMIT
                                                  : LEARNT_BY_KERNEL;
        return true;
    case SEEN_END: /* of a connection on which nothing was asked it may have been nobody's wait */
        *end = LEARNT_OUTLASTED;
        return observation->phase == PHASE_REQUESTED;
    case SEEN_CONNECTED:
    case SEEN_BYTES:
    case SEEN_REFUSED:
        *end = LEARNT_OUTLASTED;
        return true;
    default:
        return false;
    }
}

OWN_FRAME static void note(const struct guard *guard, const struct call_view *call,
                           const struct observation *observation, enum learnt_end end)
{
    struct learnt *learnt = circuits_learnt(guard->segment, call->circuit);

    if (learnt != NULL)
        learnt_note_wait(learnt, guard->program,
                         observation->phase == PHASE_CONNECTING ? LEARNT_CONNECT : LEARNT_ANSWER, end,
                         observation->waited_ns, clock_wall_ns());
}

void learning_note_end(const struct guard *guard, const struct target *target, const struct call_view *call,
                       const struct observation *observation)
{
    enum learnt_end end;

    if (observation->waited_ns >= LEARNT_SHORTEST_NS && end_of(target, observation, &end) &&
        (end != LEARNT_OUTLASTED || observation->waited_ns >= LEARNT_LONG_NS))
        note(guard, call, observation, end);
}

OWN_FRAME void learning_note_long_wait(const struct segment *segment, uint32_t holder, uint32_t circuit,
                                       enum learnt_wait waits, uint64_t waited_ns)
{
    struct learnt *learnt = circuits_learnt(segment, circuit);
    struct process_view process;

    if (learnt != NULL && process_describe(segment, holder, &process))
        learnt_note_wait(learnt, process.program, waits, LEARNT_OUTLASTED, waited_ns, clock_wall_ns());
}

void learning_note_outcome(const struct segment *segment, const struct call_view *call, const struct ending *ending,
                           bool late)
{
    struct learnt *learnt = circuits_learnt(segment, call->circuit);
    struct circuit *circuit = circuits_at(segment, call->circuit);

    if (learnt == NULL || circuit == NULL)
        return;
    if (call->ticket.generation == SHADOW_GENERATION)
        learnt_note_shadow(learnt, ending->outcome.verdict, 1, ending->wait.waited_ns);
    /* A failure that left no trace in the circuit, or none any more, begins no run: no success would come to end it. */
    if (!late && (ending->outcome.verdict != VERDICT_FAILURE || !circuit_is_well(circuit, NULL)))
        learnt_note_outcome(learnt, ending->outcome.verdict, ending->at_ns);
}

void learning_note_wait_beyond(const struct segment *segment, const struct call_view *call, const struct wait *wait)
{
    struct learnt *learnt = circuits_learnt(segment, call->circuit);

    if (learnt != NULL && call->ticket.generation == SHADOW_GENERATION && wait->waited_ns > wait->noted_ns)
        learnt_note_shadow(learnt, VERDICT_FAILURE, 0, wait->waited_ns - wait->noted_ns);
}
