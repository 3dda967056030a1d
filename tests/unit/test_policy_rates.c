/*
 * test_policy_rates.c - the keys of the rates: what they may say, where it is stored, and what contradicts itself.
 */
#include "support_policy.h"

#include <stdio.h>

#define S UINT64_C(1000000000)

static const struct settings *breaker_of(const struct policy *policy)
{
    return &policy->targets[0].breaker;
}

static void rates_are_stored_where_the_breaker_looks(void **state)
{
    (void)state;
    struct policy *policy = good_policy("[a:1]\n");
    assert_int_equal(breaker_of(policy)->window, 30 * S);
    assert_int_equal(breaker_of(policy)->minimum_calls, 20);
    assert_int_equal(breaker_of(policy)->failure_rate_permille, 500);
    assert_int_equal(breaker_of(policy)->slow_call_ns, 0);
    assert_int_equal(breaker_of(policy)->slow_call_rate_permille, 1000);
    policy_free(policy);
    policy = good_policy("[a:1]\nwindow = 90s\nminimum_calls = 7\nfailure_rate = 12.5%\nslow_call = 1.5s\n"
                         "slow_call_rate = 80%\n");
    assert_int_equal(breaker_of(policy)->window, 90 * S);
    assert_int_equal(breaker_of(policy)->minimum_calls, 7);
    assert_int_equal(breaker_of(policy)->failure_rate_permille, 125);
    assert_int_equal(breaker_of(policy)->slow_call_ns, 1500000000);
    assert_int_equal(breaker_of(policy)->slow_call_rate_permille, 800);
    policy_free(policy);
    policy = good_policy("[defaults]\nwindow = 100 calls\n[a:1]\n");
    assert_true(breaker_of(policy)->window == (WINDOW_CALLS | 100));
    assert_int_equal(breaker_of(policy)->minimum_calls, 20);
    policy_free(policy);
}

static void windows_are_written_back_as_a_file_has_them(void **state)
{
    (void)state;
    static const char *const good[][2] = {{"1s", "1s"},         {"1.5s", "1500ms"},       {"60 s", "1m"},
                                          {"1h", "1h"},         {"20 calls", "20 calls"}, {"1000calls", "1000 calls"},
                                          {"1 call", "1 call"}, {"1 calls", "1 call"},    {"20\tcalls", "20 calls"}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char text[80];
        snprintf(text, sizeof text, "[a:1]\nwindow = %s\n", good[i][0]);
        struct policy *policy = good_policy(text);
        assert_string_equal(described(&policy->targets[0], "window").value, good[i][1]);
        assert_string_equal(described(&policy->targets[0], "window").origin, "section");
        policy_free(policy);
    }
}

static void a_rate_of_zero_needs_no_sign(void **state)
{
    (void)state;
    struct policy *policy = good_policy("[a:1]\nfailure_rate = 0\n[b:1]\nfailure_rate = 0%\n[c:1]\njitter = 0\n");
    assert_int_equal(policy->targets[0].breaker.failure_rate_permille, 0);
    assert_string_equal(described(&policy->targets[0], "failure_rate").value, "0%");
    assert_int_equal(policy->targets[1].breaker.failure_rate_permille, 0);
    assert_int_equal(policy->targets[2].breaker.jitter_permille, 0);
    policy_free(policy);
    policy = good_policy("[a:1]\nslow_call = 1s\nslow_call_rate = 0\n"); /* they are counted, and never open */
    assert_int_equal(breaker_of(policy)->slow_call_rate_permille, 0);
    policy_free(policy);
}

static void bad_values_say_what_is_expected(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"window = 30", "no unit|`30s`|`100 calls`"},
        {"window = 0 calls", "from 1 to 1000 calls|`30s`"},
        {"window = 1001 calls", "from 1 to 1000 calls"},
        {"window = 99999999999 calls", "from 1 to 1000 calls"},
        {"window = 1.5 calls", "from 1 to 1000 calls"},
        {"window = 20 callz", "`callz` is no unit|`100 calls`"},
        {"window = 20 calls 30s", "is no unit"},
        {"window = -20 calls", "expected a duration such as|`100 calls`"},
        {"window = calls", "expected a duration such as|`100 calls`"},
        {"window = 999ms", "too short|`1s`"},
        {"window = 3601s", "too long|`1h`"},
        {"window = off", "expected a duration such as"},
        {"minimum_calls = 0", "1 to 1000000"},
        {"minimum_calls = 1000001", "1 to 1000000"},
        {"failure_rate = 50", "needs its sign|`50%`"},
        {"failure_rate = 100.1%", "0% to 100%"},
        {"failure_rate = off", "such as `10%`"},
        {"slow_call = 2", "no unit"},
        {"slow_call = 999us", "too short|`1ms`|`off`"},
        {"slow_call_rate = 1.05%", "one digit"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[80];
        snprintf(text, sizeof text, "[a:1]\n\n%s\n", bad[i][0]);
        expect_error(text, 3, bad[i][1]);
    }
}

