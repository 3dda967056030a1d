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

#include "breaker/circuit.h"
#include "base/clock.h"
#include "segment/event.h"
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

static const char *line(const struct event *event)
{
    size_t length = event_line(event, buffer, sizeof buffer);
    assert_true(length > 0);
    assert_int_equal(length, strlen(buffer));
    return buffer;
}

#define JSON_HEAD                                                                                                      \
    "{\"time\":\"2026-02-03T04:05:06.789Z\",\"mono_ns\":123456789,\"pid\":4711,\"program\":\"curl\","                  \
    "\"target\":\"payments\",\"destination\":\"127.0.0.1:8080\",\"event\":"
#define LINE_HEAD(event) "2026-02-03T04:05:06.789Z  " event "127.0.0.1:8080 (payments)        curl[4711]          "

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
                                                "\"refused\":0}\n");
    assert_string_equal(line(&event), LINE_HEAD("open       ") "closed -> open, failure-threshold, 3 failures, "
                                                               "pause 10.5s\n");
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
                                                "\"window\":{\"calls\":20,\"failed\":12,\"slow\":3},\"refused\":0}\n");
    assert_string_equal(line(&event), LINE_HEAD("open       ") "closed -> open, failure-rate, 12 of 20 calls failed, "
                                                               "pause 10s\n");
    event.reason = REASON_SLOW_CALL_RATE;
    event.window_calls = event.window_slow = 1;
    assert_string_equal(line(&event), LINE_HEAD("open       ") "closed -> open, slow-call-rate, 1 of 1 call slow, "
                                                               "pause 10s\n");
    assert_non_null(strstr(json(&event), "\"reason\":\"slow-call-rate\""));
    event.reason = REASON_FAILURE_THRESHOLD;
    assert_string_equal(line(&event), LINE_HEAD("open       ") "closed -> open, failure-threshold, 2 failures, "
                                                               "pause 10s\n");
}

static void a_closing_tells_how_many_were_refused(void **state)
{
    (void)state;
    struct event event = event_of(EVENT_CLOSE);
    event.from = CIRCUIT_HALF_OPEN;
    event.to = CIRCUIT_CLOSED;
    event.reason = REASON_PROBE_SUCCEEDED;
    event.refused = 42;
    assert_string_equal(json(&event), JSON_HEAD "\"close\",\"from\":\"half-open\",\"to\":\"closed\","
                                                "\"reason\":\"probe-succeeded\",\"refused\":42}\n");
    assert_string_equal(line(&event), LINE_HEAD("close      ") "half-open -> closed, probe-succeeded, 42 refused so "
                                                               "far\n");
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
    assert_string_equal(line(&event), LINE_HEAD("half-open  ") "open -> half-open, pause-over\n");
}

static void a_failure_tells_kind_errno_and_time(void **state)
{
    (void)state;
    struct event event = event_of(EVENT_FAILURE);
    event.kind = FAILURE_REFUSED;
    event.error = ECONNREFUSED;
    event.elapsed_ms = 7;
    assert_string_equal(json(&event), JSON_HEAD "\"failure\",\"kind\":\"refused\",\"errno\":\"ECONNREFUSED\","
                                                "\"elapsed_ms\":7,\"overdue\":false,\"came\":false,\"late\":false}\n");
    assert_string_equal(line(&event), LINE_HEAD("failure    ") "refused (ECONNREFUSED) after 7ms\n");
}

static void what_a_rehearsal_brought_about_says_so(void **state)
{
    (void)state;
    struct event event = event_of(EVENT_FAILURE);
    event.kind = FAILURE_RESET;
    event.error = ECONNRESET;
    event.elapsed_ms = 7;
    event.injected = 1;
    assert_string_equal(json(&event), JSON_HEAD "\"failure\",\"kind\":\"reset\",\"errno\":\"ECONNRESET\","
                                                "\"elapsed_ms\":7,\"overdue\":false,\"came\":false,\"late\":false,"
                                                "\"injected\":true}\n");
    assert_string_equal(line(&event), LINE_HEAD("failure    ") "reset (ECONNRESET) after 7ms, injected\n");
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
                                                "\"late\":false}\n");
    assert_string_equal(line(&event), LINE_HEAD("failure    ") "connect-timeout, still hangs after 10s\n");
}

