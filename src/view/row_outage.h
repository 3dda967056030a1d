/*
 * row_outage.h - the outage that lasts, or the last one that is known, as a row of `status` tells it.
 */
#ifndef SOCKFUSE_VIEW_ROW_OUTAGE_H
#define SOCKFUSE_VIEW_ROW_OUTAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "view/json.h"
#include "segment/event.h"
#include "segment/segment_model.h"

struct row_outage {
    bool is_known;
    bool lasts;
    struct event event; /* its end's; of one that lasts, as that would be now */
};

void row_outage_read(struct row_outage *outage, const struct segment *segment, uint32_t circuit, uint64_t now_ns);
/* "2 refused, 1 probe (1 failed); cause: failure-threshold, 3 failures (refused)"; to be freed, and safe to print. */
char *row_outage_text(const struct row_outage *outage);
/* As a member `outage`: of the one that lasts, or null. */
void row_outage_json(struct json *json, const struct row_outage *outage);

#endif
