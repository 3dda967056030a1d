/*
 * contradiction.c - holds a target's keys against each other: what can't be is an error, what can't have been meant a
 * warning. See target_check in target.h.
 *
 * A pair of keys is reported where the section has a part in it, or once for [defaults] and -o. Built-in values never
 * contradict: they give way.
 */
#include "policy/target.h"

#include <stdio.h>

#include "policy/contradiction.h"
#include "policy/fallback.h"
#include "policy/faults.h"
#include "policy/policy.h"
#include "policy/problem.h"

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

static bool rates_are_judged(const struct target *target)
{
    const struct settings *breaker = &target->breaker;
    return breaker->failure_rate_permille != 0 || (breaker->slow_call_ns != 0 && breaker->slow_call_rate_permille != 0);
}

static bool no_rate_is_judged(const struct target *target)
{
    return !rates_are_judged(target);
}

/* --- pairs of which one must not be less than the other --- */

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

/* A built-in time for the probe gives way to the times that one may take. */
static void check_probe(struct target_draft *draft, bool is_defaults, struct policy_problems *problems)
{
    struct target *target = &draft->target;
    uint64_t *probe_ns = &target->breaker.probe_timeout_ns;
    if (is_ours(target, KEY_PROBE_TIMEOUT)) {
        if (*probe_ns < target->connect_timeout_ns)
            *probe_ns = target->connect_timeout_ns;
        if (*probe_ns < target->response_timeout_ns)
            *probe_ns = target->response_timeout_ns;
        return;
    }
    if (*probe_ns < target->connect_timeout_ns && !is_ours(target, KEY_CONNECT_TIMEOUT))
        report_pair(draft, is_defaults, false, KEY_PROBE_TIMEOUT, KEY_CONNECT_TIMEOUT, "is shorter than",
                    "a probe is held for failed while it may still connect", problems);
    if (*probe_ns < target->response_timeout_ns)
        report_pair(draft, is_defaults, false, KEY_PROBE_TIMEOUT, KEY_RESPONSE_TIMEOUT, "is shorter than",
                    "a probe is held for failed while its answer may still come", problems);
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
    if (rates_are_judged(target) && target->breaker.window < target->response_timeout_ns &&
        !is_ours(target, KEY_WINDOW))
        report_pair(draft, is_defaults, false, KEY_WINDOW, KEY_RESPONSE_TIMEOUT, "is shorter than",
                    "when a call has timed out, the answers to those that began with it are forgotten", problems);
}

static void check_slow_calls(const struct target_draft *draft, bool is_defaults, struct policy_problems *problems)
{
    const struct target *target = &draft->target;
    const uint64_t slow_ns = target->breaker.slow_call_ns;
    if (slow_ns != 0 && target->response_timeout_ns != 0 && slow_ns >= target->response_timeout_ns)
        report_pair(draft, is_defaults, false, KEY_SLOW_CALL, KEY_RESPONSE_TIMEOUT, "is no shorter than",
                    "an answer that takes so long has failed already", problems);
}

static void check_retry_after(const struct target_draft *draft, bool is_defaults, struct policy_problems *problems)
{
    const struct target *target = &draft->target;
    if (target->retry_after && target->http_read && !is_ours(target, KEY_RETRY_AFTER_MAX) &&
        target->breaker.retry_after_max_ns < target->breaker.reset_timeout_ns)
        report_pair(draft, is_defaults, false, KEY_RETRY_AFTER_MAX, KEY_RESET_TIMEOUT, "is shorter than",
                    "no `Retry-After` can lengthen a pause", problems);
}

static void check_bulkhead(const struct target_draft *draft, bool is_defaults, struct policy_problems *problems)
{
    const struct target *target = &draft->target;
    if (target->max_connections != 0 && target->breaker.half_open_max_calls > target->max_connections)
        report_pair(draft, is_defaults, false, KEY_HALF_OPEN_MAX_CALLS, KEY_MAX_CONNECTIONS, "is more than",
                    "so many probes never find room", problems);
    if (target->max_connections > target->capacity.calls)
        report_pair(draft, is_defaults, false, KEY_MAX_CONNECTIONS, KEY_CAPACITY, "is more than the connections of",
                    "those beyond pass unguarded", problems);
}

