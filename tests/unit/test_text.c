/*
 * test_text.c - the bounded text builder: never beyond its size, always ended, and what it writes of bad bytes.
 */
#include <errno.h>
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/errno_name.h"
#include "base/span.h"
#include "base/text.h"

static struct text text;
static char buffer[256];

static int setup(void **state)
{
    (void)state;
    memset(buffer, '#', sizeof buffer);
    text_start(&text, buffer, sizeof buffer);
    return 0;
}

static void numbers_are_written_to_their_ends(void **state)
{
    (void)state;
    text_add_unsigned(&text, 0);
    text_add(&text, " ");
    text_add_unsigned(&text, UINT64_MAX);
    text_add(&text, " ");
    text_add_signed(&text, INT64_MIN);
    text_add(&text, " ");
    text_add_signed(&text, INT64_MAX);
    text_add(&text, " ");
    text_add_signed(&text, -1);
    assert_string_equal(buffer, "0 18446744073709551615 -9223372036854775808 9223372036854775807 -1");
    assert_int_equal(text.length, strlen(buffer));
    assert_false(text.cut);
}

static void hex_and_padded_numbers_have_at_least_their_digits(void **state)
{
    (void)state;
    text_add_hex(&text, 0, 1);
    text_add_hex(&text, 0xabc, 8);
    text_add(&text, " ");
    text_add_hex(&text, UINT64_MAX, 2);
    text_add(&text, " ");
    text_add_hex(&text, 1, 99);
    text_add(&text, " ");
    text_add_padded(&text, 7, 3);
    text_add(&text, " ");
    text_add_padded(&text, 1234, 2);
    text_add(&text, " ");
    text_add_padded(&text, 5, 99);
    assert_string_equal(buffer, "000000abc ffffffffffffffff 0000000000000001 007 1234 00000000000000000005");
}

static void a_text_that_does_not_fit_is_cut_and_ended(void **state)
{
    (void)state;
    for (size_t size = 1; size < 12; size++) {
        memset(buffer, '#', sizeof buffer);
        text_start(&text, buffer, size);
        text_add(&text, "0123");
        text_add(&text, "456789");
        size_t length = size - 1 < 10 ? size - 1 : 10;
        assert_int_equal(text.length, length);
        assert_int_equal(strlen(buffer), length);
        assert_memory_equal(buffer, "0123456789", length);
        assert_int_equal(text.cut, size < 11);
        assert_int_equal(buffer[size], '#');
    }
}

static void a_text_of_exactly_its_size_is_not_cut(void **state)
{
    (void)state;
    text_start(&text, buffer, 5);
    text_add(&text, "1234");
    assert_false(text.cut);
    text_add(&text, "");
    assert_false(text.cut);
    text_add(&text, "5");
    assert_true(text.cut);
    assert_string_equal(buffer, "1234");
}

static void a_text_without_room_touches_nothing(void **state)
{
    (void)state;
    text_start(&text, NULL, 0);
    text_add(&text, "some");
    text_add_unsigned(&text, 1);
    text_add_json(&text, "some");
    assert_true(text.cut);
    assert_int_equal(text.length, 0);
}

static const char *json(const char *string)
{
    setup(NULL);
    text_add_json(&text, string);
    return buffer;
}

static void json_strings_are_quoted_and_escaped(void **state)
{
    (void)state;
    assert_string_equal(json(""), "\"\"");
    assert_string_equal(json("plain /text"), "\"plain /text\"");
    assert_string_equal(json("a\"b\\c"), "\"a\\\"b\\\\c\"");
    assert_string_equal(json("\x01\t\n\r\x1f"), "\"\\u0001\\u0009\\u000a\\u000d\\u001f\"");
    assert_string_equal(json("\x7f"), "\"\\u007f\"");
}

static void json_keeps_well_formed_characters(void **state)
{
    (void)state;
    assert_string_equal(json("gr\xc3\xbc\xc3\x9f"), "\"gr\xc3\xbc\xc3\x9f\"");
    /* The first and last of each length, and the neighbours of the surrogates. */
    const char *all =
        "\xc2\xa0\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf";
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\"", all);
    assert_string_equal(json(all), quoted);
}

