/*
 * recording.c - reads a recording of outcomes. See recording.h.
 */
#define _GNU_SOURCE
#include "cli/recording.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "cli/cli.h"
#include "view/event_file.h"
#include "view/event_line.h"
#include "cli/recording_order.h"

/* A clock that goes back by more than this, while the wall's goes on, is another boot's. */
#define BOOT_NS (60 * NS_PER_S)
#define BAD_TOLD 10u
#define LANES_MAX 65536u

/* --- lanes -------------------------------------------------------------------------------------------------------- */

/* Open addressing; places hold a lane's number + 1. */
struct lane_table {
    size_t *at;
    size_t size;
};

static uint64_t hash_of(const struct event_line *line)
{
    uint64_t hash = hash_bytes(HASH_BEGIN, line->policy, strlen(line->policy) + 1);
    hash = hash_bytes(hash, line->owner, strlen(line->owner) + 1);
    hash = hash_bytes(hash, line->event.target, strlen(line->event.target) + 1);
    return hash_spread(hash_bytes(hash, line->event.destination, strlen(line->event.destination)));
}

static bool is_lane_of(const struct lane *lane, const struct event_line *line)
{
    return strcmp(lane->destination, line->event.destination) == 0 && strcmp(lane->target, line->event.target) == 0 &&
           strcmp(lane->policy, line->policy) == 0 && strcmp(lane->owner, line->owner) == 0;
}

static struct lane *add_lane(struct recording *recording, const struct event_line *line)
{
    recording->lanes = grow(recording->lanes, recording->lane_count, sizeof *recording->lanes);
    struct lane *lane = &recording->lanes[recording->lane_count++];
    *lane = (struct lane){.policy = copy_text(line->policy),
                          .owner = copy_text(line->owner),
                          .target = copy_text(line->event.target),
                          .destination = copy_text(line->event.destination)};
    return lane;
}

/* NULL: there is no room for more. */
static struct lane *lane_of(struct recording *recording, const struct event_line *line)
{
    struct lane_table *table = recording->table;
    size_t place = hash_of(line) % table->size;
    for (; table->at[place] != 0; place = (place + 1) % table->size)
        if (is_lane_of(&recording->lanes[table->at[place] - 1], line))
            return &recording->lanes[table->at[place] - 1];
    if (recording->lane_count == LANES_MAX)
        return NULL;
    table->at[place] = recording->lane_count + 1;
    return add_lane(recording, line);
}

/* --- events ------------------------------------------------------------------------------------------------------- */

/* The event's time on the lane's clock, which goes on over a new beginning of the machine's. */
static uint64_t time_in(struct lane *lane, const struct event *event)
{
    if (lane->latest_ns != 0 && event->mono_ns + lane->shift_ns + BOOT_NS < lane->latest_ns &&
        event->time_ns > lane->wall_ns) {
        lane->shift_ns = lane->latest_ns + (event->time_ns - lane->wall_ns) - event->mono_ns;
        lane->is_rebooted = true;
    }
    const uint64_t at_ns = event->mono_ns + lane->shift_ns;
    if (at_ns >= lane->latest_ns) {
        lane->latest_ns = lane->mono_ns = at_ns;
        lane->wall_ns = event->time_ns;
    }
    return at_ns;
}

static void add_call(struct recording *recording, size_t lane, const struct event *event, uint64_t at_ns)
{
    const uint64_t elapsed_ns = event->elapsed_ms * NS_PER_MS;
    const bool is_failure = event->type == EVENT_FAILURE;
    recording->calls = grow(recording->calls, recording->call_count, sizeof *recording->calls);
    recording->calls[recording->call_count++] = (struct sim_call){
        .began_ns = at_ns > elapsed_ns ? at_ns - elapsed_ns : 0,
        .ended_ns = at_ns,
        .retry_after_ns = event->pause_ns,
        .lane = (uint32_t)lane,
        .pid = event->pid,
        .http_status = event->http_status,
        .verdict = is_failure ? VERDICT_FAILURE : event->verdict,
        .kind = event->kind,
        .reason = is_failure ? NEUTRAL_NONE : event->reason,
        .is_slow = event->slow,
        .marks = (uint8_t)((is_failure ? CALL_OF_FAILURE : 0) | (event->late ? CALL_LATE : 0)),
    };
}

