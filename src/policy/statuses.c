/*
 * statuses.c - lists of HTTP statuses. See statuses.h.
 */
#include "policy/statuses.h"

#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "base/span.h"
#include "policy/complaint.h"
#include "policy/value.h"

#define SEPARATORS " \t,"

_Static_assert(STATUS_RANGES_MAX * sizeof "500-599" <= VALUE_TEXT_MAX, "the longest list fits");

/* The three digits at `*text`, behind which it moves; 0 if that is no status. */
static unsigned int read_status(const char **text)
{
    unsigned int status;
    return ascii_digits(text, 3, &status) && status >= HTTP_STATUS_MIN ? status : 0;
}

/* One word, which ends at a separator. */
static bool read_range(const char **text, struct status_range *range)
{
    const unsigned int first = read_status(text);
    unsigned int last = first;
    if (first != 0 && **text == '-') {
        (*text)++;
        last = read_status(text);
    }
    *range = (struct status_range){(uint16_t)first, (uint16_t)last};
    return first != 0 && last >= first && (**text == '\0' || strchr(SEPARATORS, **text) != NULL);
}

/* Puts a range where it belongs, and what overlaps with it into it. False: there is no room. */
static bool add_range(struct outcome_rules *rules, struct status_range range)
{
    struct status_range *ranges = rules->http_failures;
    uint32_t from = 0, to;
    while (from < rules->http_failure_count && ranges[from].last < range.first)
        from++;
    for (to = from; to < rules->http_failure_count && ranges[to].first <= range.last; to++) {
        if (ranges[to].first < range.first)
            range.first = ranges[to].first;
        if (ranges[to].last > range.last)
            range.last = ranges[to].last;
    }
    if (from == to && rules->http_failure_count == STATUS_RANGES_MAX)
        return false;
    memmove(&ranges[from + 1], &ranges[to], (rules->http_failure_count - to) * sizeof *ranges);
    ranges[from] = range;
    rules->http_failure_count -= to - from;
    rules->http_failure_count++;
    return true;
}

bool statuses_parse(struct outcome_rules *rules, const char *text, char *why_text, size_t why_size)
{
    const struct complaint why = {why_text, why_size};
    struct outcome_rules read = {.http_failure_count = 0};
    const bool none = strcmp(text, "none") == 0;
    while (!none && *(text += span_of(text, SEPARATORS)) != '\0') { /* commas too: what is meant is plain */
        const char *word = text;
        struct status_range range;
        if (!read_range(&text, &range))
            return complain(why,
                            "`%.*s` is no status; expected statuses and ranges from %u to %u such as `503 520-529`, or "
                            "`none`",
                            (int)span_until(word, SEPARATORS), word, HTTP_STATUS_MIN, HTTP_STATUS_MAX);
        if (!add_range(&read, range))
            return complain(why, "too many; expected at most %u statuses and ranges", STATUS_RANGES_MAX);
    }
    if (!none && read.http_failure_count == 0)
        return complain(why, "expected statuses and ranges from %u to %u such as `503 520-529`, or `none`",
                        HTTP_STATUS_MIN, HTTP_STATUS_MAX);
    rules->http_failure_count = read.http_failure_count;
    memcpy(rules->http_failures, read.http_failures, sizeof rules->http_failures);
    return true;
}

void statuses_format(const struct outcome_rules *rules, char *text, size_t size)
{
    size_t length = 0;
    snprintf(text, size, "%s", rules->http_failure_count == 0 ? "none" : "");
    for (uint32_t i = 0; i < rules->http_failure_count && length < size; i++) {
        const struct status_range *range = &rules->http_failures[i];
        length += (size_t)snprintf(text + length, size - length, "%s%u", i > 0 ? " " : "", range->first);
        if (range->last != range->first && length < size)
            length += (size_t)snprintf(text + length, size - length, "-%u", range->last);
    }
}
