/*
 * describe.c - the one writer of policies: a target's values, or all of it, as a file would have it.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/policy.h"

#include "base/bare.h"
#include "policy/keys.h"

/* A built-in pause may have given way to the other one, which somebody set: see target_check. */
static const char *built_in_origin(const struct target *target, enum key_index key)
{
    const uint64_t ours = ~(target->keys_set | target->keys_defaulted | target->keys_overridden);
    if (target->breaker.reset_timeout_ns == target->breaker.reset_timeout_max_ns) {
        if (key == KEY_RESET_TIMEOUT_MAX && (ours & key_bit(KEY_RESET_TIMEOUT)) == 0)
            return "as reset_timeout";
        if (key == KEY_RESET_TIMEOUT && (ours & key_bit(KEY_RESET_TIMEOUT_MAX)) == 0)
            return "as reset_timeout_max";
    }
    /* So has a built-in time for probes to the longest that one may take ... */
    if (key == KEY_PROBE_TIMEOUT && target->breaker.probe_timeout_ns == target->response_timeout_ns)
        return "as response_timeout";
    if (key == KEY_PROBE_TIMEOUT && target->breaker.probe_timeout_ns == target->connect_timeout_ns &&
        (ours & key_bit(KEY_CONNECT_TIMEOUT)) == 0)
        return "as connect_timeout";
    /* ... and a built-in minimum to a window of fewer calls. */
    if (key == KEY_MINIMUM_CALLS && target->breaker.window == (WINDOW_CALLS | target->breaker.minimum_calls))
        return "as window";
    return key == KEY_MATCH ? "the name" : "built in";
}

static const char *origin_of(const struct target *target, enum key_index key)
{
    if ((target->keys_overridden & key_bit(key)) != 0)
        return "-o";
    if ((target->keys_set & key_bit(key)) != 0)
        return "section";
    if ((target->keys_defaulted & key_bit(key)) != 0)
        return "[defaults]";
    return built_in_origin(target, key);
}

/* A `#` would begin a comment. */
static void write_text(FILE *stream, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '#')
            fputc('\\', stream);
        fputc(*text, stream);
    }
}

/* So it would here, and a blank that has no backslash (of -t) another pattern. */
static void write_pattern(FILE *stream, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '#' || *text == ' ' || *text == '\t')
            fputc('\\', stream);
        else if (*text == '\\' && text[1] != '\0' && text[1] != '#')
            fputc(*text++, stream);
        fputc(*text, stream);
    }
}

static void write_value(FILE *stream, const struct target *target, enum key_index key)
{
    char value[VALUE_TEXT_MAX];
    if (key != KEY_MATCH) {
        key_format(key, target, value, sizeof value);
        write_text(stream, value);
        return;
    }
    for (size_t i = 0; i < target->pattern_count; i++) {
        if (i > 0)
            fputc(' ', stream);
        write_pattern(stream, target->patterns[i].text);
    }
}

/* To be freed; NULL: no memory. */
static char *value_text(const struct target *target, enum key_index key)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = bare_open_memstream(&text, &size);
    if (stream == NULL)
        return NULL;
    write_value(stream, target, key);
    if (bare_fclose(stream) == 0)
        return text;
    free(text);
    return NULL;
}

typedef void (*key_writer)(const char *key, const char *value, const char *origin, void *context);

static bool describe(const struct target *target, bool of_policy, key_writer key_line, void *context)
{
    for (unsigned int index = 0; index < KEYS; index++) {
        const enum key_index key = (enum key_index)index;
        if (key_table[key].of_policy != of_policy)
            continue;
        char *value = value_text(target, key);
        if (value == NULL)
            return false;
        key_line(key_table[key].name, value, origin_of(target, key), context);
        free(value);
    }
    return true;
}

bool policy_describe(const struct target *target, key_writer line, void *context)
{
    return describe(target, false, line, context);
}

bool policy_describe_common(const struct target *target, key_writer line, void *context)
{
    return describe(target, true, line, context);
}

static void write_key(const char *key, const char *value, const char *origin, void *stream)
{
    fprintf(stream, "%-19s = %-24s # %s\n", key, value, origin);
}

static void write_agent(FILE *stream, const struct policy_agent *agent)
{
    fprintf(stream, "\n[agent] # line %u\n", agent->line);
    for (unsigned int index = 0; index < AGENT_KEYS; index++) {
        const enum agent_key_index key = (enum agent_key_index)index;
        const bool is_set = (agent->keys_set >> key & 1) != 0;
        char value[VALUE_TEXT_MAX];
        agent_key_format(&agent->settings, key, value, sizeof value);
        if (value[0] == '\0')
            continue;
        fprintf(stream, "%-19s = ", agent_keys[key].name);
        write_text(stream, value);
        fprintf(stream, "%*s # %s\n", strlen(value) < 24 ? 24 - (int)strlen(value) : 0, "",
                is_set ? "section" : "built in");
    }
}

static bool write_targets(FILE *stream, const struct policy *policy)
{
    bool good = true;
    if (policy->agent != NULL)
        write_agent(stream, policy->agent);
    if (policy->target_count > 0) {
        fputs("\n[defaults]\n", stream);
        good = policy_describe_common(&policy->targets[0], write_key, stream);
    }
    for (size_t i = 0; i < policy->target_count && good; i++) {
        const struct target *target = &policy->targets[i];
        fputs("\n[", stream);
        write_text(stream, target->name);
        fprintf(stream, "] # line %u\n", target->line);
        good = policy_describe(target, write_key, stream);
    }
    return good;
}

char *policy_write(const struct policy *policy)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = bare_open_memstream(&text, &size);
    if (stream == NULL)
        return NULL;
    const bool good = write_targets(stream, policy) && !ferror(stream);
    if (bare_fclose(stream) == 0 && good)
        return text;
    free(text);
    return NULL;
}

const char *target_mode_name(enum target_mode mode)
{
    return choice_name(key_table[KEY_MODE].rule.choices, mode);
}

const char *target_scope_name(enum target_scope scope)
{
    return choice_name(key_table[KEY_SCOPE].rule.choices, scope);
}
