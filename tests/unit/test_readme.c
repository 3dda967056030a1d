/*
 * test_readme.c - the README's table of keys against the parser's, both ways: names and defaults. A key is a row:
 *
 *     | `NAME` | DEFAULT, perhaps in backquotes | what it is for |
 */
#include "support_policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/keys.h"

#define README "README.md"
#define ROWS_MAX 128

/* The defaults that the README puts in words. */
static const char *const in_words[KEYS] = {
    [KEY_MATCH] = "the section's name",
    [KEY_FAILURES] = "all kinds",
};

struct row {
    char *name, *value;
};
static struct row rows[ROWS_MAX];
static size_t row_count;

/* The cell that begins here, without blanks and backquotes around it; `*at` goes on behind it. NULL: there is none. */
static char *read_cell(const char **at)
{
    const char *end = strchr(*at, '|');
    if (end == NULL)
        return NULL;
    const char *from = *at + strspn(*at, " `");
    size_t length = end > from ? (size_t)(end - from) : 0;
    while (length > 0 && strchr(" `", from[length - 1]) != NULL)
        length--;
    *at = end + 1;
    return strndup(from, length);
}

/* From the table's head to the first line that is no row. */
static int read_rows(void **state)
{
    char *line = NULL;
    size_t size = 0;
    bool inside = false;
    FILE *file = fopen(README, "r");
    (void)state;
    if (file == NULL) {
        print_message("%s can't be read: run from the repository's folder\n", README);
        return -1;
    }
    while (getline(&line, &size, file) > 0 && row_count < ROWS_MAX) {
        if (strncmp(line, "| key |", 7) == 0) {
            inside = true;
        } else if (inside && line[0] != '|') {
            break;
        } else if (inside && strncmp(line, "| `", 3) == 0) {
            const char *at = line + 1;
            rows[row_count].name = read_cell(&at);
            rows[row_count].value = read_cell(&at);
            row_count++;
        }
    }
    free(line);
    fclose(file);
    return row_count > 0 ? 0 : -1;
}

static int free_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < row_count; i++) {
        free(rows[i].name);
        free(rows[i].value);
    }
    return 0;
}

static const struct row *row_of(const char *name)
{
    for (size_t i = 0; i < row_count; i++) {
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    }
    return NULL;
}

static void every_key_has_a_row(void **state)
{
    (void)state;
    for (unsigned int index = 0; index < KEYS; index++) {
        if (row_of(key_table[index].name) == NULL)
            fail_msg("%s has no row for the key `%s`", README, key_table[index].name);
    }
}

static void every_row_is_a_key_and_stands_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < row_count; i++) {
        const enum key_index index = key_named(rows[i].name);
        if (index == KEYS || strcmp(rows[i].name, key_table[index].name) != 0)
            fail_msg("%s: `%s` is no key", README, rows[i].name);
        if (row_of(rows[i].name) != &rows[i])
            fail_msg("%s: `%s` stands there twice", README, rows[i].name);
    }
}

/* A value as the policy's reader understands it; "": not at all. */
static void as_read(enum key_index index, const char *value, char *text, size_t size)
{
    char why[VALUE_TEXT_MAX];
    struct target target;
    memset(&target, 0, sizeof target);
    text[0] = '\0';
    if (key_set(index, &target, value, why, sizeof why))
        key_format(index, &target, text, size);
}

static void every_rows_default_is_the_keys(void **state)
{
    (void)state;
    for (size_t i = 0; i < row_count; i++) {
        const enum key_index index = key_named(rows[i].name);
        char says[VALUE_TEXT_MAX], is[VALUE_TEXT_MAX];
        assert_int_not_equal(index, KEYS);
        if (in_words[index] != NULL) {
            assert_string_equal(rows[i].value, in_words[index]);
            continue;
        }
        as_read(index, rows[i].value, says, sizeof says);
        as_read(index, key_table[index].built_in, is, sizeof is);
        if (strcmp(says, is) != 0)
            fail_msg("%s: the default of `%s` is said to be `%s`; it is `%s`", README, rows[i].name, rows[i].value, is);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_has_a_row),
        cmocka_unit_test(every_row_is_a_key_and_stands_once),
        cmocka_unit_test(every_rows_default_is_the_keys),
    };
    return cmocka_run_group_tests(tests, read_rows, free_rows);
}
