/* The keys of a policy: what each takes, what it says of the rest, and where a value comes from. */
#include "support_policy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "policy/distance.h"
#include "policy/keys.h"

#define MS UINT64_C(1000000)
#define S (1000 * MS)

static struct described value_of(const char *line, const char *key)
{
    char text[512];
    snprintf(text, sizeof text, "[a:1]\n%s\n", line);
    struct policy *policy = good_policy(text);
    const struct described found = described(&policy->targets[0], key);
    policy_free(policy);
    return found;
}

/* The manual's table. */
static const char *const documented[][2] = {
    {"match", "a:1"},
    {"circuit", "destination"},
    {"mode", "enforce"},
    {"failure_threshold", "5"},
    {"window", "30s"},
    {"minimum_calls", "20"},
    {"failure_rate", "50%"},
    {"slow_call", "off"},
    {"slow_call_rate", "100%"},
    {"reset_timeout", "10s"},
    {"reset_timeout_max", "1m"},
    {"backoff_multiplier", "2"},
    {"jitter", "10%"},
    {"half_open_max_calls", "1"},
    {"success_threshold", "1"},
    {"probe_timeout", "10s"},
    {"health_check", "none"},
    {"health_interval", "2s"},
    {"health_timeout", "2s"},
    {"health_rise", "2"},
    {"health_patience", "5"},
    {"alert", "none"},
    {"alert_on", "open close flapping"},
    {"alert_every", "5m"},
    {"alert_timeout", "30s"},
    {"flapping", "10 openings in 1h"},
    {"connect_timeout", "10s"},
    {"response_timeout", "off"},
    {"enforce_timeouts", "no"},
    {"abandon_after", "300ms"},
    {"success", "answer"},
    {"failures", "connect-timeout response-timeout refused reset unreachable early-close"},
    {"http", "auto"},
    {"http_failures", "502 503 504"},
    {"grpc_failures", "DEADLINE_EXCEEDED UNAVAILABLE"},
    {"retry_after", "yes"},
    {"retry_after_max", "5m"},
    {"existing", "refuse"},
    {"max_connections", "0"},
    {"retry", "0"},
    {"retry_backoff", "100ms"},
    {"retry_budget", "10%"},
    {"on_open", "ECONNREFUSED"},
    {"fallback", "none"},
    {"record", "failures"},
    {"scope", "host"},
    {"fleet_quorum", "2"},
    {"inject", "none"},
    {"inject_seed", "0"},
    {"capacity", "256 circuits 8192 connections 1024 processes"},
    {"journal", "2048 events"},
};

static void every_key_has_the_documented_default(void **state)
{
    (void)state;
    struct policy *policy = good_policy("[a:1]\n");
    assert_int_equal(sizeof documented / sizeof *documented, KEYS);
    for (unsigned int index = 0; index < KEYS; index++) {
        assert_string_equal(key_table[index].name, documented[index][0]);
        const struct described found = described(&policy->targets[0], documented[index][0]);
        assert_string_equal(found.value, documented[index][1]);
        assert_string_equal(found.origin, index == KEY_MATCH ? "the name" : "built in");
    }
    policy_free(policy);
}

static void assert_range(const struct outcome_rules *rules, unsigned int index, uint16_t first, uint16_t last)
{
    assert_int_equal(rules->http_failures[index].first, first);
    assert_int_equal(rules->http_failures[index].last, last);
}

