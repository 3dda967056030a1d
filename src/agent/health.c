/*
 * health.c - makes the health checks of open circuits, and has the circuits go by them.
 *
 * What follows from a check is health_state.c's; what a circuit is told, guard/holding.c's: it ends by itself some
 * seconds after the agent. What each look costs while nothing is open is a load for each circuit. To root's agent
 * policies and circuits of others are hostile: a check is made as their user, and of one segment's only some at a time.
 */
#define _GNU_SOURCE
#include "agent/health.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/check_child.h"
#include "agent/health_state.h"
#include "agent/watched.h"
#include "base/clock.h"
#include "guard/holding.h"
#include "policy/check_value.h"
#include "segment/circuits.h"
#include "segment/processes.h"
#include "view/output.h"

/* What is said is said again with each look; with no look for so long it ends. */
#define HOLD_LASTS_NS (5 * NS_PER_S)
/* Of a segment so many are looked after at a time, and of these so many checks are made at a time; and in all. */
#define CIRCUITS_MAX 1024u
#define CHECKS_EACH_MAX 16u
#define CHECKS_MAX 64u

/* A circuit that is not closed. */
struct checked {
    struct watched *watched;
    uint32_t index;
    char target[TARGET_NAME_MAX], destination[DESTINATION_MAX];
    struct health_state state;
    bool is_held; /* by our word */
    bool is_seen; /* in the present look */
    struct check_child *child;
    uint64_t child_since_ns; /* the opening that it is of */
    bool has_result;
    struct check_result result; /* the last one */
    enum target_mode mode;
};

/* What is kept of a segment: nothing, while all of its circuits are closed. */
struct health_segment {
    struct checked **at;
    size_t count, children;
};

static void begin(struct watched *watched);
static void look(struct watched *watched, uint64_t now_ns);
static void end(struct watched *watched);

static struct watcher watcher = {.name = "health checks", .begin = begin, .look = look, .end = end};
static struct ev_loop *the_loop;
static size_t children;

void health_register(struct ev_loop *loop)
{
    the_loop = loop;
    watched_register(&watcher);
}

static struct health_segment *of(struct watched *watched)
{
    return watched->data[watcher.number];
}

static struct guard guard_of(struct watched *watched)
{
    struct guard guard = {.segment = watched->writable, .pid = (uint32_t)getpid()};
    strcpy(guard.program, "sockfuse-agent");
    return guard;
}

/* --- what runs ---------------------------------------------------------------------------------------------------- */

static const struct target *target_of(struct watched *watched, const char *name)
{
    struct process_view process;
    uint32_t cursor = 0;
    const struct policy *policy = watched_policy(watched);
    /* Where no program runs nobody is helped by a probe. */
    if (policy == NULL || !process_next(&watched->selected->segment, &cursor, &process))
        return NULL;
    return policy_target_named(policy, name);
}

/* --- one circuit -------------------------------------------------------------------------------------------------- */

static struct hold_cause cause_of(const struct checked *checked, enum hold_reason reason)
{
    return (struct hold_cause){.reason = reason,
                               .error = checked->result.error,
                               .http_status = checked->result.http_status,
                               .exit_status = checked->result.exit_status};
}

static void do_step(struct watched *watched, struct checked *checked, const struct target *target,
                    enum health_step step, uint64_t now_ns)
{
    const struct guard guard = guard_of(watched);
    static const struct hold_cause passed = {.reason = HOLD_CHECK_PASSED};
    const struct hold_cause fails = cause_of(checked, HOLD_CHECK_FAILED),
                            impatient = cause_of(checked, HOLD_PATIENCE_OVER);
    switch (step) {
    case HEALTH_NOTHING:
        return;
    case HEALTH_HOLD:
        checked->is_held = hold_set(&guard, checked->index, HOLD_UNPROBED, HOLD_LASTS_NS, &fails, target->mode, now_ns);
        return;
    case HEALTH_LET_GO:
        hold_end(&guard, checked->index, HOLD_UNPROBED, &passed, target->mode, now_ns);
        break;
    case HEALTH_END_PAUSE:
        hold_end_pause(&guard, checked->index, target, &passed, now_ns);
        break;
    case HEALTH_LOSE_PATIENCE:
        hold_end(&guard, checked->index, HOLD_UNPROBED, &impatient, target->mode, now_ns);
        break;
    }
    checked->is_held = false;
}

static void let_go(struct watched *watched, struct checked *checked, uint64_t now_ns)
{
    const struct guard guard = guard_of(watched);
    const struct hold_cause given_up = {.reason = HOLD_GIVEN_UP};
    if (checked->is_held && watched->writable != NULL)
        hold_end(&guard, checked->index, HOLD_UNPROBED, &given_up, checked->mode, now_ns);
    checked->is_held = false;
}

/* The look that follows makes something of it. */
static void note_result(void *context, const struct check_result *result)
{
    struct checked *checked = context;
    checked->child = NULL;
    checked->result = *result;
    checked->has_result = true;
    children--;
    watched_look_at_soon(checked->watched);
}

/* One that takes longer than its interval is followed by the next one when it has ended. */
static bool can_check(const struct health_segment *segment, const struct checked *checked)
{
    size_t own = 0;
    for (size_t i = 0; i < segment->count; i++)
        own += segment->at[i]->child != NULL;
    return checked->child == NULL && own < CHECKS_EACH_MAX && children < CHECKS_MAX;
}

