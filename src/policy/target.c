/*
 * target.c - one target: its values and its patterns. See target.h.
 */
#define _GNU_SOURCE
#include "policy/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/span.h"
#include "policy/distance.h"
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
    const enum key_index key = key_named(name);
    char *value = strdup(equals + 1 + span_of(equals + 1, " \t"));
    if (value == NULL) {
        problem_error(problems, 0, "out of memory");
        return;
    }
    for (size_t end = strlen(value); end > 0 && (value[end - 1] == ' ' || value[end - 1] == '\t'); end--)
        value[end - 1] = '\0';
    if (key == KEYS) {
        char words[KEY_WORDS_MAX];
        key_nearest_words(name, words, sizeof words);
        problem_error(problems, 0, "-o %.80s: unknown key `%s`; %s", text, name, words);
    } else if (key == KEY_MATCH) {
        problem_error(problems, 0, "-o %.80s: `match` belongs to one target; use -t PATTERN", text);
    } else if (!key_set(key, overrides, value, why, sizeof why)) {
        problem_error(problems, 0, "-o %.80s: %s", text, why);
    } else {
        overrides->keys_overridden |= key_bit(key);
    }
    free(value);
}

void overrides_read(struct target *overrides, const char *const *texts, struct policy_problems *problems)
{
    *overrides = (struct target){0};
    for (; texts != NULL && *texts != NULL; texts++)
        read_override(overrides, *texts, problems);
}

char **overrides_write(const struct target *overrides)
{
    char value[VALUE_TEXT_MAX];
    char **texts = calloc(KEYS + 1, sizeof *texts);
    size_t count = 0;
    for (unsigned int index = 0; texts != NULL && index < KEYS; index++) {
        const enum key_index key = (enum key_index)index;
        if ((overrides->keys_overridden & key_bit(key)) == 0)
            continue;
        key_format(key, overrides, value, sizeof value);
        if (asprintf(&texts[count], "%s=%s", key_table[key].name, value) < 0) {
            texts[count] = NULL;
            overrides_free(texts);
            return NULL;
        }
        count++;
    }
    return texts;
}

void overrides_free(char **texts)
{
    for (size_t i = 0; texts != NULL && texts[i] != NULL; i++)
        free(texts[i]);
    free(texts);
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
    struct entry_place place = entry_begin(entry);
    bool good = true;
    for (char *word = entry->value, *end; *word != '\0'; word = end + span_of(end, " \t")) {
        end = word_end(word);
        const char behind = *end;
        *end = '\0';
        const unsigned int line = entry_word_line(&place, word);
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
