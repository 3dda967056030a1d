/*
 * rows.c - the circuits of one policy as an observer sees them now.
 *
 * See rows.h.
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "view/output.h"
#include "view/destination.h"
#include "view/rows.h"
#include "policy/keys.h"
#include "policy/pattern.h"
#include "segment/bulkhead.h"
#include "segment/circuits.h"
#include "segment/processes.h"

static struct row *add_row(struct rows *rows)
{
    rows->at = grow(rows->at, rows->count, sizeof *rows->at);
    struct row *row = &rows->at[rows->count++];
    *row = (struct row){0};
    return row;
}

/* Where the policy can't be asked the built-in values serve: they decide only how an expired probe is shown. */
static const struct settings *settings_of(const struct target *target)
{
    static struct target built_in;
    if (target == NULL && built_in.breaker.probe_timeout_ns == 0)
        target_set_built_in(&built_in);
    return target != NULL ? &target->breaker : &built_in.breaker;
}

/* What the rows go by: the first policy of the list that has a row's target. */
struct policies {
    const struct policy *const *at; /* some may be NULL */
    size_t count;
};

static const struct target *target_named(const struct policies *policies, const char *name)
{
    const struct target *target = NULL;
    for (size_t i = 0; target == NULL && i < policies->count; i++)
        target = policies->at[i] != NULL ? policy_target_named(policies->at[i], name) : NULL;
    return target;
}

/* --- what the segment holds --------------------------------------------------------------------------------------- */

static bool is_alive(uint32_t holder, void *context)
{
    const struct segment *segment = context;
    return process_alive(segment, holder);
}

static void read_hold(struct row *row, const struct segment *segment, uint64_t now_ns)
{
    const struct held held = hold_read(segment, row->circuit, now_ns);
    row->hold = hold_obeyed(held.hold, row->forced, row->target != NULL ? row->target->mode : MODE_ENFORCE);
    if (row->hold == HOLD_UNPROBED && row->view.state != CIRCUIT_OPEN)
        row->hold = HOLD_NONE;
    row->held_left_ns = row->hold != HOLD_NONE ? held.end_ns - now_ns : 0;
}

static void read_circuit(struct row *row, const struct segment *segment, uint32_t index, uint64_t now_ns,
                         struct latency_view *room)
{
    const struct circuit *circuit = circuits_at(segment, index);
    row->called = true;
    row->circuit = index;
    circuit_observe(circuit, settings_of(row->target), now_ns, &row->view);
    circuit_observe_holders(circuit, is_alive, (void *)(uintptr_t)segment, &row->view);
    for (unsigned int i = 0; i < COUNTERS; i++)
        row->counts[i] = counters_sum(&circuit->counters, i);
    row_waits_read(&row->waits, segment, index, now_ns, room);
    const struct force force = force_read(segment, index, now_ns);
    row->forced = force.word;
    row->forced_left_ns = force.end_ns > now_ns ? force.end_ns - now_ns : 0;
    read_hold(row, segment, now_ns);
    if (row->target != NULL && row->target->scope == SCOPE_FLEET)
        row_fleet_read(&row->fleet, segment, row->target_name, row->destination, now_ns);
    row_fleet_read_forced(&row->fleet, segment, row->target_name, row->destination, force);
    if (row->target != NULL && row->target->max_connections != 0)
        row->connections = bulkhead_count(segment, index);
    row_faults_read(&row->faults, segment, index);
    row_outage_read(&row->outage, segment, index, now_ns);
    row->has_failure = circuits_last_failure(segment, index, &row->last_failure);
    row->has_transition = circuits_last_transition(segment, index, &row->last_transition);
}

static void read_segment(struct rows *rows, const struct segment *segment, const struct policies *policies,
                         uint64_t now_ns)
{
    struct circuit_texts texts;
    struct inflight inflight = {0};
    struct waiting *waiting = allocate(segment->capacity.circuits, sizeof *waiting);
    struct latency_view *room = allocate(1, sizeof *room);
    uint32_t cursor = 0, index;
    inflight_add(&inflight, segment, NULL, now_ns);
    inflight_count(&inflight, waiting);
    while ((index = circuits_next(segment, &cursor, &texts)) != CIRCUIT_INDEX_NONE) {
        struct row *row = add_row(rows);
        memcpy(row->target_name, texts.target, sizeof row->target_name);
        memcpy(row->destination, texts.destination, sizeof row->destination);
        row->target = target_named(policies, row->target_name);
        read_circuit(row, segment, index, now_ns, room);
        learnt_read(circuits_learnt(segment, index), now_ns, &row->learnt);
        timeouts_read(&row->timeouts, &row->learnt, &inflight, index);
        row->waiting = waiting[index];
        row->in_flight = waiting[index].calls - waiting[index].charged;
    }
    inflight_free(&inflight);
    free(room);
    free(waiting);
}

/* --- what the policy names ---------------------------------------------------------------------------------------- */