static void defaults_are_stored_where_the_breaker_looks(void **state)
{
    (void)state;
    struct policy *policy = good_policy("[a:1]\n");
    const struct target *target = &policy->targets[0];
    assert_int_equal(target->mode, MODE_ENFORCE);
    assert_int_equal(target->circuit, CIRCUIT_BY_DESTINATION);
    assert_int_equal(target->scope, SCOPE_HOST);
    assert_int_equal(target->on_open, ECONNREFUSED);
    assert_int_equal(target->connect_timeout_ns, 10 * S);
    assert_int_equal(target->response_timeout_ns, 0);
    assert_int_equal(target->breaker.failure_threshold, 5);
    assert_int_equal(target->breaker.success_threshold, 1);
    assert_int_equal(target->breaker.half_open_max_calls, 1);
    assert_int_equal(target->breaker.backoff_permille, 2000);
    assert_int_equal(target->breaker.jitter_permille, 100);
    assert_int_equal(target->breaker.reset_timeout_ns, 10 * S);
    assert_int_equal(target->breaker.reset_timeout_max_ns, 60 * S);
    assert_int_equal(target->breaker.probe_timeout_ns, 10 * S);
    assert_int_equal(target->rules.abandon_after_ns, 300 * MS);
    assert_int_equal(target->rules.success, SUCCESS_ANSWER);
    for (unsigned int kind = 1; kind <= FAILURE_EARLY_CLOSE; kind++)
        assert_true(target->rules.failure_mask >> kind & 1);
    assert_int_equal(target->rules.failure_mask & 1, 0);
    assert_true(target->http_read && target->retry_after);
    assert_int_equal(target->breaker.retry_after_max_ns, 300 * S);
    assert_int_equal(target->rules.http_failure_count, 3);
    for (uint16_t i = 0; i < 3; i++)
        assert_range(&target->rules, i, (uint16_t)(502 + i), (uint16_t)(502 + i));
    policy_free(policy);
}

static void set_keys_are_stored_where_the_breaker_looks(void **state)
{
    (void)state;
    struct policy *policy =
        good_policy("[a:1]\nmode = closed\ncircuit = address\nscope = process\non_open = EPERM\nconnect_timeout = 2s\n"
                    "response_timeout = 3s\nfailure_threshold = 65535\nsuccess_threshold = 127\n"
                    "half_open_max_calls = 8\nbackoff_multiplier = 1.125\njitter = 12.5%\nreset_timeout = 1.5s\n"
                    "reset_timeout_max = 1h\nprobe_timeout = 4s\nabandon_after = 50ms\nsuccess = connect\n"
                    "failures = reset refused\nhttp = off\nretry_after = no\n"
                    "existing = allow\nenforce_timeouts = yes\n");
    const struct target *target = &policy->targets[0];
    assert_int_equal(target->mode, MODE_CLOSED);
    assert_int_equal(target->circuit, CIRCUIT_BY_ADDRESS);
    assert_int_equal(target->scope, SCOPE_PROCESS);
    assert_int_equal(target->on_open, EPERM);
    assert_int_equal(target->connect_timeout_ns, 2 * S);
    assert_int_equal(target->response_timeout_ns, 3 * S);
    assert_int_equal(target->breaker.failure_threshold, 65535);
    assert_int_equal(target->breaker.success_threshold, 127);
    assert_int_equal(target->breaker.half_open_max_calls, 8);
    assert_int_equal(target->breaker.backoff_permille, 1125);
    assert_int_equal(target->breaker.jitter_permille, 125);
    assert_int_equal(target->breaker.reset_timeout_ns, 1500 * MS);
    assert_int_equal(target->breaker.reset_timeout_max_ns, 3600 * S);
    assert_int_equal(target->breaker.probe_timeout_ns, 4 * S);
    assert_int_equal(target->rules.abandon_after_ns, 50 * MS);
    assert_int_equal(target->rules.success, SUCCESS_CONNECT);
    assert_int_equal(target->rules.failure_mask, 1u << FAILURE_RESET | 1u << FAILURE_REFUSED);
    assert_false(target->http_read || target->retry_after);
    assert_true(target->existing_allowed && target->enforce_timeouts);
    assert_true(policy->has_process_scope);
    assert_false(policy->has_host_scope);
    policy_free(policy);
    policy = good_policy("[a:1]\nretry_after_max = 2m\n");
    assert_int_equal(policy->targets[0].breaker.retry_after_max_ns, 120 * S);
    policy_free(policy);
}

