/*
 * audit_look.c - looks at the segment of one run. See audit_look.h.
 */
#define _GNU_SOURCE
#include "cli/audit_look.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "breaker/circuit_model.h"
#include "cli/audit_finding.h"
#include "segment/calls.h"
#include "segment/journal.h"
#include "segment/processes.h"
#include "view/duration.h"
#include "view/output.h"

uint64_t audit_slack(uint64_t limit_ns)
{
    const uint64_t part_ns = limit_ns / 20;
    return part_ns < 100 * NS_PER_MS ? 100 * NS_PER_MS : part_ns > NS_PER_S ? NS_PER_S : part_ns;
}

uint64_t audit_count(const struct segment *segment, unsigned int counter)
{
    struct circuit_texts texts;
    uint64_t count = 0;
    uint32_t cursor = 0;
    for (uint32_t index; (index = circuits_next(segment, &cursor, &texts)) != CIRCUIT_INDEX_NONE;)
        count += counters_sum(&circuits_at(segment, index)->counters, counter);
    return count;
}

/* --- while it lasts ----------------------------------------------------------------------------------------------- */

static bool is_known_loss(const struct audit_look *look, uint32_t place, uint32_t number)
{
    for (size_t i = 0; i < look->loss_count; i++)
        if (look->losses[i].place == place && look->losses[i].number == number)
            return true;
    return false;
}

static void note_loss(struct audit_look *look, uint32_t place, const struct call_view *call, const char *program,
                      uint64_t waited_ns)
{
    const uint32_t number = calls_number(call);
    if (is_known_loss(look, place, number))
        return;
    struct audit_loss loss = {.place = place, .number = number, .waited_ns = waited_ns};
    snprintf(loss.program, sizeof loss.program, "%s", program);
    look->losses = grow(look->losses, look->loss_count, sizeof *look->losses);
    look->losses[look->loss_count++] = loss;
}

/* A call with a fault that waits, by a living process or a dead one. */
struct audit_wait {
    uint32_t place;
    struct call_view call;
    struct process_view owner;
    uint64_t waited_ns;
    bool is_alive;
};

static bool read_wait(const struct audit_look *look, uint32_t place, uint64_t now_ns, struct audit_wait *wait)
{
    wait->place = place;
    if (!calls_read_waiting(look->segment, place, &wait->call) || !wait->call.injected ||
        !process_describe(look->segment, wait->call.owner, &wait->owner))
        return false;
    wait->waited_ns = span_since(wait->call.started_ns, now_ns);
    wait->is_alive = process_alive(look->segment, wait->call.owner);
    return true;
}

void audit_look_again(struct audit_look *look)
{
    const uint64_t now_ns = clock_circuit_ns();
    struct audit_wait wait;
    look->longest_ns = 0;
    for (uint32_t place = 0; place < calls_limit(look->segment); place++) {
        if (!read_wait(look, place, now_ns, &wait))
            continue;
        if (!wait.is_alive)
            note_loss(look, place, &wait.call, wait.owner.program, wait.waited_ns);
        else if (wait.waited_ns >= look->longest_ns)
            look->longest_ns = wait.waited_ns > 0 ? wait.waited_ns : 1;
    }
}

/* --- at its end --------------------------------------------------------------------------------------------------- */

static uint64_t take_journal(const struct segment *segment, void (*take)(void *into, const struct event *event),
                             void *into)
{
    struct event event;
    uint64_t oldest, head, lost = 0;
    journal_span(segment, &oldest, &head);
    for (uint64_t number = oldest; number < head; number++) {
        if (journal_read(segment, number, &event))
            take(into, &event);
        else
            lost++;
    }
    return lost + oldest;
}

static void take_outcome(void *run, const struct event *event)
{
    audit_take_outcome(run, event);
}

