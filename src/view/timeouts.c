/*
 * timeouts.c - after how long programs were seen to give up. See timeouts.h.
 */
#define _GNU_SOURCE
#include "view/timeouts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/date.h"
#include "view/output.h"
#include "view/duration.h"

static bool is_of(const struct timeout *timeout, const char *program, enum learnt_wait waits)
{
    return timeout->waits == waits && strcmp(timeout->program, program) == 0;
}

static struct timeout *find(struct timeouts *timeouts, const char *program, enum learnt_wait waits)
{
    for (size_t i = 0; i < timeouts->count; i++)
        if (is_of(&timeouts->at[i], program, waits))
            return &timeouts->at[i];
    if (timeouts->count == TIMEOUTS_MAX)
        return NULL;
    struct timeout *timeout = &timeouts->at[timeouts->count++];
    *timeout = (struct timeout){.waits = waits};
    memcpy(timeout->program, program, sizeof timeout->program);
    return timeout;
}

static bool tells(const struct patience_view *seen)
{
    bool any = false;
    for (unsigned int end = 0; end < LEARNT_ENDS; end++)
        any = any || seen->counts[end] > 0;
    return any;
}

static void add_learnt(struct timeouts *timeouts, const struct learnt_view *learnt)
{
    for (unsigned int i = 0; i < learnt->program_count; i++) {
        const struct learnt_program_view *program = &learnt->programs[i];
        for (unsigned int waits = 0; waits < LEARNT_WAITS; waits++) {
            struct timeout *timeout =
                tells(&program->waits[waits]) ? find(timeouts, program->name, (enum learnt_wait)waits) : NULL;
            if (timeout != NULL)
                timeout->seen = program->waits[waits];
        }
    }
}

static void add_present(struct timeouts *timeouts, const struct inflight *inflight, uint32_t circuit)
{
    for (size_t i = 0; i < inflight->count; i++) {
        const struct inflight_call *call = &inflight->at[i];
        if (call->circuit_index != circuit || call->waited_ns < LEARNT_LONG_NS)
            continue;
        struct timeout *timeout = find(timeouts, call->owner->process.program,
                                       call->phase == PHASE_CONNECTING ? LEARNT_CONNECT : LEARNT_ANSWER);
        if (timeout != NULL && call->waited_ns > timeout->present_ns)
            timeout->present_ns = call->waited_ns;
    }
}

static int by_program(const void *a, const void *b)
{
    const struct timeout *left = a, *right = b;
    const int order = strcmp(left->program, right->program);
    return order != 0 ? order : (int)left->waits - (int)right->waits;
}

void timeouts_read(struct timeouts *timeouts, const struct learnt_view *learnt, const struct inflight *inflight,
                   uint32_t circuit)
{
    timeouts->count = 0;
    timeouts->without_room = learnt->without_room;
    add_learnt(timeouts, learnt);
    if (inflight != NULL)
        add_present(timeouts, inflight, circuit);
    qsort(timeouts->at, timeouts->count, sizeof *timeouts->at, by_program);
}

void timeouts_note_killed(struct timeouts *timeouts, const char *program, enum learnt_wait waits, uint64_t waited_ns,
                          bool is_exact)
{
    struct timeout *timeout = waited_ns >= LEARNT_LONG_NS ? find(timeouts, program, waits) : NULL;
    if (timeout == NULL || waited_ns <= timeout->killed_ns)
        return;
    timeout->killed_ns = waited_ns;
    timeout->killed_later = !is_exact;
}

bool timeout_usual(const struct timeout *timeout, uint64_t *after_ns)
{
    *after_ns = timeout->seen.median_ns;
    return timeout->seen.counts[LEARNT_GIVEN_UP] > 0;
}

uint64_t timeout_longest(const struct timeout *timeout)
{
    uint64_t longest_ns = timeout->present_ns > timeout->killed_ns ? timeout->present_ns : timeout->killed_ns;
    for (unsigned int end = 0; end < LEARNT_ENDS; end++)
        if (timeout->seen.longest_ns[end] > longest_ns)
            longest_ns = timeout->seen.longest_ns[end];
    return longest_ns;
}

/* --- text --------------------------------------------------------------------------------------------------------- */

const char *timeout_wait_text(enum learnt_wait waits)
{
    return waits == LEARNT_CONNECT ? "connecting" : "waiting for the answer";
}

