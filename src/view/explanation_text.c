/*
 * explanation_text.c - an explanation for people. See explanation.h.
 *
 * Sentences are wrapped at 80 columns; times are of the reader's zone. What comes from a policy or a segment is printed
 * safely.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/errno_name.h"
#include "view/output.h"
#include "view/clock_text.h"
#include "view/duration.h"
#include "view/explanation.h"
#include "view/inflight.h"
#include "view/table.h"

#define LABEL_WIDTH 12
#define PAGE_WIDTH 80u
#define EVIDENCE_INDENT 4u

/* --- lines -------------------------------------------------------------------------------------------------------- */

/* A label, and a sentence behind it; both are freed but for the label. */
static void print_sentence(const char *label, char *sentence)
{
    char *safe = printable(sentence), *rest = safe;
    const size_t indent = 2 + LABEL_WIDTH;
    size_t column = indent;
    printf("  %-*s", LABEL_WIDTH, label);
    for (const char *word = strtok_r(rest, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        const size_t length = strlen(word);
        if (column > indent && column + 1 + length > PAGE_WIDTH) {
            printf("\n%*s", (int)indent, "");
            column = indent;
        } else if (column > indent) {
            fputc(' ', stdout);
            column++;
        }
        fputs(word, stdout);
        column += length;
    }
    fputc('\n', stdout);
    free(safe);
    free(sentence);
}

/* --- evidence ----------------------------------------------------------------------------------------------------- */

static const struct column evidence_columns[] = {
    {"TIME", false},  {"PID", true},   {"PROGRAM", false}, {"PHASE", false}, {"OUTCOME", false},
    {"ERRNO", false}, {"AFTER", true}, {"ADDRESS", false}, {"", false},
};
#define EVIDENCE_COLUMNS (sizeof evidence_columns / sizeof *evidence_columns)

static const char *note_of(const struct evidence *piece)
{
    const bool injected = (piece->marks & EVIDENCE_INJECTED) != 0;
    switch (piece->overran) {
    case OVERRAN_HANGS:
        return injected ? "overdue, rehearsal" : "overdue";
    case OVERRAN_CAME:
        return injected ? "came late, rehearsal" : "came late";
    default:
        return injected ? "rehearsal" : "";
    }
}

static void add_row(struct table *table, const struct explanation *explanation, const struct evidence *piece)
{
    char time[CLOCK_TEXT_MAX], span[SPAN_TEXT_MAX], label[FAILURE_LABEL_MAX], address[DESTINATION_MAX];
    const bool is_slow = (piece->marks & EVIDENCE_SLOW) != 0;
    /* As of when it counted: of a call that was found overdue, its limit. */
    table_add(table, PLAIN,
              clock_text(wall_of(piece->counted_ns, piece->mono_ns, piece->time_ns), explanation->wall_ns, time));
    if (piece->pid != 0)
        table_addf(table, PLAIN, "%" PRIu32, piece->pid);
    else
        table_add(table, PLAIN, "?");
    table_add(table, PLAIN, piece->program);
    table_add(table, PLAIN, inflight_phase((enum phase)piece->phase));
    table_add(table, is_slow ? YELLOW : RED, is_slow ? "slow" : failure_label(piece->kind, piece->http_status, label));
    table_add(table, PLAIN, errno_name(piece->error));
    table_add(table, PLAIN, wait_format(piece->elapsed_ns, span));
    /* That of a destination that is an address says nothing new. */
    const bool is_known =
        evidence_address(&explanation->selected->segment, explanation->circuit, piece->address, address) &&
        strcmp(address, explanation->row->destination) != 0;
    table_add(table, PLAIN, is_known ? address : "");
    table_add(table, PLAIN, note_of(piece));
}

static void print_pieces(const struct explanation *explanation, const struct pieces *pieces)
{
    struct table table;
    if (pieces->count == 0)
        return;
    table_start(&table, evidence_columns, EVIDENCE_COLUMNS);
    for (unsigned int i = 0; i < pieces->count; i++)
        add_row(&table, explanation, pieces->at[i]);
    table_print(&table, stdout, EVIDENCE_INDENT);
}

/* --- the parts ---------------------------------------------------------------------------------------------------- */

static void print_state(const struct explanation *explanation)
{
    const struct row *row = explanation->row;
    const uint64_t since_ns = row->view.since_ns;
    char span[SPAN_TEXT_MAX], time[CLOCK_TEXT_MAX];
    char *since = since_ns == 0 ? copy_text("")
                                : format_text(", since %s (%s ago)",
                                              clock_text(wall_of(since_ns, explanation->now_ns, explanation->wall_ns),
                                                         explanation->wall_ns, time),
                                              span_format(span_since(since_ns, explanation->now_ns), span));
    const bool is_overridden = row_state(row) != row->view.state || row->forced != FORCED_NONE;
    print_sentence("State", is_overridden
                                ? format_text("%s (%s); its own state: %s%s", circuit_state_name(row_state(row)),
                                              row->forced != FORCED_NONE ? "forced"
                                              : row->hold == HOLD_FLEET  ? "in the fleet"
                                                                         : "by mode",
                                              circuit_state_name(row->view.state), since)
                                : format_text("%s%s%s", circuit_state_name(row->view.state),
                                              row->ended != ENDED_NOT ? " (ended)" : "", since));
    free(since);
}

static void print_opening(const struct explanation *explanation)
{
    const struct opening *opening = &explanation->evidence.opening;
    char time[CLOCK_TEXT_MAX];
    if (!explanation->evidence.has_opening) {
        if (explanation->row->counts[COUNT_OPENED] > 0)
            print_sentence("Opened", copy_text("what opened it can't be read any more"));
        else if (explanation->row->called)
            print_sentence("Opened", copy_text("never"));
        else
            print_sentence("Opened", copy_text("never: nobody has called it"));
        return;
    }
    print_sentence("Opened", format_text("%s%s: %s%s",
                                         clock_text(wall_of(opening->counted_ns, opening->mono_ns, opening->time_ns),
                                                    explanation->wall_ns, time),
                                         explanation->is_outage ? "" : ", the last time", explanation->rule,
                                         opening->injected ? ", by a rehearsal" : ""));
    print_pieces(explanation, &explanation->led);
    if (explanation->led_missing > 0)
        printf("%*sand %" PRIu32 " %s, of which there is no evidence any more\n", (int)EVIDENCE_INDENT, "",
               explanation->led_missing, explanation->led.count > 0 ? "before or between" : "in all");
    if (explanation->late_failures > 0)
        printf("%*sand %u more when it had opened already, of calls that were under way\n", (int)EVIDENCE_INDENT, "",
               explanation->late_failures);
}

static void print_other(const struct explanation *explanation, const struct other_threshold *other, const char *label)
{
    const struct opening *opening = &explanation->evidence.opening;
    char span[SPAN_TEXT_MAX], time[CLOCK_TEXT_MAX];
    if (!other->is_asked)
        return;
    if (!other->is_known) {
        print_sentence(label, format_text("failure_threshold = %" PRIu32 ": can't be said, for evidence is missing",
                                          other->threshold));
        return;
    }
    if (!other->opens) {
        char *refused = explanation->has_refusal
                            ? format_text(" (%s[%" PRIu32 "] at %s, which was refused)", explanation->refusal.program,
                                          explanation->refusal.pid,
                                          clock_text(explanation->refusal.time_ns, explanation->wall_ns, time))
                            : copy_text("");
        print_sentence(label, format_text("failure_threshold = %" PRIu32 ": not yet open then; the next call%s would "
                                          "have gone, and decided",
                                          other->threshold, refused));
        free(refused);
        return;
    }
    const char *at = clock_text(wall_of(other->at_ns, opening->mono_ns, opening->time_ns), explanation->wall_ns, time);
    const bool is_earlier = other->at_ns < opening->counted_ns;
    const uint64_t apart_ns = is_earlier ? opening->counted_ns - other->at_ns : other->at_ns - opening->counted_ns;
    if (other == &explanation->higher && other->at_ns <= opening->counted_ns)
        print_sentence(label, format_text("failure_threshold = %" PRIu32 ": opened at the same time, by a call of pid "
                                          "%" PRIu32 " that was under way",
                                          other->threshold, other->pid));
    else if (is_earlier)
        print_sentence(label, format_text("failure_threshold = %" PRIu32 ": opened %s earlier, at %s", other->threshold,
                                          wait_format(apart_ns, span), at));
    else
        print_sentence(label, format_text("failure_threshold = %" PRIu32
                                          ": opened %s later, at %s, by a call of pid %" PRIu32 " that was under way",
                                          other->threshold, wait_format(apart_ns, span), at, other->pid));
}

static void print_rates(const struct explanation *explanation)
{
    const struct opening *opening = &explanation->evidence.opening;
    const bool is_slow = opening->reason == REASON_SLOW_CALL_RATE;
    if (!explanation->evidence.has_opening || (opening->reason != REASON_FAILURE_RATE && !is_slow))
        return;
    const uint32_t part = is_slow ? opening->window_slow : opening->window_failed;
    const uint64_t rate = rate_permille(part, opening->window_calls),
                   less = rate_permille(part - (part > 0), opening->window_calls - (opening->window_calls > 0));
    const uint32_t wanted = is_slow ? opening->slow_call_rate_permille : opening->failure_rate_permille;
    print_sentence(
        "Otherwise",
        format_text("up to %s = %" PRIu64 ".%" PRIu64 "%% it had opened then. One such call less in the window: "
                    "%" PRIu64 ".%" PRIu64 "%%, %s. How the window stood before is not kept, so what a lower "
                    "rate had done can't be said",
                    is_slow ? "slow_call_rate" : "failure_rate", rate / 10, rate % 10, less / 10, less % 10,
                    less >= wanted && opening->window_calls > opening->minimum_calls ? "which opens it too"
                                                                                     : "which does not"));
}

static void print_probes(const struct explanation *explanation)
{
    const unsigned int failed =
        explanation->probes_failed > explanation->probes.count ? explanation->probes_failed : explanation->probes.count;
    const struct event *last = &explanation->row->last_transition;
    char time[CLOCK_TEXT_MAX];
    if (!explanation->is_outage || !explanation->row->has_transition)
        return;
    if (failed > 0)
        print_sentence(
            "Probes",
            format_text("%u failed since then%s", failed,
                        failed > explanation->probes.count && explanation->probes.count > 0 ? "; the last ones:" : ""));
    print_pieces(explanation, &explanation->probes);
    if (last->type == EVENT_OPEN && last->reason == REASON_PROBE_TIMEOUT)
        print_sentence("",
                       format_text("the last one had no answer in time: %s[%" PRIu32 "] found that at %s",
                                   last->program, last->pid, clock_text(last->time_ns, explanation->wall_ns, time)));
}

static void print_closing(const struct explanation *explanation)
{
    const struct row *row = explanation->row;
    const struct event *last = &row->last_transition;
    char time[CLOCK_TEXT_MAX];
    if (!row->has_transition || last->type != EVENT_CLOSE)
        return;
    print_sentence("Closed", format_text("%s: %s%s[%" PRIu32 "]", clock_text(last->time_ns, explanation->wall_ns, time),
                                         last->reason == REASON_PROBE_SUCCEEDED ? "a probe succeeded, of "
                                                                                : "by an operator's word, ",
                                         last->program, last->pid));
}

/* When the last answer came is known to the second; to be freed. */
static char *answer_text(const struct explanation *explanation)
{
    const uint32_t seconds = explanation->answer_seconds;
    char span[SPAN_TEXT_MAX];
    if (!explanation->has_answer)
        return copy_text("; never seen to answer");
    if (seconds == 0)
        return copy_text("; last answered less than 1s ago");
    if (seconds < 60)
        return format_text("; last answered %" PRIu32 "s ago", seconds);
    return format_text("; last answered %s ago", span_format(seconds * NS_PER_S, span));
}

static void print_now(const struct explanation *explanation)
{
    const struct row *row = explanation->row;
    if (row->view.state != CIRCUIT_CLOSED || !row->called)
        return;
    char *answer = answer_text(explanation);
    char *limit = row->target != NULL && row->target->breaker.failure_threshold != 0
                      ? format_text(" of %" PRIu32, row->target->breaker.failure_threshold)
                      : copy_text("");
    print_sentence("Failures", format_text("%" PRIu32 "%s in a row now; %" PRIu64 " of %" PRIu64 " calls in all%s",
                                           row->view.failures, limit, row->counts[COUNT_FAILED],
                                           row->counts[COUNT_ADMITTED], answer));
    free(answer);
    free(limit);
    print_pieces(explanation, &explanation->recent);
}

void explanation_print(const struct explanation *explanation)
{
    const struct row *row = explanation->row;
    const bool coloured = colour_wanted(stdout);
    fputs(colour_start(BOLD, coloured), stdout);
    print_safely(row->destination[0] != '\0' ? row->destination : row->target_name, stdout);
    fputs(colour_start(PLAIN, coloured), stdout);
    printf("  [%s]  ", shown(row->target_name));
    print_safely(explanation->selected->identity, stdout);
    printf("%s\n", explanation->selected->whose);
    print_state(explanation);
    print_now(explanation);
    print_opening(explanation);
    print_other(explanation, &explanation->lower, "One less");
    print_other(explanation, &explanation->higher, "One more");
    print_rates(explanation);
    print_probes(explanation);
    print_closing(explanation);
    if (explanation->evidence.unreadable > 0)
        print_sentence("",
                       format_text("%u piece%s of evidence can't be read: who wrote %s was killed meanwhile",
                                   explanation->evidence.unreadable, explanation->evidence.unreadable == 1 ? "" : "s",
                                   explanation->evidence.unreadable == 1 ? "it" : "them"));
    print_sentence("Next", copy_text(explanation->next));
    for (size_t i = 0; i < explanation->obstacle_count; i++)
        print_sentence(i == 0 ? "In the way" : "", copy_text(explanation->obstacles[i].text));
}
