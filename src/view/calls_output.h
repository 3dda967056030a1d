/*
 * calls_output.h - calls in flight as a table for people, as lines, and as JSON.
 *
 * For `sockfuse calls`. The members of the JSON are a contract with other programs: add, never change.
 */
#ifndef SOCKFUSE_VIEW_CALLS_OUTPUT_H
#define SOCKFUSE_VIEW_CALLS_OUTPUT_H

#include <stdio.h>

#include "view/inflight.h"
#include "view/json.h"

/* All of the list, in its order; "No calls in flight." of an empty one. */
void calls_print_table(const struct inflight *inflight, FILE *out, unsigned int indent);
/* One call on a line of its own, with the time. */
void calls_print_line(const struct inflight_call *call, uint64_t wall_ns, FILE *out);
/* "6 calls in flight, 4 overdue, the oldest 9.8s". */
void calls_print_sum(const struct inflight *inflight, FILE *out);
/* A user's name, or number; stands until the next call. */
const char *calls_user(uint32_t uid);
void calls_json(struct json *json, const struct inflight_call *call, uint64_t wall_ns);

#endif
