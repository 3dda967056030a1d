/*
 * target.c - one target: its values, its patterns, its contradictions. See target.h.
 */
#include "policy/target.h"

#include <stdio.h>
#include <string.h>

#include "policy/distance.h"
#include "policy/fallback.h"
#include "policy/faults.h"
#include "policy/pattern.h"
#include "policy/problem.h"

#define WHY_MAX 280 /* a problem's text, less what stands before it */

/* --- values --- */

void target_apply(struct target_draft *draft, const struct entry *entries, size_t count, uint64_t *set,
                  struct policy_problems *problems)
{
    char why[WHY_MAX];
    for (size_t i = 0; i < count; i++) {
        const struct entry *entry = &entries[i];
        if (entry->key == KEY_MATCH)
            continue;
        if (!key_set(entry->key, &draft->target, entry->value, why, sizeof why)) {
            problem_error(problems, entry->line, "`%s = %.60s`: %s", key_table[entry->key].name, entry->value, why);
            continue;
        }
        *set |= key_bit(entry->key);
        draft->lines[entry->key] = entry->line;
    }
}

static void read_override(struct target *overrides, const char *text, struct policy_problems *problems)
{
    char name[DISTANCE_WORD_MAX + 1], why[WHY_MAX];
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text) {
        problem_error(problems, 0, "-o %.80s: expected KEY=VALUE", text);
        return;
    }
    size_t length = (size_t)(equals - text);
    while (length > 0 && text[length - 1] == ' ')
        length--;
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name), text);
    const char *value = equals + 1 + strspn(equals + 1, " \t");
    const enum key_index key = key_named(name);
    if (key == KEYS) {
        unsigned int distance;
        const char *nearest = key_nearest(name, &distance);
        problem_error(problems, 0, "-o %.80s: unknown key `%s`; %s `%s`%s", text, name,
                      word_is_near(name, distance) ? "did you mean" : "the nearest known key is", nearest,
                      word_is_near(name, distance) ? "?" : "");
    } else if (key_table[key].rule.type == VALUE_LATER) {
        problem_error(problems, 0, "-o %.80s: key `%s` is not supported by this version", text, name);
    } else if (key == KEY_MATCH) {
        problem_error(problems, 0, "-o %.80s: `match` belongs to one target; use -t PATTERN", text);
    } else if (!key_set(key, overrides, value, why, sizeof why)) {
        problem_error(problems, 0, "-o %.80s: %s", text, why);
    } else {
        overrides->keys_overridden |= key_bit(key);
    }
}

void overrides_read(struct target *overrides, const char *const *texts, struct policy_problems *problems)
{
    *overrides = (struct target){0};
    for (; texts != NULL && *texts != NULL; texts++)
        read_override(overrides, *texts, problems);
}

void target_override(struct target_draft *draft, const struct target *overrides)
{
    for (unsigned int index = 0; index < KEYS; index++) {
        if ((overrides->keys_overridden & key_bit((enum key_index)index)) == 0)
            continue;
        key_copy((enum key_index)index, &draft->target, overrides);
        draft->lines[index] = 0;
    }
    draft->target.keys_overridden = overrides->keys_overridden;
}

/* --- patterns --- */

bool target_add_pattern(struct target *target, const char *text, unsigned int line, char *why, size_t why_size)
{
    struct pattern pattern;
    if (!pattern_parse(&pattern, text, why, why_size))
        return false;
    pattern.line = line;
    struct pattern *patterns = array_grow(target->patterns, target->pattern_count, sizeof *patterns);
    if (patterns == NULL) {
        pattern_release(&pattern);
        snprintf(why, why_size, "out of memory");
        return false;
    }
    target->patterns = patterns;
    patterns[target->pattern_count++] = pattern;
    return true;
}

/* The end of the word at `text`: a blank behind a backslash belongs to it (the path of a socket may have one). */
static char *word_end(char *text)
{
    while (*text != '\0' && *text != ' ' && *text != '\t')
        text += text[0] == '\\' && text[1] != '\0' ? 2 : 1;
    return text;
}

bool target_match(struct target *target, const struct entry *entry, struct policy_problems *problems)
{
    char why[WHY_MAX];
    bool good = true;
    for (char *word = entry->value, *end; *word != '\0'; word = end + strspn(end, " \t")) {
        end = word_end(word);
        const char behind = *end;
        *end = '\0';
        const unsigned int line = entry_word_line(entry, word);
        if (end[-1] == ',') {
            problem_error(problems, line, "pattern `%.100s`: patterns are separated by blanks, not by commas", word);
            good = false;
        } else if (!target_add_pattern(target, word, line, why, sizeof why)) {
            problem_error(problems, line, "pattern `%.100s`: %s", word, why);
            good = false;
        }
        *end = behind;
    }
    return good;
}

void target_release(struct target *target)
{
    for (size_t i = 0; i < target->pattern_count; i++)
        pattern_release(&target->patterns[i]);
    free(target->patterns);
    target->patterns = NULL;
    target->pattern_count = 0;
}

