/*
 * value.c - numbers, durations, percentages and words of a policy. See value.h.
 */
#include "policy/value.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "base/span.h"
#include "base/units.h"
#include "breaker/outcome.h"
#include "breaker/settings.h"
#include "policy/complaint.h"
#include "policy/grpc_statuses.h"
#include "policy/value_words.h"

/* Ascending, the largest last. */
static const struct choice units[] = {
    {"us", NS_PER_US},  {"ms", NS_PER_MS}, {"s", NS_PER_S}, {"m", NS_PER_MINUTE},
    {"h", NS_PER_HOUR}, {"d", NS_PER_DAY}, {NULL, 0},
};
#define UNITS (sizeof units / sizeof units[0] - 1)

/* --- decimals --- */

struct decimal {
    uint64_t digits; /* all of them, without the point */
    uint64_t scale;  /* 10 for each digit behind the point */
};

/* Reads 12 or 1.5 at `*at` and moves behind it. At most 15 digits, so that nothing overflows here. */
static bool read_decimal(const char **at, struct decimal *decimal)
{
    const char *text = *at;
    unsigned int count = 0;
    *decimal = (struct decimal){0, 1};
    bool point = false;
    if (!ascii_is_digit(*text))
        return false;
    for (; ascii_is_digit(*text) || (*text == '.' && !point && ascii_is_digit(text[1])); text++) {
        if (*text == '.') {
            point = true;
            continue;
        }
        if (++count > 15)
            return false;
        decimal->digits = decimal->digits * 10 + (uint64_t)(*text - '0');
        if (point)
            decimal->scale *= 10;
    }
    *at = text;
    return true;
}

/* The decimal in units of 1/`unit`; false if that is no whole number or has more than 64 bits. */
static bool decimal_times(struct decimal decimal, uint64_t unit, uint64_t *value)
{
    uint64_t whole, part;
    if (__builtin_mul_overflow(decimal.digits / decimal.scale, unit, &whole) ||
        __builtin_mul_overflow(decimal.digits % decimal.scale, unit, &part) || part % decimal.scale != 0)
        return false;
    return !__builtin_add_overflow(whole, part / decimal.scale, value);
}

/* Permille as a decimal in which `unit` permille are 1: 1500 as 1.5 by 1000, 125 as 12.5 by 10. */
static void format_permille(uint64_t permille, unsigned int unit, char *text, size_t size)
{
    const unsigned int thousandths = (unsigned int)(permille % unit) * (1000 / unit);
    snprintf(text, size, "%" PRIu64 ".%03u", permille / unit, thousandths);
    size_t length = strlen(text);
    while (text[length - 1] == '0')
        length--;
    if (text[length - 1] == '.')
        length--;
    text[length] = '\0';
}

/* --- durations --- */

static void format_duration(uint64_t ns, char *text, size_t size)
{
    size_t unit = UNITS;
    while (unit > 0 && ns % units[unit - 1].value != 0)
        unit--;
    if (ns == 0)
        snprintf(text, size, "0s");
    else if (unit == 0)
        snprintf(text, size, "%" PRIu64 "ns", ns); /* no value of a file gets here */
    else
        snprintf(text, size, "%" PRIu64 "%s", ns / units[unit - 1].value, units[unit - 1].name);
}

static bool parse_duration(const struct value_rule *rule, const char *text, uint64_t *ns, struct complaint why)
{
    const bool can_be_off = rule->type == VALUE_DURATION_OR_OFF;
    const char *or_off = can_be_off ? ", or `off`" : rule->type == VALUE_WINDOW ? ", or calls such as `100 calls`" : "";
    struct decimal decimal;
    const char *at = text;
    if (can_be_off && strcmp(text, "off") == 0) {
        *ns = 0;
        return true;
    }
    if (!read_decimal(&at, &decimal))
        return complain(why, "expected a duration such as `250ms`, `10s`, `5m` or `1h`%s", or_off);
    if (*at == '\0')
        return complain(why, "the duration has no unit: write `%.20ss`, say, or `%.20sms`%s", text, text, or_off);
    while (*at == ' ' || *at == '\t')
        at++;
    const struct choice *unit = units;
    while (unit->name != NULL && strcmp(unit->name, at) != 0)
        unit++;
    if (unit->name == NULL)
        return complain(why, "`%.20s` is no unit of time; expected us, ms, s, m, h or d, as in `10s`%s", at, or_off);
    if (can_be_off && decimal.digits == 0) {
        *ns = 0;
        return true;
    }
    char limit[32];
    const bool exact = decimal_times(decimal, unit->value, ns);
    if (exact && *ns < rule->minimum) {
        format_duration(rule->minimum, limit, sizeof limit);
        return complain(why, "too short; expected `%s` or more%s", limit, or_off);
    }
    if (decimal.digits / decimal.scale > rule->maximum / unit->value || (exact && *ns > rule->maximum)) {
        format_duration(rule->maximum, limit, sizeof limit);
        return complain(why, "too long; expected `%s` or less", limit);
    }
    if (!exact)
        return complain(why, "finer than a nanosecond; expected a duration such as `1.5s`");
    return true;
}

