/*
 * unended.c - what calls without an end have waited. See unended.h.
 */
#include "cli/unended.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "view/duration.h"
#include "view/output.h"
#include "segment/calls.h"
#include "segment/circuits.h"
#include "segment/processes.h"

/* What was seen at a record. */
struct sight {
    uint32_t owner, number;
    uint64_t alive_ns; /* when its owner was last seen alive with this call; 0: it was seen once only */
};

struct unended {
    const struct segment *segment;
    struct sight *sights; /* by record */
    uint32_t *most;       /* by circuit: so many waited at once, of those that were seen twice */
    uint32_t *now;        /* room for a look */
};

struct unended *unended_start(const struct segment *segment)
{
    struct unended *unended = allocate(1, sizeof *unended);
    unended->segment = segment;
    unended->sights = allocate(segment->capacity.calls, sizeof *unended->sights);
    unended->most = allocate(segment->capacity.circuits, sizeof *unended->most);
    unended->now = allocate(segment->capacity.circuits, sizeof *unended->now);
    return unended;
}

void unended_free(struct unended *unended)
{
    if (unended == NULL)
        return;
    free(unended->sights);
    free(unended->most);
    free(unended->now);
    free(unended);
}

/* The calls of one process mostly stand side by side: whoever was asked last is not asked again. */
struct asked {
    uint32_t owner;
    bool is_alive;
};

static bool is_alive(struct asked *asked, const struct segment *segment, uint32_t owner)
{
    if (asked->owner != owner)
        *asked = (struct asked){.owner = owner, .is_alive = process_alive(segment, owner)};
    return asked->is_alive;
}

static bool is_same(const struct sight *sight, const struct call_view *call)
{
    return sight->owner == call->owner && sight->number == calls_number(call);
}

void unended_look(struct unended *unended, uint64_t now_ns)
{
    const struct segment *segment = unended->segment;
    struct asked asked = {.owner = 0};
    memset(unended->now, 0, segment->capacity.circuits * sizeof *unended->now);
    for (uint32_t place = 0; place < calls_limit(segment); place++) {
        struct sight *sight = &unended->sights[place];
        struct call_view call;
        if (!calls_read_waiting(segment, place, &call) || call.circuit >= segment->capacity.circuits)
            continue;
        if (!is_same(sight, &call)) {
            *sight = (struct sight){.owner = call.owner, .number = calls_number(&call)};
        } else if (is_alive(&asked, segment, call.owner)) {
            sight->alive_ns = now_ns;
            unended->now[call.circuit]++;
        }
    }
    for (uint32_t i = 0; i < segment->capacity.circuits; i++)
        if (unended->now[i] > unended->most[i])
            unended->most[i] = unended->now[i];
}

/* --- at the end --------------------------------------------------------------------------------------------------- */

static struct row *row_of(struct rows *rows, const struct circuit_texts *texts)
{
    for (size_t i = 0; i < rows->count; i++)
        if (rows->at[i].called && strcmp(rows->at[i].target_name, texts->target) == 0 &&
            strcmp(rows->at[i].destination, texts->destination) == 0)
            return &rows->at[i];
    return NULL;
}

/* Of these, what the sums have: a call that was charged at its limit is in them up to there. */
static uint64_t noted(const struct call_view *call)
{
    return call->in_flight ? 0 : span_since(call->started_ns, call->due_ns);
}

static void add_wait(struct row *row, const struct call_view *call, uint64_t until_ns)
{
    const uint64_t waited_ns = span_since(call->started_ns, until_ns), noted_ns = noted(call);
    if (waited_ns > noted_ns)
        row->waits.waited_us += (waited_ns - noted_ns) / NS_PER_US;
    if (waited_ns > row->waits.longest_ns)
        row->waits.longest_ns = waited_ns;
}

/* Until when a call has waited, as far as that was seen. 0: nobody can say. */
static uint64_t waited_until(const struct unended *unended, uint32_t place, const struct call_view *call,
                             struct asked *asked, const struct segment *segment, uint64_t now_ns)
{
    if (is_alive(asked, segment, call->owner))
        return now_ns;
    return unended != NULL && is_same(&unended->sights[place], call) ? unended->sights[place].alive_ns : 0;
}

static void note_killed(struct row *row, const struct call_view *call, const char *program, uint64_t until_ns,
                        bool is_exact)
{
    timeouts_note_killed(&row->timeouts, program, call->phase == PHASE_CONNECTING ? LEARNT_CONNECT : LEARNT_ANSWER,
                         span_since(call->started_ns, until_ns), is_exact);
}

static void add_most(const struct unended *unended, struct rows *rows, const uint32_t *present)
{
    for (size_t i = 0; i < rows->count; i++) {
        struct row *row = &rows->at[i];
        if (!row->called)
            continue;
        const uint32_t seen = unended != NULL ? unended->most[row->circuit] : 0,
                       most = seen > present[row->circuit] ? seen : present[row->circuit];
        if (most > row->waits.most_in_flight)
            row->waits.most_in_flight = most;
    }
}

void unended_add(const struct unended *unended, struct rows *rows, const struct segment *segment, pid_t pid,
                 uint64_t now_ns)
{
    uint32_t *present = allocate(segment->capacity.circuits, sizeof *present);
    struct asked asked = {.owner = 0};
    struct circuit_texts texts;
    struct process_view process;
    struct call_view call;
    for (uint32_t place = 0; place < calls_limit(segment); place++) {
        if (!calls_read_waiting(segment, place, &call) || !circuits_texts(segment, call.circuit, &texts) ||
            !process_describe(segment, call.owner, &process))
            continue;
        struct row *row = row_of(rows, &texts);
        const bool is_ended = pid != 0 && process.is_near && process.pid == (uint32_t)pid;
        const uint64_t until_ns = is_ended ? now_ns : waited_until(unended, place, &call, &asked, segment, now_ns);
        if (row == NULL || until_ns == 0)
            continue;
        add_wait(row, &call, until_ns);
        present[call.circuit] += until_ns == now_ns;
        if (is_ended || !asked.is_alive)
            note_killed(row, &call, process.program, until_ns, is_ended);
    }
    add_most(unended, rows, present);
    free(present);
}
