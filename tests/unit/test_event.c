/*
 * test_event.c - events as JSON and as lines for people, and times as RFC 3339.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "breaker/circuit.h"
#include "breaker/recent_kinds.h"
#include "segment/event.h"
#include "segment/held.h"
#include "guard/operator.h"

/* 2026-02-03T04:05:06.789Z */
#define SOME_TIME_NS (UINT64_C(1770091506789) * NS_PER_MS + 999999)

static char buffer[EVENT_JSON_MAX];

static struct event event_of(enum event_type type)
{
    return (struct event){.time_ns = SOME_TIME_NS,
                          .mono_ns = 123456789,
                          .pid = 4711,
                          .type = (uint8_t)type,
                          .program = "curl",
                          .target = "payments",
                          .destination = "127.0.0.1:8080"};
}

static const char *json(const struct event *event)
{
    size_t length = event_json(event, buffer, sizeof buffer);
    assert_true(length > 0);
    assert_int_equal(length, strlen(buffer));
    assert_int_equal(buffer[length - 1], '\n');
    return buffer;
}

static const char *what(const struct event *event)
{
    size_t length = event_what(event, buffer, sizeof buffer);
    assert_true(length > 0);
    assert_int_equal(length, strlen(buffer));
    return buffer;
}

#define JSON_HEAD                                                                                                      \
    "{\"time\":\"2026-02-03T04:05:06.789Z\",\"mono_ns\":123456789,\"pid\":4711,\"program\":\"curl\","                  \
    "\"target\":\"payments\",\"destination\":\"127.0.0.1:8080\",\"event\":"

static void an_opening_tells_from_to_reason_failures_and_pause(void **state)
{
    (void)state;
    struct event event = event_of(EVENT_OPEN);
    event.from = CIRCUIT_CLOSED;
    event.to = CIRCUIT_OPEN;
    event.reason = REASON_FAILURE_THRESHOLD;
    event.failures = 3;
    event.pause_ns = 10500 * NS_PER_MS;
    assert_string_equal(json(&event), JSON_HEAD "\"open\",\"from\":\"closed\",\"to\":\"open\","
                                                "\"reason\":\"failure-threshold\",\"failures\":3,\"pause_ms\":10500,"
                                                "\"kinds\":{},\"refused\":0}\n");
    assert_string_equal(what(&event), "failure-threshold, 3 failures, pause 10.5s");
}

static void an_opening_that_was_found_later_than_it_was_says_so(void **state)
{
    (void)state;
    struct event event = event_of(EVENT_OPEN);
    event.from = CIRCUIT_CLOSED;
    event.to = CIRCUIT_OPEN;
    event.reason = REASON_FAILURE_THRESHOLD;
    event.failures = 3;
    event.pause_ns = 10 * NS_PER_S;
    event.elapsed_ms = 4200;
    assert_non_null(strstr(json(&event), ",\"refused\":0,\"noticed_after_ms\":4200}\n"));
    assert_string_equal(what(&event), "failure-threshold, 3 failures, pause 10s, noticed 4.2s later");
    event.elapsed_ms = 9;
    assert_string_equal(what(&event), "failure-threshold, 3 failures, pause 10s");
}

static void an_opening_by_a_rate_tells_what_the_window_held(void **state)
{
    (void)state;
    struct event event = event_of(EVENT_OPEN);
    event.from = CIRCUIT_CLOSED;
    event.to = CIRCUIT_OPEN;
    event.reason = REASON_FAILURE_RATE;
    event.failures = 2;
    event.window_calls = 20;
    event.window_failed = 12;
    event.window_slow = 3;
    event.pause_ns = 10 * NS_PER_S;
    assert_string_equal(json(&event), JSON_HEAD "\"open\",\"from\":\"closed\",\"to\":\"open\","
                                                "\"reason\":\"failure-rate\",\"failures\":2,\"pause_ms\":10000,"
                                                "\"window\":{\"calls\":20,\"failed\":12,\"slow\":3},"
                                                "\"kinds\":{},\"refused\":0}\n");
    assert_string_equal(what(&event), "failure-rate, 12 of 20 calls failed, pause 10s");
    event.reason = REASON_SLOW_CALL_RATE;
    event.window_calls = event.window_slow = 1;
    assert_string_equal(what(&event), "slow-call-rate, 1 of 1 call slow, pause 10s");
    assert_non_null(strstr(json(&event), "\"reason\":\"slow-call-rate\""));
    event.reason = REASON_FAILURE_THRESHOLD;
    assert_string_equal(what(&event), "failure-threshold, 2 failures, pause 10s");
}

