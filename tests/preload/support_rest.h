/*
 * support_rest.h - what a circuit still has on its hands when all calls are over: it should be nothing.
 *
 * For programs of tests/preload that say `links: core`.
 */
#ifndef SOCKFUSE_TESTS_PRELOAD_SUPPORT_REST_H
#define SOCKFUSE_TESTS_PRELOAD_SUPPORT_REST_H

#include <stdlib.h>
#include <string.h>

#include "segment/bulkhead.h"
#include "segment/calls.h"
#include "segment/circuits.h"
#include "support.h"
#include "segment/places.h"
#include "segment/segment.h"

struct rest {
    uint32_t circuit, shares, in_flight;
    int64_t missing; /* admitted, and in no sum */
};

/* Of the circuit of that destination, as an observer sees it. */
static inline struct rest rest_of(const char *destination)
{
    static struct segment segment;
    struct segment_error error;
    struct circuit_texts texts;
    struct rest rest;
    uint32_t cursor = 0;

    if (!segment.map) {
        char file[PATH_MAX], identity[PATH_MAX];
        assert_non_null(realpath(getenv("SOCKFUSE_POLICY"), identity));
        assert_true(segment_path(getenv("SOCKFUSE_STATE"), identity, file, sizeof file));
        assert_true(segment_open(&segment, file, false, &error));
    }
    while ((rest.circuit = circuits_next(&segment, &cursor, &texts)) != CIRCUIT_INDEX_NONE &&
           strcmp(texts.destination, destination) != 0) {
    }
    assert_int_not_equal(rest.circuit, CIRCUIT_INDEX_NONE);
    const struct counters *counters = &circuits_at(&segment, rest.circuit)->counters;
    rest.shares = bulkhead_counted(&segment, rest.circuit);
    rest.in_flight = calls_in_flight(&segment, rest.circuit);
    rest.missing = (int64_t)counters_sum(counters, COUNT_ADMITTED) - rest.in_flight;
    static const enum counter ends[] = {COUNT_SUCCEEDED, COUNT_FAILED, COUNT_NEUTRAL, COUNT_BUSINESS, COUNT_LATE};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        rest.missing -= (int64_t)counters_sum(counters, ends[i]);
    return rest;
}

#endif
