/*
 * test_view_status_json.c - what `status --json` and `status` tell of failures, of what runs, and of what is over.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The command's parts are no library: a test that needs one brings it in as it is. */
#include "view/output.c"
#include "view/destination.c"
#include "view/differences.c"
#include "view/duration.c"
#include "view/inflight.c"
#include "view/json.c"
#include "view/row_faults.c"
#include "view/row_fleet.c"
#include "view/row_outage.c"
#include "view/row_waits.c"
#include "view/rows.c"
#include "view/status_json.c"
#include "view/timeouts.c"
#include "view/message.c" /* the last one: others mean its functions, and it libc's */

static char *printed_of(const struct row *row, const struct running *running)
{
    const struct rows rows = {.at = (struct row *)row, .count = 1};
    const struct selected selected = {.identity = (char *)"x"};
    char *text = NULL;
    size_t size = 0;
    struct json json;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    json_start(&json, out);
    status_json(&json, &selected, running, &rows);
    fclose(out);
    return text;
}

static char *printed(const struct row *row)
{
    const struct running nothing = {.file = NULL};
    return printed_of(row, &nothing);
}

static void assert_tells(const struct row *row, const char *part)
{
    char *text = printed(row);
    if (strstr(text, part) == NULL)
        fail_msg("no %s in %s", part, text);
    free(text);
}

static void http_failures_are_told_by_their_status_and_once(void **state)
{
    struct row row = {.destination = "a:1", .called = true};
    (void)state;
    row.counts[COUNT_FAILURE_KIND + FAILURE_RESET] = 2;
    row.counts[COUNT_FAILURE_KIND + FAILURE_HTTP] = 12;
    row.counts[counter_of_status(503)] = 3;
    row.counts[counter_of_status(429)] = 4;
    row.counts[counter_of_status(418)] = 5;
    assert_tells(&row, "      \"failures\": {\n"
                       "        \"reset\": 2,\n"
                       "        \"http-other\": 5,\n"
                       "        \"http-503\": 3,\n"
                       "        \"http-429\": 4\n"
                       "      }");
    row.counts[COUNT_FAILURE_KIND + FAILURE_RESET] = 0;
    row.counts[counter_of_status(418)] = row.counts[counter_of_status(429)] = 0;
    assert_tells(&row, "\"failures\": {\n        \"http-503\": 3\n      }");
}

static void the_last_failure_is_told_by_its_status(void **state)
{
    struct row row = {.destination = "a:1", .called = true, .has_failure = true};
    (void)state;
    row.last_failure.kind = FAILURE_HTTP;
    row.last_failure.http_status = 502;
    assert_tells(&row, "\"kind\": \"http-502\",\n        \"errno\": null");
    row.last_failure.kind = FAILURE_EARLY_CLOSE;
    row.last_failure.http_status = 0;
    assert_tells(&row, "\"kind\": \"early-close\"");
}

/* --- what runs --- */

static struct policy *policy_saying(const char *text, uint64_t revision)
{
    struct policy_problems problems;
    struct policy *policy = policy_from_text("/etc/a.policy", text, revision, &problems);
    assert_non_null(policy);
    policy_problems_free(&problems);
    return policy;
}