static void a_failure_tells_that_the_answer_came_after_its_limit_and_whether_it_counted(void **state)
{
    (void)state;
    struct event event = event_of(EVENT_FAILURE);
    event.kind = FAILURE_RESPONSE_TIMEOUT;
    event.elapsed_ms = 2000;
    event.overran = OVERRAN_CAME;
    assert_non_null(strstr(json(&event), "\"elapsed_ms\":2000,\"overdue\":false,\"came\":true,\"late\":false}\n"));
    assert_string_equal(line(&event), LINE_HEAD("failure    ") "response-timeout, came after 2s\n");
    event.late = 1;
    assert_non_null(strstr(json(&event), "\"came\":true,\"late\":true}\n"));
    assert_string_equal(line(&event), LINE_HEAD("failure    ") "response-timeout, came after 2s, too late to count\n");
}

static void an_http_failure_tells_its_status(void **state)
{
    (void)state;
    struct event event = event_of(EVENT_FAILURE);
    event.kind = FAILURE_HTTP;
    event.http_status = 503;
    event.elapsed_ms = 7;
    assert_string_equal(json(&event), JSON_HEAD "\"failure\",\"kind\":\"http-503\",\"errno\":null,"
                                                "\"elapsed_ms\":7,\"overdue\":false,\"came\":false,\"late\":false}\n");
    assert_string_equal(line(&event), LINE_HEAD("failure    ") "http-503 after 7ms\n");
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
                                                "\"overdue\":false,\"came\":false,\"late\":false}\n");
    assert_string_equal(line(&event), LINE_HEAD("outcome    ") "success, http-200 after 7ms\n");
    event.http_status = 0;
    event.slow = event.late = 1;
    assert_string_equal(line(&event), LINE_HEAD("outcome    ") "success after 7ms, slow, too late to count\n");
    assert_non_null(strstr(json(&event), "\"http_status\":null,\"elapsed_ms\":7,\"slow\":true,\"overdue\":false,"
                                         "\"came\":false,\"late\":true}\n"));
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
                                                "\"came\":false,\"late\":false}\n");
    assert_string_equal(line(&event), LINE_HEAD("outcome    ") "neutral, unlisted, reset (ECONNRESET) after 1.2s\n");
    event = event_of(EVENT_OUTCOME);
    event.verdict = VERDICT_FAILURE;
    event.kind = FAILURE_HTTP;
    event.http_status = 503;
    assert_non_null(strstr(json(&event), "\"verdict\":\"failure\",\"kind\":\"http-503\",\"reason\":null,"));
    assert_non_null(strstr(json(&event), "\"http_status\":503,"));
    assert_string_equal(line(&event), LINE_HEAD("outcome    ") "failure, http-503 after 0ms\n");
    event.kind = FAILURE_CONNECT_TIMEOUT;
    event.overran = OVERRAN_HANGS;
    event.elapsed_ms = 10000;
    assert_string_equal(line(&event), LINE_HEAD("outcome    ") "failure, connect-timeout, still hangs after 10s\n");
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
    assert_string_equal(line(&event), LINE_HEAD("refused    ") "refused at once, circuit half-open\n");
    event.reason = ADMIT_REFUSED_BULKHEAD;
    assert_string_equal(json(&event), JSON_HEAD "\"refused\",\"reason\":\"bulkhead\"}\n");
    assert_string_equal(line(&event), LINE_HEAD("refused    ") "refused at once, max_connections met\n");
    event.reason = ADMIT_REFUSED_FORCED;
    assert_string_equal(json(&event), JSON_HEAD "\"refused\",\"reason\":\"forced\"}\n");
    assert_string_equal(line(&event), LINE_HEAD("refused    ") "refused at once, circuit forced open\n");
    event.reason = ADMIT_PROBE; /* no refusal: shared memory may say anything */
    assert_string_equal(json(&event), JSON_HEAD "\"refused\",\"reason\":\"open\"}\n");
}

