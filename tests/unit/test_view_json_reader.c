/*
 * test_view_json_reader.c - JSON that others wrote: what is read of it, and what is no JSON.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The command's parts are no library: a test that needs one brings it in as it is. */
#include "view/json_reader.c"

static char value[64];

/* Reads an object of one member as a string. The text ends where its memory does, so that valgrind sees more. */
static bool reads(const char *text, size_t size)
{
    struct json_reader reader;
    char key[16];
    const size_t length = strlen(text);
    char *exact = strdup(text);
    assert_non_null(exact);
    json_read_start(&reader, exact, length);
    json_read_open(&reader);
    bool found = false;
    while (json_read_key(&reader, key, sizeof key)) {
        found = json_read_string(&reader, value, size) && strcmp(key, "k") == 0;
    }
    const bool good = json_read_end(&reader);
    free(exact);
    return good && found;
}

static bool is_json(const char *text)
{
    struct json_reader reader;
    json_read_start(&reader, text, strlen(text));
    json_read_skip(&reader);
    return json_read_end(&reader);
}

static void strings_are_read_with_their_escapes(void **state)
{
    static const struct {
        const char *text, *value;
    } rows[] = {
        {"{\"k\":\"plain\"}", "plain"},
        {" {\t\"k\" : \"a\\\"b\\\\c\\/d\" } \r\n", "a\"b\\c/d"},
        {"{\"k\":\"\\b\\f\\n\\r\\t\"}", "\b\f\n\r\t"},
        {"{\"k\":\"\\u0041\\u00e9\\u20ac\"}", "A\xc3\xa9\xe2\x82\xac"},
        {"{\"k\":\"\\ud83d\\ude00\"}", "\xf0\x9f\x98\x80"},
        {"{\"k\":\"\\ud83d!\"}", "\xef\xbf\xbd!"},
        {"{\"k\":\"\\ud83d\\u0041\"}", "\xef\xbf\xbd"
                                       "A"},
        {"{\"k\":\"a\\u0000b\"}", "a\xef\xbf\xbd"
                                  "b"},
        {"{\"k\":\"\xe2\x82\xac\"}", "\xe2\x82\xac"},
        {"{\"x\":[1,{\"y\":[]},{}],\"k\":\"v\"}", "v"},
        {"{\"x\":-1.5e+3,\"y\":null,\"z\":[true,false],\"k\":\"v\"}", "v"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!reads(rows[i].text, sizeof value))
            fail_msg("%s", rows[i].text);
        assert_string_equal(value, rows[i].value);
    }
}

static void a_string_that_is_too_long_is_cut_at_a_characters_end(void **state)
{
    (void)state;
    assert_true(reads("{\"k\":\"ab\xe2\x82\xac"
                      "cd\"}",
                      5));
    assert_string_equal(value, "ab");
    assert_true(reads("{\"k\":\"ab\xe2\x82\xac"
                      "cd\"}",
                      6));
    assert_string_equal(value, "ab\xe2\x82\xac");
    assert_true(reads("{\"k\":\"abc\"}", 1));
    assert_string_equal(value, "");
}

static void what_is_no_object_of_json_is_bad(void **state)
{
    static const char *const texts[] = {
        "",
        "x",
        "{",
        "{\"k\"",
        "{\"k\":",
        "{\"k\":\"",
        "{\"k\":\"v",
        "{\"k\":\"v\"",
        "{\"k\":\"v\",",
        "{\"k\":\"v\"}x",
        "{\"k\":\"v\"}{}",
        "{\"k\":\"v\" \"l\":1}",
        "{k:\"v\"}",
        "{\"k\":\"v\\x\"}",
        "{\"k\":\"v\\u12\"}",
        "{\"k\":\"v\\u123g\"}",
        "{\"k\":\"v\\",
        "{\"k\":\"v\\u\"}",
        "{\"k\":\"v\n\"}",
        "{\"x\":01x,\"k\":\"v\"}",
        "{\"x\":-,\"k\":\"v\"}",
        "{\"x\":1.,\"k\":\"v\"}",
        "{\"x\":1e,\"k\":\"v\"}",
        "{\"x\":truth,\"k\":\"v\"}",
        "{\"x\":[1,],\"k\":\"v\"}",
        "{\"x\":[1 2],\"k\":\"v\"}",
        "{\"x\":{\"y\"},\"k\":\"v\"}",
        "{\"x\":]}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (reads(texts[i], sizeof value))
            fail_msg("%s", texts[i]);
    }
}

static void nesting_has_an_end(void **state)
{
    (void)state;
    assert_true(is_json("[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]"));
    assert_false(is_json("[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]"));
    char deep[100000];
    memset(deep, '[', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    assert_false(is_json(deep));
}

static bool number_of(const char *text, uint64_t *number)
{
    struct json_reader reader;
    json_read_start(&reader, text, strlen(text));
    return json_read_unsigned(&reader, number) && json_read_end(&reader);
}

static void numbers_are_whole_and_fit(void **state)
{
    uint64_t number;
    (void)state;
    assert_true(number_of("0", &number));
    assert_int_equal(number, 0);
    assert_true(number_of("18446744073709551615", &number));
    assert_true(number == UINT64_MAX);
    assert_false(number_of("18446744073709551616", &number));
    assert_false(number_of("99999999999999999999999", &number));
    assert_false(number_of("1.5", &number));
    assert_false(number_of("1e3", &number));
    assert_false(number_of("-1", &number));
    assert_false(number_of("\"1\"", &number));
}

/* Any bytes: it ends, and stays within them. */
static void random_bytes_end(void **state)
{
    static const char bytes[] = "{}[]\":,\\u0dn12-.eE tf\xe2\x82\xac\n";
    unsigned int seed = 1;
    (void)state;
    for (int round = 0; round < 20000; round++) {
        char text[24];
        size_t length = 0;
        text[length++] = '{';
        while (length < sizeof text - 1) {
            seed = seed * 1103515245 + 12345;
            text[length++] = bytes[(seed >> 16) % (sizeof bytes - 1)];
        }
        text[length] = '\0';
        reads(text, 8);
        is_json(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_are_read_with_their_escapes),
        cmocka_unit_test(a_string_that_is_too_long_is_cut_at_a_characters_end),
        cmocka_unit_test(what_is_no_object_of_json_is_bad),
        cmocka_unit_test(nesting_has_an_end),
        cmocka_unit_test(numbers_are_whole_and_fit),
        cmocka_unit_test(random_bytes_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
