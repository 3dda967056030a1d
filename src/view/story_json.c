/*
 * story_json.c - a story as members of a JSON object.
 *
 * See story_json.h. Calls are many: they are written by columns, with numbers for processes and outcomes.
 */
#include "view/story_json.h"

#include <stdlib.h>
#include <string.h>

#include "view/output.h"
#include "view/state_spans.h"
#include "view/story.h"

/* What a browser draws without lag. */
#define CALLS_DRAWN_MAX 50000u

/* Of short-lived processes there may be as many as calls: a name is looked for among those of a like process id. */
#define NAME_LISTS 4096u

/* A table of what calls refer to by number. */
struct names {
    struct name {
        const char *text;
        uint32_t pid;
        enum verdict verdict;
        size_t next; /* the number of the one before it in its list, + 1; 0: it is the first */
    } * at;
    size_t count, lists[NAME_LISTS];
};

struct writing {
    struct json *json;
    const struct story *story;
    struct names processes, outcomes;
    uint64_t failures, others;         /* calls of the story */
    uint64_t failure_step, other_step; /* every so many are drawn */
    uint64_t drawn;
};

static uint64_t since_start_ms(const struct writing *writing, uint64_t wall_ns)
{
    const uint64_t from_ms = writing->story->from_ns / NS_PER_MS, at_ms = wall_ns / NS_PER_MS;
    return at_ms > from_ms ? at_ms - from_ms : 0;
}

/* --- tables ------------------------------------------------------------------------------------------------------- */

static size_t name_number(struct names *names, struct name name)
{
    size_t *list = &names->lists[name.pid % NAME_LISTS];
    for (size_t next = *list; next != 0; next = names->at[next - 1].next) {
        const struct name *at = &names->at[next - 1];
        if (at->pid == name.pid && at->verdict == name.verdict && strcmp(at->text, name.text) == 0)
            return next - 1;
    }
    names->at = grow(names->at, names->count, sizeof *names->at);
    name.next = *list;
    names->at[names->count] = name;
    *list = ++names->count;
    return names->count - 1;
}

static size_t process_number(struct writing *writing, const struct event *event)
{
    return name_number(&writing->processes, (struct name){.text = event->program, .pid = event->pid});
}

static size_t outcome_number(struct writing *writing, const struct event *event)
{
    char label[FAILURE_LABEL_MAX];
    const enum verdict verdict = event->type == EVENT_FAILURE ? VERDICT_FAILURE : (enum verdict)event->verdict;
    const char *text = story_outcome(event, label);
    const size_t before = writing->outcomes.count;
    const size_t number = name_number(&writing->outcomes, (struct name){.text = text, .verdict = verdict});
    if (writing->outcomes.count > before && text == label)
        writing->outcomes.at[number].text = copy_text(label); /* stands until the command ends */
    return number;
}