static void statuses_are_sorted_and_those_that_overlap_are_one_range(void **state)
{
    (void)state;
    struct policy *policy = good_policy("[a:1]\nhttp_failures = 503 , 100-199 520-529\t450 525-999 110-120 503 429\n");
    const struct outcome_rules *rules = &policy->targets[0].rules;
    assert_int_equal(rules->http_failure_count, 5);
    assert_range(rules, 0, 100, 199);
    assert_range(rules, 1, 429, 429);
    assert_range(rules, 2, 450, 450);
    assert_range(rules, 3, 503, 503);
    assert_range(rules, 4, 520, 999);
    policy_free(policy);
}

static void statuses_of_defaults_and_of_the_command_line_reach_each_target(void **state)
{
    (void)state;
    struct policy *policy = good_policy("[defaults]\nhttp_failures = 500-599\n[a:1]\n[b:1]\nhttp_failures = none\n");
    assert_int_equal(policy->targets[0].rules.http_failure_count, 1);
    assert_range(&policy->targets[0].rules, 0, 500, 599);
    assert_int_equal(policy->targets[1].rules.http_failure_count, 0);
    policy_free(policy);

    struct loaded loaded;
    load_text(&loaded, "[a:1]\nhttp_failures = 500-599 429\n", (const char *const[]){"http_failures=418", NULL});
    assert_non_null(loaded.policy);
    assert_int_equal(loaded.policy->targets[0].rules.http_failure_count, 1);
    assert_range(&loaded.policy->targets[0].rules, 0, 418, 418);
    unload(&loaded);
}

static void good_values_are_written_back_in_the_files_own_syntax(void **state)
{
    (void)state;
    static const char *const good[][3] = {
        /* key, written, written back */
        {"circuit", "target", "target"},
        {"mode", "observe", "observe"},
        {"mode", "off", "off"},
        {"mode", "open", "open"},
        {"failure_threshold", "1", "1"},
        {"failure_threshold", "007", "7"},
        {"reset_timeout", "1ms", "1ms"},
        {"reset_timeout", "1000us", "1ms"},
        {"reset_timeout", "1500us", "1500us"},
        {"reset_timeout", "0.5s", "500ms"},
        {"reset_timeout", "90s", "90s"},
        {"reset_timeout", "60s", "1m"},
        {"reset_timeout", "24h", "1d"},
        {"reset_timeout", "30d", "30d"},
        {"reset_timeout", "1.5 s", "1500ms"},
        {"backoff_multiplier", "1", "1"},
        {"backoff_multiplier", "1.0", "1"},
        {"backoff_multiplier", "1.1", "1.1"},
        {"backoff_multiplier", "2.500", "2.5"},
        {"backoff_multiplier", "100", "100"},
        {"jitter", "0%", "0%"},
        {"jitter", "0.1 %", "0.1%"},
        {"jitter", "100%", "100%"},
        {"response_timeout", "off", "off"},
        {"response_timeout", "0s", "off"},
        {"response_timeout", "5m", "5m"},
        {"failures", "refused", "refused"},
        {"failures", "early-close, reset", "reset early-close"},
        {"on_open", "ETIMEDOUT", "ETIMEDOUT"},
        {"on_open", "EHOSTUNREACH", "EHOSTUNREACH"},
        {"on_open", "ENETUNREACH", "ENETUNREACH"},
        {"on_open", "ECONNRESET", "ECONNRESET"},
        {"on_open", "ECONNABORTED", "ECONNABORTED"},
        {"on_open", "EACCES", "EACCES"},
        {"http", "off", "off"},
        {"grpc_failures", "14 4", "DEADLINE_EXCEEDED UNAVAILABLE"},
        {"grpc_failures", "unavailable,Internal", "INTERNAL UNAVAILABLE"},
        {"grpc_failures", "none", "none"},
        {"http_failures", "503", "503"},
        {"http_failures", "none", "none"},
        {"http_failures", "504 503 502", "502 503 504"},
        {"http_failures", "500-509 510-519", "500-509 510-519"},
        {"http_failures", "510-519,500-510", "500-519"},
        {"http_failures", "999 100", "100 999"},
        {"http_failures", "100-999 500-599", "100-999"},
        {"http_failures", "503-503", "503"},
        {"http_failures", "501 502 503 504 505 506 507 508 509 510 511 512 513 514 515 516 501 501-510",
         "501-510 511 512 513 514 515 516"},
        {"http_failures",
         "100-101 103-104 106-107 109-110 112-113 115-116 118-119 121-122 124-125 127-128 130-131 133-134 136-137 "
         "139-140 142-143 145-146",
         "100-101 103-104 106-107 109-110 112-113 115-116 118-119 121-122 124-125 127-128 130-131 133-134 136-137 "
         "139-140 142-143 145-146"},
        {"retry_after", "no", "no"},
        {"retry_after_max", "300s", "5m"},
        {"existing", "allow", "allow"},
        {"enforce_timeouts", "yes", "yes"},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char line[256];
        snprintf(line, sizeof line, "%s = %s", good[i][0], good[i][1]);
        const struct described found = value_of(line, good[i][0]);
        assert_string_equal(found.value, good[i][2]);
        assert_string_equal(found.origin, "section");
    }
}

