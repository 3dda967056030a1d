/*
 * suggestion.c - a policy from what was seen. See suggestion.h.
 *
 * The rules, which sockfuse.1 tells users: a limit is three times what 99 of 100 took and half as much again as the
 * longest, at least; a threshold is above each run of failures that healed within a second; a pause is half of what an
 * outage lasted.
 */
#define _GNU_SOURCE
#include "cli/suggestion.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "view/duration.h"
#include "view/result_file.h"
#include "policy/keys.h"

/* So much has to be seen before it tells anything. */
#define CONNECTS_MIN 20u
#define ANSWERS_MIN 100u
#define OUTAGES_MIN 3u

/* A run of failures that heals sooner is a slip, and one that lasts longer an outage. */
#define SLIP_NS NS_PER_S
/* A SYN that is lost is sent again after a second, and after two more. */
#define CONNECT_LEAST_NS (3 * NS_PER_S)
#define RESPONSE_LEAST_NS NS_PER_S
#define PAUSE_LEAST_NS NS_PER_S
#define PAUSE_MOST_NS (30 * NS_PER_S)
#define PAUSE_MAX_MOST_NS (300 * NS_PER_S)

/* --- values ------------------------------------------------------------------------------------------------------- */

/* The next figure that people would choose: 1, 1.5, 2, 3, 5 of a power of ten, and whole minutes. */
static uint64_t round_up(uint64_t span_ns)
{
    static const uint64_t steps[] = {10, 15, 20, 30, 50, 100};
    uint64_t power_ns = NS_PER_MS / 10;
    while (power_ns * 100 < span_ns)
        power_ns *= 10;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (power_ns * steps[i] >= span_ns)
            return power_ns * steps[i] >= NS_PER_MS ? power_ns * steps[i] : NS_PER_MS;
    return span_ns;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* As a policy has it, to be freed. */
static char *value_of(uint64_t span_ns)
{
    return span_ns % NS_PER_S == 0 ? format_text("%" PRIu64 "s", span_ns / NS_PER_S)
                                   : format_text("%" PRIu64 "ms", span_ns / NS_PER_MS);
}

/* --- lines -------------------------------------------------------------------------------------------------------- */

/* "key = value # reason"; with `left` a comment that has the built-in value. */
__attribute__((format(printf, 4, 5))) static void line(FILE *out, enum key_index key, const char *value,
                                                       const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *reason = format_text_list(format, arguments);
    va_end(arguments);
    char *pair = format_text("%s%s = %s", value == NULL ? "#" : "", key_table[key].name,
                             value == NULL ? key_table[key].built_in : value);
    fprintf(out, "%-28s # %s%s\n", pair, value == NULL ? "left: " : "", shown(reason));
    free(pair);
    free(reason);
}

/* Too few were "seen", or "seen to heal", to say better. */
static void few_line(FILE *out, enum key_index key, uint64_t count, const char *noun, const char *seen,
                     unsigned int wanted)
{
    if (count == 0)
        line(out, key, NULL, "no %s was %s, %u are wanted", noun, seen, wanted);
    else
        line(out, key, NULL, "%" PRIu64 " %s%s %s, %u are wanted", count, noun, count == 1 ? " was" : "s were", seen,
             wanted);
}

static void span_line(FILE *out, enum key_index key, uint64_t span_ns, char *reason)
{
    char *value = value_of(span_ns);
    line(out, key, value, "%s", reason);
    free(value);
    free(reason);
}

/* --- limits ------------------------------------------------------------------------------------------------------- */

static uint64_t limit_from(const struct span_summary *seen, uint64_t least_ns)
{
    return round_up(larger(least_ns, larger(3 * seen->p99_ns, seen->max_ns + seen->max_ns / 2)));
}

static bool is_path(const struct row *row)
{
    return strncmp(row->destination, "unix:", 5) == 0;
}

static void suggest_connect_timeout(FILE *out, const struct row *row)
{
    const struct span_summary *seen = &row->waits.connects;
    char longest[SPAN_TEXT_MAX];
    const uint64_t limit_ns = limit_from(seen, is_path(row) ? RESPONSE_LEAST_NS : CONNECT_LEAST_NS);
    if (seen->count < CONNECTS_MIN)
        few_line(out, KEY_CONNECT_TIMEOUT, seen->count, "connection", "seen", CONNECTS_MIN);
    else if (limit_ns >= 10 * NS_PER_S)
        line(out, KEY_CONNECT_TIMEOUT, NULL, "a connection took as long as %s", wait_format(seen->max_ns, longest));
    else
        span_line(out, KEY_CONNECT_TIMEOUT, limit_ns,
                  format_text("the longest of %" PRIu64 " took %s%s", seen->count, wait_format(seen->max_ns, longest),
                              is_path(row) ? "" : "; room for two lost packets"));
}

/* The soonest that a program usually gives up an answer. */
static const struct timeout *soonest(const struct timeouts *timeouts, uint64_t *after_ns)
{
    const struct timeout *found = NULL;
    for (size_t i = 0; i < timeouts->count; i++) {
        uint64_t usual_ns;
        if (timeouts->at[i].waits != LEARNT_ANSWER || !timeout_usual(&timeouts->at[i], &usual_ns) ||
            (found != NULL && usual_ns >= *after_ns))
            continue;
        found = &timeouts->at[i];
        *after_ns = usual_ns;
    }
    return found;
}

static void suggest_response_timeout(FILE *out, const struct row *row)
{
    const struct span_summary *seen = &row->waits.answers;
    char p99[SPAN_TEXT_MAX], longest[SPAN_TEXT_MAX], after[SPAN_TEXT_MAX];
    uint64_t usual_ns = 0;
    const struct timeout *sooner = soonest(&row->timeouts, &usual_ns);
    const uint64_t limit_ns = limit_from(seen, RESPONSE_LEAST_NS);
    if (seen->count < ANSWERS_MIN)
        few_line(out, KEY_RESPONSE_TIMEOUT, seen->count, "answer", "seen", ANSWERS_MIN);
    else if (sooner != NULL && usual_ns <= limit_ns)
        line(out, KEY_RESPONSE_TIMEOUT, NULL, "%s gives up after %s by itself, which counts", sooner->program,
             span_format(usual_ns, after));
    else
        span_line(out, KEY_RESPONSE_TIMEOUT, limit_ns,
                  format_text("99 of 100 answers took %s at most, the longest of %" PRIu64 " %s",
                              wait_format(seen->p99_ns, p99), seen->count, wait_format(seen->max_ns, longest)));
}

/* A program that gives up sooner than what is built in would teach the circuit nothing. */
static void suggest_abandon_after(FILE *out, const struct row *row, const struct target *built_in)
{
    char after[SPAN_TEXT_MAX];
    const struct timeout *found = NULL;
    uint64_t shortest_ns = UINT64_MAX;
    for (size_t i = 0; i < row->timeouts.count; i++) {
        const struct patience_view *seen = &row->timeouts.at[i].seen;
        if (seen->counts[LEARNT_GIVEN_UP] == 0 || seen->shortest_ns >= shortest_ns)
            continue;
        shortest_ns = seen->shortest_ns;
        found = &row->timeouts.at[i];
    }
    if (found == NULL) {
        line(out, KEY_ABANDON_AFTER, NULL, "no program was seen to give up");
    } else if (shortest_ns >= built_in->rules.abandon_after_ns) {
        line(out, KEY_ABANDON_AFTER, NULL, "no program was seen to give up sooner than after %s",
             span_format(shortest_ns, after));
    } else {
        const uint64_t step_ns = 10 * NS_PER_MS, just_below_ns = shortest_ns - shortest_ns / 10;
        span_line(out, KEY_ABANDON_AFTER, larger(LEARNT_SHORTEST_NS, just_below_ns / step_ns * step_ns),
                  format_text("%s was seen to give up after %s", found->program, span_format(shortest_ns, after)));
    }
}

/* --- threshold and pauses ----------------------------------------------------------------------------------------- */

/* The latest runs of failures that healed, by what they were. */
struct healed {
    uint32_t slips, most_in_slip;
    uint32_t outages, fewest_in_outage;
    uint64_t lasted_ns[LEARNT_RUNS]; /* of the outages, ascending */
};

static void take_healed(struct healed *healed, const struct learnt_view *learnt)
{
    *healed = (struct healed){.fewest_in_outage = UINT32_MAX};
    for (unsigned int i = 0; i < learnt->latest_count; i++) {
        const struct run_view *run = &learnt->latest[i];
        if (run->lasted_ns < SLIP_NS) {
            healed->slips++;
            healed->most_in_slip = run->failures > healed->most_in_slip ? run->failures : healed->most_in_slip;
            continue;
        }
        uint32_t at = healed->outages++;
        for (; at > 0 && healed->lasted_ns[at - 1] > run->lasted_ns; at--)
            healed->lasted_ns[at] = healed->lasted_ns[at - 1];
        healed->lasted_ns[at] = run->lasted_ns;
        healed->fewest_in_outage = run->failures < healed->fewest_in_outage ? run->failures : healed->fewest_in_outage;
    }
}

static void suggest_threshold(FILE *out, const struct row *row, const struct healed *healed,
                              const struct target *built_in)
{
    const uint32_t usual = built_in->breaker.failure_threshold;
    /* Above all slips; and where that leaves room, so low that the shortest outage would have been noticed. */
    uint32_t threshold = usual;
    if (healed->most_in_slip + 1 > usual)
        threshold = healed->most_in_slip + 2;
    else if (healed->outages > 0 && healed->fewest_in_outage < usual)
        threshold = (uint32_t)larger(larger(healed->most_in_slip + 1, 2), healed->fewest_in_outage);
    threshold = (uint32_t)smaller(threshold, CIRCUIT_FAILURES_MAX);
    char *value = format_text("%" PRIu32, threshold);
    if (row->counts[COUNT_FAILED] == 0)
        line(out, KEY_FAILURE_THRESHOLD, NULL, "no call failed");
    else if (healed->slips + healed->outages == 0)
        line(out, KEY_FAILURE_THRESHOLD, NULL, "no run of failures was seen to heal");
    else if (threshold == usual)
        line(out, KEY_FAILURE_THRESHOLD, NULL, "the longest run that healed within a second had %" PRIu32 " failure%s",
             healed->most_in_slip, healed->most_in_slip == 1 ? "" : "s");
    else if (threshold > usual)
        line(out, KEY_FAILURE_THRESHOLD, value, "a run of %" PRIu32 " failures healed within a second by itself",
             healed->most_in_slip);
    else
        line(out, KEY_FAILURE_THRESHOLD, value,
             "an outage had no more than %" PRIu32 " failures; none of up to %" PRIu32 " healed within a second",
             healed->fewest_in_outage, threshold);
    free(value);
}

static void suggest_pauses(FILE *out, const struct healed *healed)
{
    char median[SPAN_TEXT_MAX], longest[SPAN_TEXT_MAX];
    if (healed->outages < OUTAGES_MIN) {
        few_line(out, KEY_RESET_TIMEOUT, healed->outages, "outage", "seen to heal", OUTAGES_MIN);
        return;
    }
    const uint64_t median_ns = healed->lasted_ns[(healed->outages - 1) / 2],
                   longest_ns = healed->lasted_ns[healed->outages - 1];
    const uint64_t pause_ns = smaller(larger(round_up(median_ns / 2), PAUSE_LEAST_NS), PAUSE_MOST_NS);
    const uint64_t pause_max_ns = smaller(larger(round_up(longest_ns / 2), pause_ns), PAUSE_MAX_MOST_NS);
    span_line(out, KEY_RESET_TIMEOUT, pause_ns,
              format_text("half of %" PRIu32 " outages lasted %s at most; a pause costs that much after the end",
                          healed->outages, span_format(median_ns, median)));
    span_line(out, KEY_RESET_TIMEOUT_MAX, pause_max_ns,
              format_text("the longest lasted %s", span_format(longest_ns, longest)));
}

/* --- a section ---------------------------------------------------------------------------------------------------- */

/* Whether it may stand as a section's name: one destination, in plain text. */
static bool can_be_named(const char *destination)
{
    const char *patterns[] = {destination, NULL};
    struct policy_problems problems = {0};
    if (destination[strcspn(destination, " \t#\\*?\"")] != '\0' || strlen(destination) >= TARGET_NAME_MAX ||
        (destination[0] != '[' && strchr(destination, '[') != NULL))
        return false;
    for (const char *at = destination; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || (unsigned char)*at >= 0x7f)
            return false;
    struct policy *policy = policy_from_patterns(patterns, NULL, &problems);
    const bool good = policy != NULL && problems.errors == 0;
    if (policy != NULL)
        policy_free(policy);
    policy_problems_free(&problems);
    return good;
}

static void tell_seen(FILE *out, const struct row *row)
{
    char span[SPAN_TEXT_MAX];
    fprintf(out, "# %" PRIu64 " call%s, %" PRIu64 " failed; %s of waiting in all, at most %" PRIu32 " at once.\n",
            row->counts[COUNT_ADMITTED], row->counts[COUNT_ADMITTED] == 1 ? "" : "s", row->counts[COUNT_FAILED],
            wait_format(row->waits.waited_us * NS_PER_US, span), row_most_waiting(row));
    for (size_t i = 0; i < row->timeouts.count; i++) {
        const struct timeout *timeout = &row->timeouts.at[i];
        char *text = timeout_text(timeout);
        fprintf(out, "# %s gives up, %s: %s.\n", shown(timeout->program), timeout_wait_text(timeout->waits), text);
        free(text);
    }
    if (row->learnt.present.failures > 0)
        fprintf(out, "# %" PRIu32 " failure%s had not healed when this was written.\n", row->learnt.present.failures,
                row->learnt.present.failures == 1 ? "" : "s in a row");
}

static void write_section(FILE *out, const struct row *row, const struct target *built_in)
{
    struct healed healed;
    if (!can_be_named(row->destination)) {
        fprintf(out, "\n# %s: not named here, for it is no plain text.\n", shown(row->destination));
        return;
    }
    take_healed(&healed, &row->learnt);
    fprintf(out, "\n[%s]\n", row->destination);
    tell_seen(out, row);
    suggest_connect_timeout(out, row);
    suggest_response_timeout(out, row);
    suggest_abandon_after(out, row, built_in);
    suggest_threshold(out, row, &healed, built_in);
    suggest_pauses(out, &healed);
}

/* --- the file ----------------------------------------------------------------------------------------------------- */

bool suggestion_may_write(const char *path, bool force)
{
    if (force || strcmp(path, "-") == 0 || access(path, F_OK) != 0)
        return true;
    warnx("--suggest %s: it is there already; --force replaces it", path);
    return false;
}

/* False: there is nothing to write; why was said. */
static bool any_named(const char *path, const struct rows *rows)
{
    for (size_t i = 0; i < rows->count; i++)
        if (can_be_named(rows->at[i].destination))
            return true;
    if (rows->count == 0)
        warnx("--suggest %s: not written, for no call was seen that a policy could be about", path);
    else
        warnx("--suggest %s: not written, for what was called can't be written as a pattern: %s%s", path,
              rows->at[0].destination, rows->count > 1 ? ", and others" : "");
    return false;
}

bool suggestion_write(const char *path, bool force, const struct rows *rows, const char *source)
{
    struct result_file result;
    static struct target built_in;
    char date[32];
    const time_t now = (time_t)(clock_wall_ns() / NS_PER_S);
    struct tm today;
    if (!any_named(path, rows))
        return true;
    /* Somebody may have made it while the program ran. */
    if (!suggestion_may_write(path, force) || !result_open(&result, path, RESULT_MODE_USUAL))
        return false;
    target_set_built_in(&built_in);
    if (localtime_r(&now, &today) == NULL || strftime(date, sizeof date, "%Y-%m-%d %H:%M", &today) == 0)
        date[0] = '\0';
    fprintf(result.out,
            "# What sockfuse observe saw of %s, %s. Each line says why.\n"
            "# What is a comment is as built in: too little was seen to say better.\n"
            "# Try it: sockfuse check THIS-FILE, and sockfuse run -p THIS-FILE -o mode=observe -- CMD\n",
            shown(source), date);
    for (size_t i = 0; i < rows->count; i++)
        write_section(result.out, &rows->at[i], &built_in);
    return result_close(&result);
}