/* --- rules that nothing can meet --- */

static void check_threshold(const struct target_draft *draft, bool is_defaults, struct policy_problems *problems)
{
    if (draft->target.breaker.failure_threshold == 0 && no_rate_is_judged(&draft->target))
        report_pair(draft, is_defaults, false, KEY_FAILURE_THRESHOLD, KEY_FAILURE_RATE, "with",
                    "no failure opens the circuit", problems);
}

static void check_failures(const struct target_draft *draft, bool is_defaults, struct policy_problems *problems)
{
    const struct target *target = &draft->target;
    const uint32_t of_answers = 1u << FAILURE_RESPONSE_TIMEOUT | 1u << FAILURE_EARLY_CLOSE;
    if (connect_is_success(&target->rules) && (target->rules.failure_mask & ~of_answers) == 0)
        report_pair(draft, is_defaults, false, KEY_FAILURES, KEY_SUCCESS, "with",
                    "no call can fail, for no answer is awaited", problems);
}

/* --- keys that do nothing beside another one --- */

static bool answers_are_not_read(const struct target *target)
{
    return !target->http_read;
}

static bool no_answer_is_awaited(const struct target *target)
{
    return connect_is_success(&target->rules);
}

static bool no_response_time_counts(const struct target *target)
{
    return (target->rules.failure_mask >> FAILURE_RESPONSE_TIMEOUT & 1) == 0 && target->response_timeout_ns != 0 &&
           !target->enforce_timeouts;
}

static bool no_connect_time_counts(const struct target *target)
{
    return (target->rules.failure_mask >> FAILURE_CONNECT_TIMEOUT & 1) == 0 && !target->enforce_timeouts;
}

static bool no_header_is_read(const struct target *target)
{
    return !target->retry_after;
}

static bool no_call_is_slow(const struct target *target)
{
    return target->breaker.slow_call_ns == 0;
}

static bool pauses_are_alike(const struct target *target)
{
    return target->breaker.backoff_permille > 1000 &&
           target->breaker.reset_timeout_ns == target->breaker.reset_timeout_max_ns;
}

static bool nothing_is_retried(const struct target *target)
{
    return target->retries == 0;
}

static bool no_window_is_used(const struct target *target)
{
    return no_rate_is_judged(target) && nothing_is_retried(target);
}

static bool nothing_is_enforced(const struct target *target)
{
    return target->retries != 0 && target->mode != MODE_ENFORCE;
}

/* `other` is the key that makes `key` idle where `is_idle` holds. */
static bool other_hosts_are_not_asked(const struct target *target)
{
    return target->scope != SCOPE_FLEET;
}

static const struct {
    enum key_index key, other;
    bool (*is_idle)(const struct target *target);
    const char *why;
} idle_keys[] = {
    {KEY_HTTP_FAILURES, KEY_HTTP, answers_are_not_read, "answers are not looked at"},
    {KEY_HTTP_FAILURES, KEY_SUCCESS, no_answer_is_awaited, "no answer is awaited"},
    {KEY_GRPC_FAILURES, KEY_HTTP, answers_are_not_read, "answers are not looked at"},
    {KEY_GRPC_FAILURES, KEY_SUCCESS, no_answer_is_awaited, "no answer is awaited"},
    {KEY_RETRY_AFTER_MAX, KEY_HTTP, answers_are_not_read, "answers are not looked at"},
    {KEY_RETRY_AFTER_MAX, KEY_RETRY_AFTER, no_header_is_read, "the header is not read"},
    {KEY_SLOW_CALL, KEY_SUCCESS, no_answer_is_awaited, "no answer is awaited"},
    {KEY_SLOW_CALL_RATE, KEY_SLOW_CALL, no_call_is_slow, "no call is slow"},
    {KEY_RESPONSE_TIMEOUT, KEY_FAILURES, no_response_time_counts, "`response-timeout` is not among them"},
    {KEY_CONNECT_TIMEOUT, KEY_FAILURES, no_connect_time_counts, "`connect-timeout` is not among them"},
    {KEY_RETRY, KEY_MODE, nothing_is_enforced, "only what is enforced is tried again"},
    {KEY_RETRY_BACKOFF, KEY_RETRY, nothing_is_retried, "nothing is tried again"},
    {KEY_RETRY_BUDGET, KEY_RETRY, nothing_is_retried, "nothing is tried again"},
    {KEY_BACKOFF_MULTIPLIER, KEY_RESET_TIMEOUT_MAX, pauses_are_alike, "the first pause is the longest already"},
    {KEY_WINDOW, KEY_FAILURE_RATE, no_window_is_used, "no rate is judged"},
    {KEY_MINIMUM_CALLS, KEY_FAILURE_RATE, no_rate_is_judged, "no rate is judged"},
    {KEY_FLEET_QUORUM, KEY_SCOPE, other_hosts_are_not_asked, "other hosts are not asked"},
};

