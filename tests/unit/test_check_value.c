/*
 * test_check_value.c - what `health_check` may say, and what of it is a URL.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "policy/check_value.h"

static char value[HEALTH_CHECK_SIZE], why[300];

static bool parses(const char *text)
{
    why[0] = '\0';
    return check_parse(value, text, why, sizeof why);
}

static void words_are_kept_with_single_blanks(void **state)
{
    (void)state;
    assert_true(parses("  command \t /usr/bin/a   -b\tc "));
    assert_string_equal(value, "command /usr/bin/a -b c");
    assert_int_equal(check_kind(value), CHECK_COMMAND);
    assert_string_equal(check_command(value), "/usr/bin/a -b c");
    assert_false(check_needs_destination(value));
    assert_true(parses("connect"));
    assert_int_equal(check_kind(value), CHECK_CONNECT);
    assert_true(check_needs_destination(value));
    assert_true(parses("none"));
    assert_int_equal(check_kind(value), CHECK_NONE);
    assert_string_equal(value, "");
}

static void a_url_has_a_host_a_port_and_a_path(void **state)
{
    static const struct {
        const char *text, *host, *path;
        uint16_t port;
    } cases[] = {
        {"http://a.internal/health", "a.internal", "/health", 80},
        {"http://a.internal:8080/health?deep=1&b", "a.internal", "/health?deep=1&b", 8080},
        {"http://127.0.0.1:81", "127.0.0.1", "", 81},
        {"http://[::1]/x", "::1", "/x", 80},
        {"http://[2001:db8::1]:8080/", "2001:db8::1", "/", 8080},
        {"http:///health", "", "/health", 80},
        {"http://", "", "", 80},
    };
    struct check_url url;
    (void)state;
    for (unsigned int i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!parses(cases[i].text))
            fail_msg("%s: %s", cases[i].text, why);
        check_url(&url, value);
        assert_string_equal(url.host, cases[i].host);
        assert_string_equal(url.path, cases[i].path);
        assert_int_equal(url.port, cases[i].port);
        assert_int_equal(check_needs_destination(value), cases[i].host[0] == '\0');
    }
}

static void what_can_not_be_asked_for_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "http",
        "http:/a",
        "https://a/",
        "http://a b/",
        "http://a:/",
        "http://a:0/",
        "http://a:65536/",
        "http://a:99999999999/",
        "http://a:b/",
        "http://a:1:2/",
        "http://[::1/",
        "http://[::1]x/",
        "http://[::1]:/",
        "http://[]/",
        "http://[a]/",
        "http://::1/",
        "http://user@a/",
        "http://a?b",
        "http://a/#b",
        "http://a/\r\nX:",
        "http://a/\xc3\xa4",
        "command",
        "commands a",
        "connect a",
        "tcp",
    };
    char longest[HEALTH_CHECK_SIZE + 20];
    (void)state;
    for (unsigned int i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (parses(bad[i]))
            fail_msg("%s was taken", bad[i]);
        assert_true(why[0] != '\0');
    }
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    memcpy(longest, "command /", 9);
    assert_false(parses(longest));
    longest[HEALTH_CHECK_SIZE - 1] = '\0';
    assert_true(parses(longest));
    assert_int_equal(strlen(value), HEALTH_CHECK_SIZE - 1);
}

static void what_was_never_parsed_is_no_url(void **state)
{
    struct check_url url;
    (void)state;
    check_url(&url, "http://a:x/");
    assert_string_equal(url.host, "");
    assert_string_equal(url.path, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_kept_with_single_blanks),
        cmocka_unit_test(a_url_has_a_host_a_port_and_a_path),
        cmocka_unit_test(what_can_not_be_asked_for_is_refused),
        cmocka_unit_test(what_was_never_parsed_is_no_url),
    };

    return cmocka_run_group_tests_name("health_check", tests, NULL, NULL);
}