static char *moment_seen_from(uint64_t wall_ns, uint64_t now_ns)
{
    const time_t then = (time_t)(wall_ns / NS_PER_S);
    struct tm at;
    char text[32];
    if (localtime_r(&then, &at) == NULL)
        return copy_text("some time");
    const uint64_t today_ns = day_start(now_ns);
    const bool is_today = wall_ns >= today_ns && day_start(wall_ns) == today_ns;
    strftime(text, sizeof text, is_today ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &at);
    return copy_text(text);
}

char *moment_text(uint64_t wall_ns)
{
    return moment_seen_from(wall_ns, clock_wall_ns());
}

uint64_t day_start(uint64_t wall_ns)
{
    const time_t then = (time_t)(wall_ns / NS_PER_S);
    struct tm day;
    if (localtime_r(&then, &day) == NULL)
        return wall_ns;
    day.tm_hour = day.tm_min = day.tm_sec = 0;
    day.tm_isdst = -1;
    const time_t start = mktime(&day);
    return start > 0 && start <= then ? (uint64_t)start * NS_PER_S : wall_ns;
}

static void print_count(FILE *out, uint32_t count)
{
    if (count == 1)
        fputs("once", out);
    else
        fprintf(out, "%" PRIu32 " times", count);
}

/* Of several times, of which the first was on a day before. */
static void print_days(FILE *out, const struct patience_view *seen, const char *since, uint64_t now_ns)
{
    const uint64_t day_ns = day_start(now_ns);
    uint64_t from_ns = day_ns;
    const uint32_t count = learnt_given_up_since(seen, &from_ns, now_ns);
    if (count > 0) {
        char *from = moment_seen_from(from_ns, now_ns);
        print_count(out, count);
        /* In some zones no full hour begins with the day. */
        if (from_ns == day_ns)
            fputs(" today", out);
        else
            fprintf(out, " since %s", from);
        fprintf(out, ", %" PRIu32 " since %s", seen->counts[LEARNT_GIVEN_UP], since);
        free(from);
    } else {
        char *last = moment_seen_from(seen->last_ns, now_ns);
        print_count(out, seen->counts[LEARNT_GIVEN_UP]);
        fprintf(out, " since %s, last at %s", since, last);
        free(last);
    }
}

char *given_up_text(const struct patience_view *seen, uint64_t now_ns)
{
    const uint32_t count = seen->counts[LEARNT_GIVEN_UP];
    char *since = moment_seen_from(seen->since_ns, now_ns), *text = NULL;
    size_t size;
    FILE *out = open_text(&text, &size);
    if (count == 1)
        fprintf(out, "once, at %s", since);
    else if (seen->since_ns >= day_start(now_ns))
        fprintf(out, "%" PRIu32 " times today, since %s", count, since);
    else
        print_days(out, seen, since, now_ns);
    close_text(out);
    free(since);
    return text;
}

/* More than a twentieth apart. */
static bool is_spread(const struct patience_view *seen)
{
    return seen->longest_ns[LEARNT_GIVEN_UP] - seen->shortest_ns > seen->shortest_ns / 20;
}

static void print_given_up(FILE *out, const struct patience_view *seen)
{
    char usual[SPAN_TEXT_MAX], shortest[SPAN_TEXT_MAX], longest[SPAN_TEXT_MAX];
    char *times = given_up_text(seen, clock_wall_ns());
    fprintf(out, "after %s", span_format(seen->median_ns, usual));
    if (is_spread(seen))
        fprintf(out, " (%s to %s)", span_format(seen->shortest_ns, shortest),
                span_format(seen->longest_ns[LEARNT_GIVEN_UP], longest));
    fprintf(out, ", %s", times);
    free(times);
}

