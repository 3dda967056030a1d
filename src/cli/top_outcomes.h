/*
 * top_outcomes.h - how the calls of each circuit ended lately, tick by tick, and the sparkline that shows it.
 *
 * Pure. A tick is the time between two looks of `sockfuse top`. What happened before the first look is not known, and
 * nothing is made up for it.
 */
#ifndef SOCKFUSE_CLI_TOP_OUTCOMES_H
#define SOCKFUSE_CLI_TOP_OUTCOMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/canvas.h"

#define OUTCOME_TICKS 160u

enum outcome_kind { OUTCOME_SUCCEEDED, OUTCOME_FAILED, OUTCOME_REFUSED, OUTCOME_KINDS };

/* What a circuit counted since it was made. */
struct outcome_sums {
    uint64_t key; /* the circuit's */
    uint64_t counts[OUTCOME_KINDS];
};

struct outcomes {
    struct outcome_sums last;
    uint32_t next, known; /* of the ring: the next place, and how many were written */
    uint32_t ticks[OUTCOME_TICKS][OUTCOME_KINDS];
};

struct outcomes_set {
    struct outcomes *at; /* by key */
    size_t count;
};

/*
 * A tick: what each circuit counted up to now. Those that are not among the sums are forgotten. A circuit that is new
 * has counted all of it in this tick if `new_is_whole`; else before it was seen.
 */
void outcomes_take(struct outcomes_set *set, const struct outcome_sums *sums, size_t count, bool new_is_whole);
void outcomes_free(struct outcomes_set *set);
/* NULL: unknown. */
const struct outcomes *outcomes_of(const struct outcomes_set *set, uint64_t key);

/*
 * A sign for each tick, the newest at the right: as high as the calls that ended in it are many, beside the most of
 * what is shown. Failures are red, refusals yellow; without colours they are 'x' and '-'.
 */
void outcomes_draw(const struct outcomes *outcomes, struct canvas *canvas, int row, int column, int room);

#endif
