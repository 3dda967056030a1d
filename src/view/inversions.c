/*
 * inversions.c - callers that give up before their callees do. See inversions.h.
 *
 * Who listens where is the cascade's business (cascade.h), which goes by calls in flight. Where none is in flight now,
 * but some were seen to be given up, it is given a call of each living process of that program.
 */
#define _GNU_SOURCE
#include "view/inversions.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/date.h"
#include "view/cascade.h"
#include "view/fold.h"
#include "view/output.h"
#include "view/duration.h"
#include "view/table.h"
#include "view/timeouts.h"

/* Of one program in one segment, so many processes are looked at. */
#define PROCESSES_MAX 256u

/* What a program was seen to do at one destination. */
struct edge {
    struct timeout timeout;
    char destination[DESTINATION_MAX];
};

struct search {
    struct edge *edges;
    size_t edge_count;
    struct inflight calls;
    struct cascade cascade;
    struct inversions *found;
};

/* --- what is known ------------------------------------------------------------------------------------------------ */

/* As if each living process of the program waited there. */
static void add_calls(struct inflight *calls, const struct selected *selected, uint32_t index,
                      const struct circuit_texts *texts, const char *program)
{
    struct process_view process;
    struct circuit_texts *circuit = allocate(1, sizeof *circuit);
    *circuit = *texts;
    calls->circuits = grow(calls->circuits, calls->circuit_count, sizeof(struct circuit_texts *));
    calls->circuits[calls->circuit_count++] = circuit;
    unsigned int count = 0;
    for (uint32_t cursor = 0; count < PROCESSES_MAX && process_next(&selected->segment, &cursor, &process);) {
        if (strcmp(process.program, program) != 0)
            continue;
        struct inflight_owner *owner = allocate(1, sizeof *owner);
        *owner = (struct inflight_owner){.process = process, .uid = selected->uid, .is_alive = true};
        calls->owners = grow(calls->owners, calls->owner_count, sizeof(struct inflight_owner *));
        calls->owners[calls->owner_count++] = owner;
        calls->at = grow(calls->at, calls->count, sizeof *calls->at);
        calls->at[calls->count++] = (struct inflight_call){
            .of = selected,
            .owner = owner,
            .circuit = circuit,
            .circuit_index = index,
            .phase = PHASE_REQUESTED,
            .address_key = circuit_address_key(circuits_at(&selected->segment, index), 0),
        };
        count++;
    }
}

static void add_edges(struct search *search, const struct selected *selected, uint32_t index,
                      const struct circuit_texts *texts, const struct timeouts *timeouts)
{
    for (size_t i = 0; i < timeouts->count; i++) {
        search->edges = grow(search->edges, search->edge_count, sizeof *search->edges);
        struct edge *edge = &search->edges[search->edge_count++];
        *edge = (struct edge){.timeout = timeouts->at[i]};
        memcpy(edge->destination, texts->destination, sizeof edge->destination);
        if (i == 0 || strcmp(timeouts->at[i - 1].program, timeouts->at[i].program) != 0)
            add_calls(&search->calls, selected, index, texts, timeouts->at[i].program);
    }
}

static void read_segment(struct search *search, const struct selected *selected)
{
    const uint64_t now_ns = clock_circuit_ns();
    struct inflight inflight = {0};
    struct circuit_texts texts;
    struct learnt_view *learnt = allocate(1, sizeof *learnt);
    struct timeouts *timeouts = allocate(1, sizeof *timeouts);
    uint32_t cursor = 0, index;
    inflight_add(&inflight, &selected->segment, selected, now_ns);
    while ((index = circuits_next(&selected->segment, &cursor, &texts)) != CIRCUIT_INDEX_NONE) {
        learnt_read(circuits_learnt(&selected->segment, index), now_ns, learnt);
        timeouts_read(timeouts, learnt, &inflight, index);
        add_edges(search, selected, index, &texts, timeouts);
    }
    inflight_free(&inflight);
    free(timeouts);
    free(learnt);
}

/* --- what follows ------------------------------------------------------------------------------------------------- */