static uint64_t kinds_of(const struct kind_count *counts, unsigned int count)
{
    uint64_t kinds = 0;
    for (unsigned int i = 0; i < count; i++) {
        const struct outcome failure = {.kind = counts[i].kind, .http_status = counts[i].http_status};
        for (unsigned int j = 0; j < counts[i].failures; j++)
            kinds = recent_kinds_with(kinds, &failure);
    }
    return kinds;
}

static void an_opening_tells_of_which_kinds_the_failures_were(void **state)
{
    (void)state;
    struct event event = event_of(EVENT_OPEN);
    event.from = CIRCUIT_CLOSED;
    event.to = CIRCUIT_OPEN;
    event.reason = REASON_FAILURE_THRESHOLD;
    event.failures = 3;
    event.pause_ns = 10 * NS_PER_S;
    event.recent_kinds = kinds_of((struct kind_count[]){{FAILURE_REFUSED, 0, 2}, {FAILURE_HTTP, 503, 1}}, 2);
    assert_non_null(strstr(json(&event), "\"failures\":3,\"pause_ms\":10000,"
                                         "\"kinds\":{\"refused\":2,\"http-503\":1},\"refused\":0}\n"));
    assert_string_equal(what(&event), "failure-threshold, 3 failures (2 refused, 1 http-503), pause 10s");
    event.recent_kinds = kinds_of((struct kind_count[]){{FAILURE_REFUSED, 0, 3}}, 1);
    assert_string_equal(what(&event), "failure-threshold, 3 failures (refused), pause 10s");
    event.failures = 20; /* more than are kept */
    event.recent_kinds = kinds_of((struct kind_count[]){{FAILURE_RESET, 0, 12}}, 1);
    assert_string_equal(what(&event), "failure-threshold, 20 failures (the last 12: 12 reset), pause 10s");
    event.reason = REASON_FAILURE_RATE;
    event.window_calls = 20;
    event.window_failed = 12;
    assert_string_equal(what(&event), "failure-rate, 12 of 20 calls failed (reset), pause 10s");
}

static void a_failed_probe_tells_how_each_of_its_attempts_failed(void **state)
{
    (void)state;
    struct event event = event_of(EVENT_OPEN);
    event.from = CIRCUIT_HALF_OPEN;
    event.to = CIRCUIT_OPEN;
    event.reason = REASON_PROBE_FAILED;
    event.pause_ns = 20 * NS_PER_S;
    event.attempts[0] = (struct event_attempt){.kind = FAILURE_REFUSED, .error = ECONNREFUSED, .elapsed_ms = 3};
    event.attempts[1] = (struct event_attempt){.kind = FAILURE_HTTP, .http_status = 503, .elapsed_ms = 1200};
    assert_string_equal(json(&event), JSON_HEAD "\"open\",\"from\":\"half-open\",\"to\":\"open\","
                                                "\"reason\":\"probe-failed\",\"failures\":0,\"pause_ms\":20000,"
                                                "\"attempts\":[{\"kind\":\"refused\",\"errno\":\"ECONNREFUSED\","
                                                "\"elapsed_ms\":3},{\"kind\":\"http-503\",\"errno\":null,"
                                                "\"elapsed_ms\":1200}],\"refused\":0}\n");
    assert_string_equal(what(&event),
                        "probe-failed: refused (ECONNREFUSED) after 3ms, then http-503 after 1.2s, pause 20s");
    event.reason = REASON_PROBE_TIMEOUT; /* of a probe that hangs, nothing failed yet */
    memset(event.attempts, 0, sizeof event.attempts);
    assert_non_null(strstr(json(&event), "\"attempts\":[],"));
    assert_string_equal(what(&event), "probe-timeout, pause 20s");
}