static void add_step(struct recording *recording, size_t lane, const struct event *event, uint64_t at_ns)
{
    recording->steps = grow(recording->steps, recording->step_count, sizeof *recording->steps);
    recording->steps[recording->step_count++] = (struct recorded_step){
        .at_ns = at_ns,
        .refused = event->refused,
        .pid = event->pid,
        .lane = (uint32_t)lane,
        .failures = event->failures,
        .window_bad = event->reason == REASON_SLOW_CALL_RATE ? event->window_slow : event->window_failed,
        .type = event->type,
        .from = event->from,
        .to = event->to,
        .reason = event->reason,
    };
}

static void take_event(struct recording *recording, const struct event_line *line)
{
    const struct event *event = &line->event;
    if (event->type == EVENT_RELOAD) {
        recording->reloads++;
        return;
    }
    struct lane *lane = lane_of(recording, line);
    if (lane == NULL)
        errx(EXIT_FAILURE, "more than %u circuits in one recording", LANES_MAX);
    const size_t number = (size_t)(lane - recording->lanes);
    const uint64_t at_ns = time_in(lane, event);
    switch (event->type) {
    case EVENT_OUTCOME:
    case EVENT_FAILURE:
        lane->outcomes += event->type == EVENT_OUTCOME;
        lane->failures += event->type == EVENT_FAILURE;
        add_call(recording, number, event, at_ns);
        break;
    case EVENT_REFUSED:
        lane->has_refusal = true;
        break;
    case EVENT_FORCED:
        lane->forced++;
        break;
    case EVENT_OPEN:
    case EVENT_HALF_OPEN:
    case EVENT_CLOSE:
    case EVENT_PROBE:
        add_step(recording, number, event, at_ns);
        break;
    default:
        break;
    }
}

static void note_time(struct recording *recording, uint64_t wall_ns)
{
    if (recording->from_ns == 0 || wall_ns < recording->from_ns)
        recording->from_ns = wall_ns;
    if (wall_ns > recording->to_ns)
        recording->to_ns = wall_ns;
}

/* A last line without an end, behind others: whoever wrote it was about to go on. */
static bool is_torn(const struct recording *recording, const char *text, size_t length)
{
    return recording->events + recording->unknown > 0 && text[0] == '{' && text[length - 1] != '\n';
}

static void take_line(struct recording *recording, const char *name, const char *text, size_t length)
{
    static struct event_line line;
    recording->lines++;
    if (strspn(text, " \t\r\n") == length)
        return;
    switch (event_line_read(&line, text, length)) {
    case EVENT_LINE_GOOD:
        recording->events++;
        note_time(recording, line.event.time_ns);
        take_event(recording, &line);
        break;
    case EVENT_LINE_UNKNOWN:
        recording->unknown++;
        break;
    case EVENT_LINE_BAD:
        if (is_torn(recording, text, length)) {
            recording->is_torn = true;
            break;
        }
        if (recording->bad++ < BAD_TOLD)
            warnx("%s:%" PRIu64 ": no event; a line as 'sockfuse events --json' writes it is expected", name,
                  recording->lines);
        break;
    }
}

bool recording_read(struct recording *recording, const char *path)
{
    *recording = (struct recording){.table = allocate(1, sizeof *recording->table)};
    recording->table->size = 2 * LANES_MAX + 1;
    recording->table->at = allocate(recording->table->size, sizeof *recording->table->at);
    struct event_file *file = event_file_open(path);
    if (file == NULL)
        return false;
    while (event_file_next(file))
        take_line(recording, file->name, file->text, file->length);
    if (recording->bad > BAD_TOLD)
        warnx("%s: %" PRIu64 " more lines are no events", file->name, recording->bad - BAD_TOLD);
    recording_order(recording);
    return event_file_close(file) && (recording->events > 0 || recording->lines == 0 || recording->bad == 0);
}

void recording_free(struct recording *recording)
{
    for (size_t i = 0; i < recording->lane_count; i++) {
        const struct lane *lane = &recording->lanes[i];
        free((char *)(uintptr_t)lane->policy);
        free((char *)(uintptr_t)lane->owner);
        free((char *)(uintptr_t)lane->target);
        free((char *)(uintptr_t)lane->destination);
    }
    free(recording->table->at);
    free(recording->table);
    free(recording->lanes);
    free(recording->calls);
    free(recording->steps);
}

uint64_t recording_wall(const struct lane *lane, uint64_t at_ns)
{
    if (at_ns >= lane->mono_ns)
        return lane->wall_ns + (at_ns - lane->mono_ns);
    const uint64_t before_ns = lane->mono_ns - at_ns;
    return lane->wall_ns > before_ns ? lane->wall_ns - before_ns : 0;
}
