/*
 * support_counts.c - what the circuits counted, read from the segment as an observer reads it. See support.h.
 */
#define _GNU_SOURCE
#include "support.h"

#include <stdlib.h>
#include <string.h>

#include "segment/calls.h"
#include "segment/circuits.h"
#include "segment/segment.h"

static struct segment observed;
const char *at_hand;

static bool observe(const char *path, struct segment_error *error)
{
    char file[PATH_MAX], identity[PATH_MAX];
    if (observed.map)
        segment_detach(&observed);
    memset(&observed, 0, sizeof observed);
    CHECK(realpath(path ? path : getenv("SOCKFUSE_POLICY"), identity) != NULL);
    CHECK(segment_path(getenv("SOCKFUSE_STATE"), identity, file, sizeof file));
    return segment_open(&observed, file, false, error);
}

void observe_policy(const char *path)
{
    struct segment_error error;
    if (!observe(path, &error))
        print_error("%s\n", error.text);
    CHECK(observed.map != NULL);
}

/* The circuit's index; CIRCUIT_INDEX_NONE if nobody ever called that destination. */
static uint32_t find(const struct server *server)
{
    struct circuit_texts texts;
    uint32_t cursor = 0, index;
    if (!observed.map)
        observe_policy(NULL);
    while ((index = circuits_next(&observed, &cursor, &texts)) != CIRCUIT_INDEX_NONE)
        if (!strcmp(texts.destination, server->destination))
            break;
    return index;
}

bool has_circuit(const struct server *server)
{
    struct segment_error error;
    return getenv("SOCKFUSE_POLICY") && (observed.map || observe(NULL, &error)) && find(server) != CIRCUIT_INDEX_NONE;
}

void await_admitted(const struct server *server)
{
    for (uint64_t end = now_ms() + 5000;
         find(server) == CIRCUIT_INDEX_NONE || !calls_in_flight(&observed, find(server));) {
        CHECK(now_ms() < end);
        wait_ms(1);
    }
}

uint64_t counted(const struct server *server, enum counter counter)
{
    const struct circuit *circuit = circuits_at(&observed, find(server));
    return circuit ? counters_sum(&circuit->counters, counter) : 0;
}

/* The one call in flight on the server's circuit. */
static struct call_view call_in_flight(const struct server *server)
{
    uint32_t index = find(server);
    struct call_view view, found = {.in_flight = false};
    for (uint32_t call = 0; call < calls_limit(&observed); call++)
        if (calls_read(&observed, call, &view) && view.circuit == index && view.in_flight) {
            CHECK(!found.in_flight);
            found = view;
        }
    CHECK(found.in_flight);
    return found;
}

enum phase call_phase(const struct server *server)
{
    return call_in_flight(server).phase;
}

uint64_t call_waits_since_ms(const struct server *server)
{
    return call_in_flight(server).started_ns / 1000000;
}

struct words {
    char text[512];
    size_t length;
};

static void words_add(struct words *words, int64_t count, const char *what, const char *which)
{
    if (count)
        words->length +=
            (size_t)snprintf(words->text + words->length, sizeof words->text - words->length, "%s%lld %s%s%s",
                             words->length ? ", " : "", (long long)count, what, *which ? ":" : "", which);
}

void expect_words(struct server *server, const char *expected, const char *file, int line)
{
    uint32_t index = find(server);
    const struct circuit *circuit = circuits_at(&observed, index);
    int64_t delta[COUNTERS], total[COUNTERS] = {0}, in_flight = 0;
    struct words words = {.length = 0};

    for (unsigned int i = 0; i < COUNTERS; i++) {
        if (circuit)
            total[i] = (int64_t)counters_sum(&circuit->counters, i);
        delta[i] = total[i] - (int64_t)server->counted[i];
        server->counted[i] = (uint64_t)total[i];
    }
    if (circuit)
        in_flight = calls_in_flight(&observed, index);

    words_add(&words, delta[COUNT_SUCCEEDED], "succeeded", "");
    for (unsigned int kind = 1; kind < FAILURE_KINDS; kind++)
        words_add(&words, delta[COUNT_FAILURE_KIND + kind], "failed", failure_kind_name(kind));
    for (unsigned int reason = 1; reason < NEUTRAL_REASONS; reason++)
        words_add(&words, delta[COUNT_NEUTRAL_REASON + reason], "neutral", neutral_reason_name(reason));
    words_add(&words, delta[COUNT_BUSINESS], "business", "");
    words_add(&words, delta[COUNT_LATE], "late", "");
    words_add(&words, delta[COUNT_REFUSED], "refused", "");
    words_add(&words, delta[COUNT_FALLBACK], "fallback", "");
    words_add(&words, delta[COUNT_INJECTED], "injected", "");
    words_add(&words, delta[COUNT_OPENED], "opened", "");
    words_add(&words, delta[COUNT_OVERDUE], "overdue", "");
    words_add(&words, delta[COUNT_OVERDUE_ENDED], "overdue-ended", "");
    words_add(&words, in_flight, "in-flight", "");
    words_add(&words,
              total[COUNT_ADMITTED] - total[COUNT_SUCCEEDED] - total[COUNT_FAILED] - total[COUNT_NEUTRAL] -
                  total[COUNT_BUSINESS] - total[COUNT_LATE] - in_flight,
              "lost", "");
    if (!words.length)
        strcpy(words.text, "nothing");
    if (strcmp(words.text, expected) != 0) {
        print_error("%s%s%s counted: %s\nexpected: %s\n", at_hand ? at_hand : "", at_hand ? ": " : "",
                    server->destination, words.text, expected);
        _fail(file, line);
    }
}
