/*
 * replayed_text.c - a replay for people: a table for each circuit, a column for each policy. See replayed.h.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "view/clock_text.h"
#include "view/duration.h"
#include "cli/replayed.h"
#include "view/table.h"

/* One row of the table. */
enum figure_row {
    FIGURE_OPENINGS,
    FIGURE_DETECT,
    FIGURE_LONGEST,
    FIGURE_LEAKED,
    FIGURE_PROBES,
    FIGURE_REOPENINGS,
    FIGURE_REFUSED,
    FIGURE_WRONGLY,
    FIGURE_FALSE,
    FIGURES
};
static const char *const labels[FIGURES] = {
    [FIGURE_OPENINGS] = "openings",   [FIGURE_DETECT] = "time to detect", [FIGURE_LONGEST] = "  the longest",
    [FIGURE_LEAKED] = "calls leaked", [FIGURE_PROBES] = "probes",         [FIGURE_REOPENINGS] = "  failed",
    [FIGURE_REFUSED] = "refused",     [FIGURE_WRONGLY] = "  wrongly",     [FIGURE_FALSE] = "false openings",
};

/* A figure as text; NULL: it is not known. */
static const char *figure_text(const struct sim_result *result, enum figure_row row, char text[SPAN_TEXT_MAX])
{
    const uint64_t dated = result->openings - result->undated_openings;
    uint64_t number = 0;
    switch (row) {
    case FIGURE_DETECT:
        return dated > 0 ? wait_format(result->detect_ns / dated, text) : NULL;
    case FIGURE_LONGEST:
        return dated > 0 ? wait_format(result->longest_detect_ns, text) : NULL;
    case FIGURE_FALSE:
        if (result->openings > 0 && result->untold_openings == result->openings)
            return NULL;
        number = result->false_openings;
        break;
    case FIGURE_OPENINGS:
        number = result->openings;
        break;
    case FIGURE_LEAKED:
        number = result->leaked;
        break;
    case FIGURE_PROBES:
        number = result->probes;
        break;
    case FIGURE_REOPENINGS:
        number = result->reopenings;
        break;
    case FIGURE_REFUSED:
        number = result->refused;
        break;
    case FIGURE_WRONGLY:
        number = result->refused_wrongly;
        break;
    default:
        break;
    }
    snprintf(text, SPAN_TEXT_MAX, "%" PRIu64, number);
    return text;
}

/* The same of what was done. */
static const char *recorded_text(const struct recorded_result *recorded, enum figure_row row, char text[SPAN_TEXT_MAX])
{
    if (row == FIGURE_WRONGLY || row == FIGURE_FALSE || (row == FIGURE_REFUSED && !recorded->knows_refused))
        return NULL;
    if (row != FIGURE_REFUSED || !recorded->refused_at_least)
        return figure_text(&recorded->result, row, text);
    snprintf(text, SPAN_TEXT_MAX, ">= %" PRIu64, recorded->result.refused);
    return text;
}

/* The last part of a file's path, unless another column has the same. */
static const char *title_of(const struct replayed *replayed, size_t column)
{
    const char *name = replayed->columns[column].name, *slash = strrchr(name, '/');
    const char *base = slash != NULL && slash[1] != '\0' ? slash + 1 : name;
    for (size_t i = 0; i < replayed->column_count; i++) {
        const char *other = strrchr(replayed->columns[i].name, '/');
        if (i != column && strcmp(base, other != NULL ? other + 1 : replayed->columns[i].name) == 0)
            return name;
    }
    return base;
}

