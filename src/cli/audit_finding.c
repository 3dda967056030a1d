/*
 * audit_finding.c - what came of a fault. See audit_finding.h.
 */
#define _GNU_SOURCE
#include "cli/audit_finding.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "segment/learnt.h"
#include "view/duration.h"
#include "view/output.h"

/* --- taking ------------------------------------------------------------------------------------------------------- */

static struct audit_finding *finding_of(struct audit_run *run, const char *program)
{
    for (size_t i = 0; i < run->finding_count; i++)
        if (strcmp(run->findings[i].program, program) == 0)
            return &run->findings[i];
    run->findings = grow(run->findings, run->finding_count, sizeof *run->findings);
    struct audit_finding *finding = &run->findings[run->finding_count++];
    *finding = (struct audit_finding){.tries = 0};
    snprintf(finding->program, sizeof finding->program, "%s", program);
    return finding;
}

static void take(struct audit_run *run, const char *program, uint64_t waited_ns, enum audit_end end)
{
    struct audit_finding *finding = finding_of(run, program);
    struct audit_waits *waits = &finding->ends[end];
    finding->tries++;
    if (waits->count++ == 0 || waited_ns < waits->shortest_ns)
        waits->shortest_ns = waited_ns;
    if (waited_ns > waits->longest_ns)
        waits->longest_ns = waited_ns;
}

void audit_take_wait(struct audit_run *run, const char *program, uint64_t waited_ns, enum audit_end end)
{
    take(run, program, waited_ns, end);
}

static bool is_wait(unsigned int kind)
{
    return kind == FAILURE_CONNECT_TIMEOUT || kind == FAILURE_RESPONSE_TIMEOUT;
}

void audit_take_outcome(struct audit_run *run, const struct event *event)
{
    const uint64_t waited_ns = event->elapsed_ms * NS_PER_MS;
    enum audit_end end = AUDIT_END_TOLD;
    if (event->type != EVENT_OUTCOME || !event->injected)
        return;
    if (is_wait(event->kind))
        end = event->error == ETIMEDOUT ? AUDIT_END_BY_KERNEL : AUDIT_END_GAVE_UP;
    else if (event->verdict == VERDICT_NEUTRAL && event->reason == NEUTRAL_UNKNOWN)
        end = AUDIT_END_KILLED;
    else if (event->verdict == VERDICT_NEUTRAL && event->reason != NEUTRAL_LOCAL && event->kind == FAILURE_NONE)
        end = AUDIT_END_GAVE_UP;
    if (end == AUDIT_END_GAVE_UP && waited_ns < LEARNT_SHORTEST_NS)
        end = AUDIT_END_CANCELLED;
    take(run, event->program, waited_ns, end);
    if (end == AUDIT_END_TOLD && event->kind < FAILURE_KINDS)
        finding_of(run, event->program)->told[event->kind] = true;
}

/* --- judging ------------------------------------------------------------------------------------------------------ */

/* Of a fault that says something: what. FAILURE_NONE: it lets programs wait. */
static enum failure_kind told_by(const char *fault)
{
    if (strcmp(fault, "refuse") == 0)
        return FAILURE_REFUSED;
    if (strcmp(fault, "reset") == 0)
        return FAILURE_RESET;
    if (strcmp(fault, "early-close") == 0)
        return FAILURE_EARLY_CLOSE;
    return strncmp(fault, "http-", 5) == 0 ? FAILURE_HTTP : FAILURE_NONE;
}

/*
 * What still waited when the run was stopped says something only if it had waited longer than all that ended: some call
 * of a busy program is always under way.
 */
static bool cut_tells(const struct audit_finding *finding)
{
    const struct audit_waits *cut = &finding->ends[AUDIT_END_CUT];
    uint64_t longest_ns = 0, others = 0;
    for (unsigned int end = 0; end < AUDIT_END_CUT; end++) {
        others += finding->ends[end].count;
        if (finding->ends[end].longest_ns > longest_ns)
            longest_ns = finding->ends[end].longest_ns;
    }
    return cut->count > 0 && (others == 0 || cut->longest_ns > longest_ns + longest_ns / 20 + NS_PER_S);
}

