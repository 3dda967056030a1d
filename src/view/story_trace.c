/*
 * story_trace.c - a story in the Trace Event Format.
 *
 * See story_trace.h. Times are microseconds since 1970. What is complete ("X") must nest on its track, so calls that
 * overlap are put into lanes. One event stands on a line.
 */
#include "view/story_trace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "view/output.h"
#include "view/json.h"
#include "view/state_spans.h"
#include "view/story.h"

/* No process has such ids: the circuits' own track, and callers that nobody knows. Linux has no pid above 2^22. */
#define CIRCUITS_PID (UINT32_C(1) << 30)
#define UNKNOWN_PID (CIRCUITS_PID + 1)

struct tracing {
    FILE *out;
    const struct story *story;
    bool any;
};

/* A call with where it is drawn. */
struct traced_call {
    const struct event *event;
    const struct story_circuit *circuit;
    uint64_t began_ns;
    uint32_t lane;
};

static uint32_t pid_of(const struct event *event)
{
    return event->pid != 0 ? event->pid : UNKNOWN_PID;
}

/* The members that each event has; the caller adds its own, each behind a comma, and `}`. */
static void begin_event(struct tracing *tracing, const char *phase, const char *name, uint32_t pid, uint64_t tid)
{
    fputs(tracing->any ? ",\n" : "\n", tracing->out);
    tracing->any = true;
    fprintf(tracing->out, "{\"ph\":\"%s\",\"pid\":%" PRIu32 ",\"tid\":%" PRIu64 ",\"name\":", phase, pid, tid);
    json_text(name, tracing->out);
}

static void add_time(struct tracing *tracing, uint64_t at_ns)
{
    fprintf(tracing->out, ",\"ts\":%" PRIu64, at_ns / NS_PER_US);
}

static void add_duration(struct tracing *tracing, uint64_t from_ns, uint64_t to_ns)
{
    add_time(tracing, from_ns);
    fprintf(tracing->out, ",\"dur\":%" PRIu64, (to_ns > from_ns ? to_ns - from_ns : 0) / NS_PER_US);
}

static void add_text(struct tracing *tracing, const char *before, const char *key, const char *value)
{
    fprintf(tracing->out, "%s\"%s\":", before, key);
    json_text(value, tracing->out);
}

static void name_track(struct tracing *tracing, const char *what, uint32_t pid, uint64_t tid, const char *name)
{
    begin_event(tracing, "M", what, pid, tid);
    add_text(tracing, ",\"args\":{", "name", name);
    fputs("}}", tracing->out);
}

/* --- circuits ----------------------------------------------------------------------------------------------------- */

static void trace_spans(struct tracing *tracing, const struct story_circuit *circuit, uint64_t tid)
{
    static const char *const colours[] = {"good", "terrible", "bad"};
    struct state_span *spans;
    const size_t count = state_spans(tracing->story, circuit, &spans);
    for (size_t i = 0; i < count; i++) {
        const struct state_span *span = &spans[i];
        begin_event(tracing, "X", state_span_name(span), CIRCUITS_PID, tid);
        add_duration(tracing, span->from_ns, span->to_ns);
        fprintf(tracing->out, ",\"cat\":\"state\",\"cname\":\"%s\",\"args\":{\"forced\":%s",
                span->is_known ? colours[span->state <= CIRCUIT_HALF_OPEN ? span->state : 0] : "grey",
                span->forced != FORCED_NONE ? "true" : "false");
        if (span->because != NULL)
            add_text(tracing, ",", "reason", event_why(span->because));
        fputs("}}", tracing->out);
    }
    free(spans);
}

static void add_figure(struct tracing *tracing, const char *key, struct figure figure)
{
    if (figure.is_known)
        fprintf(tracing->out, ",\"%s\":%" PRIu64, key, figure.value);
}