static void bad_values_say_what_is_expected(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"circuit = destinaton", "`circuit = destinaton`|did you mean `destination`|destination, address, target"},
        {"mode = on", "enforce, observe, off, open, closed"},
        {"mode = Enforce", "did you mean `enforce`"},
        {"failure_threshold = -1", "whole number from 0 to 65535"},
        {"failure_threshold = 65536", "0 to 65535"},
        {"failure_threshold = 99999999999999999999", "0 to 65535"},
        {"failure_threshold = 3.0", "whole number"},
        {"failure_threshold = 3x", "whole number"},
        {"failure_threshold = three", "whole number"},
        {"half_open_max_calls = 0", "1 to 8"},
        {"half_open_max_calls = 9", "1 to 8"},
        {"success_threshold = 0", "1 to 127"},
        {"success_threshold = 128", "1 to 127"},
        {"reset_timeout = 10", "no unit|`10s`|`10ms`"},
        {"reset_timeout = 10sec", "`sec` is no unit|us, ms, s, m, h or d"},
        {"reset_timeout = 1m30s", "`m30s` is no unit"},
        {"reset_timeout = 10S", "`S` is no unit"},
        {"reset_timeout = 10 000s", "is no unit"},
        {"reset_timeout = 1,5s", "`,5s` is no unit"},
        {"reset_timeout = -1s", "expected a duration such as"},
        {"reset_timeout = .5s", "expected a duration such as"},
        {"reset_timeout = 5.s", "is no unit"},
        {"reset_timeout = s", "expected a duration such as"},
        {"reset_timeout = off", "expected a duration such as"},
        {"reset_timeout = 0s", "too short|`1ms`"},
        {"reset_timeout = 999us", "too short|`1ms`"},
        {"reset_timeout = 0.9ms", "too short|`1ms`"},
        {"reset_timeout = 0.000000001h", "too short|`1ms`"},
        {"reset_timeout = 31d", "too long|`30d`"},
        {"reset_timeout = 30.0000001d", "too long|`30d`"},
        {"reset_timeout = 999999999999999d", "too long|`30d`"},
        {"reset_timeout = 9999999999999999999999999d", "expected a duration"},
        {"reset_timeout = 1.0000000001s", "finer than a nanosecond"},
        {"reset_timeout_max = 5", "no unit"},
        {"probe_timeout = soon", "expected a duration"},
        {"connect_timeout = off", "expected a duration"},
        {"response_timeout = 0", "no unit|`off`"},
        {"response_timeout = never", "or `off`"},
        {"response_timeout = 1us", "too short|or `off`"},
        {"abandon_after = 49ms", "too short|`50ms`"},
        {"backoff_multiplier = 0.5", "from 1 to 100"},
        {"backoff_multiplier = 1.05", "`1`, which never grows|1.1 to 100"},
        {"backoff_multiplier = 100.1", "from 1 to 100"},
        {"backoff_multiplier = 2x", "from 1 to 100"},
        {"backoff_multiplier = 1.2345", "three digits"},
        {"backoff_multiplier = 1,5", "from 1 to 100"},
        {"backoff_multiplier = 18446744073709551617", "from 1 to 100"},
        {"jitter = 10", "needs its sign|`10%`"},
        {"jitter = 0.1", "needs its sign"},
        {"jitter = 101%", "0% to 100%"},
        {"jitter = 999999999999999%", "0% to 100%"},
        {"jitter = 0.05%", "one digit"},
        {"jitter = ten%", "such as `10%`"},
        {"jitter = 10%%", "such as `10%`"},
        {"success = answers", "did you mean `answer`|answer, connect"},
        {"failures = refused timeout", "`timeout` is not known|connect-timeout"},
        {"failures = resets", "did you mean `reset`"},
        {"failures = none", "`none` is not known"},
        {"failures = ,", "is not known"},
        {"failures = http", "`http` is not known"},
        {"on_open = EAGAIN", "ECONNREFUSED, ETIMEDOUT"},
        {"on_open = 111", "ECONNREFUSED"},
        {"scope = user", "host, process"},
        {"http = on", "auto, off"},
        {"grpc_failures = UNAVAILBLE", "did you mean `UNAVAILABLE`?"},
        {"grpc_failures = 0", "`0` is no failure of gRPC's|from 1 to 16"},
        {"grpc_failures = OK", "`OK` is no failure"},
        {"grpc_failures = 14 17", "`17` is no failure"},
        {"grpc_failures = ,", "or `none`"},
        {"grpc_failures = 14 none", "`none` is no failure"},
        {"http_failures = 99", "`99` is no status|100 to 999|`503 520-529`|`none`"},
        {"http_failures = 503 1000", "`1000` is no status"},
        {"http_failures = 503 5xx 504", "`5xx` is no status"},
        {"http_failures = 050", "`050` is no status"},
        {"http_failures = 599-500", "`599-500` is no status"},
        {"http_failures = 500-", "`500-` is no status"},
        {"http_failures = -599", "`-599` is no status"},
        {"http_failures = 500 - 599", "`-` is no status"},
        {"http_failures = 500-5990", "`500-5990` is no status"},
        {"http_failures = 500-550-599", "`500-550-599` is no status"},
        {"http_failures = 503;504", "`503;504` is no status"},
        {"http_failures = 503 none", "`none` is no status"},
        {"http_failures = ,", "expected statuses and ranges"},
        {"http_failures = 501 502 503 504 505 506 507 508 509 510 511 512 513 514 515 516 517", "at most 16"},
        {"retry_after = on", "yes, no"},
        {"retry_after_max = 0s", "too short"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[160];
        snprintf(text, sizeof text, "[a:1]\n\n%s\n", bad[i][0]);
        expect_error(text, 3, bad[i][1]);
    }
}

