/*
 * row_standing.c - how bad things stand with a circuit. See row_standing.h.
 */
#include "view/row_standing.h"

unsigned int row_rank(const struct row *row)
{
    if (row->ended != ENDED_NOT || row->destination[0] == '\0')
        return 4;
    if (row_state(row) != CIRCUIT_CLOSED)
        return row_state(row) == CIRCUIT_OPEN ? 0 : 1;
    return row->waiting.overdue > 0 ? 2 : row->waiting.oldest_ns >= LONG_WAIT_NS ? 3 : 4;
}

bool row_is_hidden(const struct row *row)
{
    return !row->called && row->target != NULL && row->target->scope == SCOPE_PROCESS;
}
