/*
 * replayed_notes.c - what a recording can't tell, and what follows from that. See replayed.h.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/replayed.h"

__attribute__((format(printf, 2, 3))) static void add(struct replay_notes *notes, const char *format, ...)
{
    va_list arguments;
    notes->at = grow(notes->at, notes->count, sizeof *notes->at);
    va_start(arguments, format);
    notes->at[notes->count++] = format_text_list(format, arguments);
    va_end(arguments);
}

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

/* Of lanes that have something in common. */
struct sums {
    uint64_t refused, alone, mute, inferred, forced, rebooted;
    bool refused_at_least;
};

static struct sums add_up(const struct replayed *replayed)
{
    const struct recording *recording = replayed->recording;
    struct sums sums = {0};
    for (size_t i = 0; i < recording->lane_count; i++) {
        const struct lane *lane = &recording->lanes[i];
        sums.refused += replayed->recorded[i].result.refused;
        sums.refused_at_least = sums.refused_at_least || replayed->recorded[i].refused_at_least;
        sums.alone += lane->has_failures_alone;
        sums.mute += lane->calls == 0;
        sums.inferred += lane->inferred;
        sums.forced += lane->forced;
        sums.rebooted += lane->is_rebooted;
    }
    return sums;
}

static void add_untaken(struct replay_notes *notes, const struct replay_column *column,
                        const struct recording *recording)
{
    size_t count = 0, unknown = 0, limited = 0;
    for (size_t i = 0; i < recording->lane_count; i++) {
        unknown += !replayed_knows(column, i);
        count += replayed_knows(column, i) && column->rules[i].target == NULL;
        limited += column->rules[i].target != NULL && column->rules[i].target->max_connections != 0;
    }
    if (unknown > 0)
        add(notes, "of %zu of the %zu circuits the policy can't be used: what it would have done is not told", unknown,
            recording->lane_count);
    if (count > 0)
        add(notes, "%s has no target for %zu of the %zu circuits: their calls all go", column->name, count,
            recording->lane_count);
    if (limited > 0)
        add(notes,
            "%s has max_connections for %zu of the %zu circuits: it is not replayed, for connections are not recorded",
            column->name, limited, recording->lane_count);
}

void replay_notes_find(struct replay_notes *notes, const struct replayed *replayed)
{
    const struct recording *recording = replayed->recording;
    const struct sums sums = add_up(replayed);
    *notes = (struct replay_notes){0};
    if (sums.refused > 0)
        add(notes,
            "%s%" PRIu64 " call%s refused when this was recorded: what they would have met is not known, so a policy "
            "that opens later looks better here than it is",
            sums.refused_at_least ? "at least " : "", sums.refused, sums.refused > 1 ? "s were" : " was");
    if (sums.alone > 0)
        add(notes,
            "of %" PRIu64
            " circuit%s no outcome but failures was recorded (record = all records every one): no rate is judged, "
            "failures in a row may not have been, and no opening is known to be false; %" PRIu64
            " success%s inferred from what the circuits did",
            sums.alone, plural(sums.alone), sums.inferred, sums.inferred == 1 ? " was" : "es were");
    if (sums.mute > 0)
        add(notes, "of %" PRIu64 " circuit%s no outcome of any call is recorded, so nothing could be replayed",
            sums.mute, plural(sums.mute));
    if (sums.forced > 0)
        add(notes,
            "an operator forced circuits (%" PRIu64
            " time%s): that is not replayed, but what each policy would have done "
            "by itself",
            sums.forced, plural(sums.forced));
    if (recording->reloads > 0)
        add(notes, "the policy was edited meanwhile (%" PRIu64 " time%s)", recording->reloads,
            plural(recording->reloads));
    if (sums.rebooted > 0)
        add(notes, "the machine's clock began anew meanwhile: the pause in between is the wall clock's");
    for (size_t i = 0; i < replayed->column_count; i++)
        add_untaken(notes, &replayed->columns[i], recording);
    if (recording->unknown > 0)
        add(notes, "%" PRIu64 " event%s of a newer sockfuse %s left out", recording->unknown,
            plural(recording->unknown), recording->unknown == 1 ? "is" : "are");
    if (recording->is_torn)
        add(notes, "the last line was cut, and is left out");
}

void replay_notes_free(struct replay_notes *notes)
{
    for (size_t i = 0; i < notes->count; i++)
        free(notes->at[i]);
    free(notes->at);
}
