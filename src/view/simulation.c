/*
 * simulation.c - recorded calls through the circuit's own code.
 *
 * See simulation.h. Calls in flight stand in a heap by when they end; before one begins, all that ended by then are
 * settled.
 */
#include "view/simulation.h"

#include <stdlib.h>

#include "view/output.h"

/* Of a circuit's last failures and slow calls so many are remembered, to find the first one in a window. */
#define RECENT 128u

struct flight {
    uint64_t known_ns;
    size_t order; /* of its beginning: what is known at one moment is settled in that order */
    const struct sim_call *call;
    struct outcome outcome;
    struct ticket ticket;
    bool is_refused;
    size_t opening; /* of a refused one: the opening in whose pause it began, + 1 */
};

/* One circuit with what is remembered of its calls. */
struct lane_circuit {
    struct circuit *circuit;
    bool in_run;                           /* the last outcome was a failure */
    uint64_t run_since_ns;                 /* when the first one of the run began */
    uint64_t known[RECENT], began[RECENT]; /* of the last failures and slow calls */
    uint32_t recent;                       /* how many there were */
    size_t opening;                        /* the last from closed, + 1 */
};

struct run {
    struct simulation *simulation;
    const struct sim_rule *rules;
    struct lane_circuit *circuits;
    struct flight *heap;
    size_t flights, room;
};

/* --- the heap ----------------------------------------------------------------------------------------------------- */

static bool is_before(const struct flight *a, const struct flight *b)
{
    return a->known_ns != b->known_ns ? a->known_ns < b->known_ns : a->order < b->order;
}

static void heap_add(struct run *run, const struct flight *flight)
{
    if (run->flights == run->room) {
        run->room = run->room != 0 ? 2 * run->room : 64;
        run->heap = realloc(run->heap, run->room * sizeof *run->heap);
        if (run->heap == NULL)
            no_memory();
    }
    size_t at = run->flights++;
    for (; at > 0 && is_before(flight, &run->heap[(at - 1) / 2]); at = (at - 1) / 2)
        run->heap[at] = run->heap[(at - 1) / 2];
    run->heap[at] = *flight;
}

static struct flight heap_take(struct run *run)
{
    const struct flight first = run->heap[0], last = run->heap[--run->flights];
    size_t at = 0;
    for (size_t child = 1; child < run->flights; child = 2 * at + 1) {
        if (child + 1 < run->flights && is_before(&run->heap[child + 1], &run->heap[child]))
            child++;
        if (!is_before(&run->heap[child], &last))
            break;
        run->heap[at] = run->heap[child];
        at = child;
    }
    run->heap[at] = last;
    return first;
}

/* --- transitions -------------------------------------------------------------------------------------------------- */

/* When the first call began of those by which a window opened the circuit. */
static uint64_t window_since(const struct lane_circuit *at, const struct transition *what,
                             const struct settings *settings, uint64_t now_ns)
{
    const uint64_t wanted = what->reason == REASON_SLOW_CALL_RATE ? what->window.slow : what->window.failed;
    const uint64_t from_ns =
        (settings->window & WINDOW_CALLS) == 0 && now_ns > settings->window ? now_ns - settings->window : 0;
    uint64_t since_ns = now_ns;
    for (uint32_t back = 1; back <= at->recent && back <= RECENT && back <= wanted; back++) {
        const uint32_t place = (at->recent - back) % RECENT;
        if (at->known[place] < from_ns)
            break;
        since_ns = at->began[place] < since_ns ? at->began[place] : since_ns;
    }
    return since_ns;
}

static void note_opening(const struct run *run, struct lane_circuit *at, struct sim_transition *opening,
                         const struct settings *settings)
{
    struct sim_result *result = &run->simulation->results[opening->lane];
    opening->since_ns = opening->what.reason == REASON_FAILURE_THRESHOLD
                            ? at->run_since_ns
                            : window_since(at, &opening->what, settings, opening->at_ns);
    const uint64_t detect_ns = opening->at_ns > opening->since_ns ? opening->at_ns - opening->since_ns : 0;
    result->openings++;
    result->detect_ns += detect_ns;
    if (detect_ns > result->longest_detect_ns)
        result->longest_detect_ns = detect_ns;
    at->opening = run->simulation->transition_count;
}