static bool is_edge_of(const struct search *search, const struct edge *edge, const struct cascade_wait *wait)
{
    const struct cascade_group *group = &search->cascade.groups[wait->group];
    return strcmp(search->cascade.places[wait->place].destination, edge->destination) == 0 && group->program != NULL &&
           strcmp(group->program, edge->timeout.program) == 0;
}

/* The one group that may be the edge's program; CASCADE_NONE: none, or several have its name. */
static size_t group_of(const struct search *search, const struct edge *edge)
{
    size_t group = CASCADE_NONE;
    for (size_t i = 0; i < search->cascade.wait_count; i++) {
        const struct cascade_wait *wait = &search->cascade.waits[i];
        if (!is_edge_of(search, edge, wait) || wait->group == group)
            continue;
        if (group != CASCADE_NONE)
            return CASCADE_NONE;
        group = wait->group;
    }
    return group;
}

/* Who listens where the edge leads. */
static size_t callee_of(const struct search *search, const struct edge *edge)
{
    for (size_t i = 0; i < search->cascade.wait_count; i++)
        if (is_edge_of(search, edge, &search->cascade.waits[i]))
            return search->cascade.places[search->cascade.waits[i].place].group;
    return CASCADE_NONE;
}

/* Whether the second waits on when the first has given up. */
static bool is_inverted(const struct timeout *caller, const struct timeout *callee, struct inversion *inversion)
{
    *inversion = (struct inversion){.seen = caller->seen};
    if (caller->waits != LEARNT_ANSWER || !timeout_usual(caller, &inversion->caller_after_ns))
        return false;
    inversion->callee_gives_up = timeout_usual(callee, &inversion->callee_after_ns);
    if (!inversion->callee_gives_up)
        inversion->callee_after_ns = timeout_longest(callee);
    /* Two timers that are set to the same time differ by little. */
    return inversion->callee_after_ns > inversion->caller_after_ns + inversion->caller_after_ns / 10;
}

static void look_at(struct search *search, const struct edge *caller, const struct edge *callee)
{
    struct inversions *found = search->found;
    struct inversion inversion;
    if (!is_inverted(&caller->timeout, &callee->timeout, &inversion))
        return;
    const size_t group = callee_of(search, caller);
    if (group == CASCADE_NONE || group_of(search, callee) != group)
        return;
    memcpy(inversion.caller, caller->timeout.program, sizeof inversion.caller);
    memcpy(inversion.callee, callee->timeout.program, sizeof inversion.callee);
    memcpy(inversion.between, caller->destination, sizeof inversion.between);
    memcpy(inversion.beyond, callee->destination, sizeof inversion.beyond);
    found->at = grow(found->at, found->count, sizeof *found->at);
    found->at[found->count++] = inversion;
}

static uint32_t times(const struct inversion *inversion)
{
    return inversion->seen.counts[LEARNT_GIVEN_UP];
}

/* What each giving up leaves to be done for nobody, so often. */
static int by_waste(const void *a, const void *b)
{
    const struct inversion *left = a, *right = b;
    const double first = (double)(left->callee_after_ns - left->caller_after_ns) * times(left),
                 second = (double)(right->callee_after_ns - right->caller_after_ns) * times(right);
    return first > second ? -1 : first < second;
}

static bool any_gives_up(const struct search *search)
{
    for (size_t i = 0; i < search->edge_count; i++)
        if (search->edges[i].timeout.seen.counts[LEARNT_GIVEN_UP] > 0)
            return true;
    return false;
}

void inversions_find(struct inversions *inversions, const struct selection *selection)
{
    struct search search = {.found = inversions};
    *inversions = (struct inversions){0};
    for (size_t i = 0; i < selection->count; i++)
        if (selection->at[i].segment.map != NULL && select_has_time(&selection->at[i]))
            read_segment(&search, &selection->at[i]);
    if (search.edge_count > 1 && any_gives_up(&search)) {
        cascade_build(&search.cascade, &search.calls, selection);
        for (size_t i = 0; i < search.edge_count; i++)
            for (size_t j = 0; j < search.edge_count; j++)
                if (i != j)
                    look_at(&search, &search.edges[i], &search.edges[j]);
        cascade_free(&search.cascade);
    }
    if (inversions->count > 1)
        qsort(inversions->at, inversions->count, sizeof *inversions->at, by_waste);
    inflight_free(&search.calls);
    free(search.edges);
}

