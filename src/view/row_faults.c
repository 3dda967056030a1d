/*
 * row_faults.c - faults on this side, for people and as JSON. See row_faults.h.
 */
#include "view/row_faults.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/date.h"
#include "base/errno_name.h"
#include "base/text.h"
#include "base/units.h"
#include "view/output.h"
#include "view/duration.h"
#include "segment/circuits.h"

#define NEW_NS (10 * NS_PER_MINUTE)
#define ERRNO_TEXT_MAX 32

static int compare_faults(const void *a, const void *b)
{
    const struct local_fault_view *left = a, *right = b;
    if (left->mono_ns != right->mono_ns)
        return left->mono_ns > right->mono_ns ? -1 : 1;
    return left->error < right->error ? -1 : left->error > right->error;
}

void row_faults_read(struct row_faults *faults, const struct segment *segment, uint32_t circuit)
{
    const struct circuit_entry *entry = circuits_entry(segment, circuit);
    faults->count = entry != NULL ? local_faults_read(entry, faults->at) : 0;
    if (faults->count > 0)
        qsort(faults->at, faults->count, sizeof *faults->at, compare_faults);
}

bool row_faults_are_new(const struct row_faults *faults, uint64_t now_ns)
{
    return faults->count > 0 && span_since(faults->at[0].mono_ns, now_ns) < NEW_NS;
}

static const char *errno_text(int error, char text[ERRNO_TEXT_MAX])
{
    struct text name;
    text_start(&name, text, ERRNO_TEXT_MAX);
    text_add_errno(&name, error);
    return text;
}

char *row_fault_text(const struct local_fault_view *fault, uint64_t now_ns)
{
    char error[ERRNO_TEXT_MAX], span[SPAN_TEXT_MAX];
    char *program = fault->program[0] != '\0' ? format_text(" (%s)", shown(fault->program)) : copy_text("");
    char *who = fault->pid != 0 ? format_text(" in pid %" PRIu32 "%s", fault->pid, program) : copy_text("");
    char *text = format_text("%" PRIu32 " x %s%s, %s ago", fault->count,
                             fault->error != 0 ? errno_text(fault->error, error) : "other errors", who,
                             span_format(span_since(fault->mono_ns, now_ns), span));
    free(program);
    free(who);
    return text;
}

void row_faults_json(struct json *json, const struct row_faults *faults)
{
    json_open(json, "local_faults", '[');
    for (unsigned int i = 0; i < faults->count; i++) {
        const struct local_fault_view *fault = &faults->at[i];
        char error[ERRNO_TEXT_MAX], time[32];
        time_rfc3339(fault->time_ns, time, sizeof time);
        json_open(json, NULL, '{');
        json_string(json, "errno", fault->error != 0 ? errno_text(fault->error, error) : NULL);
        json_unsigned(json, "count", fault->count);
        json_unsigned(json, "pid", fault->pid);
        json_string(json, "program", fault->program[0] != '\0' ? fault->program : NULL);
        json_string(json, "last", time);
        json_close(json, '}');
    }
    json_close(json, ']');
}
