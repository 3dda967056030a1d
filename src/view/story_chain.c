/*
 * story_chain.c - who called whom in vain during an outage. See story_chain.h.
 *
 * The calls that failed are put into a list of calls as if they were in flight, so that one code joins both to the
 * programs of this host. The process of most of them is gone: then one of its program that still runs stands for it.
 */
#include "view/story_chain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "view/cascade.h"
#include "view/cascade_output.h"
#include "view/output.h"
#include "view/json.h"
#include "segment/processes.h"

#define APART_NS NS_PER_MINUTE
/* For each of them the host is looked at anew. */
#define OUTAGES_MAX 8u

struct outage {
    uint64_t from_ns, to_ns; /* wall clock */
};

/* A call that failed, or that is in flight while the outage goes on. */
struct failed {
    const struct event *event;
    size_t circuit; /* its number in the story */
    const struct selected *of;
};

/* A process that runs under one of the policies in use. */
struct running_process {
    const struct selected *of;
    struct process_view view;
};

struct chains {
    const struct story *story;
    const struct selection *selection; /* NULL: of files */
    struct running_process *processes;
    size_t process_count;
};

/* --- outages ------------------------------------------------------------------------------------------------------ */

static int compare_outages(const void *a, const void *b)
{
    const struct outage *left = a, *right = b;
    return left->from_ns < right->from_ns ? -1 : left->from_ns > right->from_ns;
}

/* In order; `*outages` is to be freed. */
static size_t find_outages(const struct story *story, struct outage **outages)
{
    size_t count = 0, kept = 0;
    *outages = NULL;
    for (size_t i = 0; i < story->circuit_count; i++) {
        for (size_t j = 0; j < story->circuits[i].incident_count; j++) {
            const struct incident *incident = &story->circuits[i].incidents[j];
            if (incident->opened != NULL && incident->opened->injected) /* a rehearsal's, in which nobody was silent */
                continue;
            *outages = grow(*outages, count, sizeof **outages);
            (*outages)[count++] = (struct outage){incident->from_ns, incident->to_ns};
        }
    }
    if (count > 0)
        qsort(*outages, count, sizeof **outages, compare_outages);
    for (size_t i = 0; i < count; i++) {
        struct outage *last = kept > 0 ? &(*outages)[kept - 1] : NULL;
        if (last == NULL || (*outages)[i].from_ns > last->to_ns + APART_NS)
            (*outages)[kept++] = (*outages)[i];
        else if ((*outages)[i].to_ns > last->to_ns)
            last->to_ns = (*outages)[i].to_ns;
    }
    return kept;
}

/* --- whose calls -------------------------------------------------------------------------------------------------- */

static void read_processes(struct chains *chains)
{
    for (size_t i = 0; chains->selection != NULL && i < chains->selection->count; i++) {
        const struct selected *of = &chains->selection->at[i];
        struct process_view view;
        for (uint32_t cursor = 0; of->segment.map != NULL && process_next(&of->segment, &cursor, &view);) {
            if (!view.is_near)
                continue;
            chains->processes = grow(chains->processes, chains->process_count, sizeof *chains->processes);
            chains->processes[chains->process_count++] = (struct running_process){of, view};
        }
    }
}

/* The process of that pid, if it was there then; else any other of its program. NULL: none runs. */
static const struct process_view *find_process(const struct chains *chains, const struct failed *failed)
{
    const struct process_view *found = NULL;
    for (size_t i = 0; i < chains->process_count; i++) {
        const struct running_process *process = &chains->processes[i];
        if (process->of != failed->of || strcmp(process->view.program, failed->event->program) != 0)
            continue;
        if (process->view.pid == failed->event->pid && process->view.attached_ns <= failed->event->time_ns)
            return &process->view;
        found = found == NULL ? &process->view : found;
    }
    return found;
}

static const struct selected *selected_of(const struct selection *selection, const struct story_circuit *circuit)
{
    for (size_t i = 0; selection != NULL && i < selection->count; i++) {
        const struct selected *selected = &selection->at[i];
        if (strcmp(selected->identity, circuit->policy) == 0 && strcmp(selected->user, circuit->owner) == 0)
            return selected;
    }
    return NULL;
}

static int compare_failed(const void *a, const void *b)
{
    const struct failed *left = a, *right = b;
    if (left->of != right->of)
        return left->of < right->of ? -1 : 1;
    const int programs = strcmp(left->event->program, right->event->program);
    if (programs != 0 || left->event->pid == right->event->pid)
        return programs;
    return left->event->pid < right->event->pid ? -1 : 1;
}

/* By process, one after the other. To be freed. */
static struct failed *find_failed(const struct chains *chains, const struct outage *outage, size_t *count,
                                  size_t *in_flight)
{
    struct failed *failed = NULL;
    *count = *in_flight = 0;
    for (size_t i = 0; i < chains->story->circuit_count; i++) {
        const struct story_circuit *circuit = &chains->story->circuits[i];
        const struct selected *of = selected_of(chains->selection, circuit);
        for (size_t j = 0; j < circuit->event_count; j++) {
            const struct event *event = circuit->events[j];
            if ((event->type != EVENT_FAILURE && event->type != EVENT_NONE) || event->injected ||
                event->time_ns < outage->from_ns || event_began_ns(event) > outage->to_ns)
                continue;
            *in_flight += event->type == EVENT_NONE;
            failed = grow(failed, *count, sizeof *failed);
            failed[(*count)++] = (struct failed){event, i, of};
        }
    }
    if (*count > 1)
        qsort(failed, *count, sizeof *failed, compare_failed);
    return failed;
}