/* Whether a target has a row among some; with that destination unless it is NULL. */
static bool has_row(const struct row *rows, size_t count, const char *target, const char *destination)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].target_name, target) == 0 &&
            (destination == NULL || strcmp(rows[i].destination, destination) == 0))
            return true;
    }
    return false;
}

static void add_uncalled(struct rows *rows, const struct target *target, const char destination[DESTINATION_MAX])
{
    struct row *row = add_row(rows);
    memcpy(row->target_name, target->name, sizeof row->target_name);
    memcpy(row->destination, destination, sizeof row->destination);
    row->target = target;
}

/*
 * The one destination that a pattern can take, by the very way in which a connect finds it: so that a pattern from
 * which an earlier section takes everything has none. False: the pattern leaves it open.
 */
static bool literal_destination(const struct policy *policy, const struct target *target, const struct pattern *pattern,
                                char destination[DESTINATION_MAX])
{
    struct endpoint endpoint;
    const char *names[] = {pattern->host};
    const bool is_name = pattern->kind == PATTERN_HOST;
    if (target->circuit == CIRCUIT_BY_TARGET) {
        snprintf(destination, DESTINATION_MAX, "%s", target->name);
        return true;
    }
    /* The addresses of a name are known to the programs alone. */
    if (!pattern_is_single(pattern, &endpoint) || (is_name && target->circuit == CIRCUIT_BY_ADDRESS))
        return false;
    if (is_name)
        endpoint.family = ENDPOINT_IPV4; /* one of them */
    struct policy_match match;
    return policy_match(policy, &endpoint, names, is_name, &match) && match.target == target &&
           policy_destination(&match, &endpoint, names, destination, DESTINATION_MAX) > 0;
}

/* The first `called` rows are the segment's circuits; a target's other rows are at the end. */
static void add_target(struct rows *rows, size_t called, const struct policy *policy, const struct target *target)
{
    size_t first = rows->count;
    for (size_t i = 0; i < target->pattern_count; i++) {
        char destination[DESTINATION_MAX] = "";
        if (literal_destination(policy, target, &target->patterns[i], destination) &&
            !has_row(rows->at, called, target->name, destination) &&
            (rows->count == first || !has_row(rows->at + first, rows->count - first, target->name, destination)))
            add_uncalled(rows, target, destination);
    }
    if (rows->count == first && !has_row(rows->at, called, target->name, NULL))
        add_uncalled(rows, target, (const char[DESTINATION_MAX]){0});
}

static int compare(const void *a, const void *b)
{
    const struct row *left = a, *right = b;
    /* In the order of the policies, and in each of its targets; what none has any more comes last. */
    if (left->order != right->order)
        return left->order < right->order ? -1 : 1;
    int order = strcmp(left->target_name, right->target_name);
    return order != 0 ? order : strverscmp(left->destination, right->destination);
}

/* By the first policy that has a target of that name; one after the other. */
static size_t order_of(const struct row *row, const struct policies *policies)
{
    size_t before = 0;
    for (size_t i = 0; i < policies->count; i++) {
        const struct policy *policy = policies->at[i];
        const struct target *target = policy != NULL ? policy_target_named(policy, row->target_name) : NULL;
        if (target != NULL)
            return before + (size_t)(target - policy->targets);
        before += policy != NULL ? policy->target_count : 0;
    }
    return SIZE_MAX;
}

static void put_in_order(struct rows *rows, const struct policies *policies)
{
    for (size_t i = 0; i < rows->count; i++)
        rows->at[i].order = order_of(&rows->at[i], policies);
    if (rows->count > 0)
        qsort(rows->at, rows->count, sizeof *rows->at, compare);
}

static void collect(struct rows *rows, const struct segment *segment, const struct policies *policies, uint64_t now_ns)
{
    *rows = (struct rows){0};
    if (segment->map != NULL)
        read_segment(rows, segment, policies, now_ns);
    for (size_t i = 0; i < policies->count; i++) {
        const struct policy *policy = policies->at[i];
        const size_t before = rows->count;
        /* What an earlier one has is called for already. */
        for (size_t j = 0; policy != NULL && j < policy->target_count; j++)
            add_target(rows, before, policy, &policy->targets[j]);
    }
}

void rows_collect(struct rows *rows, const struct segment *segment, const struct policy *policy, uint64_t now_ns)
{
    const struct policies policies = {&policy, 1};
    collect(rows, segment, &policies, now_ns);
    put_in_order(rows, &policies);
}

/* --- what is over ------------------------------------------------------------------------------------------------- */

/*
 * Whether the policy's target of that name takes that destination (NULL: the text is none). An address of a name that
 * the program resolved may be anything.
 */
static bool takes(const struct policy *policy, const char *target_name, const char *text,
                  const struct destination *destination)
{
    const struct target *target = policy_target_named(policy, target_name);
    /* The circuit of a whole target is called as the target is. */
    if (target == NULL || target->circuit == CIRCUIT_BY_TARGET)
        return target != NULL && strcmp(text, target_name) == 0;
    if (destination == NULL)
        return strcmp(text, target_name) != 0;
    if (target->circuit == CIRCUIT_BY_ADDRESS && policy->has_host_patterns)
        return true;
    const char *names[] = {destination->name};
    struct policy_match match;
    return policy_match(policy, &destination->endpoint, names, destination->name != NULL, &match) &&
           match.target == target;
}