static void other_names_of_the_reset_timeout_are_the_reset_timeout(void **state)
{
    (void)state;
    assert_string_equal(value_of("recovery_timeout = 7s", "reset_timeout").value, "7s");
    assert_string_equal(value_of("open_duration = 8s", "reset_timeout").value, "8s");
    expect_error("[a:1]\nreset_timeout = 7s\nopen_duration = 8s\n", 3,
                 "`open_duration`|another name of `reset_timeout`|line 2");
}

static void unknown_keys_get_the_nearest_known_one(void **state)
{
    (void)state;
    static const char *const unknown[][2] = {
        {"reset_timeot", "did you mean `reset_timeout`?"},
        {"reset-timeout", "did you mean `reset_timeout`?"},
        {"Reset_Timeout", "did you mean `reset_timeout`?"},
        {"rest_timeout_max", "did you mean `reset_timeout_max`?"},
        {"recovery_timout", "did you mean `recovery_timeout`?"},
        {"failure_treshold", "did you mean `failure_threshold`?"},
        {"jittre", "did you mean `jitter`?"},
        {"moed", "did you mean `mode`?"},
        {"colour", "the nearest known key is `"},
        {"a_key_that_is_longer_than_any_word_of_ours", "the nearest known key is `"},
    };
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        char text[160], fragments[200];
        snprintf(text, sizeof text, "[a:1]\n%s = 1\n", unknown[i][0]);
        snprintf(fragments, sizeof fragments, "unknown key `%s`|%s", unknown[i][0], unknown[i][1]);
        expect_error(text, 2, fragments);
    }
}

