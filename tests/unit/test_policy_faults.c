/*
 * test_policy_faults.c - `inject` and `fallback`: what they store, what they refuse, how they are written back, and
 * what is said of places where they can't work.
 */
#include "support_policy.h"

#include <stdio.h>
#include <string.h>

#define MS UINT64_C(1000000)

static void faults_are_stored_in_the_order_of_the_file(void **state)
{
    (void)state;
    struct policy *policy =
        good_policy("[a:1]\ninject = refuse at 10% ,delay 200ms at 30.5%, http-503 at 20%,hang\tat 34.5%,"
                    "silence at 1%, early-close at 1%, slow 2s at 3%\n"
                    "inject_seed = 4294967295\n");
    const struct target *target = &policy->targets[0];
    static const struct injection expected[] = {
        {.kind = FAULT_REFUSE, .permille = 100},
        {.kind = FAULT_DELAY, .permille = 305, .delay_ns = 200 * MS},
        {.kind = FAULT_HTTP, .permille = 200, .status = 503},
        {.kind = FAULT_HANG, .permille = 345},
        {.kind = FAULT_SILENCE, .permille = 10},
        {.kind = FAULT_EARLY_CLOSE, .permille = 10},
        {.kind = FAULT_SLOW, .permille = 30, .delay_ns = 2000 * MS},
    };
    assert_int_equal(target->fault_count, 7);
    for (unsigned int i = 0; i < 7; i++)
        assert_memory_equal(&target->faults[i], &expected[i], sizeof expected[i]);
    assert_int_equal(target->inject_seed, UINT32_MAX);
    policy_free(policy);
}

static void faults_are_written_back_in_the_files_own_syntax(void **state)
{
    (void)state;
    static const char *const good[][2] = {
        {"none", "none"},
        {"refuse", "refuse"},
        {"reset at 100%", "reset"},
        {"hang at 0.1%", "hang at 0.1%"},
        {"delay 1500ms", "delay 1500ms"},
        {"delay 60s at 99.9%", "delay 1m at 99.9%"},
        {"silence", "silence"},
        {"early-close at 5%", "early-close at 5%"},
        {"slow 2000ms at 1%, early-close", NULL},
        {"slow 2000ms at 1%", "slow 2s at 1%"},
        {"http-400,http-599 at 0.5%", NULL},
        {"http-400 at 50%,http-599 at 0.5%", "http-400 at 50%, http-599 at 0.5%"},
        {"refuse at 25%, refuse at 25%, refuse at 25%, refuse at 25%",
         "refuse at 25%, refuse at 25%, refuse at 25%, refuse at 25%"},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char text[256];
        snprintf(text, sizeof text, "[a:1]\ninject = %s\n", good[i][0]);
        if (good[i][1] == NULL) {
            expect_error(text, 2, "add up to more than 100%");
            continue;
        }
        struct policy *policy = good_policy(text);
        assert_string_equal(described(&policy->targets[0], "inject").value, good[i][1]);
        policy_free(policy);
    }
}

static void bad_faults_are_refused_with_what_is_expected(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"explode", "`explode` is no fault|expected `refuse`"},
        {"refuse,", "expected `refuse`"},
        {"refuse sometimes", "`sometimes` is not understood"},
        {"refuse at", "expected a percentage"},
        {"refuse at 30", "a percentage needs its sign"},
        {"refuse at 0%", "expected a percentage from"},
        {"refuse at 100.1%", "expected a percentage from"},
        {"refuse at 60%, hang at 40.1%", "add up to more than 100%"},
        {"delay", "`delay` needs a duration"},
        {"delay at 30%", "expected a duration"},
        {"delay 200", "the duration has no unit"},
        {"delay 2h", "too long"},
        {"slow", "`slow` needs a duration"},
        {"silence 2s", "`2s` is not understood"},
        {"http", "is no fault"},
        {"http-", "expected a status from 400 to 599"},
        {"http-399", "expected a status from 400 to 599"},
        {"http-600", "expected a status from 400 to 599"},
        {"http-50x", "expected a status from 400 to 599"},
        {"http-5030", "expected a status from 400 to 599"},
        {"hang at 1%, hang at 1%, hang at 1%, hang at 1%, hang at 1%, hang at 1%, hang at 1%, hang at 1%",
         "at most 7 faults"},
        {"none, refuse", "is no fault"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[256];
        snprintf(text, sizeof text, "[a:1]\ninject = %s\n", bad[i][0]);
        expect_error(text, 2, bad[i][1]);
    }
    expect_error("[a:1]\ninject_seed = 4294967296\n", 2, "from 0 to 4294967295");
}

static void defaults_sections_and_the_command_line_replace_all_faults(void **state)
{
    (void)state;
    struct loaded loaded;
    struct policy *policy = good_policy("[defaults]\ninject = refuse at 1%, hang at 1%\nfallback = 127.0.0.1:1\n[a:1]\n"
                                        "[b:1]\ninject = reset\nfallback = none\n");
    assert_int_equal(policy->targets[0].fault_count, 2);
    assert_int_equal(policy->targets[0].fallback.at[0].port, 1);
    assert_int_equal(policy->targets[1].fault_count, 1);
    assert_int_equal(policy->targets[1].faults[0].kind, FAULT_RESET);
    assert_int_equal(policy->targets[1].fallback.at[0].family, ENDPOINT_NONE);
    policy_free(policy);

    load_text(&loaded, "[a:1]\ninject = refuse at 1%, hang at 1%\nfallback = x.test:2\n",
              (const char *const[]){"inject=none", "fallback=127.0.0.1:9", NULL});
    assert_non_null(loaded.policy);
    assert_int_equal(loaded.policy->targets[0].fault_count, 0);
    assert_string_equal(loaded.policy->targets[0].fallback.host, "");
    assert_int_equal(loaded.policy->targets[0].fallback.at[0].port, 9);
    unload(&loaded);
}

