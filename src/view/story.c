/*
 * story.c - what many events tell, by circuit.
 *
 * See story.h. One sort brings the events of a circuit together and into order.
 */
#include <stdlib.h>
#include <string.h>

#include "view/output.h"
#include "view/incident.h"
#include "view/story.h"

void story_start(struct story *story)
{
    *story = (struct story){.told = NULL};
}

/* The one copy of a text: policies and owners are few, and the last one comes again. */
static const char *text_once(struct story *story, const char *text)
{
    for (size_t i = story->text_count; i > 0; i--) {
        if (strcmp(story->texts[i - 1], text) == 0)
            return story->texts[i - 1];
    }
    story->texts = grow(story->texts, story->text_count, sizeof *story->texts);
    return story->texts[story->text_count++] = copy_text(text);
}

bool story_tell(struct story *story, const struct event *event, const char *policy, const char *owner,
                unsigned int source)
{
    if (story->told_count == STORY_EVENTS_MAX)
        return false;
    story->told = grow(story->told, story->told_count, sizeof *story->told);
    story->told[story->told_count] = (struct told){
        .event = *event,
        .policy = text_once(story, policy),
        .owner = text_once(story, owner),
        .source = source,
        .order = story->told_count,
    };
    story->told_count++;
    return true;
}

/* --- order -------------------------------------------------------------------------------------------------------- */

static int compare_circuits(const struct told *left, const struct told *right)
{
    int order = left->policy == right->policy ? 0 : strcmp(left->policy, right->policy);
    if (order == 0 && left->owner != right->owner)
        order = strcmp(left->owner, right->owner);
    if (order == 0)
        order = strcmp(left->event.target, right->event.target);
    return order != 0 ? order : strcmp(left->event.destination, right->event.destination);
}

static int compare_numbers(uint64_t left, uint64_t right)
{
    return left < right ? -1 : left > right;
}

static int compare(const void *a, const void *b)
{
    const struct told *left = a, *right = b;
    int order = compare_circuits(left, right);
    if (order == 0)
        order = compare_numbers(left->event.time_ns, right->event.time_ns);
    return order != 0 ? order : compare_numbers(left->order, right->order);
}

/* By their bytes: what is not set of an event is 0, wherever it comes from. */
static int compare_events(const struct told *left, const struct told *right)
{
    return memcmp((const void *)&left->event, (const void *)&right->event, sizeof left->event);
}

/* The same events side by side, by where they come from. */
static int compare_same(const void *a, const void *b)
{
    const struct told *left = *(struct told *const *)a, *right = *(struct told *const *)b;
    int order = compare_events(left, right);
    if (order == 0)
        order = compare_circuits(left, right);
    if (order == 0)
        order = compare_numbers(left->source, right->source);
    return order != 0 ? order : compare_numbers(left->order, right->order);
}

/*
 * The same event from two sources: two files that overlap, or one that was given twice. The first that has it tells it.
 * From one source two such events are two, for calls that hang are found together.
 */
static void mark_repeated(struct story *story)
{
    struct told **same = allocate(story->told_count, sizeof *same);
    const struct told *first = NULL;
    for (size_t i = 0; i < story->told_count; i++)
        same[i] = &story->told[i];
    qsort(same, story->told_count, sizeof *same, compare_same);
    for (size_t i = 0; i < story->told_count; i++) {
        const bool is_new =
            first == NULL || compare_events(first, same[i]) != 0 || compare_circuits(first, same[i]) != 0;
        if (is_new)
            first = same[i];
        same[i]->repeated = same[i]->source != first->source;
    }
    free(same);
}

static void drop_repeated(struct story *story)
{
    size_t kept = 0;
    for (size_t i = 0; i < story->told_count; i++) {
        if (!story->told[i].repeated)
            story->told[kept++] = story->told[i];
    }
    story->told_count = kept;
}

/* --- circuits ----------------------------------------------------------------------------------------------------- */

static struct story_circuit *add_circuit(struct story *story)
{
    story->circuits = grow(story->circuits, story->circuit_count, sizeof *story->circuits);
    struct story_circuit *circuit = &story->circuits[story->circuit_count++];
    *circuit = (struct story_circuit){.events = NULL};
    return circuit;
}

static void note_time(struct story *story, const struct event *event)
{
    const uint64_t began_ns = story_is_wait(event) ? event_began_ns(event) : event->time_ns;
    if (story->from_ns == 0 || began_ns < story->from_ns)
        story->from_ns = began_ns;
    if (event->time_ns > story->to_ns)
        story->to_ns = event->time_ns;
}

void story_end(struct story *story, uint64_t since_ns, uint64_t to_ns)
{
    if (story->told_count > 0) {
        mark_repeated(story);
        drop_repeated(story);
        qsort(story->told, story->told_count, sizeof *story->told, compare);
    }
    story->order = allocate(story->told_count, sizeof *story->order);
    for (size_t i = 0; i < story->told_count; i++) {
        const struct told *told = &story->told[i];
        story->order[i] = &told->event;
        note_time(story, &told->event);
        if (i == 0 || compare_circuits(told - 1, told) != 0) {
            struct story_circuit *circuit = add_circuit(story);
            circuit->policy = told->policy;
            circuit->owner = told->owner;
            circuit->target = told->event.target;
            circuit->destination = told->event.destination;
            circuit->events = &story->order[i];
        }
        story->circuits[story->circuit_count - 1].event_count++;
    }
    if (since_ns != 0)
        story->from_ns = since_ns;
    if (to_ns > story->to_ns)
        story->to_ns = to_ns;
    if (story->from_ns == 0)
        story->from_ns = story->to_ns;
    if (story->to_ns < story->from_ns)
        story->to_ns = story->from_ns;
}

void story_add_now(struct story *story, const struct story_circuit *now)
{
    struct story_circuit *circuit = NULL;
    for (size_t i = 0; circuit == NULL && i < story->circuit_count; i++) {
        struct story_circuit *at = &story->circuits[i];
        if (strcmp(at->target, now->target) == 0 && strcmp(at->destination, now->destination) == 0 &&
            strcmp(at->policy, now->policy) == 0 && strcmp(at->owner, now->owner) == 0)
            circuit = at;
    }
    if (circuit == NULL) {
        circuit = add_circuit(story);
        circuit->policy = text_once(story, now->policy);
        circuit->owner = text_once(story, now->owner);
        circuit->target = text_once(story, now->target);
        circuit->destination = text_once(story, now->destination);
    }
    circuit->is_known_now = true;
    circuit->state_now = now->state_now;
    circuit->refused_now = now->refused_now;
}

void story_find_incidents(struct story *story)
{
    for (size_t i = 0; i < story->circuit_count; i++)
        incidents_find(&story->circuits[i], story->to_ns);
}

void story_free(struct story *story)
{
    for (size_t i = 0; i < story->circuit_count; i++)
        incidents_free(&story->circuits[i]);
    for (size_t i = 0; i < story->text_count; i++)
        free(story->texts[i]);
    free(story->circuits);
    free(story->texts);
    free(story->told);
    free(story->order);
    *story = (struct story){.told = NULL};
}

const char *story_outcome(const struct event *event, char label[FAILURE_LABEL_MAX])
{
    if (event->type == EVENT_NONE)
        return "in flight";
    if (event->type == EVENT_FAILURE)
        return failure_label(event->kind, event->http_status, label);
    if (event->verdict == VERDICT_NEUTRAL)
        return neutral_reason_name(event->reason);
    return verdict_name(event->verdict);
}
