/*
 * metrics_collect.h - what the circuits of a selection have counted, each once.
 */
#ifndef SOCKFUSE_VIEW_METRICS_COLLECT_H
#define SOCKFUSE_VIEW_METRICS_COLLECT_H

#include "view/metrics_model.h"
#include "view/select.h"

/*
 * Adds one segment, or the policy of -p that is not in use, to metrics that began as zeros. False: neither can be read,
 * which was said. `now_ns` is the circuits' clock. After the last one: metrics_merge.
 */
bool metrics_add(struct metrics *metrics, const struct selected *selected, uint64_t now_ns);

#endif