/* --- contradictions --- */

static bool is_ours(const struct target *target, enum key_index key)
{
    return ((target->keys_set | target->keys_defaulted | target->keys_overridden) & key_bit(key)) == 0;
}

/* Whether the section itself decides about the key. */
static bool is_own(const struct target *target, enum key_index key)
{
    return (target->keys_set & ~target->keys_overridden & key_bit(key)) != 0;
}

/* "`reset_timeout` = 30s", with where it was set if that is another line. */
static void describe_key(const struct target_draft *draft, enum key_index key, unsigned int line, char *text,
                         size_t size)
{
    char value[VALUE_TEXT_MAX], place[32] = "";
    key_format(key, &draft->target, value, sizeof value);
    if ((draft->target.keys_overridden & key_bit(key)) != 0)
        snprintf(place, sizeof place, " (-o)");
    else if (is_ours(&draft->target, key))
        snprintf(place, sizeof place, " (built in)");
    else if (draft->lines[key] != line)
        snprintf(place, sizeof place, " (line %u)", draft->lines[key]);
    snprintf(text, size, "`%s = %s`%s", key_table[key].name, value, place);
}

/* Reports `key` against `other`, once: where the section has a part in it, or for [defaults]. */
static void report_pair(const struct target_draft *draft, bool is_defaults, bool is_error, enum key_index key,
                        enum key_index other, const char *verb, const char *remedy, struct policy_problems *problems)
{
    char left[VALUE_TEXT_MAX + 80], right[VALUE_TEXT_MAX + 80];
    const struct target *target = &draft->target;
    if (!is_defaults && !is_own(target, key) && !is_own(target, other))
        return;
    const bool at_other = is_defaults ? draft->lines[other] > draft->lines[key] : !is_own(target, key);
    const unsigned int line = draft->lines[at_other ? other : key];
    describe_key(draft, key, line, left, sizeof left);
    describe_key(draft, other, line, right, sizeof right);
    if (is_error)
        problem_error(problems, line, "%s %s %s: %s", left, verb, right, remedy);
    else
        problem_warning(problems, line, "%s %s %s: %s", left, verb, right, remedy);
}

static bool has_slow_calls(const struct settings *breaker)
{
    return breaker->slow_call_ns != 0 && breaker->slow_call_rate_permille != 0;
}

static void check_pauses(struct target_draft *draft, bool is_defaults, struct policy_problems *problems)
{
    struct settings *breaker = &draft->target.breaker;
    if (breaker->reset_timeout_ns <= breaker->reset_timeout_max_ns)
        return;
    if (is_ours(&draft->target, KEY_RESET_TIMEOUT_MAX))
        breaker->reset_timeout_max_ns = breaker->reset_timeout_ns;
    else if (is_ours(&draft->target, KEY_RESET_TIMEOUT))
        breaker->reset_timeout_ns = breaker->reset_timeout_max_ns;
    else
        report_pair(draft, is_defaults, true, KEY_RESET_TIMEOUT, KEY_RESET_TIMEOUT_MAX, "is longer than",
                    "expected a first pause no longer than the last", problems);
}

static void check_probe(const struct target_draft *draft, bool is_defaults, struct policy_problems *problems)
{
    const struct target *target = &draft->target;
    if (target->breaker.probe_timeout_ns < target->connect_timeout_ns && !is_ours(target, KEY_PROBE_TIMEOUT) &&
        !is_ours(target, KEY_CONNECT_TIMEOUT))
        report_pair(draft, is_defaults, false, KEY_PROBE_TIMEOUT, KEY_CONNECT_TIMEOUT, "is shorter than",
                    "a probe is held for failed while it may still connect", problems);
}

static void check_threshold(const struct target_draft *draft, bool is_defaults, struct policy_problems *problems)
{
    const struct settings *breaker = &draft->target.breaker;
    if (breaker->failure_threshold == 0 && breaker->failure_rate_permille == 0 && !has_slow_calls(breaker))
        report_pair(draft, is_defaults, false, KEY_FAILURE_THRESHOLD, KEY_FAILURE_RATE, "with",
                    "no failure opens the circuit", problems);
}

/* A built-in minimum gives way to a window of fewer calls. */
static void check_minimum(struct target_draft *draft, bool is_defaults, struct policy_problems *problems)
{
    struct settings *breaker = &draft->target.breaker;
    const uint64_t calls = breaker->window & ~WINDOW_CALLS;
    if (calls == breaker->window || breaker->minimum_calls <= calls)
        return;
    if (is_ours(&draft->target, KEY_MINIMUM_CALLS))
        breaker->minimum_calls = (uint32_t)calls;
    else
        report_pair(draft, is_defaults, true, KEY_MINIMUM_CALLS, KEY_WINDOW, "is more than",
                    "expected no more calls than the window holds, or no rate is ever judged", problems);
}