static void distance_counts_the_slips_of_a_finger(void **state)
{
    (void)state;
    assert_int_equal(word_distance("", ""), 0);
    assert_int_equal(word_distance("mode", "mode"), 0);
    assert_int_equal(word_distance("mode", "moed"), 1);
    assert_int_equal(word_distance("mode", "mde"), 1);
    assert_int_equal(word_distance("mode", "modes"), 1);
    assert_int_equal(word_distance("mode", "made"), 1);
    assert_int_equal(word_distance("kitten", "sitting"), 3);
    assert_int_equal(word_distance("", "jitter"), 6);
    assert_int_equal(word_distance("an_endless_word_of_more_than_32_bytes", "jitter"), DISTANCE_WORD_MAX);
}

static void the_table_of_keys_is_sound(void **state)
{
    (void)state;
    for (unsigned int index = 0; index < KEYS; index++) {
        const struct key *key = &key_table[index];
        assert_non_null(key->name);
        assert_int_equal(key_named(key->name), index);
        for (unsigned int i = 0; i < KEY_ALIASES_MAX && key->aliases[i] != NULL; i++)
            assert_int_equal(key_named(key->aliases[i]), index);
        if (key->rule.type == VALUE_PATTERNS)
            continue;
        struct target target;
        char why[200];
        assert_true(key_set((enum key_index)index, &target, key->built_in, why, sizeof why));
        if (key->rule.type != VALUE_STATUSES && key->rule.type != VALUE_FAULTS && key->rule.type != VALUE_FALLBACK &&
            key->rule.type != VALUE_CHECK && key->rule.type != VALUE_COMMAND && key->rule.type != VALUE_FLAPPING &&
            key->rule.type != VALUE_CAPACITY && key->rule.type != VALUE_QUORUM)
            assert_true(key->size == 1 || key->size == 4 || key->size == 8);
    }
    assert_int_equal(key_named("colour"), KEYS);
    assert_string_equal(target_mode_name(MODE_OBSERVE), "observe");
    assert_string_equal(target_mode_name((enum target_mode)77), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_has_the_documented_default),
        cmocka_unit_test(defaults_are_stored_where_the_breaker_looks),
        cmocka_unit_test(set_keys_are_stored_where_the_breaker_looks),
        cmocka_unit_test(statuses_are_sorted_and_those_that_overlap_are_one_range),
        cmocka_unit_test(statuses_of_defaults_and_of_the_command_line_reach_each_target),
        cmocka_unit_test(good_values_are_written_back_in_the_files_own_syntax),
        cmocka_unit_test(bad_values_say_what_is_expected),
        cmocka_unit_test(other_names_of_the_reset_timeout_are_the_reset_timeout),
        cmocka_unit_test(unknown_keys_get_the_nearest_known_one),
        cmocka_unit_test(distance_counts_the_slips_of_a_finger),
        cmocka_unit_test(the_table_of_keys_is_sound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
