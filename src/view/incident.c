/*
 * incident.c - an outage as a circuit saw it.
 *
 * See incident.h. An incident begins with the first opening from closed and ends with the closing; failures that led to
 * it stand before it, and calls that had begun before it may end behind it.
 */
#include "view/incident.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "breaker/circuit.h"
#include "view/output.h"

/* A call that failed. */
struct failed_call {
    const struct event *event;
    bool is_probe;
};

/* An incident that is being reckoned. */
struct reckoning {
    struct incident *incident;
    enum circuit_state state;
    uint64_t refused_before; /* the circuit's count at its opening */
    struct failed_call *calls;
    size_t call_count;
};

/* By the circuits' clock; by the wall's where that one began anew meanwhile (another boot). */
static uint64_t ms_between(const struct event *from, const struct event *to)
{
    if (to->mono_ns >= from->mono_ns)
        return (to->mono_ns - from->mono_ns) / NS_PER_MS;
    return to->time_ns > from->time_ns ? (to->time_ns - from->time_ns) / NS_PER_MS : 0;
}

/* --- who and what ------------------------------------------------------------------------------------------------- */

static void add_kind(struct incident *incident, const struct event *event)
{
    for (size_t i = 0; i < incident->kind_count; i++) {
        struct incident_kind *kind = &incident->kinds[i];
        if (kind->kind == event->kind && kind->http_status == event->http_status) {
            kind->calls++;
            return;
        }
    }
    incident->kinds = grow(incident->kinds, incident->kind_count, sizeof *incident->kinds);
    incident->kinds[incident->kind_count++] =
        (struct incident_kind){.kind = event->kind, .http_status = event->http_status, .calls = 1};
}

/* A probe's wait was wanted, and says nothing of how long others would have waited. */
static void add_failure(struct reckoning *reckoning, const struct event *event, bool is_probe)
{
    struct incident *incident = reckoning->incident;
    add_kind(incident, event);
    incident->waited_ms += event->elapsed_ms;
    incident->hanging += event->overran == OVERRAN_HANGS;
    reckoning->calls = grow(reckoning->calls, reckoning->call_count, sizeof *reckoning->calls);
    reckoning->calls[reckoning->call_count++] = (struct failed_call){event, is_probe};
}

/* --- the beginning ------------------------------------------------------------------------------------------------ */

/* Whether it is one of those that an opening for this reason counted. */
static bool led_to(const struct event *event, unsigned int reason)
{
    if (reason == REASON_SLOW_CALL_RATE)
        return event->type == EVENT_OUTCOME && event->slow && !event->late;
    return event->type == EVENT_FAILURE && !event->late;
}

/* Failures in a row: nothing before a success, or before the circuit closed, is among them. */
static bool ends_row(const struct event *event, unsigned int reason)
{
    return event->type == EVENT_CLOSE || (reason == REASON_FAILURE_THRESHOLD && event->type == EVENT_OUTCOME &&
                                          event->verdict == VERDICT_SUCCESS && !event->late);
}

/* What led to the opening at `at`; when the first of these calls began, if all of them are known. */
static void find_causes(struct reckoning *reckoning, const struct event **events, size_t at)
{
    const struct event *opened = events[at];
    const uint32_t wanted = opened->reason == REASON_FAILURE_RATE     ? opened->window_failed
                            : opened->reason == REASON_SLOW_CALL_RATE ? opened->window_slow
                                                                      : opened->failures;
    uint64_t earliest_ms = 0;
    uint32_t found = 0;
    for (size_t i = at; i > 0 && found < wanted && !ends_row(events[i - 1], opened->reason); i--) {
        const struct event *event = events[i - 1];
        if (!led_to(event, opened->reason))
            continue;
        const uint64_t ago_ms = ms_between(event, opened) + event->elapsed_ms;
        if (ago_ms > earliest_ms)
            earliest_ms = ago_ms;
        if (event->type == EVENT_FAILURE) {
            reckoning->incident->counted++;
            add_failure(reckoning, event, false);
        }
        if (event_began_ns(event) < reckoning->incident->from_ns)
            reckoning->incident->from_ns = event_began_ns(event);
        found++;
    }
    reckoning->incident->detect_ms = (struct figure){wanted > 0 && found == wanted, earliest_ms};
}