static void check_window(const struct target_draft *draft, bool is_defaults, struct policy_problems *problems)
{
    const struct target *target = &draft->target;
    const struct settings *breaker = &target->breaker;
    if (breaker->failure_rate_permille == 0 && !has_slow_calls(breaker)) {
        if (!is_ours(target, KEY_WINDOW) || !is_ours(target, KEY_MINIMUM_CALLS))
            report_pair(draft, is_defaults, false, is_ours(target, KEY_WINDOW) ? KEY_MINIMUM_CALLS : KEY_WINDOW,
                        KEY_FAILURE_RATE, "is of no use with", "no rate is judged", problems);
    } else if (breaker->window < target->response_timeout_ns && !is_ours(target, KEY_WINDOW)) {
        report_pair(draft, is_defaults, false, KEY_WINDOW, KEY_RESPONSE_TIMEOUT, "is shorter than",
                    "when a call has timed out, the answers to those that began with it are forgotten", problems);
    }
}

static void check_slow_calls(const struct target_draft *draft, bool is_defaults, struct policy_problems *problems)
{
    const struct target *target = &draft->target;
    const uint64_t slow_ns = target->breaker.slow_call_ns;
    if (slow_ns == 0 && !is_ours(target, KEY_SLOW_CALL_RATE))
        report_pair(draft, is_defaults, false, KEY_SLOW_CALL_RATE, KEY_SLOW_CALL, "is of no use with",
                    "no call is slow", problems);
    else if (slow_ns != 0 && target->rules.connect_is_success)
        report_pair(draft, is_defaults, false, KEY_SLOW_CALL, KEY_SUCCESS, "is of no use with", "no answer is awaited",
                    problems);
    else if (slow_ns != 0 && target->response_timeout_ns != 0 && slow_ns >= target->response_timeout_ns)
        report_pair(draft, is_defaults, false, KEY_SLOW_CALL, KEY_RESPONSE_TIMEOUT, "is no shorter than",
                    "an answer that takes so long has failed already", problems);
}

static void check_http(const struct target_draft *draft, bool is_defaults, struct policy_problems *problems)
{
    if (!draft->target.http_read && !is_ours(&draft->target, KEY_HTTP_FAILURES))
        report_pair(draft, is_defaults, false, KEY_HTTP_FAILURES, KEY_HTTP, "is of no use with",
                    "answers are not looked at", problems);
}

/* Whether some pattern of the target takes UNIX sockets, and whether some takes others. */
static void see_kinds(const struct target *target, bool *takes_unix, bool *takes_others)
{
    *takes_unix = *takes_others = false;
    for (size_t i = 0; i < target->pattern_count; i++)
        *(target->patterns[i].kind == PATTERN_UNIX ? takes_unix : takes_others) = true;
}

/* Where a warning about one key of a section stands: 0 with -o. False: nobody but [defaults] has set it, or nobody. */
static bool has_own_line(const struct target_draft *draft, enum key_index key, unsigned int *line)
{
    *line = is_own(&draft->target, key) ? draft->lines[key] : draft->target.line;
    return !is_ours(&draft->target, key);
}

static void check_rehearsal(const struct target_draft *draft, struct policy_problems *problems)
{
    const char *beyond = faults_beyond_unix(&draft->target);
    bool takes_unix, takes_others;
    unsigned int line;
    see_kinds(&draft->target, &takes_unix, &takes_others);
    if (takes_unix && beyond != NULL && has_own_line(draft, KEY_INJECT, &line))
        problem_warning(problems, line,
                        "`inject`: `%s` is not possible on UNIX sockets, whose attempts go on untouched; `refuse` and "
                        "`delay` are",
                        beyond);
}

static void check_fallback(const struct target_draft *draft, struct policy_problems *problems)
{
    const struct fallback *fallback = &draft->target.fallback;
    const bool is_unix = fallback->at[0].family == ENDPOINT_UNIX;
    bool takes_unix, takes_others;
    char value[VALUE_TEXT_MAX];
    unsigned int line;
    see_kinds(&draft->target, &takes_unix, &takes_others);
    if (!has_own_line(draft, KEY_FALLBACK, &line) || (fallback->host[0] == '\0' && fallback->at[0].family == ENDPOINT_NONE))
        return;
    fallback_format(fallback, value, sizeof value);
    if (is_unix ? takes_others : takes_unix)
        problem_warning(problems, line, "`fallback = %.100s`: %s sockets can't be connected there: they are refused", value,
                        is_unix ? "IP" : "UNIX");
}

void target_check(struct target_draft *draft, bool is_defaults, struct policy_problems *problems)
{
    check_pauses(draft, is_defaults, problems);
    check_probe(draft, is_defaults, problems);
    check_threshold(draft, is_defaults, problems);
    check_minimum(draft, is_defaults, problems);
    check_window(draft, is_defaults, problems);
    check_slow_calls(draft, is_defaults, problems);
    check_http(draft, is_defaults, problems);
    check_rehearsal(draft, problems);
    check_fallback(draft, problems);
}