static void json_escapes_bytes_that_are_no_utf8(void **state)
{
    (void)state;
    assert_string_equal(json("\xff"), "\"\\u00ff\"");
    assert_string_equal(json("a\x80z"), "\"a\\u0080z\"");
    /* Cut at the end, and cut in the middle. */
    assert_string_equal(json("\xc3"), "\"\\u00c3\"");
    assert_string_equal(json("\xe2\x82"), "\"\\u00e2\\u0082\"");
    assert_string_equal(json("\xf0\x9f\x98"), "\"\\u00f0\\u009f\\u0098\"");
    assert_string_equal(json("\xe2(\xa1"), "\"\\u00e2(\\u00a1\"");
    /* Overlong forms of "/", of U+07FF and of U+FFFF; a surrogate; beyond U+10FFFF; bytes that never occur. */
    assert_string_equal(json("\xc0\xaf"), "\"\\u00c0\\u00af\"");
    assert_string_equal(json("\xc1\xbf"), "\"\\u00c1\\u00bf\"");
    assert_string_equal(json("\xe0\x9f\xbf"), "\"\\u00e0\\u009f\\u00bf\"");
    assert_string_equal(json("\xf0\x8f\xbf\xbf"), "\"\\u00f0\\u008f\\u00bf\\u00bf\"");
    assert_string_equal(json("\xed\xa0\x80"), "\"\\u00ed\\u00a0\\u0080\"");
    assert_string_equal(json("\xf4\x90\x80\x80"), "\"\\u00f4\\u0090\\u0080\\u0080\"");
    assert_string_equal(json("\xf5\x80\x80\x80"), "\"\\u00f5\\u0080\\u0080\\u0080\"");
}

static void json_escapes_the_c1_controls(void **state)
{
    (void)state;
    assert_string_equal(json("\xc2\x80\xc2\x9b\xc2\x9f"), "\"\\u0080\\u009b\\u009f\"");
    /* What turns the order of a line around. */
    assert_string_equal(json("\xd8\x9c\xe2\x80\x8f\xe2\x80\xaa\xe2\x80\xae\xe2\x81\xa6\xe2\x81\xa9"),
                        "\"\\u061c\\u200f\\u202a\\u202e\\u2066\\u2069\"");
    assert_string_equal(json("\xe2\x80\x8d\xe2\x80\xaf\xe2\x81\xaa"), "\"\xe2\x80\x8d\xe2\x80\xaf\xe2\x81\xaa\"");
}

static void a_cut_json_string_ends_at_a_character(void **state)
{
    (void)state;
    text_add_json_cut(&text, "abc\xc3\xbc", 4);
    text_add_json_cut(&text, "abc\xc3\xbc", 5);
    text_add_json_cut(&text, "a\n", 6);
    text_add_json_cut(&text, "a\n", 7);
    text_add_json_cut(&text, "a", 0);
    assert_string_equal(buffer, "\"abc\"\"abc\xc3\xbc\"\"a\"\"a\\u000a\"\"\"");
    assert_false(text.cut);
}

static void no_string_drives_a_terminal(void **state)
{
    (void)state;
    text_add_printable(&text, "gr\xc3\xbc\x1b[31m\xff\xc2\x9b\x7f\"\\");
    assert_string_equal(buffer, "gr\xc3\xbc\\x1b[31m\\xff\\xc2\\x9b\\x7f\"\\");
    text_start(&text, buffer, sizeof buffer);
    text_add_printable(&text, "a\xe2\x80\xae\142\xd8\x9c");
    assert_string_equal(buffer, "a\\xe2\\x80\\xaeb\\xd8\\x9c");
}

