/*
 * metrics_collect.h - what the circuits of a selection have counted, each once.
 */
#ifndef SOCKFUSE_CLI_METRICS_COLLECT_H
#define SOCKFUSE_CLI_METRICS_COLLECT_H

#include "cli/metrics_model.h"
#include "cli/select.h"

/*
 * Adds one segment, or the policy of -p that is not in use, to metrics that began as zeros. False: neither can be read,
 * which was said. `now_ns` is the circuits' clock. Free them with metrics_free.
 */
bool metrics_add(struct metrics *metrics, const struct selected *selected, uint64_t now_ns);
/* After the last one: what has the same labels is added up, and all stands in the order of the labels. */
void metrics_merge(struct metrics *metrics);
void metrics_free(struct metrics *metrics);

/* The bounds of metered_waits, ascending: each stands where a bucket of histogram.h begins. */
uint64_t metrics_bound_ns(unsigned int bound);

#endif
