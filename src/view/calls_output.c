/*
 * calls_output.c - calls in flight as a table for people, as lines, and as JSON. See calls_output.h.
 */
#define _GNU_SOURCE
#include "view/calls_output.h"

#include <inttypes.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/date.h"
#include "view/output.h"
#include "view/duration.h"
#include "view/local_time.h"
#include "view/table.h"

static const struct column call_columns[] = {
    {"SINCE", true},        {"LIMIT", true},   {"", false},        {"PHASE", false},
    {"PID", true},          {"TID", true},     {"PROGRAM", false}, {"USER", false},
    {"DESTINATION", false}, {"TARGET", false}, {"POLICY", false},
};
#define CALL_COLUMNS (sizeof call_columns / sizeof *call_columns)

/* Each user is asked for once in a row: a list has few. */
const char *calls_user(uint32_t uid)
{
    static char name[64];
    static uint32_t known;
    static bool is_known;
    if (is_known && known == uid)
        return name;
    const struct passwd *entry = getpwuid(uid);
    if (entry != NULL && entry->pw_name[0] != '\0')
        snprintf(name, sizeof name, "%s", entry->pw_name);
    else
        snprintf(name, sizeof name, "%" PRIu32, uid);
    known = uid;
    is_known = true;
    return name;
}

static const char *note_of(const struct inflight_call *call)
{
    if (call->is_overdue)
        return call->is_probe ? "OVERDUE, probe" : "OVERDUE";
    return call->is_probe ? "probe" : "";
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

/* What need not be said, for it is the same everywhere, or plain. */
struct said {
    bool users, targets, policies, containers, threads;
};

static struct said what_to_say(const struct inflight *inflight)
{
    struct said said = {0};
    for (size_t i = 0; i < inflight->count; i++) {
        const struct inflight_call *call = &inflight->at[i];
        said.users |= call->owner->uid != geteuid();
        said.targets |= strcmp(call->circuit->target, call->circuit->destination) != 0;
        said.policies |= strcmp(call->of->identity, inflight->at[0].of->identity) != 0;
        said.containers |= !call->owner->process.is_near;
        said.threads |= call->thread != 0 && call->thread != call->owner->process.pid;
    }
    return said;
}

static void add_call(struct table *table, const struct inflight_call *call, const struct said *said)
{
    char span[SPAN_TEXT_MAX];
    const enum colour colour = call->is_overdue ? RED : PLAIN;
    const struct process_view *process = &call->owner->process;
    /* What may be long comes last, so that a narrow terminal shows what matters. */
    table_add(table, colour, span_format(call->waited_ns, span));
    table_add(table, PLAIN, call->limit_ns != 0 ? span_format(call->limit_ns, span) : "");
    table_add(table, colour, note_of(call));
    table_add(table, PLAIN, inflight_phase(call->phase));
    table_addf(table, PLAIN, "%" PRIu32 "%s", process->pid, process->is_near ? "" : "*");
    if (said->threads && call->thread != 0)
        table_addf(table, PLAIN, "%" PRIu32, call->thread);
    else
        table_add(table, PLAIN, "");
    table_add(table, PLAIN, process->program);
    table_add(table, PLAIN, said->users ? calls_user(call->owner->uid) : "");
    table_add(table, PLAIN, call->circuit->destination);
    table_add(table, PLAIN, said->targets ? call->circuit->target : "");
    table_add(table, PLAIN, said->policies ? call->of->identity : "");
}

void calls_print_table(const struct inflight *inflight, FILE *out, unsigned int indent)
{
    const struct said said = what_to_say(inflight);
    struct table table;
    if (inflight->count == 0) {
        fputs("No calls in flight.\n", out);
        return;
    }
    table_start(&table, call_columns, CALL_COLUMNS);
    for (size_t i = 0; i < inflight->count; i++)
        add_call(&table, &inflight->at[i], &said);
    table_print(&table, out, indent);
    if (said.containers)
        fprintf(out, "%*s* by the number of its container\n", (int)indent, "");
}

/* --- lines -------------------------------------------------------------------------------------------------------- */

void calls_print_line(const struct inflight_call *call, uint64_t wall_ns, FILE *out)
{
    const struct process_view *process = &call->owner->process;
    char time[LOCAL_TIME_MAX], span[SPAN_TEXT_MAX];
    fprintf(out, "%s  %s (pid %" PRIu32 "%s) waits for ", local_time(wall_ns, time), shown(process->program),
            process->pid, process->is_near ? "" : ", by the number of its container");
    print_safely(call->circuit->destination, out);
    if (strcmp(call->circuit->target, call->circuit->destination) != 0)
        fprintf(out, " (%s)", shown(call->circuit->target));
    fprintf(out, ": %s, %s", inflight_phase(call->phase), span_format(call->waited_ns, span));
    if (call->limit_ns != 0)
        fprintf(out, " of %s", span_format(call->limit_ns, span));
    const char *note = note_of(call);
    fprintf(out, "%s%s%s\n", note[0] != '\0' ? ", " : "", note, call->of->which);
}

void calls_print_sum(const struct inflight *inflight, FILE *out)
{
    char span[SPAN_TEXT_MAX];
    size_t overdue = 0;
    uint64_t oldest_ns = 0;
    for (size_t i = 0; i < inflight->count; i++) {
        overdue += inflight->at[i].is_overdue;
        if (inflight->at[i].waited_ns > oldest_ns)
            oldest_ns = inflight->at[i].waited_ns;
    }
    fprintf(out, "%zu call%s in flight", inflight->count, inflight->count == 1 ? "" : "s");
    if (overdue > 0)
        fprintf(out, ", %zu overdue", overdue);
    if (inflight->count > 0)
        fprintf(out, ", the oldest %s", span_format(oldest_ns, span));
    fputc('\n', out);
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

void calls_json(struct json *json, const struct inflight_call *call, uint64_t wall_ns)
{
    const struct process_view *process = &call->owner->process;
    char time[32];
    time_rfc3339(wall_ns > call->waited_ns ? wall_ns - call->waited_ns : 0, time, sizeof time);
    json_open(json, NULL, '{');
    json_unsigned(json, "pid", process->pid);
    json_bool(json, "pid_is_local", process->is_near);
    if (call->thread != 0)
        json_unsigned(json, "thread", call->thread);
    else
        json_null(json, "thread");
    json_string(json, "program", process->program);
    json_string(json, "user", calls_user(call->owner->uid));
    json_string(json, "target", call->circuit->target);
    json_string(json, "destination", call->circuit->destination);
    json_string(json, "phase", inflight_phase(call->phase));
    json_string(json, "since", time);
    json_unsigned(json, "waited_ms", call->waited_ns / NS_PER_MS);
    if (call->limit_ns != 0)
        json_unsigned(json, "limit_ms", call->limit_ns / NS_PER_MS);
    else
        json_null(json, "limit_ms");
    json_bool(json, "overdue", call->is_overdue);
    json_bool(json, "charged", call->is_charged);
    json_bool(json, "probe", call->is_probe);
    json_string(json, "policy", call->of->identity);
    json_string(json, "owner", call->of->user);
    json_close(json, '}');
}