static void note_transitions(const struct run *run, struct lane_circuit *at, const struct sim_call *call,
                             const struct transitions *transitions, const struct settings *settings, uint64_t now_ns)
{
    struct simulation *simulation = run->simulation;
    for (unsigned int i = 0; i < transitions->count; i++) {
        const struct transition *what = &transitions->at[i];
        simulation->transitions =
            grow(simulation->transitions, simulation->transition_count, sizeof *simulation->transitions);
        struct sim_transition *made = &simulation->transitions[simulation->transition_count++];
        *made = (struct sim_transition){.at_ns = now_ns, .lane = call->lane, .what = *what};
        if (what->reason == REASON_PROBE_TIMEOUT)
            made->at_ns = atomic_load_explicit(&at->circuit->state_since_ns, memory_order_relaxed);
        if (what->to != CIRCUIT_OPEN)
            continue;
        if (what->from == CIRCUIT_CLOSED)
            note_opening(run, at, made, settings);
        else
            simulation->results[call->lane].reopenings++;
    }
}

/* --- beginning and end -------------------------------------------------------------------------------------------- */

/* A pause's chance part is left out: the shortest one. */
static struct settings settings_of(const struct target *target)
{
    struct settings settings = target->breaker;
    settings.jitter_permille = 0;
    return settings;
}

static struct caller caller_of(const struct sim_call *call)
{
    return (struct caller){.holder = call->pid != 0 ? call->pid : 1, .address = ADDRESS_NONE};
}

static enum admission ask(const struct run *run, struct lane_circuit *at, const struct sim_call *call,
                          const struct target *target, struct ticket *ticket)
{
    const struct settings settings = settings_of(target);
    const struct caller caller = caller_of(call);
    struct transitions transitions;
    if (target->mode == MODE_OPEN)
        return ADMIT_REFUSED_OPEN;
    if (target->mode == MODE_CLOSED || target->mode == MODE_OFF)
        return ADMIT_PASS;
    const enum admission admission =
        circuit_admit(at->circuit, &settings, &caller, call->began_ns, ticket, &transitions);
    note_transitions(run, at, call, &transitions, &settings, call->began_ns);
    return admission;
}

static void begin(struct run *run, const struct sim_call *call, size_t order)
{
    const struct target *target = run->rules[call->lane].target;
    struct lane_circuit *at = &run->circuits[run->rules[call->lane].circuit];
    struct sim_result *result = &run->simulation->results[call->lane];
    struct flight flight = {.order = order, .call = call};
    if (target == NULL) {
        static const struct target nobodys = {.mode = MODE_OFF, .rules = {.failure_mask = UINT32_MAX}};
        target = &nobodys;
    }
    flight.outcome = sim_judge(call, target, &flight.known_ns);
    const enum admission admission = ask(run, at, call, target, &flight.ticket);
    result->calls++;
    if (admission_refuses(admission)) {
        result->refused++;
        flight.is_refused = true;
        flight.known_ns = call->ended_ns;
        flight.opening = admission == ADMIT_REFUSED_OPEN ? at->opening : 0;
    } else if (admission == ADMIT_PROBE) {
        result->probes++;
    }
    heap_add(run, &flight);
}

static bool is_success(struct outcome outcome)
{
    return outcome.verdict == VERDICT_SUCCESS || outcome.verdict == VERDICT_BUSINESS;
}

/* What was recorded of a call that would not have gone. */
static void note_refused(const struct run *run, const struct flight *flight)
{
    if (is_success(flight->outcome))
        run->simulation->results[flight->call->lane].refused_wrongly++;
    if (flight->opening == 0)
        return;
    struct sim_transition *opening = &run->simulation->transitions[flight->opening - 1];
    if (is_success(flight->outcome))
        opening->succeeded++;
    else if (flight->outcome.verdict == VERDICT_FAILURE)
        opening->failed++;
}

/* Goes on with the run of failures, before the circuit is told. */
static void note_run(struct lane_circuit *at, const struct flight *flight, struct sim_result *result)
{
    if (flight->outcome.verdict == VERDICT_FAILURE) {
        result->failed++;
        if (at->in_run && !flight->is_refused && flight->ticket.token == 0)
            result->leaked++;
        if (!at->in_run)
            at->run_since_ns = flight->call->began_ns;
        at->in_run = true;
    } else if (is_success(flight->outcome)) {
        at->in_run = false;
    }
    if (!flight->is_refused && (flight->outcome.verdict == VERDICT_FAILURE || flight->outcome.slow)) {
        at->known[at->recent % RECENT] = flight->known_ns;
        at->began[at->recent % RECENT] = flight->call->began_ns;
        at->recent++;
    }
}

