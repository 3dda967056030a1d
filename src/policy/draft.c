/*
 * draft.c - reads sections and keys out of a policy's bytes, with the right line numbers. See draft.h.
 */
#include "policy/draft.h"

#include <bsd/libutil.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/ascii.h"
#include "base/bare.h"
#include "base/span.h"
#include "policy/distance.h"
#include "policy/problem.h"

#define BLANKS " \t\r\v\f"
#define STREAM_BUFFER 512
#define DEFAULTS "defaults"
#define AGENT "agent"

/* Where the reader is: in which logical line of the source, and in which section. */
struct reader {
    struct draft *draft;
    struct policy_problems *problems;
    const char *raw, *raw_end, *source_end; /* the physical lines of the present logical one */
    unsigned int line;                      /* the number of the first of them */
    unsigned int last_line;
    struct section *section; /* NULL before the first */
    unsigned int defaults_line, agent_line;
};

/* Cuts the blanks off both ends, in place. */
static char *trim(char *text)
{
    text += span_of(text, BLANKS);
    size_t length = strlen(text);
    while (length > 0 && strchr(BLANKS, text[length - 1]) != NULL)
        length--;
    text[length] = '\0';
    return text;
}

static void out_of_memory(struct reader *reader)
{
    problem_error(reader->problems, reader->line, "out of memory");
}

/* --- sections --- */

