/*
 * row_faults.h - faults on this side, as a row of `status` tells them: which, how many, in whose process, and when.
 */
#ifndef SOCKFUSE_VIEW_ROW_FAULTS_H
#define SOCKFUSE_VIEW_ROW_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

#include "view/json.h"
#include "segment/local_faults.h"
#include "segment/segment_model.h"

struct row_faults {
    struct local_fault_view at[LOCAL_FAULTS]; /* the latest first */
    unsigned int count;
};

void row_faults_read(struct row_faults *faults, const struct segment *segment, uint32_t circuit);
/* Whether there was one in the last ten minutes; `now_ns` is the circuits' clock. */
bool row_faults_are_new(const struct row_faults *faults, uint64_t now_ns);
/* "3 x EADDRNOTAVAIL in pid 812 (curl), 2.1s ago"; to be freed, and safe to print. */
char *row_fault_text(const struct local_fault_view *fault, uint64_t now_ns);
/* As a member `local_faults`. */
void row_faults_json(struct json *json, const struct row_faults *faults);

#endif
