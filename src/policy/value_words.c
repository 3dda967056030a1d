/*
 * value_words.c - values that are words of a list. See value_words.h.
 */
#include "policy/value_words.h"

#include <stdio.h>
#include <string.h>

#include "base/span.h"
#include "breaker/outcome.h"
#include "policy/distance.h"

void value_add_word(char *list, size_t size, const char *separator, const char *word)
{
    const size_t length = strlen(list);
    snprintf(list + length, size - length, "%s%s", length > 0 ? separator : "", word);
}

/* The next word of a list, behind which `*text` moves; a longer one is cut. Commas too: what is meant is plain. */
static bool take_word(const char **text, char *word, size_t size)
{
    *text += span_of(*text, " \t,");
    const size_t length = span_until(*text, " \t,"), kept = length < size ? length : size - 1;
    memcpy(word, *text, kept);
    word[kept] = '\0';
    *text += length;
    return length > 0;
}

static bool complain_of_word(struct complaint why, const struct nearest *nearest, const char *all)
{
    if (nearest_meant(nearest) != NULL)
        return complain(why, "`%.40s` is not known; did you mean `%s`? Expected: %s", nearest->word, nearest->name,
                        all);
    return complain(why, "`%.40s` is not known; expected: %s", nearest->word, all);
}

static bool complain_of_choice(const struct value_rule *rule, const char *text, struct complaint why)
{
    char all[200] = "";
    struct nearest nearest = nearest_to(text);
    for (const struct choice *choice = rule->choices; choice->name != NULL; choice++) {
        nearest_offer(&nearest, choice->name);
        value_add_word(all, sizeof all, ", ", choice->name);
    }
    return complain_of_word(why, &nearest, all);
}

bool value_parse_choice(const struct value_rule *rule, const char *text, uint64_t *value, struct complaint why)
{
    for (const struct choice *choice = rule->choices; choice->name != NULL; choice++) {
        if (strcmp(choice->name, text) == 0) {
            *value = choice->value;
            return true;
        }
    }
    return complain_of_choice(rule, text, why);
}

/* Words of the list, with blanks or commas between them. */
bool value_parse_words(const struct value_rule *rule, const char *text, uint64_t *mask, struct complaint why)
{
    char word[48];
    *mask = 0;
    while (take_word(&text, word, sizeof word)) {
        uint64_t bit = 0;
        if (!value_parse_choice(rule, word, &bit, why))
            return false;
        *mask |= bit;
    }
    return *mask != 0 || complain_of_choice(rule, "", why);
}

static bool complain_of_kind(const struct value_rule *rule, const char *word, struct complaint why)
{
    char all[200] = "";
    struct nearest nearest = nearest_to(word);
    for (unsigned int kind = 1; kind < FAILURE_KINDS; kind++) {
        if ((rule->maximum >> kind & 1) == 0)
            continue;
        nearest_offer(&nearest, failure_kind_name(kind));
        value_add_word(all, sizeof all, " ", failure_kind_name(kind));
    }
    return complain_of_word(why, &nearest, all);
}

bool value_parse_kinds(const struct value_rule *rule, const char *text, uint64_t *mask, struct complaint why)
{
    char word[48];
    *mask = 0;
    while (take_word(&text, word, sizeof word)) {
        const enum failure_kind kind = failure_kind_named(word);
        if (kind == FAILURE_NONE || (rule->maximum >> kind & 1) == 0)
            return complain_of_kind(rule, word, why);
        *mask |= UINT64_C(1) << kind;
    }
    return *mask != 0 || complain_of_kind(rule, "", why);
}