static void hold_open(struct circuit *circuit, const struct settings *settings, const struct sim_call *call)
{
    const uint64_t most_ns = settings->retry_after_max_ns,
                   wait_ns = call->retry_after_ns < most_ns ? call->retry_after_ns : most_ns;
    circuit_hold_open(circuit, wait_ns < UINT64_MAX - call->ended_ns ? call->ended_ns + wait_ns : UINT64_MAX);
}

static void end(struct run *run, const struct flight *flight)
{
    const struct sim_call *call = flight->call;
    const struct target *target = run->rules[call->lane].target;
    struct lane_circuit *at = &run->circuits[run->rules[call->lane].circuit];
    struct transitions transitions;
    note_run(at, flight, &run->simulation->results[call->lane]);
    if (flight->is_refused)
        note_refused(run, flight);
    if (flight->is_refused || target == NULL || target->mode == MODE_CLOSED || target->mode == MODE_OFF ||
        flight->outcome.verdict == VERDICT_NONE)
        return;
    const struct settings settings = settings_of(target);
    const struct caller caller = caller_of(call);
    if (call->retry_after_ns > 0 && target->retry_after && flight->known_ns == call->ended_ns)
        hold_open(at->circuit, &settings, call);
    circuit_settle(at->circuit, &settings, &caller, &flight->ticket, flight->outcome, flight->known_ns, &transitions);
    note_transitions(run, at, call, &transitions, &settings, flight->known_ns);
}

/* An opening is false when, of what is recorded of its pause, more succeeded than failed. */
static void judge_openings(const struct simulation *simulation)
{
    for (size_t i = 0; i < simulation->transition_count; i++) {
        const struct sim_transition *at = &simulation->transitions[i];
        struct sim_result *result = &simulation->results[at->lane];
        if (at->what.to != CIRCUIT_OPEN || at->what.from != CIRCUIT_CLOSED)
            continue;
        result->false_openings += at->succeeded > at->failed;
        result->untold_openings += at->succeeded + at->failed == 0;
    }
}

static struct circuit *new_circuit(void)
{
    struct circuit *circuit = aligned_alloc(_Alignof(struct circuit), sizeof *circuit);
    if (circuit == NULL)
        no_memory();
    *circuit = (struct circuit){0};
    return circuit;
}

void simulation_run(struct simulation *simulation, const struct sim_call *calls, size_t count,
                    const struct sim_rule *rules, size_t lanes)
{
    struct run run = {.simulation = simulation, .rules = rules, .circuits = allocate(lanes, sizeof *run.circuits)};
    *simulation = (struct simulation){.results = allocate(lanes, sizeof *simulation->results)};
    for (size_t i = 0; i < lanes; i++)
        if (run.circuits[rules[i].circuit].circuit == NULL)
            run.circuits[rules[i].circuit].circuit = new_circuit();
    for (size_t i = 0; i < count; i++) {
        while (run.flights > 0 && run.heap[0].known_ns <= calls[i].began_ns) {
            const struct flight flight = heap_take(&run);
            end(&run, &flight);
        }
        begin(&run, &calls[i], i);
    }
    while (run.flights > 0) {
        const struct flight flight = heap_take(&run);
        end(&run, &flight);
    }
    judge_openings(simulation);
    for (size_t i = 0; i < lanes; i++)
        free(run.circuits[i].circuit);
    free(run.circuits);
    free(run.heap);
}

void simulation_free(struct simulation *simulation)
{
    free(simulation->results);
    free(simulation->transitions);
    *simulation = (struct simulation){.results = NULL};
}

void sim_result_add(struct sim_result *sum, const struct sim_result *result)
{
    sum->calls += result->calls;
    sum->failed += result->failed;
    sum->openings += result->openings;
    sum->reopenings += result->reopenings;
    sum->false_openings += result->false_openings;
    sum->untold_openings += result->untold_openings;
    sum->undated_openings += result->undated_openings;
    sum->detect_ns += result->detect_ns;
    if (result->longest_detect_ns > sum->longest_detect_ns)
        sum->longest_detect_ns = result->longest_detect_ns;
    sum->leaked += result->leaked;
    sum->probes += result->probes;
    sum->refused += result->refused;
    sum->refused_wrongly += result->refused_wrongly;
}

int sim_call_compare(const void *a, const void *b)
{
    const struct sim_call *left = a, *right = b;
    if (left->began_ns != right->began_ns)
        return left->began_ns < right->began_ns ? -1 : 1;
    return left->ended_ns < right->ended_ns ? -1 : left->ended_ns > right->ended_ns;
}
