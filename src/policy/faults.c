/*
 * faults.c - the faults of a rehearsal. See faults.h.
 */
#include "policy/faults.h"

#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "base/span.h"
#include "base/units.h"
#include "policy/complaint.h"
#include "policy/value.h"

#define BLANKS " \t"
#define EXPECTED                                                                                                       \
    "expected `refuse`, `reset`, `hang`, `silence`, `early-close`, `delay 200ms`, `slow 2s` or `http-503`, each with " \
    "a share such as ` at 30%%`"
/* "delay 123456789012345us at 99.9%, " */
_Static_assert(FAULTS_MAX * 40 <= VALUE_TEXT_MAX, "the longest list fits");

static const char *const names[] = {
    [FAULT_REFUSE] = "refuse",           [FAULT_RESET] = "reset", [FAULT_HANG] = "hang", [FAULT_SILENCE] = "silence",
    [FAULT_EARLY_CLOSE] = "early-close", [FAULT_DELAY] = "delay", [FAULT_SLOW] = "slow",
};
#define NAMES (sizeof names / sizeof *names)
static const char http[] = "http-", at[] = "at";

static const struct value_rule delay_rule = {.type = VALUE_DURATION, .minimum = NS_PER_MS, .maximum = NS_PER_HOUR};
static const struct value_rule share_rule = {.type = VALUE_PERCENT, .minimum = 1, .maximum = PERMILLE};

/* The next word at `*text`, behind which it moves; false if there is none. */
static bool take_word(char **text, char **word)
{
    *word = *text + span_of(*text, BLANKS);
    *text = *word + span_until(*word, BLANKS);
    if (**text != '\0')
        *(*text)++ = '\0';
    return **word != '\0';
}

static bool takes_time(unsigned int kind)
{
    return kind == FAULT_DELAY || kind == FAULT_SLOW;
}

static bool parse_kind(struct injection *fault, char **text, struct complaint why)
{
    char *word, *value;
    if (!take_word(text, &word))
        return complain(why, EXPECTED);
    for (unsigned int kind = FAULT_REFUSE; kind < NAMES; kind++) {
        if (strcmp(word, names[kind]) != 0)
            continue;
        fault->kind = kind;
        if (!takes_time(kind))
            return true;
        return take_word(text, &value) ? value_parse(&delay_rule, value, &fault->delay_ns, why.text, why.size)
                                       : complain(why, "`%s` needs a duration such as `%s 200ms`", word, word);
    }
    const size_t length = sizeof http - 1;
    if (strncmp(word, http, length) != 0)
        return complain(why, "`%.40s` is no fault; " EXPECTED, word);
    const char *digits = word + length;
    if (!ascii_digits(&digits, 3, &fault->status) || *digits != '\0' || !http_status_says_no(fault->status))
        return complain(why, "`%.40s`: expected a status from 400 to 599, as in `http-503`", word);
    fault->kind = FAULT_HTTP;
    return true;
}

static bool parse_share(struct injection *fault, char *text, struct complaint why)
{
    uint64_t permille;
    char *word;
    size_t length = strlen(text);
    while (length > 0 && strchr(BLANKS, text[length - 1]) != NULL)
        text[--length] = '\0';
    fault->permille = PERMILLE;
    if (!take_word(&text, &word))
        return true;
    if (strcmp(word, at) != 0)
        return complain(why, "`%.40s` is not understood; expected ` at ` and a share such as `30%%`", word);
    text += span_of(text, BLANKS);
    if (!value_parse(&share_rule, text, &permille, why.text, why.size))
        return false;
    fault->permille = (uint32_t)permille;
    return true;
}

static bool parse_fault(struct target *target, char *text, uint32_t *sum, struct complaint why)
{
    struct injection fault = {.kind = FAULT_NONE};
    if (target->fault_count == FAULTS_MAX)
        return complain(why, "too many; expected at most %u faults", FAULTS_MAX);
    if (!parse_kind(&fault, &text, why) || !parse_share(&fault, text, why))
        return false;
    *sum += fault.permille;
    if (*sum > PERMILLE)
        return complain(why, "the shares add up to more than 100%%, and a call gets one fault at the most");
    target->faults[target->fault_count++] = fault;
    return true;
}

bool faults_parse(struct target *target, const char *text, char *why_text, size_t why_size)
{
    const struct complaint why = {why_text, why_size};
    struct target read = {.fault_count = 0};
    char copy[VALUE_TEXT_MAX], *rest = copy;
    uint32_t sum = 0;
    if (strlen(text) >= sizeof copy)
        return complain(why, "too long; expected at most %u faults", FAULTS_MAX);
    strcpy(copy, text);
    if (strcmp(text, "none") != 0) {
        for (char *part = strsep(&rest, ","); part != NULL; part = strsep(&rest, ",")) {
            if (!parse_fault(&read, part, &sum, why))
                return false;
        }
    }
    target->fault_count = read.fault_count;
    memcpy(target->faults, read.faults, sizeof target->faults);
    return true;
}

void faults_format(const struct target *target, char *text, size_t size)
{
    char value[VALUE_TEXT_MAX];
    size_t length = 0;
    snprintf(text, size, "%s", target->fault_count == 0 ? "none" : "");
    for (uint32_t i = 0; i < target->fault_count && length < size; i++) {
        const struct injection *fault = &target->faults[i];
        length += (size_t)snprintf(text + length, size - length, "%s", i > 0 ? ", " : "");
        if (fault->kind >= NAMES && length < size)
            length += (size_t)snprintf(text + length, size - length, "%s%u", http, fault->status);
        else if (length < size)
            length += (size_t)snprintf(text + length, size - length, "%s", names[fault->kind]);
        if (takes_time(fault->kind) && length < size) {
            value_format(&delay_rule, fault->delay_ns, value, sizeof value);
            length += (size_t)snprintf(text + length, size - length, " %s", value);
        }
        if (fault->permille != PERMILLE && length < size) {
            value_format(&share_rule, fault->permille, value, sizeof value);
            length += (size_t)snprintf(text + length, size - length, " %s %s", at, value);
        }
    }
}

const char *faults_beyond_unix(const struct target *target)
{
    for (uint32_t i = 0; i < target->fault_count; i++) {
        const enum fault_kind kind = (enum fault_kind)target->faults[i].kind;
        if (kind != FAULT_REFUSE && kind != FAULT_DELAY)
            return kind == FAULT_HTTP ? "http" : names[kind];
    }
    return NULL;
}
