/*
 * test_cli_status_json.c - what `status --json` and `status` tell of failures.
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
#include "cli/cli.c"
#include "cli/json.c"
#include "cli/rows.c"
#include "cli/status_json.c"
#include "cli/message.c" /* the last one: others mean its functions, and it libc's */

static char *printed(const struct row *row)
{
    const struct rows rows = {.at = (struct row *)row, .count = 1};
    const struct selected selected = {.identity = (char *)"x"};
    char *text = NULL;
    size_t size = 0;
    struct json json;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    json_start(&json, out);
    status_json(&json, &selected, NULL, &rows);
    fclose(out);
    return text;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(http_failures_are_told_by_their_status_and_once),
        cmocka_unit_test(the_last_failure_is_told_by_its_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