static void write_tables(struct writing *writing)
{
    struct json *json = writing->json;
    json_open(json, "processes", '[');
    for (size_t i = 0; i < writing->processes.count; i++) {
        json_open(json, NULL, '{');
        json_string(json, "program", writing->processes.at[i].text);
        json_unsigned(json, "pid", writing->processes.at[i].pid);
        json_close(json, '}');
    }
    json_close(json, ']');
    json_open(json, "outcomes", '[');
    for (size_t i = 0; i < writing->outcomes.count; i++) {
        json_open(json, NULL, '{');
        json_string(json, "name", writing->outcomes.at[i].text);
        json_string(json, "verdict", verdict_name(writing->outcomes.at[i].verdict));
        json_close(json, '}');
    }
    json_close(json, ']');
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

static void count_calls(struct writing *writing)
{
    for (size_t i = 0; i < writing->story->circuit_count; i++) {
        const struct story_circuit *circuit = &writing->story->circuits[i];
        for (size_t j = 0; j < circuit->event_count; j++) {
            if (event_is_call(circuit->events[j]))
                (*(circuit->events[j]->type == EVENT_FAILURE ? &writing->failures : &writing->others))++;
        }
    }
    writing->failure_step = 1 + writing->failures / CALLS_DRAWN_MAX;
    const uint64_t room = CALLS_DRAWN_MAX - writing->failures / writing->failure_step;
    writing->other_step = 1 + writing->others / (room > 0 ? room : 1);
}

static void write_calls(struct writing *writing, const struct story_circuit *circuit)
{
    enum { END, TOOK, PROCESS, OUTCOME, LATE, HANGS, COLUMNS };
    static const char *const keys[] = {"end", "took", "process", "outcome", "late", "hangs"};
    uint64_t *columns[COLUMNS], seen[2] = {0};
    size_t count = 0;
    for (size_t i = 0; i < COLUMNS; i++)
        columns[i] = allocate(circuit->event_count, sizeof **columns);
    for (size_t i = 0; i < circuit->event_count; i++) {
        const struct event *event = circuit->events[i];
        const bool failed = event->type == EVENT_FAILURE;
        if (!event_is_call(event) || seen[failed]++ % (failed ? writing->failure_step : writing->other_step) != 0)
            continue;
        columns[END][count] = since_start_ms(writing, event->time_ns);
        columns[TOOK][count] = event->elapsed_ms;
        columns[PROCESS][count] = process_number(writing, event);
        columns[OUTCOME][count] = outcome_number(writing, event);
        columns[LATE][count] = event->late;
        columns[HANGS][count] = event->overran == OVERRAN_HANGS;
        count++;
    }
    json_open(writing->json, "calls", '{');
    for (size_t i = 0; i < COLUMNS; i++) {
        json_numbers(writing->json, keys[i], columns[i], count);
        free(columns[i]);
    }
    json_close(writing->json, '}');
    writing->drawn += count;
}

/* --- incidents ---------------------------------------------------------------------------------------------------- */

static void write_figure(struct json *json, const char *key, struct figure figure)
{
    if (figure.is_known)
        json_unsigned(json, key, figure.value);
    else
        json_null(json, key);
}

static void write_moment(struct writing *writing, const char *key, const struct event *event)
{
    write_figure(writing->json, key,
                 (struct figure){event != NULL, event != NULL ? since_start_ms(writing, event->time_ns) : 0});
}

/* As its opening says, or else its end. */
static void write_cause(struct json *json, const struct incident *incident)
{
    const struct event *ended = incident->ended;
    const struct event *opened = incident->opened != NULL                  ? incident->opened
                                 : ended != NULL && ended->outage.is_known ? ended
                                                                           : NULL;
    const unsigned int reason = opened == NULL ? REASON_NONE : opened == ended ? ended->outage.reason : opened->reason;
    json_string(json, "reason", opened != NULL ? transition_reason_name(reason) : NULL);
    if (opened == NULL || opened->window_calls == 0) {
        json_null(json, "window");
        return;
    }
    json_open(json, "window", '{');
    json_unsigned(json, "calls", opened->window_calls);
    json_unsigned(json, "failed", opened->window_failed);
    json_unsigned(json, "slow", opened->window_slow);
    json_close(json, '}');
}

static void write_who(struct json *json, const struct incident *incident)
{
    char label[FAILURE_LABEL_MAX];
    json_open(json, "kinds", '[');
    for (size_t i = 0; i < incident->kind_count; i++) {
        json_open(json, NULL, '{');
        json_string(json, "name", failure_label(incident->kinds[i].kind, incident->kinds[i].http_status, label));
        json_unsigned(json, "calls", incident->kinds[i].calls);
        json_close(json, '}');
    }
    json_close(json, ']');
    json_open(json, "processes", '[');
    for (size_t i = 0; i < incident->process_count; i++) {
        const struct incident_process *process = &incident->processes[i];
        json_open(json, NULL, '{');
        json_string(json, "program", process->program);
        json_unsigned(json, "pid", process->pid);
        json_unsigned(json, "calls", process->calls);
        json_unsigned(json, "waited_ms", process->waited_ms);
        json_unsigned(json, "longest_ms", process->longest_ms);
        json_unsigned(json, "at_once", process->at_once);
        write_figure(json, "without_ms", process->without_ms);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void write_incident(struct writing *writing, const struct incident *incident)
{
    struct json *json = writing->json;
    json_open(json, NULL, '{');
    json_unsigned(json, "from", since_start_ms(writing, incident->from_ns));
    json_unsigned(json, "to", since_start_ms(writing, incident->to_ns));
    write_moment(writing, "opened", incident->opened);
    write_moment(writing, "ended", incident->ended);
    write_cause(json, incident);
    write_figure(json, "lasted_ms", incident->lasted_ms);
    write_figure(json, "detect_ms", incident->detect_ms);
    json_unsigned(json, "counted", incident->counted);
    json_unsigned(json, "leaked", incident->leaked);
    json_unsigned(json, "hanging", incident->hanging);
    json_unsigned(json, "probes", incident->probes);
    json_unsigned(json, "probes_failed", incident->probes_failed);
    write_figure(json, "refused", incident->refused);
    json_unsigned(json, "waited_ms", incident->waited_ms);
    json_unsigned(json, "leaked_ms", incident->leaked_ms);
    write_figure(json, "typical_ms", incident->typical_ms);
    write_figure(json, "without_ms", incident->without_ms);
    write_figure(json, "at_most_ms", incident->at_most_ms);
    json_bool(json, "injected", incident->opened != NULL && incident->opened->injected);
    write_who(json, incident);
    json_close(json, '}');
}

/* --- circuits ----------------------------------------------------------------------------------------------------- */

static void write_spans(struct writing *writing, const struct story_circuit *circuit)
{
    struct json *json = writing->json;
    struct state_span *spans;
    const size_t count = state_spans(writing->story, circuit, &spans);
    json_open(json, "states", '[');
    for (size_t i = 0; i < count; i++) {
        const struct event *because = spans[i].because;
        json_open(json, NULL, '{');
        json_unsigned(json, "from", since_start_ms(writing, spans[i].from_ns));
        json_unsigned(json, "to", since_start_ms(writing, spans[i].to_ns));
        json_string(json, "state", state_span_name(&spans[i]));
        json_string(json, "forced", forced_name(spans[i].forced));
        json_string(json, "reason", because != NULL ? event_why(because) : NULL);
        json_string(json, "user",
                    because != NULL && because->type != EVENT_HELD && because->reason == REASON_FORCED
                        ? because->program
                        : NULL);
        json_close(json, '}');
    }
    json_close(json, ']');
    free(spans);
}

/* What is known of refusals: how many there were between two transitions. */
static void write_refusals(struct writing *writing, const struct story_circuit *circuit)
{
    struct json *json = writing->json;
    const struct event *last = NULL;
    uint64_t refused = 0;
    json_open(json, "refusals", '[');
    for (size_t i = 0; i <= circuit->event_count; i++) {
        const struct event *event = i < circuit->event_count ? circuit->events[i] : NULL;
        if (event == NULL ? !circuit->is_known_now : !event_is_transition(event))
            continue;
        const uint64_t now = event != NULL ? event->refused : circuit->refused_now;
        if (last != NULL && now > refused) {
            json_open(json, NULL, '{');
            json_unsigned(json, "from", since_start_ms(writing, last->time_ns));
            json_unsigned(json, "to", since_start_ms(writing, event != NULL ? event->time_ns : writing->story->to_ns));
            json_unsigned(json, "calls", now - refused);
            json_close(json, '}');
        }
        last = event;
        refused = now;
    }
    json_close(json, ']');
}

/* How a probe came out is told by the transition that follows; NULL: by none. */
static const char *probe_result(const struct story_circuit *circuit, size_t probe)
{
    for (size_t i = probe + 1; i < circuit->event_count; i++) {
        const struct event *event = circuit->events[i];
        if (event->type == EVENT_CLOSE)
            return event->reason == REASON_FORCED ? NULL : "success";
        if (event->type == EVENT_OPEN)
            return "failure";
    }
    return NULL;
}

static void write_probes(struct writing *writing, const struct story_circuit *circuit)
{
    struct json *json = writing->json;
    json_open(json, "probes", '[');
    for (size_t i = 0; i < circuit->event_count; i++) {
        const struct event *event = circuit->events[i];
        if (event->type != EVENT_PROBE)
            continue;
        json_open(json, NULL, '{');
        json_unsigned(json, "at", since_start_ms(writing, event->time_ns));
        json_unsigned(json, "process", process_number(writing, event));
        json_string(json, "result", probe_result(circuit, i));
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void write_reloads(struct writing *writing)
{
    struct json *json = writing->json;
    json_open(json, "reloads", '[');
    for (size_t i = 0; i < writing->story->circuit_count; i++) {
        const struct story_circuit *circuit = &writing->story->circuits[i];
        for (size_t j = 0; j < circuit->event_count; j++) {
            if (circuit->events[j]->type != EVENT_RELOAD)
                continue;
            json_open(json, NULL, '{');
            json_string(json, "policy", circuit->policy);
            json_string(json, "owner", circuit->owner);
            json_unsigned(json, "at", since_start_ms(writing, circuit->events[j]->time_ns));
            json_string(json, "user", circuit->events[j]->program);
            json_close(json, '}');
        }
    }
    json_close(json, ']');
}

static void write_circuit(struct writing *writing, const struct story_circuit *circuit)
{
    struct json *json = writing->json;
    json_open(json, NULL, '{');
    json_string(json, "policy", circuit->policy);
    json_string(json, "owner", circuit->owner);
    json_string(json, "target", circuit->target);
    json_string(json, "destination", circuit->destination);
    write_spans(writing, circuit);
    write_calls(writing, circuit);
    write_refusals(writing, circuit);
    write_probes(writing, circuit);
    json_open(json, "incidents", '[');
    for (size_t i = 0; i < circuit->incident_count; i++)
        write_incident(writing, &circuit->incidents[i]);
    json_close(json, ']');
    json_close(json, '}');
}

void story_json(struct json *json, const struct story *story)
{
    struct writing writing = {.json = json, .story = story};
    count_calls(&writing);
    json_unsigned(json, "from_ms", story->from_ns / NS_PER_MS);
    json_unsigned(json, "to_ms", story->to_ns / NS_PER_MS);
    json_open(json, "circuits", '[');
    for (size_t i = 0; i < story->circuit_count; i++) {
        if (story->circuits[i].destination[0] != '\0')
            write_circuit(&writing, &story->circuits[i]);
    }
    json_close(json, ']');
    write_reloads(&writing);
    write_tables(&writing);
    json_unsigned(json, "calls_told", writing.failures + writing.others);
    json_unsigned(json, "calls_drawn", writing.drawn);
    free(writing.processes.at);
    free(writing.outcomes.at);
}