/* --- windows --- */

/* `100 calls`, or a duration. */
static bool parse_window(const struct value_rule *rule, const char *text, uint64_t *window, struct complaint why)
{
    struct decimal decimal;
    const char *at = text;
    if (!read_decimal(&at, &decimal))
        return parse_duration(rule, text, window, why);
    at += span_of(at, " \t");
    if (strcmp(at, "calls") != 0 && strcmp(at, "call") != 0)
        return parse_duration(rule, text, window, why);
    if (decimal.scale != 1 || decimal.digits < 1 || decimal.digits > WINDOW_CALLS_MAX)
        return complain(why, "expected from 1 to %u calls, or a duration such as `30s`", WINDOW_CALLS_MAX);
    *window = WINDOW_CALLS | decimal.digits;
    return true;
}

static void format_window(uint64_t window, char *text, size_t size)
{
    const uint64_t calls = window & ~WINDOW_CALLS;
    if (calls == window)
        format_duration(window, text, size);
    else
        snprintf(text, size, "%" PRIu64 " call%s", calls, calls == 1 ? "" : "s");
}

/* --- numbers --- */

static bool parse_count(const struct value_rule *rule, const char *text, uint64_t *value, struct complaint why)
{
    struct decimal decimal;
    const char *at = text;
    if (!read_decimal(&at, &decimal) || *at != '\0' || decimal.scale != 1 || decimal.digits < rule->minimum ||
        decimal.digits > rule->maximum)
        return complain(why, "expected a whole number from %" PRIu64 " to %" PRIu64, rule->minimum, rule->maximum);
    *value = decimal.digits;
    return true;
}

/* `2048 events` */
static bool parse_events(const struct value_rule *rule, const char *text, uint64_t *value, struct complaint why)
{
    struct decimal decimal;
    const char *at = text;
    if (!read_decimal(&at, &decimal))
        return complain(why, "expected a number of events such as `2048 events`");
    if (*at == '\0')
        return complain(why, "of what are there %.20s? Write `%.20s events`", text, text);
    at += span_of(at, " \t");
    if (strcmp(at, "events") != 0 && strcmp(at, "event") != 0)
        return complain(why, "expected a number of events such as `2048 events`");
    if (decimal.scale != 1 || decimal.digits < rule->minimum || decimal.digits > rule->maximum)
        return complain(why, "expected from %" PRIu64 " to %" PRIu64 " events", rule->minimum, rule->maximum);
    *value = decimal.digits;
    return true;
}

static bool parse_percent(const struct value_rule *rule, const char *text, uint64_t *permille, struct complaint why)
{
    struct decimal decimal;
    const char *at = text;
    if (!read_decimal(&at, &decimal))
        return complain(why, "expected a percentage such as `10%%`");
    if (*at == '\0' && decimal.digits == 0) /* is the same with and without */
        at = "%";
    if (*at == '\0')
        return complain(why, "a percentage needs its sign: write `%.20s%%`", text);
    while (*at == ' ' || *at == '\t')
        at++;
    if (strcmp(at, "%") != 0)
        return complain(why, "expected a percentage such as `10%%`");
    if (decimal.digits / decimal.scale > 100)
        *permille = UINT64_MAX;
    else if (!decimal_times(decimal, 10, permille))
        return complain(why, "too fine; expected a percentage with at most one digit behind the point");
    if (*permille < rule->minimum || *permille > rule->maximum)
        return complain(why, "expected a percentage from %" PRIu64 "%% to %" PRIu64 "%%", rule->minimum / 10,
                        rule->maximum / 10);
    return true;
}

