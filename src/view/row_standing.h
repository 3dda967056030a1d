/*
 * row_standing.h - how bad things stand with a circuit, for all commands that show circuits to people.
 */
#ifndef SOCKFUSE_VIEW_ROW_STANDING_H
#define SOCKFUSE_VIEW_ROW_STANDING_H

#include "base/units.h"
#include "view/rows.h"

/* Without a limit nothing is overdue: from here on a wait is told by its colour all the same. */
#define LONG_WAIT_NS NS_PER_S

/* The smaller, the worse: open, half-open, calls overdue, long waits, all else. What is over is not bad any more. */
unsigned int row_rank(const struct row *row);
/* Whether the circuits of a row are in the processes' own memory, where nobody else can look. */
bool row_is_hidden(const struct row *row);

#endif
