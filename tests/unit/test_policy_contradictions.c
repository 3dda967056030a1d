/* Keys of a policy that can't stand side by side, or of which one makes the other one useless. */
#include "support_policy.h"

#include <stdio.h>
#include <string.h>

/* Two keys in one section: a warning at the first one's line that names both, and none where `fine` takes its place. */
struct pair {
    const char *keys, *fine, *fragments;
};

static void expect_pair(const struct pair *pair)
{
    char text[512];
    snprintf(text, sizeof text, "[a:1]\n%s\n", pair->keys);
    expect_warning(text, 2, pair->fragments);
    snprintf(text, sizeof text, "[a:1]\n%s\n", pair->fine);
    policy_free(good_policy(text));
}

static void a_key_that_does_nothing_beside_another_one_is_told(void **state)
{
    (void)state;
    static const struct pair pairs[] = {
        {"http_failures = 500\nhttp = off", "http_failures = 500\nhttp = auto",
         "`http_failures = 500` is of no use with `http = off` (line 3): answers are not looked at"},
        {"http_failures = 500\nsuccess = connect", "http_failures = 500\nsuccess = answer",
         "is of no use with `success = connect` (line 3): no answer is awaited"},
        {"retry_after_max = 1m\nhttp = off", "retry_after_max = 1m\nhttp = auto", "`http = off` (line 3)"},
        {"retry_after_max = 1m\nretry_after = no", "retry_after_max = 1m\nretry_after = yes",
         "is of no use with `retry_after = no` (line 3): the header is not read"},
        {"slow_call = 1s\nsuccess = connect", "slow_call = 1s\nsuccess = answer", "`success = connect` (line 3)"},
        {"slow_call_rate = 50%\nslow_call = off", "slow_call_rate = 50%\nslow_call = 1s", "`slow_call = off` (line 3)"},
        {"response_timeout = 5s\nfailures = reset connect-timeout",
         "response_timeout = 5s\nfailures = response-timeout",
         "is of no use with `failures = connect-timeout reset` (line 3): `response-timeout` is not among them"},
        {"connect_timeout = 5s\nfailures = reset", "connect_timeout = 5s\nfailures = connect-timeout",
         "`connect-timeout` is not among them"},
        {"backoff_multiplier = 3\nreset_timeout = 2m", "backoff_multiplier = 1\nreset_timeout = 2m",
         "is of no use with `reset_timeout_max = 2m`|the first pause is the longest already"},
        {"window = 10s\nfailure_rate = 0%", "window = 10s\nfailure_rate = 1%", "no rate is judged"},
        {"window = 10s\nfailure_rate = 0%", "window = 10s\nfailure_rate = 0%\nretry = 1", "no rate is judged"},
        {"retry_backoff = 1s", "retry_backoff = 1s\nretry = 1",
         "is of no use with `retry = 0` (built in): nothing is tried again"},
        {"retry_budget = 20%", "retry_budget = 20%\nretry = 1", "nothing is tried again"},
        {"retry = 2\nmode = observe", "retry = 2\nmode = enforce",
         "`retry = 2` is of no use with `mode = observe` (line 3): only what is enforced is tried again"},
        {"minimum_calls = 5\nfailure_rate = 0%", "minimum_calls = 5\nfailure_rate = 0%\nslow_call = 1s",
         "no rate is judged"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        expect_pair(&pairs[i]);
    /* Where the wait is ended, the times are of use whatever counts. */
    policy_free(good_policy("[a:1]\nresponse_timeout = 5s\nconnect_timeout = 5s\nfailures = reset\n"
                            "enforce_timeouts = yes\n"));
}

static void limits_that_end_no_wait_are_told(void **state)
{
    (void)state;
    expect_warning("[unix:/a]\nenforce_timeouts = yes\n", 2, "no wait of this target is ended|UNIX");
    policy_free(good_policy("[unix:/a]\nenforce_timeouts = yes\nresponse_timeout = 5s\n"));
    policy_free(good_policy("[a]\nmatch = unix:/a a:1\nenforce_timeouts = yes\n"));
    policy_free(good_policy("[defaults]\nenforce_timeouts = yes\n[unix:/a]\n"));
}

static void a_rule_that_no_call_can_meet_is_told(void **state)
{
    (void)state;
    static const struct pair pairs[] = {
        {"failure_threshold = 0\nfailure_rate = 0%", "failure_threshold = 0\nfailure_rate = 1%",
         "no failure opens the circuit"},
        {"failures = early-close response-timeout\nsuccess = connect",
         "failures = early-close reset\nsuccess = connect",
         "`failures = response-timeout early-close` with `success = connect` (line 3): no call can fail"},
        {"half_open_max_calls = 4\nmax_connections = 3", "half_open_max_calls = 4\nmax_connections = 4",
         "`half_open_max_calls = 4` is more than `max_connections = 3` (line 3)"},
        {"retry_after_max = 5s\nreset_timeout = 6s", "retry_after_max = 5s\nreset_timeout = 5s",
         "is shorter than `reset_timeout = 6s` (line 3): no `Retry-After` can lengthen a pause"},
        {"slow_call = 5s\nresponse_timeout = 5s", "slow_call = 5s\nresponse_timeout = 5001ms", "has failed already"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        expect_pair(&pairs[i]);
    expect_error("[a:1]\nminimum_calls = 11\nwindow = 10 calls\n", 2, "is more than `window = 10 calls` (line 3)");
    policy_free(good_policy("[a:1]\nminimum_calls = 10\nwindow = 10 calls\n"));
}

static void times_that_do_not_fit_into_each_other_are_told(void **state)
{
    (void)state;
    static const struct pair pairs[] = {
        {"window = 9s\nresponse_timeout = 10s", "window = 10s\nresponse_timeout = 10s",
         "`window = 9s` is shorter than `response_timeout = 10s` (line 3)"},
        {"probe_timeout = 4s\nconnect_timeout = 5s", "probe_timeout = 5s\nconnect_timeout = 5s", "may still connect"},
        {"probe_timeout = 4s\nconnect_timeout = 1s\nresponse_timeout = 5s",
         "probe_timeout = 5s\nconnect_timeout = 1s\nresponse_timeout = 5s", "while its answer may still come"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        expect_pair(&pairs[i]);
    expect_error("[a:1]\nreset_timeout = 6s\nreset_timeout_max = 5s\n", 2, "is longer than `reset_timeout_max = 5s`");
}

static void a_built_in_time_for_probes_gives_way(void **state)
{
    (void)state;
    struct policy *policy =
        good_policy("[a:1]\nresponse_timeout = 25s\n[b:1]\nconnect_timeout = 30s\n[c:1]\nconnect_timeout = 1s\n"
                    "response_timeout = 2s\n[d:1]\nresponse_timeout = 25s\nconnect_timeout = 31s\n");
    static const char *const expected[][2] = {{"25s", "as response_timeout"},
                                              {"30s", "as connect_timeout"},
                                              {"10s", "built in"},
                                              {"31s", "as connect_timeout"}};
    for (size_t i = 0; i < 4; i++) {
        const struct described found = described(&policy->targets[i], "probe_timeout");
        assert_string_equal(found.value, expected[i][0]);
        assert_string_equal(found.origin, expected[i][1]);
    }
    policy_free(policy);
    policy = good_policy("[defaults]\nresponse_timeout = 25s\n[a:1]\nprobe_timeout = 26s\n[b:1]\n");
    assert_string_equal(described(&policy->targets[0], "probe_timeout").origin, "section");
    assert_string_equal(described(&policy->targets[1], "probe_timeout").value, "25s");
    policy_free(policy);
}

static void defaults_may_be_useless_in_a_section_that_is_an_exception(void **state)
{
    (void)state;
    policy_free(good_policy("[defaults]\nhttp_failures = 500\nresponse_timeout = 5s\nretry_after_max = 1m\n[a:1]\n"
                            "http = off\nfailures = connect-timeout\n[b:1]\n"));
    expect_warning("[defaults]\nhttp_failures = 500\nhttp = off\n[a:1]\n[b:1]\nhttp = auto\n", 3, "(line 2)");
    expect_warning("[defaults]\nhttp = off\n[a:1]\nhttp_failures = 500\n[b:1]\n", 4, "`http = off` (line 2)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_that_does_nothing_beside_another_one_is_told),
        cmocka_unit_test(limits_that_end_no_wait_are_told),
        cmocka_unit_test(a_rule_that_no_call_can_meet_is_told),
        cmocka_unit_test(times_that_do_not_fit_into_each_other_are_told),
        cmocka_unit_test(a_built_in_time_for_probes_gives_way),
        cmocka_unit_test(defaults_may_be_useless_in_a_section_that_is_an_exception),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