/* An incident holds its states: as such it would have to begin and end with them, so it has a track of its own. */
static void trace_incidents(struct tracing *tracing, const struct story_circuit *circuit, uint64_t tid)
{
    for (size_t i = 0; i < circuit->incident_count; i++) {
        const struct incident *incident = &circuit->incidents[i];
        const uint64_t from_ns = incident->opened != NULL ? incident->opened->time_ns : incident->from_ns;
        begin_event(tracing, "X", "incident", CIRCUITS_PID, tid);
        add_duration(tracing, from_ns, incident->to_ns);
        fputs(",\"cat\":\"incident\",\"args\":{", tracing->out);
        fprintf(tracing->out, "\"leaked\":%" PRIu32 ",\"probes\":%" PRIu32 ",\"waited_ms\":%" PRIu64, incident->leaked,
                incident->probes, incident->waited_ms);
        if (incident->opened != NULL)
            add_text(tracing, ",", "reason", transition_reason_name(incident->opened->reason));
        add_figure(tracing, "detect_ms", incident->detect_ms);
        add_figure(tracing, "lasted_ms", incident->lasted_ms);
        add_figure(tracing, "refused", incident->refused);
        add_figure(tracing, "without_ms", incident->without_ms);
        fputs("}}", tracing->out);
    }
}

static void trace_marks(struct tracing *tracing, const struct story_circuit *circuit, uint64_t tid)
{
    for (size_t i = 0; i < circuit->event_count; i++) {
        const struct event *event = circuit->events[i];
        if (event->type != EVENT_PROBE && event->type != EVENT_REFUSED && event->type != EVENT_FORCED &&
            event->type != EVENT_HELD && event->type != EVENT_RETRY)
            continue;
        begin_event(tracing, "i", event_type_name(event->type), CIRCUITS_PID, tid);
        add_time(tracing, event->time_ns);
        fprintf(tracing->out, ",\"s\":\"t\",\"cat\":\"%s\",\"args\":{\"pid\":%" PRIu32, event_type_name(event->type),
                event->pid);
        add_text(tracing, ",", event->type == EVENT_FORCED ? "user" : "program", event->program);
        fputs("}}", tracing->out);
    }
}

static void trace_circuit(struct tracing *tracing, const struct story_circuit *circuit, uint64_t number)
{
    const uint64_t tid = 2 * number + 1;
    const bool same = strcmp(circuit->target, circuit->destination) == 0;
    char *name = format_text("%s%s%s%s%s", circuit->destination, same ? "" : " (", same ? "" : circuit->target,
                             same ? "" : ")", circuit->policy[0] != '\0' ? " " : "");
    char *full = format_text("%s%s", name, circuit->policy);
    char *incidents = format_text("incidents of %s", circuit->destination);
    name_track(tracing, "thread_name", CIRCUITS_PID, tid, full);
    trace_spans(tracing, circuit, tid);
    trace_marks(tracing, circuit, tid);
    if (circuit->incident_count > 0) {
        name_track(tracing, "thread_name", CIRCUITS_PID, tid + 1, incidents);
        trace_incidents(tracing, circuit, tid + 1);
    }
    free(name);
    free(full);
    free(incidents);
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

static int compare_calls(const void *a, const void *b)
{
    const struct traced_call *left = a, *right = b;
    if (pid_of(left->event) != pid_of(right->event))
        return pid_of(left->event) < pid_of(right->event) ? -1 : 1;
    if (left->began_ns != right->began_ns)
        return left->began_ns < right->began_ns ? -1 : 1;
    return left->event < right->event ? -1 : left->event > right->event;
}

static size_t collect_calls(const struct story *story, struct traced_call **calls)
{
    size_t count = 0;
    *calls = allocate(story->told_count, sizeof **calls);
    for (size_t i = 0; i < story->circuit_count; i++) {
        const struct story_circuit *circuit = &story->circuits[i];
        for (size_t j = 0; j < circuit->event_count; j++) {
            if (story_is_wait(circuit->events[j]))
                (*calls)[count++] = (struct traced_call){
                    .event = circuit->events[j], .circuit = circuit, .began_ns = event_began_ns(circuit->events[j])};
        }
    }
    if (count > 0)
        qsort(*calls, count, sizeof **calls, compare_calls);
    return count;
}

/* Each call of a process into the first lane that is free when it begins. */
static uint32_t put_into_lanes(struct traced_call *calls, size_t count)
{
    uint64_t *free_from_ns = NULL;
    uint32_t lanes = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t lane = 0;
        while (lane < lanes && free_from_ns[lane] > calls[i].began_ns)
            lane++;
        if (lane == lanes)
            free_from_ns = grow(free_from_ns, lanes++, sizeof *free_from_ns);
        free_from_ns[lane] = calls[i].event->time_ns;
        calls[i].lane = lane;
    }
    free(free_from_ns);
    return lanes;
}

