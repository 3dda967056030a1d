/*
 * capacity.c - the sizes of a segment's tables. See capacity.h.
 */
#include "policy/capacity.h"

#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "base/span.h"
#include "policy/complaint.h"
#include "policy/distance.h"

#define SEPARATORS " \t,"
#define WORD_MAX 24
#define EXPECTED "expected numbers of circuits, connections and processes, such as `256 circuits 8192 connections`"

static const struct table {
    const char *name, *one;
    size_t offset;
    uint32_t most;
} tables[] = {
    {"circuits", "circuit", offsetof(struct capacity, circuits), CAPACITY_CIRCUITS_MAX},
    {"connections", "connection", offsetof(struct capacity, calls), CAPACITY_CALLS_MAX},
    {"processes", "process", offsetof(struct capacity, processes), CAPACITY_PROCESSES_MAX},
};
#define TABLES (sizeof tables / sizeof tables[0])

static uint32_t *member(struct capacity *capacity, const struct table *table)
{
    return (uint32_t *)(void *)((char *)capacity + table->offset);
}

bool capacity_is_sane(const struct capacity *capacity)
{
    return capacity->circuits >= 1 && capacity->circuits <= CAPACITY_CIRCUITS_MAX && capacity->calls >= 1 &&
           capacity->calls <= CAPACITY_CALLS_MAX && capacity->processes >= 1 &&
           capacity->processes <= CAPACITY_PROCESSES_MAX && capacity->events >= 1 &&
           capacity->events <= CAPACITY_EVENTS_MAX;
}

/* The next word, behind which `*text` moves; a longer one is cut. False: there is none. */
static bool read_word(const char **text, char word[WORD_MAX])
{
    *text += span_of(*text, SEPARATORS);
    const size_t length = span_until(*text, SEPARATORS);
    const size_t kept = length < WORD_MAX ? length : WORD_MAX - 1;
    memcpy(word, *text, kept);
    word[kept] = '\0';
    *text += length;
    return length > 0;
}

/* A whole number, the largest that is one here for all that are larger; UINT32_MAX: it is none. */
static uint32_t read_number(const char *word)
{
    uint64_t number;
    if (!ascii_is_number(word, &number))
        return UINT32_MAX;
    return number < UINT32_MAX ? (uint32_t)number : UINT32_MAX - 1;
}

static const struct table *table_named(const char *word)
{
    for (size_t i = 0; i < TABLES; i++) {
        if (strcmp(word, tables[i].name) == 0 || strcmp(word, tables[i].one) == 0)
            return &tables[i];
    }
    return NULL;
}

static bool complain_of_table(struct complaint why, const char *number, const char *word)
{
    if (word[0] == '\0')
        return complain(why, "of what are there %s? " EXPECTED, number);
    for (size_t i = 0; i < TABLES; i++) {
        if (word_is_near(word, tables[i].name))
            return complain(why, "`%s` is not known; did you mean `%s`?", word, tables[i].name);
    }
    return complain(why, "`%s` is not known; " EXPECTED, word);
}

bool capacity_parse(struct capacity *capacity, const char *text, char *why_text, size_t why_size)
{
    const struct complaint why = {why_text, why_size};
    char number[WORD_MAX], word[WORD_MAX];
    unsigned int seen = 0;
    struct capacity read = CAPACITY_BUILT_IN;
    read.events = capacity->events;
    while (read_word(&text, number)) {
        const uint32_t count = read_number(number);
        if (count == UINT32_MAX)
            return complain(why, "`%s` is no number; " EXPECTED, number);
        const struct table *table = read_word(&text, word) ? table_named(word) : NULL;
        if (table == NULL)
            return complain_of_table(why, number, word);
        if ((seen & 1u << (table - tables)) != 0)
            return complain(why, "`%s` again", table->name);
        if (count < 1 || count > table->most)
            return complain(why, "expected from 1 to %u %s", table->most, table->name);
        *member(&read, table) = count;
        seen |= 1u << (table - tables);
    }
    if (seen == 0)
        return complain(why, EXPECTED);
    *capacity = read;
    return true;
}

void capacity_format(const struct capacity *capacity, char *text, size_t size)
{
    struct capacity copy = *capacity;
    size_t length = 0;
    text[0] = '\0';
    for (size_t i = 0; i < TABLES && length < size; i++) {
        const uint32_t count = *member(&copy, &tables[i]);
        length += (size_t)snprintf(text + length, size - length, "%s%u %s", i > 0 ? " " : "", count,
                                   count == 1 ? tables[i].one : tables[i].name);
    }
}
