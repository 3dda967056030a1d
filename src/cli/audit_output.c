/*
 * audit_output.c - writes what an audit has found. See audit_output.h.
 */
#define _GNU_SOURCE
#include "cli/audit_output.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "cli/audit_finding.h"
#include "view/duration.h"
#include "view/json.h"
#include "view/message.h"
#include "view/output.h"
#include "view/table.h"

static const struct column audit_columns[] = {
    {"DESTINATION", false},     {"FAULT", false}, {"PROGRAM", false},
    {"WHAT CAME OF IT", false}, {"RAN", true},    {"EXIT", false},
};
#define AUDIT_COLUMNS (sizeof audit_columns / sizeof *audit_columns)

static size_t count_rows(const struct audit *audit, bool (*counts)(enum audit_result result), size_t *all)
{
    size_t count, found = 0;
    struct audit_row *rows = audit_rows(audit, &count);
    for (size_t i = 0; i < count; i++)
        found += counts(rows[i].result);
    free(rows);
    *all = count;
    return found;
}

static bool is_met(enum audit_result result)
{
    return result < AUDIT_LOST;
}

bool audit_finds_beyond(const struct audit *audit)
{
    size_t all;
    return count_rows(audit, audit_is_beyond, &all) > 0;
}

bool audit_met_any(const struct audit *audit)
{
    size_t all;
    return count_rows(audit, is_met, &all) > 0;
}

/* --- for people --------------------------------------------------------------------------------------------------- */

static enum colour colour_of(enum audit_result result)
{
    if (audit_is_beyond(result))
        return RED;
    if (result == AUDIT_WAITS || result == AUDIT_BY_KERNEL)
        return YELLOW;
    return result >= AUDIT_LOST ? DIM : PLAIN;
}

/* Lines of this length have room for the program. */
#define ROOM_FOR_PROGRAMS 100u

/* Whether several programs met faults, so that it is worth a column; on a narrow terminal: faults of one destination. */
static bool has_several_programs(const struct audit_row *rows, size_t count, size_t room)
{
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++)
            if (rows[i].finding != NULL && rows[j].finding != NULL &&
                (room >= ROOM_FOR_PROGRAMS || rows[i].run->destination == rows[j].run->destination) &&
                strcmp(rows[i].finding->program, rows[j].finding->program) != 0)
                return true;
    return false;
}

static void add_exit(struct table *table, const struct audit_course *course)
{
    if (!course->has_ended)
        table_add(table, PLAIN, course->elapsed_ns > 0 ? "-" : "");
    else if (WIFSIGNALED(course->status))
        table_addf(table, YELLOW, "SIG%s", sigabbrev_np(WTERMSIG(course->status)));
    else
        table_addf(table, PLAIN, "%d", WEXITSTATUS(course->status));
}

static void add_row(struct table *table, const struct audit *audit, const struct audit_row *row, bool names_program)
{
    const struct audit_run *run = row->run;
    const bool was_run = run->course.elapsed_ns > 0;
    char span[SPAN_TEXT_MAX], *text = audit_text(audit, row);
    table_add(table, PLAIN, run->destination->name);
    table_add(table, PLAIN, run->fault);
    table_add(table, PLAIN, names_program && row->finding != NULL ? row->finding->program : NULL);
    table_add(table, colour_of(row->result), text);
    table_add(table, PLAIN, was_run ? wait_format(run->course.elapsed_ns, span) : NULL);
    add_exit(table, &run->course);
    free(text);
}

static void print_table(const struct audit *audit, FILE *out)
{
    struct table table;
    size_t count, left_out = 0;
    struct audit_row *rows = audit_rows(audit, &count);
    const bool names_program = has_several_programs(rows, count, line_room(out));
    table_start(&table, audit_columns, AUDIT_COLUMNS);
    for (size_t i = 0; i < count; i++) {
        if (rows[i].result == AUDIT_LEFT_OUT || rows[i].result == AUDIT_NOT_MADE)
            left_out++;
        else
            add_row(&table, audit, &rows[i], names_program);
    }
    if (left_out < count)
        table_print_fitting(&table, out, 0, 2);
    free(rows);
}

static bool has_same_reason(const struct audit_run *a, const struct audit_run *b)
{
    return a->destination == b->destination && a->left_out != NULL && b->left_out != NULL &&
           strcmp(a->left_out, b->left_out) == 0;
}

/* "Not played to 127.0.0.1:5432: http-503 (no HTTP was seen)": what there was no run for. */
static void print_left_out(const struct audit *audit, FILE *out)
{
    const struct audit_run *runs = audit->runs;
    bool any = false;
    for (size_t i = 0; i < audit->run_count; i++) {
        size_t first = 0;
        while (first < i && !has_same_reason(&runs[first], &runs[i]))
            first++;
        if (runs[i].left_out == NULL || first < i)
            continue;
        fprintf(out, "%sNot played to %s: %s", any ? "" : "\n", shown(runs[i].destination->name), runs[i].fault);
        for (size_t j = i + 1; j < audit->run_count; j++)
            if (has_same_reason(&runs[i], &runs[j]))
                fprintf(out, ", %s", runs[j].fault);
        fprintf(out, " (%s)\n", runs[i].left_out);
        any = true;
    }
}

static size_t made(const struct audit *audit)
{
    size_t count = 0;
    for (size_t i = 0; i < audit->run_count; i++)
        count += audit->runs[i].course.was_made;
    return count;
}

