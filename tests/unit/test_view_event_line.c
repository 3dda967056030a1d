/*
 * test_view_event_line.c - an event is read from its line as it was written there.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* The command's parts are no library: a test that needs one brings it in as it is. */
#include "view/duration.c"
#include "view/event_line.c"
#include "view/event_line_set.c"
#include "view/json_members.c"
#include "view/json_reader.c"

static struct event_line line;

/* The text of what was read of it. */
static void assert_comes_back(const struct event *event)
{
    char written[EVENT_JSON_MAX], again[EVENT_JSON_MAX];
    const size_t length = event_json(event, written, sizeof written);
    assert_true(length > 0);
    if (event_line_read(&line, written, length) != EVENT_LINE_GOOD)
        fail_msg("%s", written);
    assert_true(event_json(&line.event, again, sizeof again) > 0);
    assert_string_equal(again, written);
}

static unsigned int seed = 7;

static unsigned int any(unsigned int below)
{
    seed = seed * 1103515245 + 12345;
    return (seed >> 8) % below;
}

static uint64_t any_kinds(void)
{
    uint64_t kinds = 0;
    for (unsigned int i = any(RECENT_KINDS + 1); i > 0; i--) {
        const struct outcome failure = {.kind = (enum failure_kind)(1 + any(FAILURE_KINDS - 1)),
                                        .http_status = 502 + any(3)};
        kinds = recent_kinds_with(kinds, &failure);
    }
    return kinds;
}

/* What lies in the last words is its type's. */
static void add_last(struct event *event, enum event_type type)
{
    if (type == EVENT_FAILURE || type == EVENT_OUTCOME) {
        event->passed = any(2) == 0;
    } else if (type == EVENT_CLOSE && any(4) > 0) {
        event->outage = (struct event_outage){
            .lasted_ns = any(1000000) * NS_PER_MS,
            .time_ns = (UINT64_C(1770091506000) + any(100000)) * NS_PER_MS,
            .refused = any(1000),
            .recent_kinds = any_kinds(),
            .probes = any(10),
            .probes_failed = any(10),
            .is_known = true,
            .reason = (uint8_t)any(TRANSITION_REASONS),
            .injected = any(2) == 0,
        };
    } else if (type == EVENT_RETRY) {
        event->retries_most = any(11);
    } else if (type == EVENT_ALERT) {
        memcpy(event->said, "curl: (7) \"x\"", any(2) * 14);
    } else if (type == EVENT_OPEN && event->from == CIRCUIT_CLOSED) {
        event->recent_kinds = any_kinds();
    } else if (type == EVENT_OPEN) {
        for (unsigned int i = any(EVENT_ATTEMPTS + 1); i > 0; i--)
            event->attempts[i - 1] = (struct event_attempt){
                .kind = FAILURE_REFUSED, .error = (uint8_t)(any(2) * ECONNREFUSED), .elapsed_ms = any(100000)};
    }
}

static struct event any_event(enum event_type type)
{
    static const int errors[] = {0, ECONNREFUSED, ETIMEDOUT, EHOSTUNREACH, EPIPE, EMFILE, 4095};
    struct event event = {
        .type = (uint8_t)type,
        .time_ns = (UINT64_C(1770091506000) + any(100000)) * NS_PER_MS,
        .mono_ns = any(1000000000),
        .pause_ns = any(100000) * NS_PER_MS,
        .refused = any(1000000),
        .pid = any(100000),
        .error = errors[any(7)],
        .elapsed_ms = any(100000),
        .failures = any(100),
        .from = (uint8_t)any(3),
        .to = (uint8_t)any(3),
        .overran = (uint8_t)any(3),
        .late = any(2) == 0,
        .injected = any(4) == 0,
        .slow = any(2) == 0,
        .verdict = (uint8_t)(1 + any(VERDICTS - 1)),
        .kind = (uint8_t)(type == EVENT_FORCED  ? any(FORCED_WORDS)
                          : type == EVENT_HELD  ? any(HOLDS)
                          : type == EVENT_ALERT ? any(ALERT_KINDS)
                                                : 1 + any(FAILURE_KINDS - 1)),
        .window_calls = any(50),
        .window_failed = any(20),
        .window_slow = any(20),
        .program = "php-fpm",
        .target = "payments",
        .destination = "payments.internal:443",
    };
    event.reason = (uint8_t)(type == EVENT_OUTCOME   ? any(NEUTRAL_REASONS)
                             : type == EVENT_HELD    ? any(HOLD_REASONS)
                             : type == EVENT_ALERT   ? any(ALERT_ENDS)
                             : type == EVENT_REFUSED ? ADMIT_REFUSED_OPEN + any(ADMISSIONS - ADMIT_REFUSED_OPEN)
                                                     : any(TRANSITION_REASONS));
    add_last(&event, type);
    if (event.kind == FAILURE_HTTP && (type == EVENT_FAILURE || type == EVENT_OUTCOME))
        event.http_status = 503;
    if (type == EVENT_HELD && any(2) == 0)
        event.http_status = 500;
    return event;
}

