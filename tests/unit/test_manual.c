/*
 * The manual's keys against the parser's table of keys, both ways: names, defaults, limits, words, examples. Reads
 * src/man/sockfuse.policy.5, in which each key is an item:
 *
 *     .It Ic NAME No = ... Pq default: Ql VALUE
 *     what it is for, with its limits and each word that it takes
 *     .Dl NAME = AN EXAMPLE
 */
#include "support_policy.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/alert_value.h"
#include "policy/keys.h"

#define PAGE "src/man/sockfuse.policy.5"
#define ITEMS_MAX 128

struct item {
    char *name, *value; /* the default; NULL: there is none in the item's head */
    char *text;         /* what stands below the head, as it is in the page */
};

static struct item items[ITEMS_MAX];
static size_t item_count;
static char *page, *outcomes; /* the whole, and its part from OUTCOMES on */

/* --- the page --- */

static char *read_page(void)
{
    size_t size = 0;
    char *text = NULL;
    FILE *file = fopen(PAGE, "r");
    if (file == NULL || getdelim(&text, &size, EOF, file) < 0) {
        print_message("%s can't be read: run from the repository's folder\n", PAGE);
        return NULL;
    }
    fclose(file);
    return text;
}

/* The text between two ends, or the whole rest. */
static char *cut(const char *from, const char *end)
{
    return end != NULL ? strndup(from, (size_t)(end - from)) : strdup(from);
}

static void read_head(struct item *item, const char *head)
{
    static const char before[] = "Pq default: ";
    const char *value = strstr(head, before);
    item->name = cut(head, strchr(head, ' '));
    if (value == NULL)
        return;
    value += strlen(before);
    item->value = cut(strncmp(value, "Ql ", 3) == 0 ? value + 3 : value, strchr(value, '\n'));
}

static int read_items(void **state)
{
    static const char mark[] = "\n.It Ic ";
    (void)state;
    page = read_page();
    if (page == NULL)
        return -1;
    char *at = strstr(page, "\n.Sh KEYS\n"), *end = strstr(page, "\n.Sh OUTCOMES\n");
    if (at == NULL || end == NULL)
        return -1;
    *end = '\0';
    outcomes = end + 1;
    for (at = strstr(at, mark); at != NULL && item_count < ITEMS_MAX; item_count++) {
        char *head = at + strlen(mark);
        at = strstr(head, mark);
        if (at != NULL)
            *at = '\0';
        read_head(&items[item_count], head);
        items[item_count].text = strdup(strchr(head, '\n'));
        if (at != NULL)
            *at = '\n';
    }
    return 0;
}

static const struct item *item_of(const char *name)
{
    for (size_t i = 0; i < item_count; i++) {
        if (strcmp(items[i].name, name) == 0)
            return &items[i];
    }
    return NULL;
}

/* --- words in an item --- */

static bool is_part_of_a_word(char byte)
{
    return isalnum((unsigned char)byte) || byte == '_' || byte == '-' || byte == '%';
}

/* Whether the item says the word, alone: 8 is not in 80. A dot may end a sentence. */
static void expect_word(const struct item *item, const char *word)
{
    for (const char *at = strstr(item->text, word); at != NULL; at = strstr(at + 1, word)) {
        if (!is_part_of_a_word(at[-1]) && !is_part_of_a_word(at[strlen(word)]))
            return;
    }
    fail_msg("%s: the item of `%s` does not say `%s`", PAGE, item->name, word);
}

static void expect_limits(const struct item *item, const struct value_rule *rule)
{
    char text[VALUE_TEXT_MAX];
    struct value_rule plain = *rule;
    if (rule->type == VALUE_DURATION_OR_OFF)
        plain.type = VALUE_DURATION;
    value_format(&plain, rule->minimum, text, sizeof text);
    expect_word(item, text);
    /* The longest duration is said once for all, under Values. */
    value_format(&plain, rule->maximum, text, sizeof text);
    if (plain.type != VALUE_DURATION)
        expect_word(item, text);
    else if (strstr(page, text) == NULL)
        fail_msg("%s: nothing says that no duration is longer than %s", PAGE, text);
}

static void expect_kinds(const struct item *item, const struct value_rule *rule)
{
    for (unsigned int kind = 1; kind < FAILURE_KINDS; kind++) {
        if ((rule->maximum >> kind & 1) != 0)
            expect_word(item, failure_kind_name(kind));
    }
}

static void expect_what_it_takes(const struct item *item, const struct value_rule *rule)
{
    char text[32];
    switch (rule->type) {
    case VALUE_COUNT:
    case VALUE_PERCENT:
    case VALUE_FACTOR:
    case VALUE_DURATION:
    case VALUE_WINDOW:
    case VALUE_EVENTS:
        expect_limits(item, rule);
        break;
    case VALUE_CAPACITY:
        snprintf(text, sizeof text, "%u circuits", CAPACITY_CIRCUITS_MAX);
        expect_word(item, text);
        snprintf(text, sizeof text, "%u connections", CAPACITY_CALLS_MAX);
        expect_word(item, text);
        snprintf(text, sizeof text, "%u processes", CAPACITY_PROCESSES_MAX);
        expect_word(item, text);
        break;
    case VALUE_DURATION_OR_OFF:
        expect_limits(item, rule);
        expect_word(item, "off");
        break;
    case VALUE_COMMAND:
        snprintf(text, sizeof text, "%u bytes", ALERT_SIZE - 1);
        expect_word(item, text);
        break;
    case VALUE_FLAPPING:
        snprintf(text, sizeof text, "%u openings", FLAPPING_OPENINGS_MAX);
        expect_word(item, text);
        break;
    case VALUE_CHOICE:
    case VALUE_WORDS:
        for (const struct choice *choice = rule->choices; choice->name != NULL; choice++)
            expect_word(item, choice->name);
        break;
    case VALUE_FAILURE_KINDS:
        expect_kinds(item, rule);
        break;
    case VALUE_STATUSES:
        snprintf(text, sizeof text, "%u", HTTP_STATUS_MIN);
        expect_word(item, text);
        snprintf(text, sizeof text, "%u", HTTP_STATUS_MAX);
        expect_word(item, text);
        snprintf(text, sizeof text, "%u", STATUS_RANGES_MAX);
        expect_word(item, text);
        break;
    default:
        break;
    }
    if (rule->type == VALUE_WINDOW) {
        snprintf(text, sizeof text, "%u", WINDOW_CALLS_MAX);
        expect_word(item, text);
    }
}