static void a_closing_tells_what_its_outage_came_to(void **state)
{
    (void)state;
    struct event event = event_of(EVENT_CLOSE);
    event.from = CIRCUIT_HALF_OPEN;
    event.to = CIRCUIT_CLOSED;
    event.reason = REASON_PROBE_SUCCEEDED;
    event.refused = 4200;
    event.failures = 3;
    event.outage = (struct event_outage){
        .lasted_ns = 63 * NS_PER_S,
        .time_ns = SOME_TIME_NS - 63 * NS_PER_S,
        .refused = 42,
        .recent_kinds = kinds_of((struct kind_count[]){{FAILURE_REFUSED, 0, 2}, {FAILURE_RESET, 0, 1}}, 2),
        .probes = 3,
        .probes_failed = 2,
        .is_known = true,
        .reason = REASON_FAILURE_THRESHOLD,
    };
    assert_string_equal(json(&event), JSON_HEAD
                        "\"close\",\"from\":\"half-open\",\"to\":\"closed\",\"reason\":\"probe-succeeded\","
                        "\"refused\":4200,\"outage\":{\"since\":\"2026-02-03T04:04:03.789Z\",\"lasted_ms\":63000,"
                        "\"refused\":42,\"probes\":3,\"probes_failed\":2,\"cause\":{\"reason\":\"failure-threshold\","
                        "\"failures\":3,\"kinds\":{\"refused\":2,\"reset\":1},\"injected\":false}}}\n");
    assert_string_equal(what(&event), "probe-succeeded, outage of 1m3s is over: 42 refused, 3 probes (2 failed); "
                                      "cause: failure-threshold, 3 failures (2 refused, 1 reset)");
    event.reason = REASON_FORCED;
    event.outage.probes = 1;
    event.outage.probes_failed = 0;
    event.outage.reason = REASON_SLOW_CALL_RATE;
    event.outage.recent_kinds = 0;
    event.window_calls = event.window_slow = 20;
    assert_string_equal(what(&event), "forced, outage of 1m3s is over: 42 refused, 1 probe; cause: slow-call-rate, 20 "
                                      "of 20 calls slow");
    assert_non_null(strstr(json(&event), "\"kinds\":{},\"window\":{\"calls\":20,\"failed\":0,\"slow\":20},"));
}

/* Who opened the circuit was killed before it could write that down. */
static void a_closing_tells_nothing_of_an_outage_whose_beginning_is_unknown(void **state)
{
    (void)state;
    struct event event = event_of(EVENT_CLOSE);
    event.from = CIRCUIT_HALF_OPEN;
    event.to = CIRCUIT_CLOSED;
    event.reason = REASON_PROBE_SUCCEEDED;
    event.refused = 42;
    assert_string_equal(json(&event), JSON_HEAD "\"close\",\"from\":\"half-open\",\"to\":\"closed\","
                                                "\"reason\":\"probe-succeeded\",\"refused\":42,\"outage\":null}\n");
    assert_string_equal(what(&event), "probe-succeeded");
}

static void a_half_opening_is_a_transition_too(void **state)
{
    (void)state;
    struct event event = event_of(EVENT_HALF_OPEN);
    event.from = CIRCUIT_OPEN;
    event.to = CIRCUIT_HALF_OPEN;
    event.reason = REASON_PAUSE_OVER;
    assert_string_equal(json(&event), JSON_HEAD "\"half-open\",\"from\":\"open\",\"to\":\"half-open\","
                                                "\"reason\":\"pause-over\",\"refused\":0}\n");
    assert_string_equal(what(&event), "pause-over");
}

static void a_failure_tells_kind_errno_and_time(void **state)
{
    (void)state;
    struct event event = event_of(EVENT_FAILURE);
    event.kind = FAILURE_REFUSED;
    event.error = ECONNREFUSED;
    event.elapsed_ms = 7;
    assert_string_equal(json(&event), JSON_HEAD
                        "\"failure\",\"kind\":\"refused\",\"errno\":\"ECONNREFUSED\","
                        "\"elapsed_ms\":7,\"overdue\":false,\"came\":false,\"late\":false,\"passed\":false}\n");
    assert_string_equal(what(&event), "refused (ECONNREFUSED) after 7ms");
}

static void what_a_rehearsal_brought_about_says_so(void **state)
{
    (void)state;
    struct event event = event_of(EVENT_FAILURE);
    event.kind = FAILURE_RESET;
    event.error = ECONNRESET;
    event.elapsed_ms = 7;
    event.injected = 1;
    assert_string_equal(json(&event),
                        JSON_HEAD "\"failure\",\"kind\":\"reset\",\"errno\":\"ECONNRESET\","
                                  "\"elapsed_ms\":7,\"overdue\":false,\"came\":false,\"late\":false,\"passed\":false,"
                                  "\"injected\":true}\n");
    assert_string_equal(what(&event), "reset (ECONNRESET) after 7ms, injected");
}