/* 1 means that nothing grows; between 1 and 1.1 is hardly what anybody wants. */
static bool parse_factor(const struct value_rule *rule, const char *text, uint64_t *permille, struct complaint why)
{
    struct decimal decimal;
    const char *at = text;
    const uint64_t from = rule->minimum / PERMILLE, to = rule->maximum / PERMILLE;
    if (!read_decimal(&at, &decimal) || *at != '\0' || decimal.digits / decimal.scale > to)
        return complain(why, "expected a number from %" PRIu64 " to %" PRIu64 ", such as `2` or `1.5`", from, to);
    if (!decimal_times(decimal, PERMILLE, permille))
        return complain(why, "too fine; expected at most three digits behind the point");
    if (*permille < rule->minimum || *permille > rule->maximum)
        return complain(why, "expected a number from %" PRIu64 " to %" PRIu64 ", such as `2` or `1.5`", from, to);
    if (*permille > PERMILLE && *permille < PERMILLE + PERMILLE / 10)
        return complain(why, "expected `1`, which never grows, or a number from 1.1 to %" PRIu64, to);
    return true;
}

/* --- all --- */

const char *choice_name(const struct choice *choices, uint64_t value)
{
    while (choices->name != NULL && choices->value != value)
        choices++;
    return choices->name != NULL ? choices->name : "unknown";
}

bool value_parse(const struct value_rule *rule, const char *text, uint64_t *value, char *why_text, size_t why_size)
{
    const struct complaint why = {why_text, why_size};
    switch (rule->type) {
    case VALUE_COUNT:
        return parse_count(rule, text, value, why);
    case VALUE_DURATION:
    case VALUE_DURATION_OR_OFF:
        return parse_duration(rule, text, value, why);
    case VALUE_WINDOW:
        return parse_window(rule, text, value, why);
    case VALUE_PERCENT:
        return parse_percent(rule, text, value, why);
    case VALUE_FACTOR:
        return parse_factor(rule, text, value, why);
    case VALUE_CHOICE:
        return value_parse_choice(rule, text, value, why);
    case VALUE_FAILURE_KINDS:
        return value_parse_kinds(rule, text, value, why);
    case VALUE_GRPC_STATUSES:
        return grpc_statuses_parse(text, value, why);
    case VALUE_WORDS:
        return value_parse_words(rule, text, value, why);
    case VALUE_EVENTS:
        return parse_events(rule, text, value, why);
    case VALUE_PATTERNS:
    case VALUE_CAPACITY:
    case VALUE_STATUSES:
    case VALUE_FAULTS:
    case VALUE_FALLBACK:
    case VALUE_CHECK:
    case VALUE_QUORUM:
    case VALUE_COMMAND:
    case VALUE_FLAPPING:
        break;
    }
    return complain(why, "not supported by this version");
}

void value_format(const struct value_rule *rule, uint64_t value, char *text, size_t size)
{
    text[0] = '\0';
    switch (rule->type) {
    case VALUE_COUNT:
        snprintf(text, size, "%" PRIu64, value);
        break;
    case VALUE_DURATION:
    case VALUE_DURATION_OR_OFF:
        if (value == 0 && rule->type == VALUE_DURATION_OR_OFF)
            snprintf(text, size, "off");
        else
            format_duration(value, text, size);
        break;
    case VALUE_WINDOW:
        format_window(value, text, size);
        break;
    case VALUE_PERCENT:
        format_permille(value, 10, text, size);
        value_add_word(text, size, "", "%");
        break;
    case VALUE_FACTOR:
        format_permille(value, PERMILLE, text, size);
        break;
    case VALUE_CHOICE:
        snprintf(text, size, "%s", choice_name(rule->choices, value));
        break;
    case VALUE_FAILURE_KINDS:
        for (unsigned int kind = 1; kind < FAILURE_KINDS; kind++) {
            if ((value >> kind & 1) != 0)
                value_add_word(text, size, " ", failure_kind_name(kind));
        }
        break;
    case VALUE_GRPC_STATUSES:
        grpc_statuses_format(value, text, size);
        break;
    case VALUE_WORDS:
        for (const struct choice *choice = rule->choices; choice->name != NULL; choice++) {
            if ((value & choice->value) != 0)
                value_add_word(text, size, " ", choice->name);
        }
        break;
    case VALUE_EVENTS:
        snprintf(text, size, "%" PRIu64 " event%s", value, value == 1 ? "" : "s");
        break;
    case VALUE_PATTERNS:
    case VALUE_CAPACITY:
    case VALUE_STATUSES:
    case VALUE_FAULTS:
    case VALUE_FALLBACK:
    case VALUE_CHECK:
    case VALUE_QUORUM:
    case VALUE_COMMAND:
    case VALUE_FLAPPING:
        break;
    }
}