/* Whether some program runs a policy that has a place for it; one whose policy is unknown may. */
static bool is_wanted(const struct row *row, const struct running *running)
{
    struct destination destination;
    char why[DESTINATION_WHY_MAX];
    const bool is_read = destination_read(&destination, row->destination, why);
    bool wanted = false;
    for (size_t i = 0; i < running->edition_count && !wanted; i++) {
        const struct policy *policy = running->editions[i].policy;
        wanted = policy == NULL || takes(policy, row->target_name, row->destination, is_read ? &destination : NULL);
    }
    destination_free(&destination);
    return wanted;
}

bool rows_takes(const struct policy *policy, const char *target_name, const char *text)
{
    struct destination destination;
    char why[DESTINATION_WHY_MAX];
    const bool is_read = destination_read(&destination, text, why);
    const bool is_taken = takes(policy, target_name, text, is_read ? &destination : NULL);
    destination_free(&destination);
    return is_taken;
}

static enum ended why_ended(const struct row *row, const struct running *running)
{
    if (!row->called || row->forced != FORCED_NONE || row->waiting.calls > 0)
        return ENDED_NOT;
    if (running->ended)
        return ENDED_PROGRAMS;
    return is_wanted(row, running) ? ENDED_NOT : ENDED_TARGET;
}

void rows_collect_running(struct rows *rows, const struct segment *segment, const struct running *running,
                          uint64_t now_ns)
{
    const struct policy **at = allocate(running->edition_count + 2, sizeof *at);
    struct policies policies = {at, 0};
    const struct policy *first[] = {running->file, running->shown};
    at[policies.count++] = running->shown;
    for (size_t i = 0; i < running->edition_count; i++)
        if (running->editions[i].policy != running->shown)
            at[policies.count++] = running->editions[i].policy;
    /* Who starts next goes by the file: what it has comes first then. */
    const bool next = running->process_count == 0 && running->file != running->shown;
    if (next)
        at[policies.count++] = running->file;
    collect(rows, segment, &policies, now_ns);
    put_in_order(rows, next ? &(struct policies){first, 2} : &policies);
    for (size_t i = 0; i < rows->count; i++)
        rows->at[i].ended = why_ended(&rows->at[i], running);
    free(at);
}

bool rows_keep(struct rows *rows, const char *target_name, const char *destination)
{
    size_t kept = 0;
    for (size_t i = 0; i < rows->count; i++) {
        const struct row *row = &rows->at[i];
        if (strcmp(row->target_name, target_name) == 0 || strcmp(row->destination, destination) == 0)
            rows->at[kept++] = *row;
    }
    rows->count = kept;
    return kept > 0;
}

void rows_free(struct rows *rows)
{
    free(rows->at);
    *rows = (struct rows){0};
}

/* --- what a row says ---------------------------------------------------------------------------------------------- */

enum target_mode row_mode(const struct row *row)
{
    static const struct target unknown = {.mode = MODE_ENFORCE};
    return force_mode(row->forced, row->target != NULL ? row->target : &unknown);
}

enum circuit_state row_state(const struct row *row)
{
    switch (row_mode(row)) {
    case MODE_OPEN:
        return CIRCUIT_OPEN;
    case MODE_CLOSED:
    case MODE_OFF:
        return CIRCUIT_CLOSED;
    default:
        return row->hold == HOLD_FLEET ? CIRCUIT_OPEN : row->view.state;
    }
}

bool row_rehearses(const struct row *row)
{
    return row->target != NULL && row->target->fault_count > 0 && row->target->mode != MODE_OFF;
}

uint32_t row_most_waiting(const struct row *row)
{
    return row->waits.most_in_flight > row->waiting.calls ? row->waits.most_in_flight : row->waiting.calls;
}

bool row_probe_due(const struct row *row)
{
    return row_mode(row) != MODE_OPEN && row->hold == HOLD_NONE && row_state(row) != CIRCUIT_CLOSED &&
           row->view.probe_due;
}

bool row_has_rates(const struct row *row)
{
    return row->target != NULL && (row->target->mode == MODE_ENFORCE || row->target->mode == MODE_OBSERVE) &&
           window_is_used(&row->target->breaker) && row_state(row) == CIRCUIT_CLOSED;
}

uint64_t rate_permille(uint64_t part, uint64_t calls)
{
    return calls > 0 ? part * 1000 / calls : 0;
}

bool row_retry_in_ms(const struct row *row, uint64_t *ms)
{
    if (row_state(row) != CIRCUIT_OPEN || row_mode(row) == MODE_OPEN || row->hold == HOLD_FLEET ||
        (row->hold == HOLD_UNPROBED && row->view.probe_due))
        return false;
    *ms = row->view.probe_due ? 0 : (row->view.retry_in_ns + NS_PER_MS - 1) / NS_PER_MS;
    return true;
}