void inversions_free(struct inversions *inversions)
{
    free(inversions->at);
    *inversions = (struct inversions){0};
}

void inversions_keep(struct inversions *inversions, const char *destination)
{
    size_t kept = 0;
    for (size_t i = 0; i < inversions->count; i++)
        if (strcmp(inversions->at[i].between, destination) == 0 || strcmp(inversions->at[i].beyond, destination) == 0)
            inversions->at[kept++] = inversions->at[i];
    inversions->count = kept;
}

/* --- how it is told ----------------------------------------------------------------------------------------------- */

static void print_one(const struct inversion *inversion, FILE *out)
{
    char after[SPAN_TEXT_MAX], waits[SPAN_TEXT_MAX], waste[SPAN_TEXT_MAX];
    char *often = given_up_text(&inversion->seen, clock_wall_ns()), *text = NULL;
    size_t size;
    FILE *first = open_text(&text, &size);
    fprintf(first, "%s gives up on %s after %s, ", shown(inversion->caller), shown(inversion->between),
            span_format(inversion->caller_after_ns, after));
    if (inversion->callee_gives_up)
        fprintf(first, "%s waits %s for %s:", shown(inversion->callee), span_format(inversion->callee_after_ns, waits),
                shown(inversion->beyond));
    else
        fprintf(first, "%s was never seen to give up on %s, and waited %s:", shown(inversion->callee),
                shown(inversion->beyond), span_format(inversion->callee_after_ns, waits));
    close_text(first);
    char *second = format_text("%s%s of work for nobody; %s gave up %s", inversion->callee_gives_up ? "" : "at least ",
                               span_format(inversion->callee_after_ns - inversion->caller_after_ns, waste),
                               shown(inversion->caller), often);
    const struct fold fold = {.owed = 2, .indent = 4, .room = line_room(out)};
    fold_words(out, text, fold);
    fputs("\n    ", out);
    fold_words(out, second, (struct fold){.at = 4, .indent = 4, .room = fold.room});
    fputc('\n', out);
    free(second);
    free(text);
    free(often);
}

void inversions_print(const struct inversions *inversions, FILE *out)
{
    const bool coloured = colour_wanted(out);
    if (inversions->count == 0)
        return;
    fprintf(out, "%sinversions:%s a caller gives up before its callee does\n", colour_start(BOLD, coloured),
            colour_start(PLAIN, coloured));
    for (size_t i = 0; i < inversions->count; i++)
        print_one(&inversions->at[i], out);
}

void inversions_tell(const struct selection *selection, const char *destination)
{
    struct inversions inversions;
    inversions_find(&inversions, selection);
    inversions_keep(&inversions, destination);
    if (inversions.count > 0)
        fputc('\n', stdout);
    inversions_print(&inversions, stdout);
    inversions_free(&inversions);
}

void inversions_json(struct json *json, const char *key, const struct inversions *inversions)
{
    json_open(json, key, '[');
    for (size_t i = 0; i < inversions->count; i++) {
        const struct inversion *inversion = &inversions->at[i];
        char time[32];
        time_rfc3339(inversion->seen.since_ns, time, sizeof time);
        json_open(json, NULL, '{');
        json_string(json, "caller", inversion->caller);
        json_string(json, "destination", inversion->between);
        json_unsigned(json, "caller_gives_up_after_ms", inversion->caller_after_ns / NS_PER_MS);
        json_string(json, "callee", inversion->callee);
        json_string(json, "callee_waits_for", inversion->beyond);
        json_bool(json, "callee_gives_up", inversion->callee_gives_up);
        json_unsigned(json, "callee_waits_ms", inversion->callee_after_ns / NS_PER_MS);
        json_unsigned(json, "times", times(inversion));
        json_string(json, "since", time);
        given_up_today_json(json, &inversion->seen);
        json_close(json, '}');
    }
    json_close(json, ']');
}