enum audit_result audit_result_of(const struct audit *audit, const struct audit_run *run,
                                  const struct audit_finding *finding)
{
    if (run->left_out != NULL)
        return AUDIT_LEFT_OUT;
    if (!run->course.was_made && (finding == NULL || finding->ends[AUDIT_END_HANGS].count == 0))
        return AUDIT_NOT_MADE;
    if (finding == NULL)
        return run->met > 0 ? AUDIT_LOST : run->calls > 0 ? AUDIT_NOT_PLAYED : AUDIT_NOT_CALLED;
    const enum failure_kind kind = told_by(run->fault);
    if (kind != FAILURE_NONE && !finding->told[kind])
        return AUDIT_NOT_PLAYED;
    if (finding->ends[AUDIT_END_HANGS].count > 0)
        return AUDIT_NEVER;
    if ((!run->course.has_ended || run->course.left_some) && !audit->is_endless)
        return AUDIT_GOES_ON;
    if (cut_tells(finding))
        return AUDIT_WAITS;
    static const struct {
        enum audit_end end;
        enum audit_result result;
    } order[] = {
        {AUDIT_END_BY_KERNEL, AUDIT_BY_KERNEL},
        {AUDIT_END_GAVE_UP, AUDIT_GAVE_UP},
        {AUDIT_END_KILLED, AUDIT_KILLED},
        {AUDIT_END_TOLD, AUDIT_TOLD},
    };
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if (finding->ends[order[i].end].count > 0)
            return order[i].result;
    return AUDIT_GAVE_UP; /* cancelled */
}

bool audit_is_beyond(enum audit_result result)
{
    return result == AUDIT_NEVER || result == AUDIT_GOES_ON;
}

const char *audit_result_name(enum audit_result result)
{
    static const char *const names[AUDIT_RESULTS] = {
        [AUDIT_NEVER] = "never",
        [AUDIT_GOES_ON] = "goes-on",
        [AUDIT_WAITS] = "waits",
        [AUDIT_BY_KERNEL] = "by-kernel",
        [AUDIT_GAVE_UP] = "gave-up",
        [AUDIT_KILLED] = "killed",
        [AUDIT_TOLD] = "told",
        [AUDIT_LOST] = "lost",
        [AUDIT_NOT_PLAYED] = "not-played",
        [AUDIT_NOT_CALLED] = "not-called",
        [AUDIT_LEFT_OUT] = "left-out",
        [AUDIT_NOT_MADE] = "not-made",
    };
    return names[result];
}

/* A connection that is closed at once may have been one in reserve, and no try. */
static uint64_t tries_of(const struct audit_finding *finding)
{
    const uint64_t cancelled = finding->ends[AUDIT_END_CANCELLED].count;
    return finding->tries > cancelled ? finding->tries - cancelled : cancelled;
}

uint64_t audit_retries(const struct audit_run *run, const struct audit_finding *finding)
{
    /* Of several calls, and of one that has several addresses to try, it is open which of them were made again. */
    const bool is_one = run->destination->calls == 1 && run->destination->addresses <= 1 && run->finding_count == 1;
    return is_one && tries_of(finding) > 1 ? tries_of(finding) - 1 : 0;
}

/* --- saying ------------------------------------------------------------------------------------------------------- */

static void say_span(FILE *out, const char *before, const struct audit_waits *waits)
{
    char shortest[SPAN_TEXT_MAX], longest[SPAN_TEXT_MAX];
    wait_format(waits->longest_ns, longest);
    fputs(before, out);
    /* More than a twentieth apart. */
    if (waits->longest_ns - waits->shortest_ns > waits->shortest_ns / 20 + 10 * NS_PER_MS)
        fprintf(out, "%s to ", wait_format(waits->shortest_ns, shortest));
    fputs(longest, out);
}

static void say_told(FILE *out, const struct audit_run *run, const struct audit_finding *finding)
{
    static const char *const words[FAILURE_KINDS] = {
        [FAILURE_REFUSED] = "was refused",
        [FAILURE_RESET] = "was reset",
        [FAILURE_UNREACHABLE] = "was told that the way is closed",
        [FAILURE_EARLY_CLOSE] = "met the end",
    };
    bool any = false;
    for (unsigned int kind = 1; kind < FAILURE_KINDS; kind++) {
        if (!finding->told[kind] || is_wait(kind))
            continue;
        if (kind == FAILURE_HTTP)
            fprintf(out, "%sgot %s", any ? ", " : "", run->fault + (strncmp(run->fault, "http-", 5) == 0 ? 5 : 0));
        else
            fprintf(out, "%s%s", any ? ", " : "", words[kind]);
        any = true;
    }
    if (!any)
        fputs("went on", out);
}