/* What is wrong with the header of a section, or NULL. `header` begins with '['. */
static const char *header_complaint(const char *header)
{
    const size_t length = strlen(header);
    if (strchr(header, ']') == NULL)
        return "the section's `]` is missing";
    if (header[length - 1] != ']') {
        return strchr(strchr(header, ']'), ':') != NULL
                   ? "text behind the section's `]`; an IPv6 address keeps its own brackets, as in `[[::1]:443]`"
                   : "text behind the section's `]`";
    }
    if (length - 2 >= TARGET_NAME_MAX)
        return "the section's name has more than 127 bytes: give it a short name and a `match`";
    for (const char *at = header; *at != '\0'; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            return "the section's name has a control character in it";
    return NULL;
}

static void name_section(struct reader *reader, struct section *section, char *header)
{
    const char *complaint = header_complaint(header);
    section->is_bad = true;
    if (complaint != NULL) {
        problem_error(reader->problems, reader->line, "`%.100s`: %s", header, complaint);
        return;
    }
    header[strlen(header) - 1] = '\0';
    const char *name = trim(header + 1);
    if (name[0] == '\0') {
        problem_error(reader->problems, reader->line,
                      "the section has no name; expected `[TARGET]` or `[" DEFAULTS "]`");
        return;
    }
    section->is_defaults = strcmp(name, DEFAULTS) == 0;
    section->is_agent = strcmp(name, AGENT) == 0;
    if (section->is_defaults || section->is_agent) {
        unsigned int *line = section->is_agent ? &reader->agent_line : &reader->defaults_line;
        if (*line != 0) {
            problem_error(reader->problems, reader->line, "`[%s]` again: the first stands in line %u", name, *line);
            return;
        }
        *line = reader->line;
    } else if (ascii_equal(name, DEFAULTS)) {
        problem_error(reader->problems, reader->line, "`[%s]` is no target's name; did you mean `[" DEFAULTS "]`?",
                      name);
        return;
    }
    memcpy(section->name, name, strlen(name) + 1); /* header_complaint knows that it has room */
    section->is_bad = false;
}

static void read_section(struct reader *reader, char *header)
{
    struct draft *draft = reader->draft;
    struct section *sections = array_grow(draft->sections, draft->section_count, sizeof *sections);
    if (sections == NULL) {
        out_of_memory(reader);
        return;
    }
    draft->sections = sections;
    reader->section = &sections[draft->section_count++];
    *reader->section = (struct section){.line = reader->line, .first = draft->entry_count};
    name_section(reader, reader->section, header);
}

static int by_name_then_line(const void *a, const void *b)
{
    const struct section *const *left = a, *const *right = b;
    const int order = strcmp((*left)->name, (*right)->name);
    return order != 0 ? order : ((*left)->line > (*right)->line) - ((*left)->line < (*right)->line);
}

/* By sorting: with a comparison of each with each, ten thousand sections would take a second. */
static void find_sections_twice(struct reader *reader)
{
    const size_t count = reader->draft->section_count;
    const struct section **sorted = reallocarray(NULL, count + 1, sizeof *sorted);
    if (sorted == NULL) {
        out_of_memory(reader);
        return;
    }
    for (size_t i = 0; i < count; i++)
        sorted[i] = &reader->draft->sections[i];
    qsort(sorted, count, sizeof *sorted, by_name_then_line);
    const struct section *first = NULL;
    for (size_t i = 0; i < count; i++) {
        if (sorted[i]->is_bad)
            continue;
        if (first != NULL && strcmp(first->name, sorted[i]->name) == 0)
            problem_error(reader->problems, sorted[i]->line, "section `[%s]` again: the first stands in line %u",
                          first->name, first->line);
        else
            first = sorted[i];
    }
    free(sorted);
}

/* --- keys --- */

static void complain_of_unknown_key(struct reader *reader, const char *name)
{
    char words[KEY_WORDS_MAX];
    (reader->section->is_agent ? agent_key_nearest_words : key_nearest_words)(name, words, sizeof words);
    problem_error(reader->problems, reader->line, "unknown key `%.80s`; %s%s", name, words,
                  reader->section->is_agent ? " (`[" AGENT "]` is no target, but says how the agent works)" : "");
}

static void complain_of_key_twice(struct reader *reader, enum key_index key, const char *name)
{
    const struct section *section = reader->section;
    unsigned int line = 0;
    for (size_t i = section->first; i < section->first + section->count && line == 0; i++) {
        if (reader->draft->entries[i].key == key)
            line = reader->draft->entries[i].line;
    }
    const char *hint = key == KEY_MATCH ? "; one `match` takes many patterns, separated by blanks, and a `\\` at a "
                                          "line's end continues it"
                                        : "";
    if (strcmp(name, key_table[key].name) == 0)
        problem_error(reader->problems, reader->line, "key `%s` again: the section has it in line %u%s", name, line,
                      hint);
    else
        problem_error(reader->problems, reader->line,
                      "key `%s` (another name of `%s`) again: the section has it in line %u", name, key_table[key].name,
                      line);
}

/* Which key `name` is in this place; KEYS if it can't stand here, and then that has been said. */
static enum key_index check_key(struct reader *reader, const char *name)
{
    const enum key_index key = key_named(name);
    if (reader->section == NULL)
        problem_error(reader->problems, reader->line,
                      "key `%.80s` stands before the first section; put `[" DEFAULTS "]` or `[TARGET]` above it", name);
    else if (key == KEYS)
        complain_of_unknown_key(reader, name);
    else if (key == KEY_MATCH && reader->section->is_defaults)
        problem_error(reader->problems, reader->line,
                      "`match` can't stand in `[" DEFAULTS "]`: each target has its own");
    else if (key_table[key].of_policy && !reader->section->is_defaults)
        problem_error(reader->problems, reader->line,
                      "`%s` can stand in `[" DEFAULTS "]` alone: all targets share one segment", name);
    else if ((reader->section->keys & key_bit(key)) != 0)
        complain_of_key_twice(reader, key, name);
    else
        return key;
    return KEYS;
}

/* The same in [agent]. */
static enum agent_key_index check_agent_key(struct reader *reader, const char *name)
{
    const enum agent_key_index key = agent_key_named(name);
    if (key == AGENT_KEYS)
        complain_of_unknown_key(reader, name);
    else if ((reader->section->keys >> key & 1) != 0)
        problem_error(reader->problems, reader->line, "key `%s` again in the same section", name);
    else
        return key;
    return AGENT_KEYS;
}

static bool ends_with_backslash(const char *text)
{
    size_t length = strlen(text), backslashes = 0;
    while (length > backslashes && text[length - 1 - backslashes] == '\\')
        backslashes++;
    return backslashes % 2 == 1;
}

/* Takes the logical line over if it returns true. */
static bool read_key(struct reader *reader, char *logical, char *text)
{
    char *equals = strchr(text, '=');
    if (equals == NULL) {
        const size_t word = span_until(text, BLANKS ":");
        char *value = text + word + span_of(text + word, BLANKS ":");
        char name[DISTANCE_WORD_MAX + 1];
        snprintf(name, sizeof name, "%.*s", (int)(word < sizeof name ? word : sizeof name), text);
        if (key_named(name) != KEYS && *value != '\0')
            problem_error(reader->problems, reader->line, "`%.80s` has no `=`: write `%s = %.80s`", text, name, value);
        else
            problem_error(reader->problems, reader->line, "`%.80s`: expected `KEY = VALUE` or `[TARGET]`", text);
        return false;
    }
    *equals = '\0';
    const char *name = trim(text);
    char *value = trim(equals + 1);
    if (name[0] == '\0') {
        problem_error(reader->problems, reader->line, "the key is missing before the `=`; expected `KEY = VALUE`");
        return false;
    }
    const bool is_agent = reader->section != NULL && reader->section->is_agent;
    const enum agent_key_index agent_key = is_agent ? check_agent_key(reader, name) : AGENT_KEYS;
    const enum key_index key = is_agent ? KEYS : check_key(reader, name);
    if (key == KEYS && agent_key == AGENT_KEYS)
        return false;
    reader->section->keys |= is_agent ? UINT64_C(1) << agent_key : key_bit(key);
    if (value[0] == '\0' || ends_with_backslash(value)) {
        problem_error(reader->problems, reader->line,
                      value[0] == '\0' ? "key `%s` has no value"
                                       : "key `%s`: a `\\` continues a line only as its very last character",
                      name);
        return false;
    }
    struct draft *draft = reader->draft;
    struct entry *entries = array_grow(draft->entries, draft->entry_count, sizeof *entries);
    if (entries == NULL) {
        out_of_memory(reader);
        return false;
    }
    draft->entries = entries;
    entries[draft->entry_count++] = (struct entry){.key = key,
                                                   .agent_key = agent_key,
                                                   .line = reader->line,
                                                   .logical = logical,
                                                   .value = value,
                                                   .raw = reader->raw,
                                                   .raw_length = (size_t)(reader->raw_end - reader->raw)};
    reader->section->count++;
    return true;
}

/* --- lines --- */

static const char *next_line(const char *at, const char *end)
{
    const char *newline = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
    return newline != NULL ? newline + 1 : end;
}

/*
 * fparseln counts lines but does not say with which one the logical line began: lines that are all comment and come
 * before it have been skipped, so they are here too.
 */
static void locate(struct reader *reader, size_t lines_read)
{
    reader->line = reader->last_line + 1;
    reader->raw = reader->raw_end;
    while (reader->line < lines_read && reader->raw < reader->source_end && *reader->raw == '#') {
        reader->raw = next_line(reader->raw, reader->source_end);
        reader->line++;
    }
    reader->raw_end = reader->raw;
    for (size_t line = reader->line; line <= lines_read; line++)
        reader->raw_end = next_line(reader->raw_end, reader->source_end);
    reader->last_line = (unsigned int)lines_read;
}

static bool read_line(struct reader *reader, char *logical, size_t length)
{
    if (memchr(logical, '\0', length) != NULL) {
        problem_error(reader->problems, reader->line, "a zero byte: a policy is a text file (UTF-8, not UTF-16)");
        return false;
    }
    char *text = trim(logical);
    if (text[0] == '\0')
        return false;
    if (text[0] != '[')
        return read_key(reader, logical, text);
    read_section(reader, text);
    return false;
}

/*
 * As fparseln would read a file without backslashes, in which each line stands alone: a start need not be given the
 * pages of libc's streams for it.
 */
static void read_plain_lines(struct reader *reader)
{
    size_t lines_read = 0;
    for (const char *at = reader->raw_end, *next; at < reader->source_end; at = next) {
        next = next_line(at, reader->source_end);
        size_t length = (size_t)(next - at);
        const char *comment = memchr(at, '#', length);
        lines_read++;
        if (comment == at)
            continue;
        if (comment != NULL)
            length = (size_t)(comment - at);
        else if (at[length - 1] == '\n')
            length--;
        char *logical = strndup(at, length);
        if (logical == NULL) {
            out_of_memory(reader);
            return;
        }
        locate(reader, lines_read);
        if (!read_line(reader, logical, length))
            free(logical);
    }
}

/* Backslashes stay as they are, for the globs of socket paths; only `\#` becomes `#` here. */
static void read_stream(struct reader *reader, FILE *stream)
{
    const char delimiters[3] = {'\\', '\\', '#'};
    size_t lines_read = 0, length;
    char *logical;
    for (;;) {
        errno = 0;
        logical = fparseln(stream, &length, &lines_read, delimiters, FPARSELN_UNESCCOMM);
        if (logical == NULL)
            break;
        locate(reader, lines_read);
        if (!read_line(reader, logical, length))
            free(logical);
    }
    if (errno == ENOMEM) /* else it would be a policy without its end */
        out_of_memory(reader);
}

static void read_lines(struct reader *reader, const struct source *source)
{
    FILE *stream = bare_fmemopen(source->text, source->length, "r");
    char buffer[STREAM_BUFFER];
    if (stream == NULL) {
        out_of_memory(reader);
        return;
    }
    setvbuf(stream, buffer, _IOFBF, sizeof buffer); /* its own would be two pages of every process */
    read_stream(reader, stream);
    bare_fclose(stream);
}

void draft_read(struct draft *draft, const struct source *source, struct policy_problems *problems)
{
    struct reader reader = {
        .draft = draft, .problems = problems, .raw_end = source->text, .source_end = source->text + source->length};
    *draft = (struct draft){0};
    if (source->length == 0)
        return;
    if (memchr(source->text, '\\', source->length) == NULL && memchr(source->text, '\0', source->length) == NULL)
        read_plain_lines(&reader);
    else
        read_lines(&reader, source);
    find_sections_twice(&reader);
}

void draft_free(struct draft *draft)
{
    for (size_t i = 0; i < draft->entry_count; i++)
        free(draft->entries[i].logical);
    free(draft->entries);
    free(draft->sections);
    *draft = (struct draft){0};
}
