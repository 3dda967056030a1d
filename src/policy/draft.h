/*
 * draft.h - a policy file as it is written: its sections, and in each the keys with their values as text. Private to
 * src/policy.
 *
 * What is checked here is the form: sections, keys that exist, nothing twice. What the values mean is policy.c's.
 */
#ifndef SOCKFUSE_POLICY_DRAFT_H
#define SOCKFUSE_POLICY_DRAFT_H

#include "policy/agent_section.h"
#include "policy/keys.h"
#include "policy/source.h"

struct entry {
    enum key_index key; /* KEYS in [agent] */
    enum agent_key_index agent_key;
    unsigned int line; /* where the key stands */
    char *logical;     /* the logical line, to be freed; `value` is a part of it */
    char *value;       /* without blanks around it, never empty */
    const char *raw;   /* the lines of the source that it was made of */
    size_t raw_length;
};

struct section {
    char name[TARGET_NAME_MAX];
    unsigned int line;
    bool is_defaults;
    bool is_agent;       /* its keys are those of agent_section.h */
    bool is_bad;         /* its header has an error: its entries are read, but make no target */
    uint64_t keys;       /* which stand in it */
    size_t first, count; /* its entries */
};

struct draft {
    struct section *sections;
    size_t section_count;
    struct entry *entries;
    size_t entry_count;
};

/* Reads all of it, whatever is wrong; the source must live as long as the draft. */
void draft_read(struct draft *draft, const struct source *source, struct policy_problems *problems);
void draft_free(struct draft *draft);

/* Where somebody has come to who reads an entry's value again, as the file has it. */
struct entry_place {
    const char *at, *end;
    unsigned int line;
};

/* At the beginning of the value. */
struct entry_place entry_begin(const struct entry *entry);
/* The line in which the next word of the value stands: a continued line has several. All words, one after the other. */
unsigned int entry_word_line(struct entry_place *place, const char *word);

#endif
