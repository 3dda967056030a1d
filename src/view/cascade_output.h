/*
 * cascade_output.h - a cascade as text for people, for Graphviz and as JSON.
 *
 * The members of the JSON are a contract with other programs: add, never change.
 */
#ifndef SOCKFUSE_VIEW_CASCADE_OUTPUT_H
#define SOCKFUSE_VIEW_CASCADE_OUTPUT_H

#include <stdio.h>

#include "view/cascade.h"
#include "view/inversions.h"
#include "view/json.h"

/* Who waits, below it for whom, and so on; the last line names the root. */
void cascade_print(const struct cascade *cascade, FILE *out);
void cascade_dot(const struct cascade *cascade, FILE *out);
/* `inversions`: along its chains; NULL: not looked for. */
void cascade_json(struct json *json, const struct cascade *cascade, const struct inversions *inversions);

/* "connected and silent", "no connection", or both with their numbers; to be freed. */
char *cascade_silence(const struct cascade_sum *sum);
/* "nginx (2 of 4 workers wait)"; not made safe for a terminal; to be freed. */
char *cascade_group_label(const struct cascade_group *group);
/* "127.0.0.1:6379 (redis)": with the target's or the program's name, if there is another one. As above. */
char *cascade_place_label(const struct cascade *cascade, size_t place);

#endif
