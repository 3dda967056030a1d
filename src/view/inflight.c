/*
 * inflight.c - the calls in flight as an observer sees them now. See inflight.h.
 *
 * Each record is read once and each owner asked once, however many calls it has. A segment may be a hostile user's: all
 * that is read is copied, and every number in it is checked where it is read (segment/calls.h).
 */
#define _GNU_SOURCE
#include "view/inflight.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "view/output.h"
#include "view/duration.h"
#include "segment/calls.h"

/* A holder's place is in its upper bits (processes.h): those who had one place are in one list. */
#define PLACES 4096u

static struct inflight_owner **place_of(struct inflight_owner **places, uint32_t holder)
{
    return &places[holder >> 20 & (PLACES - 1)];
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

static struct inflight_owner *owner_of(struct inflight *inflight, struct inflight_owner **places,
                                       const struct segment *segment, const struct selected *of, uint32_t holder)
{
    struct inflight_owner **place = place_of(places, holder), *owner = *place;
    while (owner != NULL && owner->process.holder != holder)
        owner = owner->next;
    if (owner != NULL)
        return owner;
    owner = allocate(1, sizeof *owner);
    owner->is_alive = process_alive(segment, holder) && process_describe(segment, holder, &owner->process);
    owner->process.holder = holder;
    owner->uid = of != NULL ? of->uid : geteuid();
    owner->next = *place;
    *place = owner;
    inflight->owners = grow(inflight->owners, inflight->owner_count, sizeof(struct inflight_owner *));
    inflight->owners[inflight->owner_count++] = owner;
    return owner;
}

/* NULL: its place is just being handed over. */
static const struct circuit_texts *circuit_of(struct inflight *inflight, struct circuit_texts **known,
                                              const struct segment *segment, uint32_t index)
{
    struct circuit_texts texts;
    if (index >= segment->capacity.circuits)
        return NULL;
    if (known[index] != NULL || !circuits_texts(segment, index, &texts))
        return known[index];
    known[index] = allocate(1, sizeof texts);
    *known[index] = texts;
    inflight->circuits = grow(inflight->circuits, inflight->circuit_count, sizeof(struct circuit_texts *));
    inflight->circuits[inflight->circuit_count++] = known[index];
    return known[index];
}

static void add_call(struct inflight *inflight, const struct inflight_call *call)
{
    inflight->at = grow(inflight->at, inflight->count, sizeof *inflight->at);
    inflight->at[inflight->count++] = *call;
}

void inflight_add(struct inflight *inflight, const struct segment *segment, const struct selected *of, uint64_t now_ns)
{
    if (segment->map == NULL)
        return;
    struct inflight_owner **places = allocate(PLACES, sizeof(struct inflight_owner *));
    struct circuit_texts **known = allocate(segment->capacity.circuits, sizeof(struct circuit_texts *));
    for (uint32_t place = 0; place < calls_limit(segment); place++) {
        struct call_view view;
        if (!calls_read_waiting(segment, place, &view))
            continue;
        const struct circuit_texts *circuit = circuit_of(inflight, known, segment, view.circuit);
        const struct inflight_owner *owner = owner_of(inflight, places, segment, of, view.owner);
        if (circuit == NULL || !owner->is_alive)
            continue;
        const bool is_charged = !view.in_flight, has_limit = view.due_ns != DUE_NEVER;
        const uint64_t due_ns =
            has_limit && view.grace_ns < DUE_NEVER - view.due_ns ? view.due_ns + view.grace_ns : DUE_NEVER;
        add_call(inflight,
                 &(struct inflight_call){
                     .of = of,
                     .owner = owner,
                     .circuit = circuit,
                     .circuit_index = view.circuit,
                     .place = place,
                     .number = calls_number(&view),
                     .phase = view.phase,
                     .waited_ns = span_since(view.started_ns, now_ns),
                     .limit_ns = has_limit ? span_since(view.started_ns, view.due_ns) : 0,
                     .is_overdue = is_charged || (has_limit && now_ns >= due_ns),
                     .is_charged = is_charged,
                     .is_probe = view.ticket.token != 0,
                     .address_key = circuit_address_key(circuits_at(segment, view.circuit), view.ticket.address),
                 });
    }
    free(known);
    free(places);
}

void inflight_free(struct inflight *inflight)
{
    for (size_t i = 0; i < inflight->owner_count; i++)
        free(inflight->owners[i]);
    for (size_t i = 0; i < inflight->circuit_count; i++)
        free(inflight->circuits[i]);
    free(inflight->owners);
    free(inflight->circuits);
    free(inflight->at);
    *inflight = (struct inflight){0};
}

/* --- as whom ------------------------------------------------------------------------------------------------------ */

/* The effective user of a process, from /proc: its folder belongs to root once it has changed its user (prctl(2)). */
static bool user_of(uint32_t pid, uint32_t *uid)
{
    char *path = format_text("/proc/%" PRIu32 "/status", pid), *line = NULL;
    size_t size = 0;
    FILE *file = fopen(path, "re");
    bool found = false;
    free(path);
    while (file != NULL && !found && getline(&line, &size, file) > 0)
        found = sscanf(line, "Uid: %*u %" SCNu32, uid) == 1; /* NOLINT(cert-err34-c): a kernel's number */
    free(line);
    if (file != NULL)
        fclose(file);
    return found;
}

void inflight_find_users(struct inflight *inflight)
{
    for (size_t i = 0; i < inflight->owner_count; i++) {
        struct inflight_owner *owner = inflight->owners[i];
        uint32_t uid;
        if (owner->is_alive && owner->process.is_near && user_of(owner->process.pid, &uid))
            owner->uid = uid;
    }
}

/* --- the list ----------------------------------------------------------------------------------------------------- */

static int by_age(const void *a, const void *b)
{
    const struct inflight_call *left = a, *right = b;
    if (left->waited_ns != right->waited_ns)
        return left->waited_ns > right->waited_ns ? -1 : 1;
    if (left->owner->process.pid != right->owner->process.pid)
        return left->owner->process.pid < right->owner->process.pid ? -1 : 1;
    return left->place < right->place ? -1 : left->place > right->place;
}

void inflight_sort(struct inflight *inflight)
{
    if (inflight->count > 1)
        qsort(inflight->at, inflight->count, sizeof *inflight->at, by_age);
}

static bool is_wished(const struct inflight_call *call, const struct inflight_wish *wish)
{
    if (call->waited_ns < wish->older_ns)
        return false;
    return wish->text == NULL || strcmp(call->circuit->target, wish->text) == 0 ||
           strcmp(call->circuit->destination, wish->destination) == 0;
}

void inflight_keep(struct inflight *inflight, const struct inflight_wish *wish)
{
    size_t kept = 0;
    for (size_t i = 0; i < inflight->count; i++)
        if (is_wished(&inflight->at[i], wish))
            inflight->at[kept++] = inflight->at[i];
    inflight->count = kept;
}

void inflight_keep_circuit(struct inflight *inflight, uint32_t circuit)
{
    size_t kept = 0;
    for (size_t i = 0; i < inflight->count; i++)
        if (inflight->at[i].circuit_index == circuit)
            inflight->at[kept++] = inflight->at[i];
    inflight->count = kept;
}

void inflight_count(const struct inflight *inflight, struct waiting *circuits)
{
    for (size_t i = 0; i < inflight->count; i++) {
        const struct inflight_call *call = &inflight->at[i];
        struct waiting *waiting = &circuits[call->circuit_index];
        waiting->calls++;
        waiting->charged += call->is_charged;
        waiting->overdue += call->is_overdue;
        if (call->waited_ns > waiting->oldest_ns)
            waiting->oldest_ns = call->waited_ns;
    }
}

const char *inflight_phase(enum phase phase)
{
    switch (phase) {
    case PHASE_CONNECTING:
        return "connect";
    case PHASE_CONNECTED:
        return "greeting";
    default:
        return "answer";
    }
}