static void random_bytes_make_well_formed_json(void **state)
{
    (void)state;
    srandom(1);
    for (unsigned int round = 0; round < 20000; round++) {
        char bytes[17];
        for (size_t at = 0; at < sizeof bytes - 1; at++)
            bytes[at] = (char)(random() % 3 == 0 ? 0x80 + random() % 0x80 : 1 + random() % 0x7f);
        bytes[sizeof bytes - 1] = '\0';
        const char *string = json(bytes);
        /* libc's own decoder is the judge: what is left after the escapes is UTF-8 without control characters. */
        for (const char *at = string; *at;) {
            int length = *(const unsigned char *)at < 0x80 ? 1 : mblen(at, strlen(at));
            assert_true(length > 0);
            assert_true(length > 1 || (*at >= 0x20 && *at < 0x7f));
            at += length;
        }
    }
}

static void errnos_have_names(void **state)
{
    (void)state;
    assert_string_equal(errno_name(0), "");
    assert_string_equal(errno_name(ECONNREFUSED), "ECONNREFUSED");
    assert_string_equal(errno_name(ETIMEDOUT), "ETIMEDOUT");
    assert_string_equal(errno_name(EAGAIN), "EAGAIN");
    assert_string_equal(errno_name(-1), "unknown");
    assert_string_equal(errno_name(4000), "unknown");
}

static void an_errno_without_a_name_is_its_number(void **state)
{
    (void)state;
    text_add_errno(&text, ENOTEMPTY);
    text_add_byte(&text, ' ');
    text_add_errno(&text, 4000);
    text_add_byte(&text, ' ');
    text_add_errno(&text, INT32_MIN);
    assert_string_equal(buffer, "ENOTEMPTY errno 4000 errno -2147483648");
}

static void a_text_is_whole_or_nothing(void **state)
{
    (void)state;
    for (size_t size = 0; size < 6; size++) {
        memset(buffer, '#', sizeof buffer);
        text_start(&text, buffer, size);
        for (const char *at = "1234"; *at; at++)
            text_add_byte(&text, *at);
        assert_int_equal(text_whole(&text), size > 4 ? 4 : 0);
        if (size > 0)
            assert_string_equal(buffer, size > 4 ? "1234" : "");
        assert_int_equal(buffer[size], '#');
    }
}

static void spans_end_where_libcs_do(void **state)
{
    static const char *const texts[] = {"", " ", "a", "  a b ", "a,b\tc", ",,", "\xff\x80 z", "z"};
    static const char *const sets[] = {"", " ", " \t,", "abc", "\x80\xff", "z"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (size_t j = 0; j < sizeof sets / sizeof *sets; j++) {
            assert_int_equal(span_of(texts[i], sets[j]), strspn(texts[i], sets[j]));
            assert_int_equal(span_until(texts[i], sets[j]), strcspn(texts[i], sets[j]));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(numbers_are_written_to_their_ends, setup),
        cmocka_unit_test_setup(hex_and_padded_numbers_have_at_least_their_digits, setup),
        cmocka_unit_test(a_text_that_does_not_fit_is_cut_and_ended),
        cmocka_unit_test(a_text_of_exactly_its_size_is_not_cut),
        cmocka_unit_test(a_text_without_room_touches_nothing),
        cmocka_unit_test(json_strings_are_quoted_and_escaped),
        cmocka_unit_test(json_keeps_well_formed_characters),
        cmocka_unit_test(json_escapes_bytes_that_are_no_utf8),
        cmocka_unit_test(json_escapes_the_c1_controls),
        cmocka_unit_test_setup(a_cut_json_string_ends_at_a_character, setup),
        cmocka_unit_test_setup(no_string_drives_a_terminal, setup),
        cmocka_unit_test(random_bytes_make_well_formed_json),
        cmocka_unit_test(errnos_have_names),
        cmocka_unit_test_setup(an_errno_without_a_name_is_its_number, setup),
        cmocka_unit_test(a_text_is_whole_or_nothing),
        cmocka_unit_test(spans_end_where_libcs_do),
    };
    if (!setlocale(LC_CTYPE, "C.UTF-8"))
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