static void events_of_all_types_come_back(void **state)
{
    (void)state;
    for (int round = 0; round < 2000; round++) {
        for (unsigned int type = EVENT_NONE + 1; type < EVENT_TYPES; type++) {
            const struct event event = any_event((enum event_type)type);
            assert_comes_back(&event);
        }
    }
}

static void names_come_back_whatever_they_hold(void **state)
{
    struct event event = any_event(EVENT_FAILURE);
    (void)state;
    memcpy(event.program, "a\"b\\c\n</script>", 16);
    memcpy(event.destination, "unix:/run/\xe2\x82\xac\x01", 15);
    assert_comes_back(&event);
    assert_string_equal(line.event.program, event.program);
    assert_string_equal(line.event.destination, event.destination);
}

static enum event_line_result result(const char *text)
{
    return event_line_read(&line, text, strlen(text));
}

#define TIME "\"time\":\"2026-02-03T04:05:06.789Z\""

static void what_events_puts_behind_it_is_read(void **state)
{
    (void)state;
    assert_int_equal(
        result("{" TIME ",\"event\":\"probe\",\"policy\":\"/etc/x.policy + options: a=b\",\"owner\":\"w\"}"),
        EVENT_LINE_GOOD);
    assert_string_equal(line.policy, "/etc/x.policy + options: a=b");
    assert_string_equal(line.owner, "w");
    assert_int_equal(result("{" TIME ",\"event\":\"probe\"}"), EVENT_LINE_GOOD);
    assert_string_equal(line.policy, "");
    assert_string_equal(line.owner, "");
}

static void what_a_newer_build_writes_is_told_from_what_is_no_event(void **state)
{
    (void)state;
    assert_int_equal(result("{" TIME ",\"event\":\"probe\",\"news\":{\"a\":[1]}}"), EVENT_LINE_GOOD);
    assert_int_equal(result("{" TIME ",\"event\":\"outage\",\"lasted_ms\":1}"), EVENT_LINE_UNKNOWN);
    assert_int_equal(result("{" TIME ",\"event\":\"failure\",\"kind\":\"tired\",\"errno\":\"ETIRED\"}"),
                     EVENT_LINE_GOOD);
    assert_int_equal(line.event.kind, FAILURE_NONE);
    assert_int_equal(result("{" TIME "}"), EVENT_LINE_BAD);
    assert_int_equal(result("{\"event\":\"probe\"}"), EVENT_LINE_BAD);
    assert_int_equal(result("{\"time\":\"5m\",\"event\":\"probe\"}"), EVENT_LINE_BAD);
    assert_int_equal(result("2026-02-03T04:05:06.789Z  probe  127.0.0.1:1"), EVENT_LINE_BAD);
    assert_int_equal(result("[]"), EVENT_LINE_BAD);
    assert_int_equal(result("{" TIME ",\"event\":\"probe\""), EVENT_LINE_BAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_of_all_types_come_back),
        cmocka_unit_test(names_come_back_whatever_they_hold),
        cmocka_unit_test(what_events_puts_behind_it_is_read),
        cmocka_unit_test(what_a_newer_build_writes_is_told_from_what_is_no_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