char *timeout_text(const struct timeout *timeout)
{
    const struct patience_view *seen = &timeout->seen;
    const uint64_t given_up_ns = seen->longest_ns[LEARNT_GIVEN_UP];
    char span[SPAN_TEXT_MAX], *text = NULL;
    size_t size;
    FILE *out = open_text(&text, &size);
    if (seen->counts[LEARNT_GIVEN_UP] > 0)
        print_given_up(out, seen);
    else
        fputs("never seen to", out);
    if (seen->counts[LEARNT_OUTLASTED] > 0 && seen->longest_ns[LEARNT_OUTLASTED] > given_up_ns + given_up_ns / 20)
        fprintf(out, "; has waited %s", span_format(seen->longest_ns[LEARNT_OUTLASTED], span));
    if (timeout->present_ns > given_up_ns + given_up_ns / 20)
        fprintf(out, "; waits for %s now", span_format(timeout->present_ns, span));
    if (timeout->killed_ns > given_up_ns + given_up_ns / 20)
        fprintf(out, "; had waited %s%s when it was killed", span_format(timeout->killed_ns, span),
                timeout->killed_later ? " or more" : "");
    if (seen->counts[LEARNT_BY_KERNEL] > 0) {
        fputs("; the kernel gave up ", out);
        print_count(out, seen->counts[LEARNT_BY_KERNEL]);
        fprintf(out, ", after %s", span_format(seen->longest_ns[LEARNT_BY_KERNEL], span));
    }
    if (seen->counts[LEARNT_BY_LIMIT] > 0) {
        fputs("; enforce_timeouts ended ", out);
        print_count(out, seen->counts[LEARNT_BY_LIMIT]);
        fprintf(out, " what it waited for, after %s", span_format(seen->longest_ns[LEARNT_BY_LIMIT], span));
    }
    close_text(out);
    return text;
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static void write_moment(struct json *json, const char *key, uint64_t wall_ns)
{
    char time[32];
    time_rfc3339(wall_ns, time, sizeof time);
    json_string(json, key, wall_ns != 0 ? time : NULL);
}

void given_up_today_json(struct json *json, const struct patience_view *seen)
{
    const uint64_t now_ns = clock_wall_ns();
    uint64_t from_ns = day_start(now_ns);
    const uint32_t count = learnt_given_up_since(seen, &from_ns, now_ns);
    json_open(json, "today", '{');
    json_unsigned(json, "count", count);
    write_moment(json, "since", from_ns);
    json_close(json, '}');
}

static void write_end(struct json *json, const char *key, const struct patience_view *seen, enum learnt_end end)
{
    json_open(json, key, '{');
    json_unsigned(json, "count", seen->counts[end]);
    if (seen->counts[end] > 0)
        json_unsigned(json, "longest_ms", seen->longest_ns[end] / NS_PER_MS);
    else
        json_null(json, "longest_ms");
    json_close(json, '}');
}

static void write_given_up(struct json *json, const struct patience_view *seen)
{
    if (seen->counts[LEARNT_GIVEN_UP] == 0) {
        json_null(json, "gave_up");
        return;
    }
    json_open(json, "gave_up", '{');
    json_unsigned(json, "count", seen->counts[LEARNT_GIVEN_UP]);
    json_unsigned(json, "shortest_ms", seen->shortest_ns / NS_PER_MS);
    json_unsigned(json, "median_ms", seen->median_ns / NS_PER_MS);
    json_unsigned(json, "longest_ms", seen->longest_ns[LEARNT_GIVEN_UP] / NS_PER_MS);
    write_moment(json, "first", seen->since_ns);
    write_moment(json, "last", seen->last_ns);
    given_up_today_json(json, seen);
    json_close(json, '}');
}

void timeouts_json(struct json *json, const char *key, const struct timeouts *timeouts)
{
    json_open(json, key, '[');
    for (size_t i = 0; i < timeouts->count; i++) {
        const struct timeout *timeout = &timeouts->at[i];
        json_open(json, NULL, '{');
        json_string(json, "program", timeout->program);
        json_string(json, "waits_for", learnt_wait_name(timeout->waits));
        write_given_up(json, &timeout->seen);
        write_end(json, "waited_longer", &timeout->seen, LEARNT_OUTLASTED);
        write_end(json, "kernel_gave_up", &timeout->seen, LEARNT_BY_KERNEL);
        write_end(json, "limit_enforced", &timeout->seen, LEARNT_BY_LIMIT);
        if (timeout->present_ns > 0)
            json_unsigned(json, "waiting_ms", timeout->present_ns / NS_PER_MS);
        else
            json_null(json, "waiting_ms");
        if (timeout->killed_ns > 0)
            json_unsigned(json, "killed_after_ms", timeout->killed_ns / NS_PER_MS);
        else
            json_null(json, "killed_after_ms");
        json_close(json, '}');
    }
    json_close(json, ']');
}
