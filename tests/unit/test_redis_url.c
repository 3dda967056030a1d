/*
 * test_redis_url.c - where a Redis is, as people write it; and that a password is seen by nobody.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "policy/redis_url.h"

static struct redis_url url;
static char why[400], shown[REDIS_URL_MAX];

static void read_url(const char *text)
{
    if (!redis_url_parse(&url, text, why, sizeof why))
        fail_msg("%s: %s", text, why);
    redis_url_format(&url, shown);
}

static void a_url_has_its_parts(void **state)
{
    (void)state;
    read_url("redis://cache.internal");
    assert_string_equal(shown, "redis://cache.internal:6379/0");
    assert_false(url.has_password);
    read_url("redis://:secret@10.0.0.7:6380/3");
    assert_string_equal(url.password, "secret");
    assert_string_equal(shown, "redis://:***@10.0.0.7:6380/3");
    read_url("rediss://fuse:a%40b%25@[2001:db8::1]:7000/");
    assert_true(url.is_tls);
    assert_string_equal(url.user, "fuse");
    assert_string_equal(url.password, "a@b%");
    assert_string_equal(url.host, "2001:db8::1");
    assert_string_equal(shown, "rediss://fuse:***@[2001:db8::1]:7000/0");
    read_url("redis+unix:/run/redis/redis.sock?db=2");
    assert_string_equal(url.path, "/run/redis/redis.sock");
    assert_string_equal(shown, "redis+unix:/run/redis/redis.sock?db=2");
    read_url("redis://:a/b@c@host");
    assert_string_equal(url.password, "a/b@c");
    assert_string_equal(url.host, "host");
}

static void what_is_no_url_is_told_without_its_password(void **state)
{
    static const char *const bad[] = {
        "",
        "redis:",
        "redis://",
        "http://secret@host",
        "redis://:secret@",
        "redis://:secret@host:0",
        "redis://:secret@host:70000",
        "redis://:secret@host:6379/x",
        "redis://:secret@host:6379/99999",
        "redis://:secret%4@host",
        "redis://:secret%zz@host",
        "redis://:secret%00@host",
        "redis://:secret@[::1",
        "redis://:secret@[::1]6379",
        "redis://:secret@ho st",
        "redis+unix:",
        "redis+unix:secret",
        "redis+unix:/run/redis.sock?secret",
        "redis+unix:/run/redis.sock?db=",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        why[0] = '\0';
        if (redis_url_parse(&url, bad[i], why, sizeof why))
            fail_msg("%s was read", bad[i]);
        assert_true(why[0] != '\0');
        assert_null(strstr(why, "secret"));
    }
}

static void nothing_runs_over(void **state)
{
    char text[2000];

    (void)state;
    for (size_t length = 1; length < 700; length += 7) {
        char part[800] = "";
        memset(part, 'x', length);
        const char *const forms[] = {"redis://%s",      "redis://:%s@host", "redis://%s:p@host", "redis+unix:/%s",
                                     "redis://host:%s", "redis://host/%s",  "redis://%%%s@host"};
        for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
            const char *const hole = strstr(forms[i], "%s");
            snprintf(text, sizeof text, "%.*s%s%s", (int)(hole - forms[i]), forms[i], part, hole + 2);
            if (redis_url_parse(&url, text, why, sizeof why)) {
                redis_url_format(&url, shown);
                assert_true(length < sizeof url.host);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_url_has_its_parts),
        cmocka_unit_test(what_is_no_url_is_told_without_its_password),
        cmocka_unit_test(nothing_runs_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
