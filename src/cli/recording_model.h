/*
 * recording_model.h - what a recording consists of: calls, steps and lanes. Reading one is in recording.h.
 */
#ifndef SOCKFUSE_CLI_RECORDING_MODEL_H
#define SOCKFUSE_CLI_RECORDING_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "view/simulation.h"

/* In `marks` of a call. */
enum recording_mark {
    CALL_OF_FAILURE = 1, /* of an event "failure": the same call may have an outcome as well */
    CALL_LATE = 2,       /* it did not count when it was recorded */
    CALL_INFERRED = 4,   /* nothing was recorded of it, but it must have been */
};

/* A transition, or a probe that was admitted. */
struct recorded_step {
    uint64_t at_ns; /* the lane's clock, as its calls */
    uint64_t refused;
    uint32_t pid, lane;
    uint32_t failures;
    uint32_t window_bad; /* of an opening by a rate: so many of its window had failed, or were slow */
    uint8_t type;        /* enum event_type */
    uint8_t from, to, reason;
};

/* One circuit as it was recorded. */
struct lane {
    const char *policy, *owner; /* "": the lines do not say */
    const char *target, *destination;
    size_t outcomes, failures; /* events */
    size_t first_call, calls;  /* of the recording's, once it is sorted by lanes */
    size_t first_step, steps;
    size_t forced; /* an operator's words */
    bool has_refusal;
    bool has_failures_alone;      /* nothing was recorded but failures */
    bool is_rebooted;             /* its clock began anew in between */
    uint64_t inferred;            /* calls */
    uint64_t latest_ns, shift_ns; /* of its clock: the latest time, and what is added since it began anew */
    uint64_t wall_ns, mono_ns;    /* of its last event: of the wall clock, and the lane's */
};

struct recording {
    struct sim_call *calls; /* by lane and end */
    size_t call_count;
    struct recorded_step *steps; /* by lane, then by time */
    size_t step_count;
    struct lane *lanes;
    size_t lane_count;
    uint64_t lines, events, bad, unknown, reloads;
    bool is_torn;             /* its last line was cut */
    uint64_t from_ns, to_ns;  /* wall clock */
    struct lane_table *table; /* recording.c's */
};

#endif