static void an_overdue_failure_has_no_errno(void **state)
{
    (void)state;
    struct event event = event_of(EVENT_FAILURE);
    event.kind = FAILURE_CONNECT_TIMEOUT;
    event.elapsed_ms = 10049;
    event.overran = OVERRAN_HANGS;
    assert_string_equal(json(&event), JSON_HEAD "\"failure\",\"kind\":\"connect-timeout\",\"errno\":null,"
                                                "\"elapsed_ms\":10049,\"overdue\":true,\"came\":false,"
                                                "\"late\":false,\"passed\":false}\n");
    assert_string_equal(what(&event), "connect-timeout, still hangs after 10s");
}

static void a_failure_tells_for_how_long_its_answer_asked_to_be_left_alone(void **state)
{
    (void)state;
    struct event event = event_of(EVENT_FAILURE);
    event.kind = FAILURE_HTTP;
    event.http_status = 503;
    event.elapsed_ms = 3;
    event.pause_ns = 90 * NS_PER_S;
    assert_non_null(strstr(json(&event), ",\"retry_after_ms\":90000}\n"));
    assert_string_equal(what(&event), "http-503 after 3ms, Retry-After 1m30s");
    event.pause_ns = 0;
    assert_null(strstr(json(&event), "retry_after_ms"));
}

static void a_failure_tells_that_the_answer_came_after_its_limit_and_whether_it_counted(void **state)
{
    (void)state;
    struct event event = event_of(EVENT_FAILURE);
    event.kind = FAILURE_RESPONSE_TIMEOUT;
    event.elapsed_ms = 2000;
    event.overran = OVERRAN_CAME;
    assert_non_null(
        strstr(json(&event), "\"elapsed_ms\":2000,\"overdue\":false,\"came\":true,\"late\":false,\"passed\":false}\n"));
    assert_string_equal(what(&event), "response-timeout, came after 2s");
    event.late = 1;
    assert_non_null(strstr(json(&event), "\"came\":true,\"late\":true,\"passed\":false}\n"));
    assert_string_equal(what(&event), "response-timeout, came after 2s; it came too late to count");
}

static void an_http_failure_tells_its_status(void **state)
{
    (void)state;
    struct event event = event_of(EVENT_FAILURE);
    event.kind = FAILURE_HTTP;
    event.http_status = 503;
    event.elapsed_ms = 7;
    assert_string_equal(json(&event), JSON_HEAD
                        "\"failure\",\"kind\":\"http-503\",\"errno\":null,"
                        "\"elapsed_ms\":7,\"overdue\":false,\"came\":false,\"late\":false,\"passed\":false}\n");
    assert_string_equal(what(&event), "http-503 after 7ms");
}

static void an_outcome_tells_verdict_kind_reason_status_and_time(void **state)
{
    (void)state;
    struct event event = event_of(EVENT_OUTCOME);
    event.verdict = VERDICT_SUCCESS;
    event.http_status = 200;
    event.elapsed_ms = 7;
    assert_string_equal(json(&event), JSON_HEAD "\"outcome\",\"verdict\":\"success\",\"kind\":null,\"reason\":null,"
                                                "\"errno\":null,\"http_status\":200,\"elapsed_ms\":7,\"slow\":false,"
                                                "\"overdue\":false,\"came\":false,\"late\":false,\"passed\":false}\n");
    assert_string_equal(what(&event), "success, http-200 after 7ms");
    event.http_status = 0;
    event.slow = event.late = 1;
    assert_string_equal(what(&event), "success after 7ms, slow; it came too late to count");
    assert_non_null(strstr(json(&event), "\"http_status\":null,\"elapsed_ms\":7,\"slow\":true,\"overdue\":false,"
                                         "\"came\":false,\"late\":true,\"passed\":false}\n"));
}

