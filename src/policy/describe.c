/*
 * describe.c - a target written back as a file would have it.
 */
#include <stdio.h>
#include <stdlib.h>

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

/* A `#` would begin a comment, and a blank that has no backslash (of -t) another pattern. */
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

static char *patterns_text(const struct target *target)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = bare_open_memstream(&text, &size);
    if (stream == NULL)
        return NULL;
    for (size_t i = 0; i < target->pattern_count; i++) {
        if (i > 0)
            fputc(' ', stream);
        write_pattern(stream, target->patterns[i].text);
    }
    if (bare_fclose(stream) == 0)
        return text;
    free(text);
    return NULL;
}

typedef void (*line_writer)(const char *key, const char *value, const char *origin, void *context);

static void describe(const struct target *target, bool of_policy, line_writer line, void *context)
{
    for (unsigned int index = 0; index < KEYS; index++) {
        const enum key_index key = (enum key_index)index;
        char value[VALUE_TEXT_MAX];
        if (key_table[key].of_policy != of_policy)
            continue;
        if (key == KEY_MATCH) {
            char *patterns = patterns_text(target);
            line(key_table[key].name, patterns != NULL ? patterns : "", origin_of(target, key), context);
            free(patterns);
        } else {
            key_format(key, target, value, sizeof value);
            line(key_table[key].name, value, origin_of(target, key), context);
        }
    }
}

void policy_describe(const struct target *target, line_writer line, void *context)
{
    describe(target, false, line, context);
}

void policy_describe_common(const struct target *target, line_writer line, void *context)
{
    describe(target, true, line, context);
}

const char *target_mode_name(enum target_mode mode)
{
    return choice_name(key_table[KEY_MODE].rule.choices, mode);
}
