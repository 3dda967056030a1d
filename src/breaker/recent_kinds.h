/*
 * recent_kinds.h - of which kinds the last failures were that a circuit counted: twelve of them in one word.
 *
 * The newest has the lowest bits. Pure; async-signal-safe.
 */
#ifndef SOCKFUSE_BREAKER_RECENT_KINDS_H
#define SOCKFUSE_BREAKER_RECENT_KINDS_H

#include <stdint.h>

#include "breaker/outcome.h"

#define RECENT_KINDS 12u

/* The word with one failure more; the oldest of twelve goes. */
uint64_t recent_kinds_with(uint64_t kinds, const struct outcome *failure);
/* The same without all but the newest `count`. */
uint64_t recent_kinds_newest(uint64_t kinds, uint64_t count);

/* How many of each there are, in the order of their kinds; returns how many entries were set. Any word can be read. */
struct kind_count {
    enum failure_kind kind;
    unsigned int http_status; /* of FAILURE_HTTP; 0: one that is unusual */
    unsigned int failures;
};
unsigned int recent_kinds_counts(uint64_t kinds, struct kind_count counts[RECENT_KINDS]);
/* "refused", "http-503", "http-other". */
const char *kind_count_label(const struct kind_count *count, char text[FAILURE_LABEL_MAX]);

#endif