static void a_circuit_that_nothing_opens_is_warned_of_unless_a_rate_is_on(void **state)
{
    (void)state;
    policy_free(good_policy("[a:1]\nfailure_threshold = 0\n"));
    policy_free(good_policy("[a:1]\nfailure_rate = 0\n"));
    policy_free(good_policy("[a:1]\nfailure_threshold = 0\nfailure_rate = 0\nslow_call = 2s\n"));
    expect_warning("[a:1]\nfailure_threshold = 0\nfailure_rate = 0\n[b:1]\n", 2,
                   "`failure_threshold = 0` with `failure_rate = 0%` (line 3)|no failure opens");
    expect_warning("[defaults]\nfailure_threshold = 0\nfailure_rate = 0\n[a:1]\n[b:1]\n", 3, "(line 2)|no failure");
    expect_warning("[defaults]\nfailure_rate = 0\n[a:1]\nfailure_threshold = 0\n[b:1]\n", 4, "(line 2)|no failure");
    expect_warning("[a:1]\nfailure_threshold = 0\nfailure_rate = 0\nslow_call = 2s\nslow_call_rate = 0\n", 2,
                   "no failure opens");
}

static void a_minimum_that_a_window_of_calls_never_holds_is_an_error_or_gives_way(void **state)
{
    (void)state;
    expect_error("[a:1]\nwindow = 20 calls\nminimum_calls = 21\n", 3,
                 "`minimum_calls = 21` is more than `window = 20 calls` (line 2)|no rate is ever judged");
    expect_error("[defaults]\nminimum_calls = 50\n[a:1]\n[b:1]\nwindow = 49 calls\n", 5,
                 "`minimum_calls = 50` (line 2)");
    policy_free(good_policy("[a:1]\nwindow = 20 calls\nminimum_calls = 20\n"));
    policy_free(good_policy("[a:1]\nwindow = 1s\nminimum_calls = 1000000\n"));
    struct policy *policy =
        good_policy("[a:1]\nwindow = 10 calls\n[b:1]\nwindow = 20 calls\n[c:1]\nwindow = 21 calls\n");
    assert_string_equal(described(&policy->targets[0], "minimum_calls").value, "10");
    assert_string_equal(described(&policy->targets[0], "minimum_calls").origin, "as window");
    assert_string_equal(described(&policy->targets[1], "minimum_calls").value, "20");
    assert_string_equal(described(&policy->targets[2], "minimum_calls").value, "20");
    assert_string_equal(described(&policy->targets[2], "minimum_calls").origin, "built in");
    policy_free(policy);
}

static void a_window_shorter_than_the_response_timeout_is_warned_of(void **state)
{
    (void)state;
    expect_warning("[a:1]\nwindow = 5s\nresponse_timeout = 6s\n", 2,
                   "`window = 5s` is shorter than `response_timeout = 6s` (line 3)|forgotten");
    expect_warning("[defaults]\nwindow = 5s\n[a:1]\n[b:1]\nresponse_timeout = 6s\n", 5, "`window = 5s` (line 2)");
    policy_free(good_policy("[a:1]\nwindow = 6s\nresponse_timeout = 6s\n"));
    policy_free(good_policy("[a:1]\nwindow = 10 calls\nresponse_timeout = 6s\n"));
    policy_free(good_policy("[a:1]\nresponse_timeout = 5m\n"));
}

static void keys_that_others_make_useless_are_warned_of(void **state)
{
    (void)state;
    expect_warning("[a:1]\nslow_call_rate = 50%\n", 2, "`slow_call_rate = 50%`|`slow_call = off` (built in)");
    expect_warning("[a:1]\nslow_call = 1s\nsuccess = connect\n", 2, "`slow_call = 1s`|`success = connect` (line 3)");
    expect_warning("[a:1]\nslow_call = 1s\nresponse_timeout = 1s\n", 2, "`response_timeout = 1s`|has failed already");
    policy_free(good_policy("[a:1]\nslow_call = 1s\nresponse_timeout = 1001ms\n"));
    expect_warning("[a:1]\nfailure_rate = 0\nwindow = 5s\n", 3, "`window = 5s`|`failure_rate = 0%` (line 2)|no rate");
    expect_warning("[a:1]\nfailure_rate = 0\nminimum_calls = 5\n", 3, "`minimum_calls = 5`|no rate is judged");
    policy_free(good_policy("[a:1]\nfailure_rate = 0\nwindow = 5s\nslow_call = 1s\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_are_stored_where_the_breaker_looks),
        cmocka_unit_test(windows_are_written_back_as_a_file_has_them),
        cmocka_unit_test(a_rate_of_zero_needs_no_sign),
        cmocka_unit_test(bad_values_say_what_is_expected),
        cmocka_unit_test(a_circuit_that_nothing_opens_is_warned_of_unless_a_rate_is_on),
        cmocka_unit_test(a_minimum_that_a_window_of_calls_never_holds_is_an_error_or_gives_way),
        cmocka_unit_test(a_window_shorter_than_the_response_timeout_is_warned_of),
        cmocka_unit_test(keys_that_others_make_useless_are_warned_of),
    };
    return cmocka_run_group_tests_name("policy rates", tests, NULL, NULL);
}