static void print_verdict(const struct audit *audit, FILE *out)
{
    const bool coloured = colour_wanted(out);
    char limit[SPAN_TEXT_MAX];
    size_t all;
    const size_t beyond = count_rows(audit, audit_is_beyond, &all), met = count_rows(audit, is_met, &all);
    span_format(audit->limit_ns, limit);
    fputc('\n', out);
    if (audit->is_interrupted)
        fprintf(out, "Interrupted: %zu of %zu runs were made.\n", made(audit), audit->planned);
    if (beyond > 0)
        fprintf(out, "%sWaited beyond %s: %zu of the %zu that met their fault.%s\n", colour_start(RED, coloured), limit,
                beyond, met, colour_start(PLAIN, coloured));
    else if (met > 0)
        fprintf(out, "Nothing waited beyond %s.\n", limit);
    else
        fputs("No fault was met.\n", out);
    if (audit->unseen > 0)
        fprintf(out, "%" PRIu64 " call%s without a fault %s not seen: there was no room.\n", audit->unseen,
                audit->unseen == 1 ? "" : "s", audit->unseen == 1 ? "was" : "were");
}

void audit_print(const struct audit *audit, FILE *out)
{
    print_table(audit, out);
    print_left_out(audit, out);
    print_verdict(audit, out);
}

/* --- for programs ------------------------------------------------------------------------------------------------- */

static void write_course(struct json *json, const struct audit_course *course)
{
    if (course->has_ended && WIFEXITED(course->status))
        json_unsigned(json, "exit_status", (uint64_t)WEXITSTATUS(course->status));
    else
        json_null(json, "exit_status");
    if (course->has_ended && WIFSIGNALED(course->status))
        json_unsigned(json, "signal", (uint64_t)WTERMSIG(course->status));
    else
        json_null(json, "signal");
    if (course->elapsed_ns > 0)
        json_unsigned(json, "elapsed_ms", course->elapsed_ns / NS_PER_MS);
    else
        json_null(json, "elapsed_ms");
    json_bool(json, "stopped", course->elapsed_ns > 0 && !course->has_ended);
}

static void write_waits(struct json *json, const char *key, const struct audit_finding *finding, enum audit_end end)
{
    if (finding == NULL || finding->ends[end].count == 0) {
        json_null(json, key);
        return;
    }
    json_open(json, key, '{');
    json_unsigned(json, "count", finding->ends[end].count);
    json_unsigned(json, "shortest_ms", finding->ends[end].shortest_ns / NS_PER_MS);
    json_unsigned(json, "longest_ms", finding->ends[end].longest_ns / NS_PER_MS);
    json_close(json, '}');
}

static void write_row(struct json *json, const struct audit *audit, const struct audit_row *row)
{
    char *text = audit_text(audit, row);
    json_open(json, NULL, '{');
    json_string(json, "destination", row->run->destination->name);
    json_string(json, "fault", row->run->fault);
    json_string(json, "program", row->finding != NULL ? row->finding->program : NULL);
    json_string(json, "result", audit_result_name(row->result));
    json_string(json, "text", text);
    json_bool(json, "beyond_limit", audit_is_beyond(row->result));
    json_unsigned(json, "tries", row->finding != NULL ? row->finding->tries : 0);
    json_unsigned(json, "outcomes_lost", row->run->lost);
    write_waits(json, "hung", row->finding, AUDIT_END_HANGS);
    write_waits(json, "gave_up", row->finding, AUDIT_END_GAVE_UP);
    write_waits(json, "cancelled", row->finding, AUDIT_END_CANCELLED);
    write_waits(json, "kernel_gave_up", row->finding, AUDIT_END_BY_KERNEL);
    write_waits(json, "killed", row->finding, AUDIT_END_KILLED);
    write_waits(json, "told", row->finding, AUDIT_END_TOLD);
    write_waits(json, "cut", row->finding, AUDIT_END_CUT);
    write_course(json, &row->run->course);
    json_close(json, '}');
    free(text);
}

static void write_bare(struct json *json, const struct audit *audit)
{
    json_open(json, "without_fault", '{');
    write_course(json, &audit->bare);
    json_unsigned(json, "calls_unseen", audit->unseen);
    json_open(json, "destinations", '[');
    for (size_t i = 0; i < audit->destination_count; i++) {
        const struct audit_destination *destination = &audit->destinations[i];
        json_open(json, NULL, '{');
        json_string(json, "destination", destination->name);
        json_unsigned(json, "calls", destination->calls);
        json_bool(json, "http", destination->is_http);
        json_close(json, '}');
    }
    json_close(json, ']');
    json_close(json, '}');
}

void audit_write_json(const struct audit *audit, FILE *out)
{
    struct json json;
    size_t count;
    struct audit_row *rows = audit_rows(audit, &count);
    json_start(&json, out);
    json_open(&json, NULL, '{');
    json_open(&json, "command", '[');
    for (char *const *word = audit->command; *word != NULL; word++)
        json_string(&json, NULL, *word);
    json_close(&json, ']');
    json_unsigned(&json, "limit_ms", audit->limit_ns / NS_PER_MS);
    json_bool(&json, "endless", audit->is_endless);
    write_bare(&json, audit);
    json_unsigned(&json, "runs_planned", audit->planned);
    json_unsigned(&json, "runs_made", made(audit));
    json_bool(&json, "interrupted", audit->is_interrupted);
    json_bool(&json, "beyond_limit", audit_finds_beyond(audit));
    json_open(&json, "results", '[');
    for (size_t i = 0; i < count; i++)
        write_row(&json, audit, &rows[i]);
    json_close(&json, ']');
    json_close(&json, '}');
    free(rows);
}
