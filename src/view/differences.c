/*
 * differences.c - in what running programs differ from each other, and from their policy's file. See running.h.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "view/output.h"
#include "view/running.h"

unsigned int running_behind(const struct running *running)
{
    unsigned int count = 0;
    for (size_t i = 0; running->file != NULL && i < running->edition_count; i++)
        if (running->editions[i].revision != running->file->revision)
            count += running->editions[i].programs;
    return count;
}

bool running_takes(const struct running *running, const struct process_view *process)
{
    return running->file != NULL && running->handed_over == running->file->revision &&
           process->revision != running->file->revision && !process->keeps_policy && process->reload != running->number;
}

unsigned int running_taking(const struct running *running)
{
    unsigned int count = 0;
    for (size_t i = 0; i < running->process_count; i++)
        count += running_takes(running, &running->processes[i]);
    return count;
}

bool running_differ(const struct running *running)
{
    return running->edition_count > 1;
}

/* The values of a target's keys, in the order of the table of keys. */
struct values {
    const char **keys;
    char **at;
    size_t count;
};

static void note_value(const char *key, const char *value, const char *origin, void *context)
{
    struct values *values = context;
    (void)origin;
    values->keys = grow(values->keys, values->count, sizeof *values->keys);
    values->at = grow(values->at, values->count, sizeof *values->at);
    values->keys[values->count] = key;
    values->at[values->count++] = copy_text(value);
}

static void values_release(struct values *values)
{
    for (size_t i = 0; i < values->count; i++)
        free(values->at[i]);
    free(values->keys);
    free(values->at);
}

/* Adds `more` to what was allocated. */
static void add_text(char **text, const char *before, const char *more)
{
    char *longer = format_text("%s%s%s", *text, before, more);
    free(*text);
    *text = longer;
}

/* The values of one key in all editions that have the target: each once. NULL: there is but one. */
static char *differing_values(const struct values *values, size_t count, size_t key)
{
    char *text = copy_text(values[0].at[key]);
    bool differ = false;
    for (size_t i = 1; i < count; i++) {
        bool known = false;
        for (size_t j = 0; j < i && !known; j++)
            known = strcmp(values[i].at[key], values[j].at[key]) == 0;
        if (known)
            continue;
        differ = true;
        add_text(&text, " or ", values[i].at[key]);
    }
    if (differ)
        return text;
    free(text);
    return NULL;
}

static char *compare_values(const struct values *values, size_t count)
{
    char *text = copy_text("");
    for (size_t key = 0; count > 1 && key < values[0].count; key++) {
        char *differing = differing_values(values, count, key);
        if (differing != NULL) {
            add_text(&text, text[0] != '\0' ? ", " : "", values[0].keys[key]);
            add_text(&text, " ", differing);
        }
        free(differing);
    }
    return text;
}

char *differing_keys(const struct running *running, const char *target_name)
{
    struct values *values = allocate(running->edition_count, sizeof *values);
    size_t count = 0, without = 0, unknown = 0;
    for (size_t i = 0; i < running->edition_count; i++) {
        const struct edition *edition = &running->editions[i];
        const struct target *target =
            edition->policy != NULL ? policy_target_named(edition->policy, target_name) : NULL;
        if (target != NULL)
            policy_describe(target, note_value, &values[count++]);
        else if (edition->policy != NULL)
            without += edition->programs;
        else
            unknown += edition->programs;
    }
    char *text = compare_values(values, count), *tail = NULL;
    if (count > 0 && without > 0) {
        tail = format_text("%zu of them without this target", without);
        add_text(&text, text[0] != '\0' ? ", " : "", tail);
    }
    if (unknown > 0) {
        free(tail);
        tail = format_text("of %zu of them unknown", unknown);
        add_text(&text, text[0] != '\0' ? ", " : "", tail);
    }
    free(tail);
    for (size_t i = 0; i < count; i++)
        values_release(&values[i]);
    free(values);
    if (text[0] != '\0')
        return text;
    free(text);
    return NULL;
}