static void begin(struct reckoning *reckoning, struct story_circuit *circuit, size_t at)
{
    const struct event *event = circuit->events[at];
    if (reckoning->incident != NULL && reckoning->incident->ended == NULL)
        reckoning->incident->to_ns = event->time_ns;
    circuit->incidents = grow(circuit->incidents, circuit->incident_count, sizeof *circuit->incidents);
    struct incident *incident = &circuit->incidents[circuit->incident_count++];
    *incident = (struct incident){.from_ns = event->time_ns};
    reckoning->incident = incident;
    reckoning->call_count = 0;
    if (event->type != EVENT_OPEN || event->from != CIRCUIT_CLOSED) {
        incident->from_ns = circuit->events[0]->time_ns;
        return;
    }
    incident->opened = event;
    reckoning->refused_before = event->refused;
    find_causes(reckoning, circuit->events, at);
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

static int compare_ms(const void *a, const void *b)
{
    const uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

static int compare_processes(const void *a, const void *b)
{
    const struct incident_process *left = a, *right = b;
    if (left->waited_ms != right->waited_ms)
        return left->waited_ms > right->waited_ms ? -1 : 1;
    return left->pid < right->pid ? -1 : left->pid > right->pid;
}

static int compare_kinds(const void *a, const void *b)
{
    const struct incident_kind *left = a, *right = b;
    if (left->calls != right->calls)
        return left->calls > right->calls ? -1 : 1;
    if (left->kind != right->kind)
        return left->kind < right->kind ? -1 : 1;
    return left->http_status < right->http_status ? -1 : left->http_status > right->http_status;
}

/* The median wait. `numbers` has room for one number a call. */
static void find_typical(struct reckoning *reckoning, uint64_t *numbers)
{
    size_t count = 0;
    for (size_t i = 0; i < reckoning->call_count; i++)
        if (!reckoning->calls[i].is_probe)
            numbers[count++] = reckoning->calls[i].event->elapsed_ms;
    if (count == 0)
        return;
    qsort(numbers, count, sizeof *numbers, compare_ms);
    reckoning->incident->typical_ms = (struct figure){true, numbers[count / 2]};
}

/* How many of these calls waited at the same time. `began` and `ended` have room for one number a call each. */
static uint32_t find_at_once(const struct failed_call *calls, size_t call_count, uint64_t *began, uint64_t *ended)
{
    size_t count = 0, over = 0;
    uint32_t most = 0;
    for (size_t i = 0; i < call_count; i++) {
        if (calls[i].is_probe)
            continue;
        began[count] = event_began_ns(calls[i].event);
        ended[count++] = calls[i].event->time_ns;
    }
    if (count == 0)
        return 0;
    qsort(began, count, sizeof *began, compare_ms);
    qsort(ended, count, sizeof *ended, compare_ms);
    for (size_t i = 0; i < count; i++) {
        while (over < i && ended[over] <= began[i])
            over++;
        if (i - over + 1 > most)
            most = (uint32_t)(i - over + 1);
    }
    return most;
}

static int compare_callers(const void *a, const void *b)
{
    const struct event *left = ((const struct failed_call *)a)->event, *right = ((const struct failed_call *)b)->event;
    if (left->pid != right->pid)
        return left->pid < right->pid ? -1 : 1;
    return strcmp(left->program, right->program);
}

static void add_process(struct incident *incident, const struct failed_call *calls, size_t count, uint64_t *numbers)
{
    incident->processes = grow(incident->processes, incident->process_count, sizeof *incident->processes);
    struct incident_process *process = &incident->processes[incident->process_count++];
    *process =
        (struct incident_process){.program = calls->event->program, .pid = calls->event->pid, .calls = (uint32_t)count};
    for (size_t i = 0; i < count; i++) {
        process->waited_ms += calls[i].event->elapsed_ms;
        if (calls[i].event->elapsed_ms > process->longest_ms)
            process->longest_ms = calls[i].event->elapsed_ms;
    }
    process->at_once = find_at_once(calls, count, numbers, numbers + count);
}

/* One sort brings the calls of a process together: there may be as many processes as calls. */
static void find_processes(struct reckoning *reckoning, uint64_t *numbers)
{
    struct failed_call *calls = reckoning->calls;
    if (reckoning->call_count > 0)
        qsort(calls, reckoning->call_count, sizeof *calls, compare_callers);
    for (size_t from = 0, to; from < reckoning->call_count; from = to) {
        for (to = from + 1; to < reckoning->call_count && compare_callers(&calls[from], &calls[to]) == 0;)
            to++;
        add_process(reckoning->incident, calls + from, to - from, numbers);
    }
}

/* See incident.h. `possible_ms` is what the processes can have waited. */
static void find_without(struct incident *incident, uint64_t possible_ms)
{
    if (!incident->refused.is_known || !incident->typical_ms.is_known)
        return;
    const uint64_t most_ms = incident->waited_ms + incident->refused.value * incident->typical_ms.value;
    const uint64_t without_ms = most_ms < possible_ms ? most_ms : possible_ms;
    incident->at_most_ms = (struct figure){true, most_ms};
    incident->without_ms = (struct figure){true, without_ms > incident->waited_ms ? without_ms : incident->waited_ms};
}

/* What follows from the sums. */
static void sum_up(struct reckoning *reckoning)
{
    struct incident *incident = reckoning->incident;
    if (incident == NULL)
        return;
    uint64_t *numbers = allocate(2 * reckoning->call_count, sizeof *numbers), calls_at_once = 0;
    const uint64_t span_ms =
        incident->to_ns > incident->from_ns ? (incident->to_ns - incident->from_ns) / NS_PER_MS : 0;
    find_typical(reckoning, numbers);
    find_processes(reckoning, numbers);
    for (size_t i = 0; i < incident->process_count; i++)
        calls_at_once += incident->processes[i].at_once;
    free(numbers);
    find_without(incident, calls_at_once * span_ms);
    const bool is_shared = incident->without_ms.is_known && calls_at_once > 0;
    for (size_t i = 0; i < incident->process_count && is_shared; i++) {
        struct incident_process *process = &incident->processes[i];
        if (process->at_once > 0) /* but one that only probed */
            process->without_ms = (struct figure){true, incident->without_ms.value * process->at_once / calls_at_once};
    }
    if (incident->process_count > 0)
        qsort(incident->processes, incident->process_count, sizeof *incident->processes, compare_processes);
    if (incident->kind_count > 0)
        qsort(incident->kinds, incident->kind_count, sizeof *incident->kinds, compare_kinds);
}

/* A count that goes back is another segment's. */
static void note_refused(struct reckoning *reckoning, uint64_t refused)
{
    struct incident *incident = reckoning->incident;
    if (incident->opened != NULL && refused >= reckoning->refused_before)
        incident->refused = (struct figure){true, refused - reckoning->refused_before};
}

/* What the circuit itself says of it at its end is right, whatever events are missing. */
static void note_outage(struct incident *incident, const struct event *event)
{
    const struct event_outage *outage = &event->outage;
    incident->lasted_ms = (struct figure){true, outage->lasted_ns / NS_PER_MS};
    incident->refused = (struct figure){true, outage->refused};
    incident->probes = outage->probes;
    incident->probes_failed = outage->probes_failed;
}

static void note_transition(struct reckoning *reckoning, const struct event *event)
{
    struct incident *incident = reckoning->incident;
    incident->probes_failed += event->type == EVENT_OPEN && event->from == CIRCUIT_HALF_OPEN;
    if (event != incident->opened)
        note_refused(reckoning, event->refused);
    if (event->type != EVENT_CLOSE)
        return;
    incident->ended = event;
    incident->to_ns = event->time_ns;
    if (incident->opened != NULL)
        incident->lasted_ms = (struct figure){true, ms_between(incident->opened, event)};
    if (event->outage.is_known)
        note_outage(incident, event);
}

/*
 * Whether a transition is the first of a new incident. A closed circuit that is closed by force changes nothing; of one
 * that opens from closed while an incident goes on, the closing was not told.
 */
static bool begins(const struct reckoning *reckoning, const struct event *event)
{
    if (event->from == CIRCUIT_CLOSED)
        return event->type == EVENT_OPEN;
    return reckoning->incident == NULL || reckoning->incident->ended != NULL;
}

static void note_failure(struct reckoning *reckoning, const struct event *event)
{
    struct incident *incident = reckoning->incident;
    if (incident == NULL || (incident->ended != NULL && !event->late))
        return;
    const bool is_probe = reckoning->state == CIRCUIT_HALF_OPEN && !event->late;
    add_failure(reckoning, event, is_probe);
    if (is_probe)
        return;
    incident->leaked++;
    incident->leaked_ms += event->elapsed_ms;
}

/* The last one may go on. */
static void leave_open(struct reckoning *reckoning, const struct story_circuit *circuit, uint64_t to_ns)
{
    struct incident *incident = reckoning->incident;
    if (incident == NULL || incident->ended != NULL)
        return;
    incident->to_ns = to_ns;
    if (incident->opened == NULL)
        return;
    if (circuit->is_known_now)
        note_refused(reckoning, circuit->refused_now);
    if (to_ns > incident->opened->time_ns)
        incident->lasted_ms = (struct figure){true, (to_ns - incident->opened->time_ns) / NS_PER_MS};
}

void incidents_find(struct story_circuit *circuit, uint64_t to_ns)
{
    struct reckoning reckoning = {.state = CIRCUIT_CLOSED};
    for (size_t i = 0; i < circuit->event_count && circuit->destination[0] != '\0'; i++) {
        const struct event *event = circuit->events[i];
        if (event_is_transition(event)) {
            if (begins(&reckoning, event)) {
                sum_up(&reckoning);
                begin(&reckoning, circuit, i);
            }
            if (reckoning.incident != NULL && reckoning.incident->ended == NULL)
                note_transition(&reckoning, event);
            reckoning.state = event->to;
        } else if (event->type == EVENT_FAILURE) {
            note_failure(&reckoning, event);
        } else if (event->type == EVENT_PROBE && reckoning.incident != NULL && reckoning.incident->ended == NULL) {
            reckoning.incident->probes++;
        }
    }
    leave_open(&reckoning, circuit, to_ns);
    sum_up(&reckoning);
    free(reckoning.calls);
}

void incidents_free(struct story_circuit *circuit)
{
    for (size_t i = 0; i < circuit->incident_count; i++) {
        free(circuit->incidents[i].processes);
        free(circuit->incidents[i].kinds);
    }
    free(circuit->incidents);
}