/* `results`: of each column; NULL: its policy can't be used. */
static void print_table(const struct replayed *replayed, const struct recorded_result *recorded,
                        const struct sim_result *const *results)
{
    struct column *columns = allocate(replayed->column_count + 2, sizeof *columns);
    struct table table;
    columns[0] = (struct column){"", false};
    columns[1] = (struct column){"RECORDED", true};
    for (size_t i = 0; i < replayed->column_count; i++)
        columns[i + 2] = (struct column){title_of(replayed, i), true};
    table_start(&table, columns, replayed->column_count + 2);
    for (unsigned int row = 0; row < FIGURES; row++) {
        char text[SPAN_TEXT_MAX];
        const char *figure = recorded_text(recorded, (enum figure_row)row, text);
        table_add(&table, PLAIN, labels[row]);
        table_add(&table, figure == NULL ? DIM : PLAIN, figure == NULL ? "-" : figure);
        for (size_t i = 0; i < replayed->column_count; i++) {
            figure = results[i] != NULL ? figure_text(results[i], (enum figure_row)row, text) : NULL;
            table_add(&table, figure == NULL ? DIM : PLAIN, figure == NULL ? "-" : figure);
        }
    }
    table_print_fitting(&table, stdout, 2, 1);
    free(columns);
}

static void print_lane(const struct replayed *replayed, size_t lane)
{
    const struct lane *at = &replayed->recording->lanes[lane];
    const struct recorded_result *recorded = &replayed->recorded[lane];
    const struct sim_result **results = allocate(replayed->column_count, sizeof *results);
    const bool coloured = colour_wanted(stdout);
    for (size_t i = 0; i < replayed->column_count; i++)
        if (replayed_knows(&replayed->columns[i], lane))
            results[i] = &replayed->columns[i].simulation.results[lane];
    printf("\n%s", colour_start(BOLD, coloured));
    print_safely(at->destination, stdout);
    printf("%s  [%s]  %" PRIu64 " call%s, %" PRIu64 " failed%s\n", colour_start(PLAIN, coloured), shown(at->target),
           recorded->result.calls, recorded->result.calls == 1 ? "" : "s", recorded->result.failed,
           at->has_failures_alone ? " (failures alone were recorded)" : "");
    print_table(replayed, recorded, results);
    free(results);
}

static void print_total(const struct replayed *replayed)
{
    struct recorded_result recorded = {.knows_refused = false};
    struct sim_result *sums = allocate(replayed->column_count, sizeof *sums);
    const struct sim_result **results = allocate(replayed->column_count, sizeof *results);
    const bool coloured = colour_wanted(stdout);
    for (size_t lane = 0; lane < replayed->recording->lane_count; lane++) {
        recorded_result_add(&recorded, &replayed->recorded[lane]);
        for (size_t i = 0; i < replayed->column_count; i++)
            if (replayed_knows(&replayed->columns[i], lane))
                sim_result_add(&sums[i], &replayed->columns[i].simulation.results[lane]);
    }
    for (size_t i = 0; i < replayed->column_count; i++)
        results[i] = &sums[i];
    printf("\n%sAll together%s  %" PRIu64 " calls, %" PRIu64 " failed\n", colour_start(BOLD, coloured),
           colour_start(PLAIN, coloured), recorded.result.calls, recorded.result.failed);
    print_table(replayed, &recorded, results);
    free(results);
    free(sums);
}

void replayed_print(const struct replayed *replayed)
{
    const struct recording *recording = replayed->recording;
    struct replay_notes notes;
    char from[CLOCK_TEXT_MAX], to[CLOCK_TEXT_MAX], span[SPAN_TEXT_MAX];
    if (recording->lane_count == 0) {
        printf("No outcome of any call is recorded there.\n");
        return;
    }
    printf("%s to %s (%s), %zu circuit%s\n", clock_text(recording->from_ns, 0, from),
           clock_text(recording->to_ns, recording->from_ns, to),
           span_format(recording->to_ns - recording->from_ns, span), recording->lane_count,
           recording->lane_count == 1 ? "" : "s");
    for (size_t i = 0; i < recording->lane_count; i++)
        print_lane(replayed, i);
    if (recording->lane_count > 1)
        print_total(replayed);
    replay_notes_find(&notes, replayed);
    for (size_t i = 0; i < notes.count; i++) {
        printf("%s  ", i == 0 ? "\nWhat this can't tell, and what it left out:\n" : "");
        print_safely(notes.at[i], stdout);
        fputc('\n', stdout);
    }
    replay_notes_free(&notes);
}