static void fallback_is_an_address_a_path_or_a_name(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum endpoint_family family;
        const char *host;
    } good[] = {
        {"192.0.2.1:80", ENDPOINT_IPV4, ""},
        {"[2001:db8::1]:443", ENDPOINT_IPV6, ""},
        {"unix:/run/x.sock", ENDPOINT_UNIX, ""},
        {"unix:@name", ENDPOINT_UNIX, ""},
        {"backup.example.com:65535", ENDPOINT_NONE, "backup.example.com"},
        {"localhost:1", ENDPOINT_NONE, "localhost"},
        {"my_host-2:80", ENDPOINT_NONE, "my_host-2"},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char text[256];
        bool is_unix = good[i].family == ENDPOINT_UNIX;
        snprintf(text, sizeof text, "[a]\nmatch = %s\nfallback = %s\n", is_unix ? "unix:/a" : "a:1", good[i].text);
        struct policy *policy = good_policy(text);
        assert_int_equal(policy->targets[0].fallback.at[0].family, good[i].family);
        assert_string_equal(policy->targets[0].fallback.host, good[i].host);
        assert_string_equal(described(&policy->targets[0], "fallback").value, good[i].text);
        policy_free(policy);
    }
}

static void bad_fallbacks_are_refused_with_what_is_expected(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"1.2.3.4", "the port is missing"},
        {"1.2.3.4:0", "a port from 1 to 65535"},
        {"[::1]:0", "a port from 1 to 65535"},
        {"1.2.3:80", "expected `address:port`"},
        {"host:0", "is no port"},
        {"host:65536", "is no port"},
        {"host:http", "is no port"},
        {"host:", "is no port"},
        {":80", "expected `address:port`"},
        {"a b:80", "expected `address:port`"},
        {"a..b:80", "expected `address:port`"},
        {"*.example.com:80", "expected `address:port`"},
        {"[::1:80", "expected `address:port`"},
        {"unix:", "expected a path of 1 to 108 bytes"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[256];
        snprintf(text, sizeof text, "[a:1]\nfallback = %s\n", bad[i][0]);
        expect_error(text, 2, bad[i][1]);
    }
}

static void what_cannot_work_on_some_sockets_is_warned_of(void **state)
{
    (void)state;
    expect_warning("[a]\nmatch = a:1 unix:/x\ninject = delay 1s at 1%, hang at 1%\n", 3, "`hang`|UNIX sockets");
    expect_warning("[defaults]\ninject = http-503\n[unix:/x]\n", 3, "UNIX sockets");
    expect_warning("[unix:/x]\nfallback = 127.0.0.1:1\n", 2, "UNIX sockets|refused");
    expect_warning("[a]\nmatch = a:1 unix:/x\nfallback = unix:/y\n", 3, "IP sockets|refused");
    policy_free(good_policy("[unix:/x]\ninject = refuse at 50%, delay 1s at 50%\nfallback = unix:/y\n"));
}

static void names_of_fallbacks_take_the_first_address_of_each_family(void **state)
{
    (void)state;
    struct policy *policy = good_policy("[a:1]\nfallback = Backup.test:80\n[b:1]\nfallback = other.test:81\n[c:1]\n"
                                        "fallback = 192.0.2.9:82\n");
    struct endpoint four = endpoint_of("192.0.2.1:9"), later = endpoint_of("192.0.2.2:9"), six = endpoint_of("[::1]:9");
    policy_resolve_fallbacks(policy, "backup.TEST", &six);
    policy_resolve_fallbacks(policy, "backup.test", &four);
    policy_resolve_fallbacks(policy, "backup.test", &later);
    const struct fallback *fallback = &policy->targets[0].fallback;
    four.port = six.port = 80;
    assert_true(endpoint_equal(&fallback->at[0], &four));
    assert_true(endpoint_equal(&fallback->at[1], &six));
    assert_string_equal(described(&policy->targets[0], "fallback").value, "Backup.test:80");
    assert_int_equal(policy->targets[1].fallback.at[0].family, ENDPOINT_NONE);
    assert_int_equal(policy->targets[2].fallback.at[0].port, 82);
    policy_free(policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_are_stored_in_the_order_of_the_file),
        cmocka_unit_test(faults_are_written_back_in_the_files_own_syntax),
        cmocka_unit_test(bad_faults_are_refused_with_what_is_expected),
        cmocka_unit_test(defaults_sections_and_the_command_line_replace_all_faults),
        cmocka_unit_test(fallback_is_an_address_a_path_or_a_name),
        cmocka_unit_test(bad_fallbacks_are_refused_with_what_is_expected),
        cmocka_unit_test(what_cannot_work_on_some_sockets_is_warned_of),
        cmocka_unit_test(names_of_fallbacks_take_the_first_address_of_each_family),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