/* What waits still, or died waiting. Of those whose death somebody noted the journal tells. */
static void take_waits(struct audit_look *look, struct audit_run *run)
{
    const uint64_t now_ns = clock_circuit_ns();
    struct audit_wait wait;
    audit_look_again(look);
    for (uint32_t place = 0; place < calls_limit(look->segment); place++)
        if (read_wait(look, place, now_ns, &wait) && wait.is_alive)
            audit_take_wait(run, wait.owner.program, wait.waited_ns,
                            wait.waited_ns >= look->limit_ns ? AUDIT_END_HANGS : AUDIT_END_CUT);
    for (size_t i = 0; i < look->loss_count; i++) {
        struct call_view call;
        const struct audit_loss *loss = &look->losses[i];
        if (calls_read_waiting(look->segment, loss->place, &call) && calls_number(&call) == loss->number)
            audit_take_wait(run, loss->program, loss->waited_ns, AUDIT_END_KILLED);
    }
    free(look->losses);
    look->losses = NULL;
    look->loss_count = 0;
}

static unsigned int addresses_of(const struct circuit *circuit)
{
    unsigned int count = 0;
    for (int address = 0; address < (int)CIRCUIT_ADDRESSES; address++)
        count += circuit_address_key(circuit, address) != 0;
    return count;
}

void audit_look_at_end(struct audit_look *look, struct audit_run *run)
{
    run->lost = take_journal(look->segment, take_outcome, run);
    take_waits(look, run);
    run->calls = audit_count(look->segment, COUNT_ADMITTED);
    run->met = audit_count(look->segment, COUNT_INJECTED);
    if (run->finding_count == 1 && run->findings[0].tries < run->met)
        run->findings[0].tries = run->met; /* not all outcomes were kept */
}

/* --- without a fault ---------------------------------------------------------------------------------------------- */

static struct audit_destination *destination_of(struct audit *audit, const char *name)
{
    for (size_t i = 0; i < audit->destination_count; i++)
        if (strcmp(audit->destinations[i].name, name) == 0)
            return &audit->destinations[i];
    return NULL;
}

static void add_destination(struct audit *audit, const char *name)
{
    audit->destinations = grow(audit->destinations, audit->destination_count, sizeof *audit->destinations);
    struct audit_destination *destination = &audit->destinations[audit->destination_count++];
    *destination = (struct audit_destination){.is_path = strncmp(name, "unix:", 5) == 0};
    snprintf(destination->name, sizeof destination->name, "%s", name);
}

static void take_protocol(void *audit, const struct event *event)
{
    struct audit_destination *destination =
        event->type == EVENT_OUTCOME && event->http_status != 0 ? destination_of(audit, event->destination) : NULL;
    if (destination != NULL)
        destination->is_http = true;
}

static int by_calls(const void *a, const void *b)
{
    const struct audit_destination *left = a, *right = b;
    if (left->calls != right->calls)
        return left->calls > right->calls ? -1 : 1;
    return strcmp(left->name, right->name);
}

void audit_look_at_bare(const struct segment *segment, struct audit *audit)
{
    struct circuit_texts texts;
    uint32_t cursor = 0;
    for (uint32_t index; (index = circuits_next(segment, &cursor, &texts)) != CIRCUIT_INDEX_NONE;) {
        const struct circuit *circuit = circuits_at(segment, index);
        const uint64_t calls = counters_sum(&circuit->counters, COUNT_ADMITTED);
        if (calls == 0)
            continue;
        /* The same under several targets of a policy is one. */
        if (destination_of(audit, texts.destination) == NULL)
            add_destination(audit, texts.destination);
        struct audit_destination *destination = destination_of(audit, texts.destination);
        destination->calls += calls;
        if (addresses_of(circuit) > destination->addresses)
            destination->addresses = addresses_of(circuit);
    }
    audit->unseen = segment_unguarded(segment);
    take_journal(segment, take_protocol, audit);
    if (audit->destination_count > 1)
        qsort(audit->destinations, audit->destination_count, sizeof *audit->destinations, by_calls);
}
