/*
 * test_web_gate.c - who may ask the agent over HTTP; and where it may listen. links: agent
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/web_gate.h"
#include "policy/listen_address.h"

static unsigned int ask(const char *method, const char *host, const char *allow)
{
    const struct web_asker asker = {.method = method, .host = host};
    return web_gate(&asker, false, allow).status;
}

static void this_host_is_asked_by_its_own_names(void **state)
{
    static const char *const own[] = {"127.0.0.1",      "127.0.0.1:9464", "127.8.9.1:1", "localhost",
                                      "LocalHost:9464", "[::1]",          "[::1]:9464",  NULL};
    static const char *const others[] = {"evil.example",
                                         "evil.example:9464",
                                         "localhost.evil.example",
                                         "127.0.0.1.evil.example",
                                         "10.0.0.1",
                                         "",
                                         "[::2]:9464",
                                         "[::1",
                                         ":9464",
                                         "127.0.0.1 ",
                                         "@localhost",
                                         NULL};
    (void)state;
    for (const char *const *host = own; *host != NULL; host++)
        if (ask("GET", *host, "") != 0)
            fail_msg("%s is not let in", *host);
    for (const char *const *host = others; *host != NULL; host++)
        if (ask("GET", *host, "") != 421)
            fail_msg("%s is let in", *host);
    assert_int_equal(ask("GET", NULL, ""), 400);
}

static void names_that_are_allowed_are_let_in_and_no_others(void **state)
{
    const char *const allow = "circuits.example.org ops.example.org:8080";
    (void)state;
    assert_int_equal(ask("GET", "circuits.example.org", allow), 0);
    assert_int_equal(ask("GET", "Circuits.example.org:9464", allow), 0);
    assert_int_equal(ask("GET", "ops.example.org:8080", allow), 0);
    assert_int_equal(ask("GET", "ops.example.org", allow), 421);
    assert_int_equal(ask("GET", "ops.example.org:80", allow), 421);
    assert_int_equal(ask("GET", "example.org", allow), 421);
    assert_int_equal(ask("GET", "circuits.example.org.evil", allow), 421);
    assert_int_equal(ask("GET", "", " "), 421);
}

static void nothing_can_be_changed(void **state)
{
    (void)state;
    assert_int_equal(ask("HEAD", "localhost", ""), 0);
    assert_int_equal(ask("POST", "localhost", ""), 405);
    assert_int_equal(ask("OPTIONS", "localhost", ""), 405);
    assert_int_equal(ask("DELETE", "localhost", ""), 405);
}

static void a_unix_socket_is_reached_by_no_page_and_any_host_will_do(void **state)
{
    const struct web_asker asker = {.method = "GET", .host = "whatever"}, none = {.method = "GET"};
    (void)state;
    assert_int_equal(web_gate(&asker, true, "").status, 0);
    assert_int_equal(web_gate(&none, true, "").status, 0);
}

static unsigned int from_page(const char *origin, const char *site, const char *mode)
{
    const struct web_asker asker = {"GET", "localhost:9464", origin, site, mode};
    return web_gate(&asker, false, "").status;
}

static void another_sites_page_gets_nothing(void **state)
{
    (void)state;
    assert_int_equal(from_page("http://localhost:9464", "same-origin", "cors"), 0);
    assert_int_equal(from_page(NULL, "none", "navigate"), 0);
    assert_int_equal(from_page("http://evil.example", NULL, NULL), 403);
    assert_int_equal(from_page("null", NULL, NULL), 403);
    assert_int_equal(from_page("http://localhost:8000", "same-site", "cors"), 403);
    assert_int_equal(from_page(NULL, "cross-site", "no-cors"), 403);
    assert_int_equal(from_page(NULL, "same-site", "no-cors"), 403);
    assert_int_equal(from_page(NULL, "cross-site", "navigate"), 0); /* a link to our page */
}

static bool is_good(const char *text, struct endpoint *at)
{
    char why[256] = "";
    const bool good = listen_address_parse(at, text, why, sizeof why);
    assert_true(good || strstr(why, "127.0.0.1:9464") != NULL);
    return good;
}

static void a_place_to_listen_at_is_read(void **state)
{
    struct endpoint at;
    static const char *const bad[] = {"9464",           "127.0.0.1",  "127.0.0.1:0", "127.0.0.1:99999",
                                      "localhost:9464", "unix:agent", "unix:",       "unix:@a",
                                      "[::1]:banana",   "",           NULL};
    (void)state;
    assert_true(is_good("127.0.0.1:9464", &at) && listen_address_is_local(&at) && at.port == 9464);
    assert_true(is_good("[::1]:1", &at) && listen_address_is_local(&at));
    assert_true(is_good("unix:/run/a.socket", &at) && listen_address_is_local(&at));
    assert_true(is_good("off", &at) && at.family == ENDPOINT_NONE);
    assert_true(is_good("0.0.0.0:80", &at) && !listen_address_is_local(&at));
    assert_true(is_good("[::]:80", &at) && !listen_address_is_local(&at));
    assert_true(is_good("192.0.2.1:80", &at) && !listen_address_is_local(&at));
    for (const char *const *text = bad; *text != NULL; text++)
        if (is_good(*text, &at))
            fail_msg("%s is taken", *text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(this_host_is_asked_by_its_own_names),
        cmocka_unit_test(names_that_are_allowed_are_let_in_and_no_others),
        cmocka_unit_test(nothing_can_be_changed),
        cmocka_unit_test(a_unix_socket_is_reached_by_no_page_and_any_host_will_do),
        cmocka_unit_test(another_sites_page_gets_nothing),
        cmocka_unit_test(a_place_to_listen_at_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