/* What [defaults] say may well be of no use in one section that is an exception; what a section says itself may not. */
static void check_idle_keys(const struct target_draft *draft, bool is_defaults, struct policy_problems *problems)
{
    const struct target *target = &draft->target;
    for (size_t i = 0; i < sizeof idle_keys / sizeof *idle_keys; i++) {
        const enum key_index key = idle_keys[i].key;
        if ((is_defaults ? !is_ours(target, key) : is_own(target, key)) && idle_keys[i].is_idle(target))
            report_pair(draft, is_defaults, false, key, idle_keys[i].other, "is of no use with", idle_keys[i].why,
                        problems);
    }
}

/* --- what some kinds of sockets can't do --- */

/* Whether some pattern of the target takes UNIX sockets, and whether some takes others. */
static void see_kinds(const struct target *target, bool *takes_unix, bool *takes_others)
{
    *takes_unix = *takes_others = false;
    for (size_t i = 0; i < target->pattern_count; i++)
        *(target->patterns[i].kind == PATTERN_UNIX ? takes_unix : takes_others) = true;
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
    const bool is_none = fallback->host[0] == '\0' && fallback->at[0].family == ENDPOINT_NONE;
    if (is_none || !has_own_line(draft, KEY_FALLBACK, &line))
        return;
    fallback_format(fallback, value, sizeof value);
    if (is_unix ? takes_others : takes_unix)
        problem_warning(problems, line, "`fallback = %.100s`: %s sockets can't be connected there: they are refused",
                        value, is_unix ? "IP" : "UNIX");
}

/* The wait for an answer is ended, and that for a connection over TCP. */
static void check_limits(const struct target_draft *draft, struct policy_problems *problems)
{
    const struct target *target = &draft->target;
    bool takes_unix, takes_others;
    see_kinds(target, &takes_unix, &takes_others);
    if (target->enforce_timeouts && takes_unix && !takes_others && target->response_timeout_ns == 0 &&
        is_own(target, KEY_ENFORCE_TIMEOUTS))
        problem_warning(problems, draft->lines[KEY_ENFORCE_TIMEOUTS],
                        "`enforce_timeouts`: no wait of this target is ended: attempts of UNIX sockets can't be, and "
                        "`response_timeout` is off");
}

void target_check(struct target_draft *draft, bool is_defaults, struct policy_problems *problems)
{
    check_pauses(draft, is_defaults, problems);
    check_probe(draft, is_defaults, problems);
    check_minimum(draft, is_defaults, problems);
    check_window(draft, is_defaults, problems);
    check_slow_calls(draft, is_defaults, problems);
    check_retry_after(draft, is_defaults, problems);
    check_bulkhead(draft, is_defaults, problems);
    check_threshold(draft, is_defaults, problems);
    check_failures(draft, is_defaults, problems);
    check_idle_keys(draft, is_defaults, problems);
    check_rehearsal(draft, problems);
    check_fallback(draft, problems);
    check_limits(draft, problems);
    target_check_agent(draft, is_defaults, problems);
}