static void trace_call(struct tracing *tracing, const struct traced_call *call)
{
    const struct event *event = call->event;
    const bool failed = event->type == EVENT_FAILURE;
    char label[FAILURE_LABEL_MAX];
    begin_event(tracing, "X", call->circuit->destination, pid_of(event), call->lane + UINT64_C(1));
    add_duration(tracing, call->began_ns, event->time_ns);
    add_text(tracing, ",", "cat", failed ? "call,failure" : "call");
    if (failed)
        fputs(",\"cname\":\"terrible\"", tracing->out);
    add_text(tracing, ",\"args\":{", "outcome", story_outcome(event, label));
    add_text(tracing, ",", "target", event->target);
    fprintf(tracing->out, ",\"late\":%s,\"hangs\":%s}}", event->late ? "true" : "false",
            event->overran == OVERRAN_HANGS ? "true" : "false");
}

static void trace_process(struct tracing *tracing, struct traced_call *calls, size_t count)
{
    const struct event *event = calls[0].event;
    const uint32_t lanes = put_into_lanes(calls, count);
    name_track(tracing, "process_name", pid_of(event), 0, event->pid != 0 ? event->program : "unknown");
    for (uint32_t lane = 0; lane < lanes; lane++) {
        char *name = format_text("calls %" PRIu32, lane + 1);
        name_track(tracing, "thread_name", pid_of(event), lane + UINT64_C(1), name);
        free(name);
    }
    for (size_t i = 0; i < count; i++)
        trace_call(tracing, &calls[i]);
}

/* --- who waits ---------------------------------------------------------------------------------------------------- */

struct step {
    uint64_t at_ns;
    int change;
};

static int compare_steps(const void *a, const void *b)
{
    const struct step *left = a, *right = b;
    if (left->at_ns != right->at_ns)
        return left->at_ns < right->at_ns ? -1 : 1;
    return left->change - right->change;
}

/* The circuit's number parts it from others of the same destination: a counter is known by its name and id. */
static void trace_waiting(struct tracing *tracing, const struct story_circuit *circuit, uint64_t number)
{
    struct step *steps = allocate(2 * circuit->event_count, sizeof *steps);
    char *name = format_text("waiting for %s", circuit->destination);
    size_t count = 0;
    int waiting = 0;
    for (size_t i = 0; i < circuit->event_count; i++) {
        const struct event *event = circuit->events[i];
        if (!story_is_wait(event) || event->elapsed_ms == 0)
            continue;
        steps[count++] = (struct step){event_began_ns(event), 1};
        steps[count++] = (struct step){event->time_ns, -1};
    }
    if (count > 0)
        qsort(steps, count, sizeof *steps, compare_steps);
    for (size_t i = 0; i < count; i++) {
        waiting += steps[i].change;
        if (i + 1 < count && steps[i + 1].at_ns == steps[i].at_ns)
            continue;
        begin_event(tracing, "C", name, CIRCUITS_PID, 0);
        add_time(tracing, steps[i].at_ns);
        fprintf(tracing->out, ",\"id\":%" PRIu64 ",\"args\":{\"calls\":%d}}", number, waiting);
    }
    free(name);
    free(steps);
}

void story_trace(const struct story *story, FILE *out)
{
    struct tracing tracing = {.out = out, .story = story};
    struct traced_call *calls;
    fputs("{\"displayTimeUnit\":\"ms\",\"otherData\":{\"made_by\":\"sockfuse " SOCKFUSE_VERSION "\"},\"traceEvents\":[",
          out);
    name_track(&tracing, "process_name", CIRCUITS_PID, 0, "circuits");
    begin_event(&tracing, "M", "process_sort_index", CIRCUITS_PID, 0);
    fputs(",\"args\":{\"sort_index\":-1}}", out);
    for (size_t i = 0; i < story->circuit_count; i++) {
        if (story->circuits[i].destination[0] == '\0')
            continue;
        trace_circuit(&tracing, &story->circuits[i], i);
        trace_waiting(&tracing, &story->circuits[i], i);
    }
    const size_t count = collect_calls(story, &calls);
    for (size_t from = 0, to; from < count; from = to) {
        for (to = from; to < count && pid_of(calls[to].event) == pid_of(calls[from].event);)
            to++;
        trace_process(&tracing, calls + from, to - from);
    }
    fputs("\n]}\n", out);
    free(calls);
}