static void an_outcome_that_is_no_success_tells_why(void **state)
{
    (void)state;
    struct event event = event_of(EVENT_OUTCOME);
    event.verdict = VERDICT_NEUTRAL;
    event.reason = NEUTRAL_UNLISTED;
    event.kind = FAILURE_RESET;
    event.error = ECONNRESET;
    event.elapsed_ms = 1200;
    assert_string_equal(json(&event), JSON_HEAD "\"outcome\",\"verdict\":\"neutral\",\"kind\":\"reset\","
                                                "\"reason\":\"unlisted\",\"errno\":\"ECONNRESET\",\"http_status\":null,"
                                                "\"elapsed_ms\":1200,\"slow\":false,\"overdue\":false,"
                                                "\"came\":false,\"late\":false,\"passed\":false}\n");
    assert_string_equal(what(&event), "neutral, unlisted, reset (ECONNRESET) after 1.2s; it does not count: its kind "
                                      "is not in `failures`");
    event = event_of(EVENT_OUTCOME);
    event.verdict = VERDICT_FAILURE;
    event.kind = FAILURE_HTTP;
    event.http_status = 503;
    assert_non_null(strstr(json(&event), "\"verdict\":\"failure\",\"kind\":\"http-503\",\"reason\":null,"));
    assert_non_null(strstr(json(&event), "\"http_status\":503,"));
    assert_string_equal(what(&event), "failure, http-503 after 0ms");
    event.kind = FAILURE_CONNECT_TIMEOUT;
    event.overran = OVERRAN_HANGS;
    event.elapsed_ms = 10000;
    assert_string_equal(what(&event), "failure, connect-timeout, still hangs after 10s");
    event.verdict = VERDICTS; /* shared memory may say anything */
    assert_non_null(strstr(json(&event), "\"verdict\":\"unknown\""));
}

static void an_errno_without_a_name_keeps_its_number(void **state)
{
    (void)state;
    struct event event = event_of(EVENT_FAILURE);
    event.error = 4000;
    assert_non_null(strstr(json(&event), "\"errno\":\"errno 4000\""));
    event.error = -3;
    assert_non_null(strstr(json(&event), "\"errno\":\"errno -3\""));
}

static void a_refusal_tells_which_state_refused(void **state)
{
    (void)state;
    struct event event = event_of(EVENT_REFUSED);
    event.reason = ADMIT_REFUSED_OPEN;
    assert_string_equal(json(&event), JSON_HEAD "\"refused\",\"reason\":\"open\"}\n");
    event.reason = ADMIT_REFUSED_HALF_OPEN;
    assert_string_equal(json(&event), JSON_HEAD "\"refused\",\"reason\":\"half-open\"}\n");
    assert_string_equal(what(&event), "refused at once, circuit half-open");
    event.reason = ADMIT_REFUSED_BULKHEAD;
    assert_string_equal(json(&event), JSON_HEAD "\"refused\",\"reason\":\"bulkhead\"}\n");
    assert_string_equal(what(&event), "refused at once, max_connections met");
    event.reason = ADMIT_REFUSED_FORCED;
    assert_string_equal(json(&event), JSON_HEAD "\"refused\",\"reason\":\"forced\"}\n");
    assert_string_equal(what(&event), "refused at once, circuit forced open");
    event.reason = ADMIT_REFUSED_FLEET;
    assert_string_equal(json(&event), JSON_HEAD "\"refused\",\"reason\":\"fleet\"}\n");
    assert_string_equal(what(&event), "refused at once, circuit open in the fleet");
    event.reason = ADMIT_PROBE; /* no refusal: shared memory may say anything */
    assert_string_equal(json(&event), JSON_HEAD "\"refused\",\"reason\":\"open\"}\n");
}

static void a_retry_tells_what_it_tries_again(void **state)
{
    (void)state;
    struct event event = event_of(EVENT_RETRY);
    event.kind = FAILURE_REFUSED;
    event.error = ECONNREFUSED;
    event.failures = 1;
    event.retries_most = 2;
    event.elapsed_ms = 73;
    assert_string_equal(json(&event), JSON_HEAD "\"retry\",\"number\":1,\"of\":2,\"kind\":\"refused\","
                                                "\"errno\":\"ECONNREFUSED\",\"waited_ms\":73}\n");
    assert_string_equal(what(&event), "1 of 2, 73ms after refused (ECONNREFUSED)");
}

static void other_events_stand_alone(void **state)
{
    (void)state;
    struct event event = event_of(EVENT_PROBE);
    assert_string_equal(json(&event), JSON_HEAD "\"probe\"}\n");
    assert_string_equal(what(&event), "admitted");
}

#define USER_HEAD "\"program\":\"sockfuse\",\"target\":\"payments\",\"destination\":\"127.0.0.1:8080\",\"event\":"