static void other_events_stand_alone(void **state)
{
    (void)state;
    struct event event = event_of(EVENT_PROBE);
    assert_string_equal(json(&event), JSON_HEAD "\"probe\"}\n");
    assert_string_equal(line(&event), LINE_HEAD("probe      ") "probe admitted\n");
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
    assert_non_null(strstr(line(&event), " sockfuse[4711] "));
    assert_non_null(strstr(line(&event), " policy revision 0123456789abcdef handed over, by alice\n"));
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
    assert_non_null(strstr(line(&event), " sockfuse[4711]      forced open, by alice\n"));
    event.kind = FORCED_CLOSED;
    assert_non_null(strstr(json(&event), "\"forced\":\"closed\""));
    event.kind = FORCED_NONE;
    event.to = CIRCUIT_CLOSED;
    assert_non_null(strstr(json(&event), "\"forced\":null,\"from\":\"half-open\",\"to\":\"closed\""));
    assert_non_null(strstr(line(&event), " given back, closed, by alice\n"));
    event.kind = FORCED_OPEN;
    event.pause_ns = 600 * NS_PER_S;
    assert_non_null(strstr(json(&event), "\"reason\":\"forced\",\"for_ms\":600000}\n"));
    assert_non_null(strstr(line(&event), " forced open for 10m, by alice\n"));
    event.pause_ns = 5400 * NS_PER_S + NS_PER_S / 2;
    assert_non_null(strstr(line(&event), " forced open for 1h30m500ms, by alice\n"));
    event.pause_ns = 0;
    event.kind = FORCED_WORDS; /* shared memory may say anything */
    assert_non_null(strstr(json(&event), "\"forced\":null"));
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
    assert_string_equal(line(&event), LINE_HEAD("forced     ") "given back, closed, its time was over 1m30s ago\n");
}

static void a_target_that_is_its_destination_is_said_once(void **state)
{
    (void)state;
    struct event event = event_of(EVENT_PROBE);
    strcpy(event.target, event.destination);
    assert_null(strchr(line(&event), '('));
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
    line(&event);
    assert_non_null(strstr(buffer, "unix:/tmp/\\xff (\\x1b[2J)"));
    assert_non_null(strstr(buffer, "a\\x0ab\""));
    assert_ptr_equal(strchr(buffer, '\n'), buffer + strlen(buffer) - 1);
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
            event.to = CIRCUIT_OPEN;
            json(&event);
            line(&event);
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
           line_needed = event_line(&event, buffer, sizeof buffer) + 1;
    for (size_t size = 0; size < needed + 2; size++) {
        memset(buffer, '#', sizeof buffer);
        assert_int_equal(event_json(&event, buffer, size), size < needed ? 0 : needed - 1);
        assert_int_equal(buffer[size], '#');
        memset(buffer, '#', sizeof buffer);
        assert_int_equal(event_line(&event, buffer, size), size < line_needed ? 0 : line_needed - 1);
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
        cmocka_unit_test(an_opening_by_a_rate_tells_what_the_window_held),
        cmocka_unit_test(a_closing_tells_how_many_were_refused),
        cmocka_unit_test(a_half_opening_is_a_transition_too),
        cmocka_unit_test(a_failure_tells_kind_errno_and_time),
        cmocka_unit_test(what_a_rehearsal_brought_about_says_so),
        cmocka_unit_test(an_overdue_failure_has_no_errno),
        cmocka_unit_test(a_failure_tells_that_the_answer_came_after_its_limit_and_whether_it_counted),
        cmocka_unit_test(an_http_failure_tells_its_status),
        cmocka_unit_test(an_errno_without_a_name_keeps_its_number),
        cmocka_unit_test(an_outcome_tells_verdict_kind_reason_status_and_time),
        cmocka_unit_test(an_outcome_that_is_no_success_tells_why),
        cmocka_unit_test(a_refusal_tells_which_state_refused),
        cmocka_unit_test(other_events_stand_alone),
        cmocka_unit_test(what_a_user_did_names_the_user_and_the_command),
        cmocka_unit_test(a_forced_circuit_tells_the_word_and_both_states),
        cmocka_unit_test(an_end_by_itself_is_the_callers_note_and_nobodys_word),
        cmocka_unit_test(a_target_that_is_its_destination_is_said_once),
        cmocka_unit_test(names_can_not_break_a_line),
        cmocka_unit_test(the_longest_event_fits_whatever_its_names_hold),
        cmocka_unit_test(ordinary_names_of_full_length_are_not_cut),
        cmocka_unit_test(a_buffer_that_is_too_small_gives_nothing_and_is_not_overrun),
        cmocka_unit_test(types_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