/*
 * A process that runs has one owner. One that is gone has the pid 0, which is nobody's: it stands for a process of the
 * caller's own network, if this host is asked at all.
 */
static const struct inflight_owner *owner_of(struct inflight *inflight, const struct chains *chains,
                                             const struct failed *failed)
{
    const struct process_view *process = find_process(chains, failed);
    for (size_t i = 0; process != NULL && i < inflight->owner_count; i++)
        if (inflight->owners[i]->process.pid == process->pid)
            return inflight->owners[i];
    struct inflight_owner *owner = allocate(1, sizeof *owner);
    *owner = (struct inflight_owner){.is_alive = true, .uid = failed->of != NULL ? failed->of->uid : 0};
    owner->process = process != NULL ? *process : (struct process_view){.is_near = failed->of != NULL};
    memcpy(owner->process.program, failed->event->program, sizeof owner->process.program);
    inflight->owners = grow(inflight->owners, inflight->owner_count, sizeof(struct inflight_owner *));
    inflight->owners[inflight->owner_count++] = owner;
    return owner;
}

/* --- as calls ----------------------------------------------------------------------------------------------------- */

static enum phase phase_of(const struct event *event)
{
    switch (event->kind) {
    case FAILURE_CONNECT_TIMEOUT:
    case FAILURE_REFUSED:
    case FAILURE_UNREACHABLE:
        return PHASE_CONNECTING;
    default:
        return PHASE_REQUESTED;
    }
}

static void add_circuits(struct inflight *inflight, const struct story *story)
{
    for (size_t i = 0; i < story->circuit_count; i++) {
        struct circuit_texts *texts = allocate(1, sizeof *texts);
        snprintf(texts->target, sizeof texts->target, "%s", story->circuits[i].target);
        snprintf(texts->destination, sizeof texts->destination, "%s", story->circuits[i].destination);
        inflight->circuits = grow(inflight->circuits, inflight->circuit_count, sizeof(struct circuit_texts *));
        inflight->circuits[inflight->circuit_count++] = texts;
    }
}

static void add_calls(struct inflight *inflight, const struct chains *chains, const struct failed *failed, size_t count)
{
    static const struct selected nobodys = {.is_foreign = true};
    const struct inflight_owner *owner = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct event *event = failed[i].event;
        if (i == 0 || compare_failed(&failed[i - 1], &failed[i]) != 0)
            owner = owner_of(inflight, chains, &failed[i]);
        inflight->at = grow(inflight->at, inflight->count, sizeof *inflight->at);
        inflight->at[inflight->count++] = (struct inflight_call){
            .of = failed[i].of != NULL ? failed[i].of : &nobodys,
            .owner = owner,
            .circuit = inflight->circuits[failed[i].circuit],
            .circuit_index = (uint32_t)failed[i].circuit,
            .phase = phase_of(event),
            .waited_ns = event->elapsed_ms * NS_PER_MS,
            .is_overdue = event->overran == OVERRAN_HANGS,
        };
    }
}

/* --- as JSON ------------------------------------------------------------------------------------------------------ */

static char *cascade_text(const struct cascade *cascade)
{
    struct json json;
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_text(&text, &length);
    json_start_line(&json, out);
    cascade_json(&json, cascade, NULL);
    close_text(out);
    text[strcspn(text, "\n")] = '\0';
    return text;
}

static uint64_t since_start_ms(const struct story *story, uint64_t wall_ns)
{
    return wall_ns > story->from_ns ? wall_ns / NS_PER_MS - story->from_ns / NS_PER_MS : 0;
}

static void write_chain(struct json *json, const struct chains *chains, const struct outage *outage)
{
    static const struct selection nothing = {.count = 0};
    struct inflight inflight = {0};
    struct cascade cascade;
    size_t count, in_flight;
    struct failed *failed = find_failed(chains, outage, &count, &in_flight);
    if (count == 0) /* all that failed was forced or rehearsed */
        return;
    add_circuits(&inflight, chains->story);
    add_calls(&inflight, chains, failed, count);
    cascade_build(&cascade, &inflight, chains->selection != NULL ? chains->selection : &nothing);
    for (size_t i = 0; i < cascade.place_count && chains->selection == NULL; i++)
        cascade.places[i].view = VIEW_UNKNOWN;
    char *text = cascade_text(&cascade);
    json_open(json, NULL, '{');
    json_unsigned(json, "from", since_start_ms(chains->story, outage->from_ns));
    json_unsigned(json, "to", since_start_ms(chains->story, outage->to_ns));
    json_unsigned(json, "in_flight", in_flight);
    json_written(json, "cascade", text);
    json_close(json, '}');
    free(text);
    cascade_free(&cascade);
    inflight_free(&inflight);
    free(failed);
}

char *story_chains(const struct story *story, const struct selection *selection)
{
    struct chains chains = {.story = story, .selection = selection};
    struct outage *outages;
    struct json json;
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_text(&text, &length);
    read_processes(&chains);
    json_start(&json, out);
    json_open(&json, NULL, '[');
    const size_t count = find_outages(story, &outages);
    for (size_t i = count > OUTAGES_MAX ? count - OUTAGES_MAX : 0; i < count; i++)
        write_chain(&json, &chains, &outages[i]);
    json_close(&json, ']');
    close_text(out);
    free(outages);
    free(chains.processes);
    return text;
}