/* --- the tests --- */

static void every_key_has_an_item(void **state)
{
    (void)state;
    for (unsigned int index = 0; index < KEYS; index++) {
        if (item_of(key_table[index].name) == NULL)
            fail_msg("%s has no item for the key `%s`", PAGE, key_table[index].name);
    }
}

static void every_item_is_a_key(void **state)
{
    (void)state;
    assert_true(item_count > 0);
    for (size_t i = 0; i < item_count; i++) {
        const enum key_index index = key_named(items[i].name);
        if (index == KEYS)
            fail_msg("%s: `%s` is no key of this version", PAGE, items[i].name);
        assert_string_equal(items[i].name, key_table[index].name); /* not an alias */
        assert_ptr_equal(item_of(items[i].name), &items[i]);       /* not twice */
    }
}

static void every_item_has_the_default(void **state)
{
    (void)state;
    struct policy *policy = good_policy("[a:1]\n");
    for (unsigned int index = 0; index < KEYS; index++) {
        const struct item *item = item_of(key_table[index].name);
        if (index == KEY_MATCH)
            continue;
        assert_non_null(item);
        if (item->value == NULL)
            fail_msg("%s: the item of `%s` has no default", PAGE, item->name);
        assert_string_equal(item->value, described(&policy->targets[0], item->name).value);
    }
    policy_free(policy);
}

static void every_item_names_the_limits_the_words_and_the_other_names(void **state)
{
    (void)state;
    for (unsigned int index = 0; index < KEYS; index++) {
        const struct item *item = item_of(key_table[index].name);
        assert_non_null(item);
        expect_what_it_takes(item, &key_table[index].rule);
        for (unsigned int i = 0; i < KEY_ALIASES_MAX && key_table[index].aliases[i] != NULL; i++)
            expect_word(item, key_table[index].aliases[i]);
    }
}

/* The lines of an item's examples, one below the other. */
static void examples_of(const struct item *item, char *text, size_t size)
{
    static const char mark[] = "\n.Dl ";
    size_t length = 0;
    text[0] = '\0';
    for (const char *at = strstr(item->text, mark); at != NULL && length < size; at = strstr(at + 1, mark)) {
        const char *line = at + strlen(mark);
        length += (size_t)snprintf(text + length, size - length, "%.*s\n", (int)strcspn(line, "\n"), line);
    }
}

/* Each is taken by the parser without a complaint, and sets its key to something other than the default. */
static void every_item_has_an_example_that_works(void **state)
{
    (void)state;
    for (size_t i = 0; i < item_count; i++) {
        char examples[512], text[640];
        examples_of(&items[i], examples, sizeof examples);
        const bool of_policy = key_table[key_named(items[i].name)].of_policy;
        const char *section = strcmp(items[i].name, "match") == 0 ? "x" : of_policy ? "defaults" : "a:1";
        snprintf(text, sizeof text, "[%s]\n%s%s", section, examples, of_policy ? "[a:1]\n" : "");
        struct policy *policy = good_policy(text);
        const struct described found = described(&policy->targets[0], items[i].name);
        if (strcmp(found.origin, of_policy ? "[defaults]" : "section") != 0)
            fail_msg("%s: the item of `%s` has no example `.Dl %s = ...`", PAGE, items[i].name, items[i].name);
        if (items[i].value != NULL)
            assert_string_not_equal(found.value, items[i].value);
        policy_free(policy);
    }
}

static void expect_outcome(const char *name)
{
    char item[64];
    snprintf(item, sizeof item, "\n.It Cm %s%s", name, strcmp(name, "http") == 0 ? "- Ns Ar status\n" : "\n");
    if (strstr(outcomes, item) == NULL)
        fail_msg("%s does not say what the outcome `%s` is", PAGE, name);
}

static void every_outcome_is_explained(void **state)
{
    (void)state;
    for (unsigned int kind = FAILURE_NONE + 1; kind < FAILURE_KINDS; kind++)
        expect_outcome(failure_kind_name(kind));
    for (unsigned int reason = NEUTRAL_NONE + 1; reason < NEUTRAL_REASONS; reason++)
        expect_outcome(neutral_reason_name(reason));
}

static int free_items(void **state)
{
    (void)state;
    for (size_t i = 0; i < item_count; i++) {
        free(items[i].name);
        free(items[i].value);
        free(items[i].text);
    }
    free(page);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_has_an_item),
        cmocka_unit_test(every_item_is_a_key),
        cmocka_unit_test(every_item_has_the_default),
        cmocka_unit_test(every_item_names_the_limits_the_words_and_the_other_names),
        cmocka_unit_test(every_item_has_an_example_that_works),
        cmocka_unit_test(every_outcome_is_explained),
    };
    return cmocka_run_group_tests(tests, read_items, free_items);
}