static void what_programs_run_is_told_and_in_what_they_differ(void **state)
{
    struct policy *first = policy_saying("[a:1]\nfailure_threshold = 2\n", 1),
                  *second = policy_saying("[a:1]\nfailure_threshold = 3\nmode = observe\n[b:2]\n", 2);
    struct edition editions[] = {{.revision = 1, .policy = first, .programs = 2},
                                 {.revision = 2, .policy = second, .programs = 1},
                                 {.revision = 3, .programs = 1}};
    struct process_view processes[3] = {
        {.pid = 1, .revision = 1}, {.pid = 2, .revision = 1}, {.pid = 3, .revision = 2}};
    struct running running = {
        .file = second, .editions = editions, .edition_count = 2, .processes = processes, .process_count = 3};
    struct row row = {.destination = "a:1", .target_name = "a:1", .target = &first->targets[0], .called = true};
    (void)state;
    char *text = printed_of(&row, &running);
    assert_non_null(strstr(text, "\"failure_threshold\": 2,\n      \"settings_differ\": true"));
    assert_non_null(strstr(text, "\"policy_revision\": \"0000000000000002\",\n  \"active\": true"));
    assert_non_null(strstr(text, "\"policy_revision\": \"0000000000000001\",\n      \"processes\": 2,\n"
                                 "      \"known\": true"));
    free(text);
    assert_int_equal(running_behind(&running), 2);
    char *keys = differing_keys(&running, "a:1");
    assert_string_equal(keys, "mode enforce or observe, failure_threshold 2 or 3");
    free(keys);
    keys = differing_keys(&running, "b:2");
    assert_string_equal(keys, "2 of them without this target");
    free(keys);
    running.edition_count = 3;
    keys = differing_keys(&running, "b:2");
    assert_string_equal(keys, "2 of them without this target, of 1 of them unknown");
    free(keys);
    running.edition_count = 1;
    assert_null(differing_keys(&running, "a:1"));
    policy_free(first);
    policy_free(second);
}

static void what_is_over_is_told_and_why(void **state)
{
    struct row row = {.destination = "a:1", .called = true, .ended = ENDED_TARGET};
    (void)state;
    assert_tells(&row, "\"ended\": \"target\"");
    row.ended = ENDED_PROGRAMS;
    assert_tells(&row, "\"ended\": \"programs\"");
    row.ended = ENDED_NOT;
    assert_tells(&row, "\"ended\": null");
    struct running running = {.file_why = (char *)"it is gone", .ended = true, .seen_ns = NS_PER_S};
    char *text = printed_of(&row, &running);
    assert_non_null(strstr(text, "\"active\": false,\n  \"last_seen\": \"1970-01-01T00:00:01.000Z\","));
    assert_non_null(strstr(text, "\"policy_error\": \"it is gone\""));
    free(text);
}

static void a_circuit_that_the_agent_holds_is_open_to_who_calls_it(void **state)
{
    struct target enforced = {.mode = MODE_ENFORCE};
    struct row row = {.destination = "a:1",
                      .called = true,
                      .target = &enforced,
                      .hold = HOLD_FLEET,
                      .held_left_ns = 4200 * NS_PER_MS - 1};
    uint64_t ms;
    (void)state;
    assert_tells(&row, "\"state\": \"open\",\n");
    assert_tells(&row, "\"held\": \"fleet\",\n      \"held_for_ms\": 4200,\n");
    assert_tells(&row, "\"retry_in_ms\": null,\n");
    /* One that must not be probed has no probe that is due. */
    row.hold = HOLD_UNPROBED;
    row.view.state = CIRCUIT_OPEN;
    row.view.probe_due = true;
    assert_tells(&row, "\"held\": \"unprobed\",\n");
    assert_false(row_probe_due(&row));
    assert_false(row_retry_in_ms(&row, &ms));
    row.view.probe_due = false;
    row.view.retry_in_ns = NS_PER_S;
    assert_true(row_retry_in_ms(&row, &ms));
    row.hold = HOLD_NONE;
    row.view.state = CIRCUIT_CLOSED;
    assert_tells(&row, "\"state\": \"closed\",\n");
    assert_tells(&row, "\"held\": null,\n      \"held_for_ms\": null,\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_circuit_that_the_agent_holds_is_open_to_who_calls_it),
        cmocka_unit_test(http_failures_are_told_by_their_status_and_once),
        cmocka_unit_test(the_last_failure_is_told_by_its_status),
        cmocka_unit_test(what_programs_run_is_told_and_in_what_they_differ),
        cmocka_unit_test(what_is_over_is_told_and_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
