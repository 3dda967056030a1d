/*
 * test_ascii.c - digits, letters and decimal numbers, whatever the locale is.
 */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/ascii.h"

static void every_byte_is_what_it_is_in_the_c_locale(void **state)
{
    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        assert_int_equal(ascii_is_digit(byte), isdigit(byte) != 0);
        assert_int_equal(ascii_is_digit((char)byte), isdigit(byte) != 0);
        assert_int_equal(ascii_is_letter((char)byte), isalpha(byte) != 0);
        assert_int_equal((unsigned char)ascii_lower((char)byte), tolower(byte));
    }
}

static void texts_are_equal_in_any_case(void **state)
{
    (void)state;
    assert_true(ascii_equal("", ""));
    assert_true(ascii_equal("Defaults", "dEFAULTS"));
    assert_false(ascii_equal("defaults", "default"));
    assert_false(ascii_equal("default", "defaults"));
    assert_false(ascii_equal("[", "{")); /* a bit apart, as letters are */
}

static void expect_number(const char *text, uint64_t expected, size_t length)
{
    uint64_t number = 7;
    const char *at = text;
    assert_true(ascii_number(&at, &number));
    assert_int_equal(number, expected);
    assert_ptr_equal(at, text + length);
    assert_int_equal(ascii_is_number(text, &number), text[length] == '\0');
}

static void a_number_ends_where_its_digits_do(void **state)
{
    (void)state;
    expect_number("0", 0, 1);
    expect_number("00042", 42, 5);
    expect_number("12-13", 12, 2);
    expect_number("7 ", 7, 1);
    expect_number("18446744073709551614", UINT64_MAX - 1, 20);
}

static void what_does_not_fit_is_the_largest_that_does(void **state)
{
    (void)state;
    expect_number("18446744073709551615", UINT64_MAX, 20);
    expect_number("18446744073709551616", UINT64_MAX, 20);
    expect_number("184467440737095516150", UINT64_MAX, 21);
    expect_number("99999999999999999999", UINT64_MAX, 20);
    expect_number("184467440737095516160000000001", UINT64_MAX, 30);
}

static void signs_blanks_and_nothing_are_no_number(void **state)
{
    (void)state;
    static const char *const texts[] = {"", " 1", "-1", "+1", "x", ":1", "/1"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        uint64_t number;
        const char *at = texts[i];
        assert_false(ascii_number(&at, &number));
        assert_ptr_equal(at, texts[i]);
        assert_false(ascii_is_number(texts[i], &number));
    }
}

static void so_many_digits_are_read_and_no_fewer(void **state)
{
    (void)state;
    unsigned int number;
    const char *text = "2026-1", *at = text;
    assert_true(ascii_digits(&at, 4, &number));
    assert_int_equal(number, 2026);
    assert_ptr_equal(at, text + 4);
    at = text + 5;
    assert_false(ascii_digits(&at, 2, &number));
    at = text;
    assert_true(ascii_digits(&at, 2, &number));
    assert_int_equal(number, 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_is_what_it_is_in_the_c_locale),
        cmocka_unit_test(a_number_ends_where_its_digits_do),
        cmocka_unit_test(what_does_not_fit_is_the_largest_that_does),
        cmocka_unit_test(signs_blanks_and_nothing_are_no_number),
        cmocka_unit_test(texts_are_equal_in_any_case),
        cmocka_unit_test(so_many_digits_are_read_and_no_fewer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
