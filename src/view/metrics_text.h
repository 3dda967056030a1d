/*
 * metrics_text.h - metrics as text for Prometheus and whatever else reads its formats.
 *
 * OpenMetrics 1.0, or the text format of Prometheus (0.0.4). The samples are the same; the latter names a counter's
 * type and help by the sample's name, and knows neither units nor an end. No type is used that only one of them has.
 */
#ifndef SOCKFUSE_VIEW_METRICS_TEXT_H
#define SOCKFUSE_VIEW_METRICS_TEXT_H

#include <stdbool.h>
#include <stdio.h>

#include "view/metrics_model.h"

enum metrics_format { METRICS_OPENMETRICS, METRICS_PROMETHEUS };

/* Write errors stay in the stream. */
void metrics_write(const struct metrics *metrics, enum metrics_format format, FILE *out);

#endif