static void start_check(struct watched *watched, struct checked *checked, const struct target *target)
{
    const struct check_order order = {.value = target->health_check,
                                      .identity = watched->selected->identity,
                                      .target = checked->target,
                                      .destination = checked->destination,
                                      .uid = watched->selected->uid,
                                      .timeout_ns = target->health_timeout_ns};
    checked->child_since_ns = checked->state.since_ns;
    checked->child = check_start(the_loop, &order, note_result, checked);
    children += checked->child != NULL;
}

/* An open circuit's. */
static void see_open(struct watched *watched, struct checked *checked, const struct target *target,
                     const struct circuit_view *circuit, uint64_t now_ns)
{
    const struct health_rules rules = {
        .interval_ns = target->health_interval_ns, .rise = target->health_rise, .patience = target->health_patience};
    const struct health_view view = {.since_ns = circuit->since_ns,
                                     .pause_ns = circuit_pause_ns(&target->breaker, circuit->step),
                                     .step = circuit->step};
    bool check = can_check(of(watched), checked);
    do_step(watched, checked, target, health_look(&checked->state, &rules, &view, now_ns, &check), now_ns);
    if (checked->has_result && checked->child_since_ns == checked->state.since_ns)
        do_step(watched, checked, target, health_result(&checked->state, &rules, checked->result.passed, now_ns),
                now_ns);
    checked->has_result = false;
    if (check)
        start_check(watched, checked, target);
}

static bool is_asked_for(const struct watched *watched, const struct checked *checked, const struct target *target,
                         uint64_t now_ns)
{
    return target != NULL && check_kind(target->health_check) != CHECK_NONE && target->mode == MODE_ENFORCE &&
           force_get(watched->writable, checked->index, now_ns) == FORCED_NONE;
}

static void see(struct watched *watched, struct checked *checked, uint64_t now_ns)
{
    const struct target *target = target_of(watched, checked->target);
    struct circuit_view view;
    checked->is_seen = true;
    if (!is_asked_for(watched, checked, target, now_ns)) {
        let_go(watched, checked, now_ns);
        health_closed(&checked->state);
        return;
    }
    checked->mode = target->mode;
    circuit_observe(circuits_at(watched->writable, checked->index), &target->breaker, now_ns, &view);
    if (view.state == CIRCUIT_OPEN)
        see_open(watched, checked, target, &view, now_ns);
    else
        health_probed(&checked->state);
}

/* --- those of a segment ------------------------------------------------------------------------------------------- */

static void drop(struct watched *watched, size_t which, uint64_t now_ns)
{
    struct health_segment *segment = of(watched);
    struct checked *checked = segment->at[which];
    let_go(watched, checked, now_ns);
    if (checked->child != NULL) {
        check_cancel(checked->child);
        children--;
    }
    free(checked);
    segment->at[which] = segment->at[--segment->count];
}

/* What is kept of that circuit; made, if it is new. NULL: there are too many. */
static struct checked *checked_of(struct watched *watched, uint32_t index, const char target[TARGET_NAME_MAX],
                                  const char destination[DESTINATION_MAX])
{
    struct health_segment *segment = of(watched);
    for (size_t i = 0; i < segment->count; i++)
        if (segment->at[i]->index == index && strcmp(segment->at[i]->target, target) == 0 &&
            strcmp(segment->at[i]->destination, destination) == 0)
            return segment->at[i];
    if (segment->count == CIRCUITS_MAX)
        return NULL;
    struct checked *checked = allocate(1, sizeof *checked);
    checked->watched = watched;
    checked->index = index;
    memcpy(checked->target, target, sizeof checked->target);
    memcpy(checked->destination, destination, sizeof checked->destination);
    segment->at = grow(segment->at, segment->count, sizeof *segment->at);
    segment->at[segment->count++] = checked;
    return checked;
}

static void look(struct watched *watched, uint64_t now_ns)
{
    struct health_segment *segment = of(watched);
    const struct segment *table = watched->writable;
    if (table == NULL)
        return;
    for (size_t i = 0; i < segment->count; i++)
        segment->at[i]->is_seen = false;
    for (uint32_t index = 0; index < table->capacity.circuits; index++) {
        char target[TARGET_NAME_MAX], destination[DESTINATION_MAX];
        const struct circuit *circuit = circuits_at(table, index);
        if (circuit == NULL || circuit_is_closed(circuit))
            continue;
        circuits_copy_texts(table, index, target, destination);
        struct checked *checked = target[0] != '\0' ? checked_of(watched, index, target, destination) : NULL;
        if (checked != NULL)
            see(watched, checked, now_ns);
    }
    for (size_t i = segment->count; i-- > 0;)
        if (!segment->at[i]->is_seen)
            drop(watched, i, now_ns);
}

static void begin(struct watched *watched)
{
    watched->data[watcher.number] = allocate(1, sizeof(struct health_segment));
}

static void end(struct watched *watched)
{
    struct health_segment *segment = of(watched);
    while (segment->count > 0)
        drop(watched, segment->count - 1, clock_circuit_ns());
    free(segment->at);
    free(segment);
    watched->data[watcher.number] = NULL;
}
