/*
 * recent_kinds.c - the kinds of the last failures in one word. See recent_kinds.h.
 *
 * Five bits each: 0 is none; then the kinds; above these the statuses of FAILURE_HTTP that have counters of their own.
 */
#include "breaker/recent_kinds.h"

#include "breaker/counters.h"

#define KIND_BITS 5u
#define KIND_MASK ((1u << KIND_BITS) - 1)
#define ALL_BITS (KIND_BITS * RECENT_KINDS)

_Static_assert(ALL_BITS <= 64, "all fit");
_Static_assert(FAILURE_HTTP + 1 == FAILURE_KINDS, "statuses come behind the kinds");

static unsigned int code_of(enum failure_kind kind, unsigned int http_status)
{
    const unsigned int place = kind == FAILURE_HTTP ? counter_of_status(http_status) - COUNT_HTTP_STATUS : 0;
    const unsigned int code = (unsigned int)kind + place;

    return (unsigned int)kind < FAILURE_KINDS && code <= KIND_MASK ? code : FAILURE_NONE;
}

/* False: it stands for nothing. */
static bool code_read(unsigned int code, struct kind_count *count)
{
    *count = (struct kind_count){.kind = code < FAILURE_HTTP ? (enum failure_kind)code : FAILURE_HTTP, .failures = 1};
    return code != FAILURE_NONE &&
           (count->kind != FAILURE_HTTP || counter_status(code - FAILURE_HTTP, &count->http_status));
}

uint64_t recent_kinds_with(uint64_t kinds, const struct outcome *failure)
{
    return (kinds << KIND_BITS | code_of(failure->kind, failure->http_status)) & ((UINT64_C(1) << ALL_BITS) - 1);
}

uint64_t recent_kinds_newest(uint64_t kinds, uint64_t count)
{
    return count < RECENT_KINDS ? kinds & ((UINT64_C(1) << count * KIND_BITS) - 1) : kinds;
}

unsigned int recent_kinds_counts(uint64_t kinds, struct kind_count counts[RECENT_KINDS])
{
    unsigned int set = 0;

    for (unsigned int code = FAILURE_NONE + 1; code <= KIND_MASK && set < RECENT_KINDS; code++) {
        struct kind_count count;
        unsigned int failures = 0;

        for (unsigned int place = 0; place < RECENT_KINDS; place++)
            failures += (kinds >> place * KIND_BITS & KIND_MASK) == code;
        if (failures == 0 || !code_read(code, &count))
            continue;
        counts[set] = count;
        counts[set++].failures = failures;
    }
    return set;
}

const char *kind_count_label(const struct kind_count *count, char text[FAILURE_LABEL_MAX])
{
    const bool is_unusual = count->kind == FAILURE_HTTP && count->http_status == 0;

    return is_unusual ? "http-other" : failure_label(count->kind, count->http_status, text);
}
