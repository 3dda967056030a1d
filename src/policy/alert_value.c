/*
 * alert_value.c - what `alert` and `flapping` may say. See alert_value.h.
 */
#include "policy/alert_value.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "base/span.h"
#include "base/units.h"
#include "policy/command_words.h"
#include "policy/complaint.h"
#include "policy/value.h"

#define BLANKS " \t"
#define NUMBER_SIZE 16u
#define OPENINGS_MIN 2u
#define EXPECTED "expected how often in how long, such as `10 openings in 1h`"

static const struct value_rule span_rule = {.type = VALUE_DURATION, .minimum = NS_PER_S, .maximum = NS_PER_DAY};

const struct choice alert_choices[] = {{"open", 1u << ALERT_OPEN},
                                       {"close", 1u << ALERT_CLOSE},
                                       {"flapping", 1u << ALERT_FLAPPING},
                                       {"overdue", 1u << ALERT_OVERDUE},
                                       {"probe-failed", 1u << ALERT_PROBE_FAILED},
                                       {"forced", 1u << ALERT_FORCED},
                                       {NULL, 0}};

const char *alert_kind_name(unsigned int kind)
{
    return kind < ALERT_KINDS ? alert_choices[kind].name : NULL;
}

bool alert_parse(char value[ALERT_SIZE], const char *text, char *why_text, size_t why_size)
{
    const struct complaint why = {why_text, why_size};
    char read[ALERT_SIZE];
    if (!words_copy(read, sizeof read, text))
        return complain(why, "too long; expected %u bytes or less: a script may do the rest", ALERT_SIZE - 1);
    if (strcmp(read, "none") == 0)
        memset(read, 0, sizeof read);
    memcpy(value, read, ALERT_SIZE);
    return true;
}

/* Moves behind that word, or one of both. */
static bool skip_word(const char **text, const char *word, const char *or_word)
{
    const char *at = *text + span_of(*text, BLANKS);
    const size_t length = span_until(at, BLANKS);
    if ((length != strlen(word) || memcmp(at, word, length) != 0) &&
        (length != strlen(or_word) || memcmp(at, or_word, length) != 0))
        return false;
    *text = at + length + span_of(at + length, BLANKS);
    return true;
}

bool flapping_parse(struct flapping_rule *rule, const char *text, char *why_text, size_t why_size)
{
    const struct complaint why = {why_text, why_size};
    char number[NUMBER_SIZE];
    uint64_t openings, span_ns;
    const size_t digits = span_of(text, "0123456789");
    if (digits == 0 || digits >= sizeof number)
        return complain(why, EXPECTED);
    memcpy(number, text, digits);
    number[digits] = '\0';
    text += digits;
    if (!skip_word(&text, "openings", "opening") || !skip_word(&text, "in", "in") ||
        !ascii_is_number(number, &openings))
        return complain(why, EXPECTED);
    if (openings < OPENINGS_MIN || openings > FLAPPING_OPENINGS_MAX)
        return complain(why, "expected from %u to %u openings", OPENINGS_MIN, FLAPPING_OPENINGS_MAX);
    if (!value_parse(&span_rule, text, &span_ns, why_text, why_size))
        return false;
    *rule = (struct flapping_rule){.span_ns = span_ns, .openings = (uint32_t)openings};
    return true;
}

void flapping_format(const struct flapping_rule *rule, char *text, size_t size)
{
    char span[32];
    value_format(&span_rule, rule->span_ns, span, sizeof span);
    snprintf(text, size, "%" PRIu32 " openings in %s", rule->openings, span);
}

bool flapping_is_sane(const struct flapping_rule *rule)
{
    return rule->openings >= OPENINGS_MIN && rule->openings <= FLAPPING_OPENINGS_MAX &&
           rule->span_ns >= span_rule.minimum && rule->span_ns <= span_rule.maximum;
}