static struct event by_user(enum event_type type)
{
    struct event event = event_of(type);
    strcpy(event.program, "alice");
    return event;
}

static void what_a_user_did_names_the_user_and_the_command(void **state)
{
    (void)state;
    struct event event = by_user(EVENT_RELOAD);
    event.refused = UINT64_C(0x0123456789abcdef);
    assert_non_null(strstr(json(&event), USER_HEAD "\"reload\",\"user\":\"alice\","
                                                   "\"policy_revision\":\"0123456789abcdef\"}\n"));
    assert_non_null(strstr(what(&event), "policy revision 0123456789abcdef handed over, by alice"));
}

static void a_forced_circuit_tells_the_word_and_both_states(void **state)
{
    (void)state;
    struct event event = by_user(EVENT_FORCED);
    event.kind = FORCED_OPEN;
    event.reason = REASON_FORCED;
    event.from = CIRCUIT_HALF_OPEN;
    event.to = CIRCUIT_OPEN;
    assert_non_null(strstr(json(&event), USER_HEAD "\"forced\",\"user\":\"alice\",\"forced\":\"open\","
                                                   "\"from\":\"half-open\",\"to\":\"open\",\"reason\":\"forced\"}\n"));
    assert_non_null(strstr(what(&event), "forced open, by alice"));
    event.kind = FORCED_CLOSED;
    assert_non_null(strstr(json(&event), "\"forced\":\"closed\""));
    event.kind = FORCED_NONE;
    event.to = CIRCUIT_CLOSED;
    assert_non_null(strstr(json(&event), "\"forced\":null,\"from\":\"half-open\",\"to\":\"closed\""));
    assert_non_null(strstr(what(&event), "given back, closed, by alice"));
    event.kind = FORCED_OPEN;
    event.pause_ns = 600 * NS_PER_S;
    assert_non_null(strstr(json(&event), "\"reason\":\"forced\",\"for_ms\":600000}\n"));
    assert_non_null(strstr(what(&event), "forced open for 10m, by alice"));
    event.pause_ns = 5400 * NS_PER_S + NS_PER_S / 2;
    assert_non_null(strstr(what(&event), "forced open for 1h30m500ms, by alice"));
    event.pause_ns = 0;
    event.kind = FORCED_WORDS; /* shared memory may say anything */
    assert_non_null(strstr(json(&event), "\"forced\":null"));
}

static void an_agents_hold_tells_why_it_begins_and_ends(void **state)
{
    (void)state;
    struct event event = event_of(EVENT_HELD);
    event.kind = HOLD_UNPROBED;
    event.reason = HOLD_CHECK_FAILED;
    event.from = event.to = CIRCUIT_OPEN;
    event.http_status = 500;
    assert_string_equal(json(&event), JSON_HEAD "\"held\",\"held\":\"unprobed\",\"from\":\"open\",\"to\":\"open\","
                                                "\"reason\":\"check-failed\",\"errno\":null,\"http_status\":500,"
                                                "\"exit_status\":null}\n");
    assert_string_equal(what(&event), "not probed: its health check fails (http-500)");
    event.http_status = 0;
    event.failures = 2;
    assert_string_equal(what(&event), "not probed: its health check fails (exit status 2)");
    event.failures = 0;
    event.error = ETIMEDOUT;
    assert_string_equal(what(&event), "not probed: its health check fails (ETIMEDOUT)");
    event.error = 0;
    event.kind = HOLD_NONE;
    event.reason = HOLD_CHECK_PASSED;
    assert_string_equal(what(&event), "its health check passes: the next call is the probe");
    event.pause_ns = 40 * NS_PER_S;
    assert_string_equal(what(&event), "its health check passes: a probe in 40s, as its Retry-After asked");
    assert_non_null(strstr(json(&event), "\"held\":null"));
    assert_non_null(strstr(json(&event), "\"left_ms\":40000}"));
    event.reason = HOLD_RAN_OUT;
    assert_string_equal(what(&event), "let go: the agent did not say it again, ended 40s ago");
    assert_non_null(strstr(json(&event), "\"ended_ago_ms\":40000}"));
    event.kind = HOLD_FLEET;
    event.reason = HOLD_FLEET_OPEN;
    assert_string_equal(what(&event), "held open: open in the fleet");
    event.kind = HOLDS; /* shared memory may say anything */
    event.reason = HOLD_REASONS;
    assert_non_null(strstr(json(&event), "\"held\":null"));
    assert_string_equal(what(&event), "let go: the agent said so");
    for (unsigned int reason = 0; reason <= HOLD_REASONS; reason++)
        assert_non_null(hold_reason_name(reason));
}

