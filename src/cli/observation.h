/*
 * observation.h - what was seen of some programs' calls, destination by destination: the table that `observe` writes.
 *
 * Names come from outside: all is printed safely.
 */
#ifndef SOCKFUSE_CLI_OBSERVATION_H
#define SOCKFUSE_CLI_OBSERVATION_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "view/rows.h"

/* Leaves out what was never called, and puts first whom programs have waited for longest. */
void observation_sort(struct rows *rows);

/* The table, and below it failures, timeouts, and what a circuit would have done. `rows` as sorted. */
void observation_print(const struct rows *rows, FILE *out);

/*
 * What a circuit that refuses nothing would have refused, by what came of it; the rest (neutral, unfinished) tells
 * nothing.
 */
struct would_be {
    uint64_t opened, refused;
    uint64_t spared, spared_ns; /* calls that failed, and how long they had waited */
    uint64_t wronged;           /* that succeeded, or were answered with a no */
};
struct would_be observation_would_be(const struct row *row);

#endif
