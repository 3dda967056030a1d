/*
 * story_present.c - a story of the policies in use.
 *
 * See story_present.h.
 */
#include "view/story_present.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "breaker/latency.h"
#include "view/calls_output.h"
#include "view/cascade.h"
#include "view/cascade_output.h"
#include "view/output.h"
#include "view/inflight.h"
#include "view/json.h"
#include "view/rows.h"
#include "view/running.h"
#include "view/select.h"
#include "view/selected_policy.h"
#include "view/status_json.h"
#include "view/story_chain.h"
#include "view/story_sources.h"
#include "view/waiting_thread.h"
#include "segment/circuits.h"

/* As many as a page can show; the longest waits come first. */
#define CALLS_MAX 2000

/* An array of JSON that goes into memory. */
struct array {
    struct json json;
    FILE *out;
    char *text;
    size_t length;
};

static void text_begin(struct array *array)
{
    array->out = open_text(&array->text, &array->length);
    json_start(&array->json, array->out);
}

static char *text_end(struct array *array)
{
    close_text(array->out);
    return array->text;
}

static void array_begin(struct array *array)
{
    text_begin(array);
    json_open(&array->json, NULL, '[');
}

static char *array_end(struct array *array)
{
    json_close(&array->json, ']');
    return text_end(array);
}

/* Where a story of segments ends: now, or, if nothing runs any more, with the last sign of a program. */
static uint64_t find_end(const struct selection *selection)
{
    uint64_t seen_ns = 0;
    for (size_t i = 0; i < selection->count; i++) {
        struct running running;
        if (selection->at[i].segment.map == NULL)
            continue;
        running_collect(&running, &selection->at[i]);
        const bool is_over = running.ended && running.seen_ns != 0;
        if (is_over && running.seen_ns > seen_ns)
            seen_ns = running.seen_ns;
        running_free(&running);
        if (!is_over)
            return clock_wall_ns();
    }
    return seen_ns != 0 ? seen_ns : clock_wall_ns();
}

/* --- calls in flight ---------------------------------------------------------------------------------------------- */

/* A call in flight is an event of no type: it has an end, which is now, and no outcome. */
static void tell_call(struct story *story, const struct inflight_call *call, uint64_t wall_ns)
{
    const struct process_view *process = &call->owner->process;
    const uint64_t waited_ms = call->waited_ns / NS_PER_MS;
    struct event event = {.type = EVENT_NONE, .time_ns = wall_ns, .pid = process->pid};
    event.elapsed_ms = waited_ms < UINT32_MAX ? (uint32_t)waited_ms : UINT32_MAX;
    _Static_assert(sizeof event.program == sizeof process->program &&
                       sizeof event.target == sizeof call->circuit->target &&
                       sizeof event.destination == sizeof call->circuit->destination,
                   "what fits there fits here");
    memcpy(event.program, process->program, sizeof event.program);
    memcpy(event.target, call->circuit->target, sizeof event.target);
    memcpy(event.destination, call->circuit->destination, sizeof event.destination);
    story_tell(story, &event, call->of->identity, call->of->user, 0);
}

/* Who waits for whom, and who gives up too soon; NULL: nobody waits. */
static char *tell_cascade(const struct inflight *inflight, const struct selection *selection)
{
    struct cascade cascade;
    struct inversions inversions;
    struct array text;
    if (inflight->count == 0)
        return NULL;
    inversions_find(&inversions, selection);
    cascade_build(&cascade, inflight, selection);
    text_begin(&text);
    cascade_json(&text.json, &cascade, &inversions);
    cascade_free(&cascade);
    inversions_free(&inversions);
    return text_end(&text);
}

static void tell_calls(struct story *story, const struct selection *selection, struct present *present)
{
    const uint64_t now_ns = clock_circuit_ns(), wall_ns = clock_wall_ns();
    struct inflight inflight = {0};
    struct array calls;
    for (size_t i = 0; i < selection->count; i++) {
        const struct selected *selected = &selection->at[i];
        if (selected->segment.map != NULL && select_has_time(selected))
            inflight_add(&inflight, &selected->segment, selected, now_ns);
    }
    inflight_find_threads(&inflight);
    inflight_find_users(&inflight);
    inflight_sort(&inflight);
    array_begin(&calls);
    for (size_t i = 0; i < inflight.count && i < CALLS_MAX; i++) {
        calls_json(&calls.json, &inflight.at[i], wall_ns);
        tell_call(story, &inflight.at[i], wall_ns);
    }
    present->calls = array_end(&calls);
    present->cascade = tell_cascade(&inflight, selection);
    inflight_free(&inflight);
}

/* --- circuits ----------------------------------------------------------------------------------------------------- */

/* So many buckets of histogram.h are drawn as one: eight for each octave. */
#define BUCKETS_DRAWN 4u

