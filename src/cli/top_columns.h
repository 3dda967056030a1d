/*
 * top_columns.h - the table of circuits of `sockfuse top`: which columns a page has room for, where they stand, and what
 * stands in them. Pure.
 *
 * Where a column stands goes by the page's width alone, so that nothing moves but the figures.
 */
#ifndef SOCKFUSE_CLI_TOP_COLUMNS_H
#define SOCKFUSE_CLI_TOP_COLUMNS_H

#include "cli/canvas.h"
#include "cli/top_model.h"

enum top_column {
    COLUMN_DESTINATION,
    COLUMN_STATE,
    COLUMN_PAUSE,
    COLUMN_WAITING,
    COLUMN_OLDEST,
    COLUMN_FAILURES,
    COLUMN_RATE,
    COLUMN_P95,
    COLUMN_FAILED,
    COLUMN_REFUSED,
    COLUMN_LAST_FAILURE,
    COLUMN_TARGET,
    COLUMN_POLICY,
    COLUMN_OUTCOMES,
    TOP_COLUMNS
};

struct top_columns {
    int at[TOP_COLUMNS], width[TOP_COLUMNS]; /* width 0: there is no room for it */
};

void top_columns_lay(struct top_columns *columns, int page_width);
/* The titles; the one by which the rows are sorted stands out. */
void top_columns_put_titles(const struct top_columns *columns, struct canvas *canvas, int line, enum top_sort sort);
void top_columns_put(const struct top_columns *columns, struct canvas *canvas, int line, const struct top_row *row,
                     const struct top_sight *sight, bool is_chosen);

/* The colour of a circuit's state, and of its waits. */
unsigned int top_state_style(const struct row *row);
unsigned int top_wait_style(const struct row *row);

#endif