static void an_alert_that_failed_tells_how(void **state)
{
    (void)state;
    struct event event = event_of(EVENT_ALERT);
    event.kind = ALERT_PROBE_FAILED;
    event.reason = ALERT_EXITED;
    event.failures = 7;
    event.refused = 3;
    strcpy(event.said, "curl: (7)\x1b");
    assert_string_equal(json(&event), JSON_HEAD "\"alert\",\"alert\":\"probe-failed\",\"reason\":\"exit-status\","
                                                "\"errno\":null,\"exit_status\":7,\"signal\":null,"
                                                "\"said\":\"curl: (7)\\u001b\",\"left_out\":3}\n");
    assert_string_equal(what(&event), "of probe-failed failed: exit status 7: curl: (7)\\x1b");
    event.said[0] = '\0';
    event.reason = ALERT_SIGNALLED;
    event.failures = 9;
    assert_string_equal(what(&event), "of probe-failed failed: ended by signal 9");
    assert_non_null(strstr(json(&event), "\"exit_status\":null,\"signal\":9,\"said\":null,"));
    event.reason = ALERT_NOT_EXECUTED;
    event.error = ENOENT;
    assert_string_equal(what(&event), "of probe-failed failed: it can't be executed (ENOENT)");
    event.kind = ALERT_KINDS; /* shared memory may say anything */
    event.reason = ALERT_ENDS;
    assert_string_equal(what(&event), "of unknown failed: it is not known how");
    assert_non_null(strstr(json(&event), "\"alert\":\"unknown\",\"reason\":\"unknown\""));
}

static void an_end_by_itself_is_the_callers_note_and_nobodys_word(void **state)
{
    (void)state;
    struct event event = event_of(EVENT_FORCED);
    event.kind = FORCED_NONE;
    event.reason = REASON_FORCE_ENDED;
    event.from = CIRCUIT_OPEN;
    event.to = CIRCUIT_CLOSED;
    event.pause_ns = 90 * NS_PER_S;
    assert_string_equal(json(&event), JSON_HEAD "\"forced\",\"user\":null,\"forced\":null,\"from\":\"open\","
                                                "\"to\":\"closed\",\"reason\":\"force-ended\","
                                                "\"ended_ago_ms\":90000}\n");
    assert_string_equal(what(&event), "given back, closed, its time was over 1m30s ago");
}

static void names_can_not_break_a_line(void **state)
{
    (void)state;
    struct event event = event_of(EVENT_PROBE);
    strcpy(event.program, "a\nb\"");
    strcpy(event.target, "\x1b[2J");
    strcpy(event.destination, "unix:/tmp/\xff");
    assert_non_null(strstr(json(&event), "\"program\":\"a\\u000ab\\\"\",\"target\":\"\\u001b[2J\","
                                         "\"destination\":\"unix:/tmp/\\u00ff\""));
    assert_ptr_equal(strchr(buffer, '\n'), buffer + strlen(buffer) - 1);
    event = by_user(EVENT_RELOAD);
    strcpy(event.program, "a\nb");
    assert_non_null(strstr(what(&event), "by a\\x0ab"));
}

static struct event longest_event(char byte)
{
    struct event event;
    memset(&event, 0xff, sizeof event);
    memset(event.program, byte, sizeof event.program);
    memset(event.target, byte, sizeof event.target);
    memset(event.destination, byte, sizeof event.destination);
    event.program[sizeof event.program - 1] = '\0';
    event.target[sizeof event.target - 1] = '\0';
    event.destination[sizeof event.destination - 1] = '\0';
    return event;
}

static void the_longest_event_fits_whatever_its_names_hold(void **state)
{
    (void)state;
    for (unsigned int type = 0; type < 256; type++) {
        for (unsigned int byte = 1; byte < 256; byte += 127) {
            struct event event = longest_event((char)byte);
            event.type = (uint8_t)type;
            if (type == EVENT_ALERT) { /* as journal_read leaves it */
                memset(event.said, (char)byte, sizeof event.said);
                event.said[sizeof event.said - 1] = '\0';
            }
            for (unsigned int to = CIRCUIT_CLOSED; to <= CIRCUIT_OPEN; to++) {
                event.to = (uint8_t)to;
                json(&event);
                what(&event);
            }
        }
    }
}

