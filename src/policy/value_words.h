/*
 * value_words.h - values that are words of a list. Private to value.c.
 */
#ifndef SOCKFUSE_POLICY_VALUE_WORDS_H
#define SOCKFUSE_POLICY_VALUE_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "policy/complaint.h"
#include "policy/value_rule.h"

/* A list of words for messages and values; what does not fit is left out. */
void value_add_word(char *list, size_t size, const char *separator, const char *word);

/* One word; failures' kinds; any words of the rule's choices. False: `why` says what is expected. */
bool value_parse_choice(const struct value_rule *rule, const char *text, uint64_t *value, struct complaint why);
bool value_parse_kinds(const struct value_rule *rule, const char *text, uint64_t *mask, struct complaint why);
bool value_parse_words(const struct value_rule *rule, const char *text, uint64_t *mask, struct complaint why);

#endif