/* All that was seen of how its calls ended. */
static void say_ends(FILE *out, const struct audit *audit, const struct audit_run *run,
                     const struct audit_finding *finding)
{
    static const struct {
        enum audit_end end;
        const char *words;
    } waits[] = {
        {AUDIT_END_CUT, "waited when it was stopped, for "},
        {AUDIT_END_GAVE_UP, "gave up after "},
        {AUDIT_END_BY_KERNEL, "the kernel gave up after "},
        {AUDIT_END_KILLED, "was killed while it waited, after "},
    };
    const struct audit_waits *ends = finding->ends;
    char limit[SPAN_TEXT_MAX];
    bool any = ends[AUDIT_END_HANGS].count > 0;
    if (any)
        fprintf(out, "never (%s)", span_format(audit->limit_ns, limit));
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        if (ends[waits[i].end].count == 0 || (waits[i].end == AUDIT_END_CUT && !cut_tells(finding)))
            continue;
        fputs(any ? "; " : "", out);
        say_span(out, waits[i].words, &ends[waits[i].end]);
        any = true;
    }
    if (ends[AUDIT_END_TOLD].count > 0) {
        fputs(any ? "; " : "", out);
        say_told(out, run, finding);
        any = true;
    }
    if (!any)
        say_span(out, "gave up after ", &ends[AUDIT_END_CANCELLED]);
}

static void say_tries(FILE *out, const struct audit_run *run, const struct audit_finding *finding)
{
    const uint64_t retries = audit_retries(run, finding);
    if (retries == 1)
        fputs(", retried once", out);
    else if (retries > 1)
        fprintf(out, ", retried %" PRIu64 " times", retries);
    else if (tries_of(finding) > 1)
        fprintf(out, ", %" PRIu64 " tries%s", tries_of(finding),
                run->lost > 0 && run->finding_count > 1 ? " or more" : "");
}

static void say_not_played(FILE *out, const struct audit_run *run, const struct audit_finding *finding)
{
    if (finding == NULL)
        fputs("was called, and could not be given the fault", out);
    else if (told_by(run->fault) == FAILURE_HTTP && finding->told[FAILURE_RESET])
        fputs("was reset instead: it speaks TLS or HTTP/2", out);
    else if (finding->ends[AUDIT_END_TOLD].count == 0)
        fputs("met silence instead: it sent nothing", out);
    else
        fputs("met another fault instead", out);
}

char *audit_text(const struct audit *audit, const struct audit_row *row)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_text(&text, &size);
    switch (row->result) {
    case AUDIT_LEFT_OUT:
        fprintf(out, "left out: %s", row->run->left_out);
        break;
    case AUDIT_NOT_MADE:
        fputs("interrupted before its end", out);
        break;
    case AUDIT_LOST:
        fputs("met the fault, and what came of it was not kept", out);
        break;
    case AUDIT_NOT_CALLED:
        fputs("not called in this run", out);
        break;
    case AUDIT_NOT_PLAYED:
        say_not_played(out, row->run, row->finding);
        break;
    default:
        say_ends(out, audit, row->run, row->finding);
        say_tries(out, row->run, row->finding);
        if (row->result == AUDIT_GOES_ON)
            fputs("; goes on", out);
    }
    close_text(out);
    return text;
}

/* --- the order ---------------------------------------------------------------------------------------------------- */

static uint64_t longest_wait(const struct audit_row *row)
{
    uint64_t longest_ns = 0;
    for (unsigned int end = 0; row->finding != NULL && end < AUDIT_ENDS; end++)
        if (row->finding->ends[end].longest_ns > longest_ns)
            longest_ns = row->finding->ends[end].longest_ns;
    return longest_ns;
}

static int by_result(const void *a, const void *b)
{
    const struct audit_row *left = a, *right = b;
    if (left->result != right->result)
        return left->result < right->result ? -1 : 1;
    const uint64_t left_ns = longest_wait(left), right_ns = longest_wait(right);
    /* A second more or less is chance where both waited until they were stopped. */
    if (left->result != AUDIT_NEVER && left_ns / NS_PER_S != right_ns / NS_PER_S)
        return left_ns > right_ns ? -1 : 1;
    if (left->run != right->run)
        return left->run < right->run ? -1 : 1;
    return left->finding < right->finding ? -1 : left->finding > right->finding;
}

struct audit_row *audit_rows(const struct audit *audit, size_t *count)
{
    struct audit_row *rows = NULL;
    *count = 0;
    for (size_t i = 0; i < audit->run_count; i++) {
        const struct audit_run *run = &audit->runs[i];
        for (size_t j = 0; j < run->finding_count || j == 0; j++) {
            const struct audit_finding *finding = run->finding_count > 0 ? &run->findings[j] : NULL;
            rows = grow(rows, *count, sizeof *rows);
            rows[(*count)++] = (struct audit_row){run, finding, audit_result_of(audit, run, finding)};
        }
    }
    if (*count > 1)
        qsort(rows, *count, sizeof *rows, by_result);
    return rows;
}