static void ordinary_names_of_full_length_are_not_cut(void **state)
{
    (void)state;
    struct event event = longest_event('x');
    char whole[DESTINATION_MAX + 2];
    memset(whole, 'x', DESTINATION_MAX - 1);
    whole[0] = whole[DESTINATION_MAX] = '"';
    memset(whole + 1, 'x', DESTINATION_MAX - 1);
    whole[DESTINATION_MAX + 1] = '\0';
    assert_non_null(strstr(json(&event), whole));
}

static void a_buffer_that_is_too_small_gives_nothing_and_is_not_overrun(void **state)
{
    (void)state;
    struct event event = event_of(EVENT_OPEN);
    size_t needed = event_json(&event, buffer, sizeof buffer) + 1,
           what_needed = event_what(&event, buffer, sizeof buffer) + 1;
    for (size_t size = 0; size < needed + 2; size++) {
        memset(buffer, '#', sizeof buffer);
        assert_int_equal(event_json(&event, buffer, size), size < needed ? 0 : needed - 1);
        assert_int_equal(buffer[size], '#');
        memset(buffer, '#', sizeof buffer);
        assert_int_equal(event_what(&event, buffer, size), size < what_needed ? 0 : what_needed - 1);
        assert_int_equal(buffer[size], '#');
    }
}

static void types_have_names(void **state)
{
    (void)state;
    for (unsigned int type = 0; type < EVENT_TYPES; type++)
        assert_non_null(event_type_name(type));
    assert_string_equal(event_type_name(EVENT_HALF_OPEN), "half-open");
    assert_string_equal(event_type_name(EVENT_TYPES), "unknown");
    assert_string_equal(event_type_name(UINT32_MAX), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_opening_tells_from_to_reason_failures_and_pause),
        cmocka_unit_test(an_opening_that_was_found_later_than_it_was_says_so),
        cmocka_unit_test(an_opening_by_a_rate_tells_what_the_window_held),
        cmocka_unit_test(an_opening_tells_of_which_kinds_the_failures_were),
        cmocka_unit_test(a_failed_probe_tells_how_each_of_its_attempts_failed),
        cmocka_unit_test(a_closing_tells_what_its_outage_came_to),
        cmocka_unit_test(a_closing_tells_nothing_of_an_outage_whose_beginning_is_unknown),
        cmocka_unit_test(a_half_opening_is_a_transition_too),
        cmocka_unit_test(a_failure_tells_kind_errno_and_time),
        cmocka_unit_test(what_a_rehearsal_brought_about_says_so),
        cmocka_unit_test(an_overdue_failure_has_no_errno),
        cmocka_unit_test(a_failure_tells_for_how_long_its_answer_asked_to_be_left_alone),
        cmocka_unit_test(a_failure_tells_that_the_answer_came_after_its_limit_and_whether_it_counted),
        cmocka_unit_test(an_http_failure_tells_its_status),
        cmocka_unit_test(an_errno_without_a_name_keeps_its_number),
        cmocka_unit_test(an_outcome_tells_verdict_kind_reason_status_and_time),
        cmocka_unit_test(an_outcome_that_is_no_success_tells_why),
        cmocka_unit_test(a_refusal_tells_which_state_refused),
        cmocka_unit_test(a_retry_tells_what_it_tries_again),
        cmocka_unit_test(other_events_stand_alone),
        cmocka_unit_test(what_a_user_did_names_the_user_and_the_command),
        cmocka_unit_test(a_forced_circuit_tells_the_word_and_both_states),
        cmocka_unit_test(an_agents_hold_tells_why_it_begins_and_ends),
        cmocka_unit_test(an_alert_that_failed_tells_how),
        cmocka_unit_test(an_end_by_itself_is_the_callers_note_and_nobodys_word),
        cmocka_unit_test(names_can_not_break_a_line),
        cmocka_unit_test(the_longest_event_fits_whatever_its_names_hold),
        cmocka_unit_test(ordinary_names_of_full_length_are_not_cut),
        cmocka_unit_test(a_buffer_that_is_too_small_gives_nothing_and_is_not_overrun),
        cmocka_unit_test(types_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