/* What is not empty of a histogram, as columns: where each part begins and ends, and how many calls are in it. */
static void write_distribution(struct json *json, const char *key, const struct distribution *distribution)
{
    enum { PARTS = HISTOGRAM_BUCKETS / BUCKETS_DRAWN };
    uint64_t *from = allocate(PARTS, sizeof *from), *to = allocate(PARTS, sizeof *to),
             *calls = allocate(PARTS, sizeof *calls);
    size_t count = 0;
    for (uint32_t part = 0; part < PARTS; part++) {
        uint64_t sum = 0;
        for (uint32_t i = 0; i < BUCKETS_DRAWN; i++)
            sum += distribution->counts[part * BUCKETS_DRAWN + i];
        if (sum == 0)
            continue;
        from[count] = histogram_begin(part * BUCKETS_DRAWN);
        to[count] = histogram_end(part * BUCKETS_DRAWN + BUCKETS_DRAWN - 1);
        calls[count++] = sum;
    }
    json_open(json, key, '{');
    json_numbers(json, "from_ns", from, count);
    json_numbers(json, "to_ns", to, count);
    json_numbers(json, "calls", calls, count);
    json_close(json, '}');
    free(from);
    free(to);
    free(calls);
}

static void tell_latencies(struct json *json, const struct selected *selected, const struct row *row,
                           struct latency_view *room)
{
    latency_read(circuits_latency(&selected->segment, row->circuit), clock_circuit_ns(), room);
    if (room->connects.total + room->answers.total == 0)
        return;
    json_open(json, NULL, '{');
    json_string(json, "policy", selected->identity);
    json_string(json, "owner", selected->user);
    json_string(json, "target", row->target_name);
    json_string(json, "destination", row->destination);
    write_distribution(json, "connect", &room->connects);
    write_distribution(json, "first_byte", &room->answers);
    json_close(json, '}');
}

/* What `status --json` writes of a policy; its circuits join the story. */
static void tell_policy(struct story *story, struct json *json, struct json *latencies, const struct selected *selected)
{
    struct latency_view *room = allocate(1, sizeof *room);
    struct running running;
    struct rows rows;
    running_collect(&running, selected);
    rows_collect_running(&rows, &selected->segment, &running, clock_circuit_ns());
    status_json(json, selected, &running, &rows);
    for (size_t i = 0; i < rows.count; i++) {
        const struct row *row = &rows.at[i];
        if (!row->called)
            continue;
        tell_latencies(latencies, selected, row, room);
        story_add_now(story, &(struct story_circuit){.policy = selected->identity,
                                                     .owner = selected->user,
                                                     .target = row->target_name,
                                                     .destination = row->destination,
                                                     .state_now = row_state(row),
                                                     .refused_now = row->counts[COUNT_REFUSED]});
    }
    rows_free(&rows);
    running_free(&running);
    free(room);
}

/* False: nothing is in use. */
static bool tell_policies(struct story *story, const struct selection *selection, struct present *present)
{
    struct array policies, latencies;
    bool any = false;
    array_begin(&policies);
    array_begin(&latencies);
    for (size_t i = 0; i < selection->count; i++) {
        const struct selected *selected = &selection->at[i];
        if (selected->segment.map == NULL || !select_has_time(selected))
            continue;
        any = true;
        tell_policy(story, &policies.json, &latencies.json, selected);
    }
    present->status = array_end(&policies);
    present->latencies = array_end(&latencies);
    return any;
}

bool story_tell_present(struct story *story, const struct whose *choice, uint64_t since_ns, struct present *present)
{
    struct selection selection;
    select_open(&selection, choice, false);
    select_warn_of_builds(&selection);
    if (!policies_are_known(&selection)) {
        select_close(&selection);
        return false;
    }
    bool whole = story_read_journals(story, &selection, since_ns);
    tell_calls(story, &selection, present);
    story_end(story, since_ns, find_end(&selection));
    if (!tell_policies(story, &selection, present)) {
        if (choice->policy_file == NULL)
            tell_nothing_in_use(&selection, stderr);
        else
            fprintf(stderr, "%s is not in use yet: there is nothing to report.\n", shown(choice->policy_file));
    }
    story_find_incidents(story);
    present->chains = story_chains(story, &selection);
    for (size_t i = 0; i < selection.count; i++)
        whole = (selection.at[i].segment.map == NULL || select_was_whole(&selection.at[i])) && whole;
    whole = !select_missed(&selection) && whole;
    select_close(&selection);
    return whole;
}

void present_free(struct present *present)
{
    free(present->status);
    free(present->calls);
    free(present->cascade);
    free(present->latencies);
    free(present->chains);
    *present = (struct present){.status = NULL};
}
