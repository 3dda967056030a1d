/*
 * recording_order.h - puts a recording that was read in order: each call once, what can be inferred beside it; and what
 * it says of itself.
 */
#ifndef SOCKFUSE_CLI_RECORDING_ORDER_H
#define SOCKFUSE_CLI_RECORDING_ORDER_H

#include "cli/recording_model.h"

/* For recording.c. */
void recording_order(struct recording *recording);

/* What the recording itself says of a lane, as far as it does. */
struct recorded_result {
    struct sim_result result; /* without refused_wrongly, false_openings */
    bool knows_refused;
    bool refused_at_least; /* there may have been more: no transition behind them tells */
};
void recorded_result_add(struct recorded_result *sum, const struct recorded_result *result);
void recording_result(const struct recording *recording, size_t lane, struct recorded_result *result);

#endif
