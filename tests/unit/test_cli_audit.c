/*
 * test_cli_audit.c - what an audit makes of outcomes and of calls that wait, and how it says so.
 *
 * links: command
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "base/clock.h"
#include "cli/audit_finding.h"

/* One destination, one fault, one run that ended by itself. */
struct bench {
    struct audit audit;
    struct audit_destination destination;
    struct audit_run run;
};

static void start(struct bench *bench, const char *fault)
{
    *bench = (struct bench){
        .audit = {.limit_ns = 60 * NS_PER_S},
        .destination = {.name = "db:5432", .calls = 1, .addresses = 1},
        .run = {.fault = fault, .calls = 1, .course = {.has_ended = true, .was_made = true, .elapsed_ns = 1}},
    };
    bench->run.destination = &bench->destination;
}

static struct event outcome(unsigned int verdict, unsigned int kind, int error, uint32_t elapsed_ms)
{
    return (struct event){
        .type = EVENT_OUTCOME,
        .verdict = (uint8_t)verdict,
        .kind = (uint8_t)kind,
        .error = error,
        .elapsed_ms = elapsed_ms,
        .injected = true,
        .program = "app",
    };
}

static void take(struct bench *bench, struct event event)
{
    audit_take_outcome(&bench->run, &event);
}

static void says(struct bench *bench, enum audit_result result, const char *text)
{
    const struct audit_finding *finding = bench->run.finding_count > 0 ? bench->run.findings : NULL;
    const struct audit_row row = {&bench->run, finding, audit_result_of(&bench->audit, &bench->run, finding)};
    char *said = audit_text(&bench->audit, &row);
    assert_string_equal(said, text);
    assert_int_equal(row.result, result);
    free(said);
    free(bench->run.findings);
}

static void a_wait_that_the_program_ends_is_given_up(void **state)
{
    struct bench bench;
    (void)state;
    start(&bench, "hang");
    take(&bench, outcome(VERDICT_FAILURE, FAILURE_CONNECT_TIMEOUT, 0, 5000));
    says(&bench, AUDIT_GAVE_UP, "gave up after 5.0s");
}

static void one_call_that_is_made_again_was_retried(void **state)
{
    struct bench bench;
    (void)state;
    start(&bench, "silence");
    for (uint32_t i = 0; i < 4; i++)
        take(&bench, outcome(VERDICT_FAILURE, FAILURE_RESPONSE_TIMEOUT, EAGAIN, 5000 + i));
    says(&bench, AUDIT_GAVE_UP, "gave up after 5.0s, retried 3 times");
}

static void of_several_calls_or_addresses_it_is_open_which_was_made_again(void **state)
{
    struct bench bench;
    (void)state;
    for (unsigned int way = 0; way < 2; way++) {
        start(&bench, "refuse");
        bench.destination.calls = way == 0 ? 2 : 1;
        bench.destination.addresses = way == 0 ? 1 : 2;
        take(&bench, outcome(VERDICT_FAILURE, FAILURE_REFUSED, ECONNREFUSED, 0));
        take(&bench, outcome(VERDICT_FAILURE, FAILURE_REFUSED, ECONNREFUSED, 0));
        says(&bench, AUDIT_TOLD, "was refused, 2 tries");
    }
}

static void what_the_kernel_ends_the_program_has_not_given_up(void **state)
{
    struct bench bench;
    (void)state;
    start(&bench, "hang");
    take(&bench, outcome(VERDICT_FAILURE, FAILURE_CONNECT_TIMEOUT, ETIMEDOUT, 131000));
    says(&bench, AUDIT_BY_KERNEL, "the kernel gave up after 2m11s");
}

static void what_waits_for_as_long_as_the_limit_never_gives_up(void **state)
{
    struct bench bench;
    (void)state;
    start(&bench, "hang");
    bench.run.course.has_ended = false;
    take(&bench, outcome(VERDICT_FAILURE, FAILURE_CONNECT_TIMEOUT, 0, 2000));
    audit_take_wait(&bench.run, "app", 60 * NS_PER_S, AUDIT_END_HANGS);
    audit_take_wait(&bench.run, "app", 3 * NS_PER_S, AUDIT_END_CUT);
    assert_true(audit_is_beyond(audit_result_of(&bench.audit, &bench.run, bench.run.findings)));
    says(&bench, AUDIT_NEVER, "never (1m00s); gave up after 2.0s, retried 2 times");
}

static void who_gives_up_each_time_and_goes_on_is_beyond_the_limit_too(void **state)
{
    struct bench bench;
    (void)state;
    start(&bench, "silence");
    bench.run.course.has_ended = false;
    take(&bench, outcome(VERDICT_FAILURE, FAILURE_RESPONSE_TIMEOUT, 0, 5000));
    audit_take_wait(&bench.run, "app", NS_PER_S, AUDIT_END_CUT);
    assert_true(audit_is_beyond(AUDIT_GOES_ON));
    says(&bench, AUDIT_GOES_ON, "gave up after 5.0s, retried once; goes on");
}

static void what_is_left_behind_goes_on_too(void **state)
{
    struct bench bench;
    (void)state;
    start(&bench, "refuse");
    bench.run.course.left_some = true;
    take(&bench, outcome(VERDICT_FAILURE, FAILURE_REFUSED, ECONNREFUSED, 0));
    says(&bench, AUDIT_GOES_ON, "was refused; goes on");
}

static void of_more_outcomes_than_were_kept_only_the_least_is_told(void **state)
{
    struct bench bench;
    (void)state;
    start(&bench, "refuse");
    bench.run.lost = 1;
    take(&bench, outcome(VERDICT_FAILURE, FAILURE_REFUSED, ECONNREFUSED, 0));
    take(&bench, outcome(VERDICT_FAILURE, FAILURE_REFUSED, ECONNREFUSED, 0));
    audit_take_wait(&bench.run, "other", NS_PER_S, AUDIT_END_CUT);
    says(&bench, AUDIT_TOLD, "was refused, 2 tries or more");
    start(&bench, "refuse");
    bench.run.met = 7;
    says(&bench, AUDIT_LOST, "met the fault, and what came of it was not kept");
}

static void of_a_program_without_an_end_it_is_no_wonder_that_it_goes_on(void **state)
{
    struct bench bench;
    (void)state;
    start(&bench, "silence");
    bench.audit.is_endless = true;
    bench.run.course.has_ended = false;
    take(&bench, outcome(VERDICT_FAILURE, FAILURE_RESPONSE_TIMEOUT, 0, 5000));
    says(&bench, AUDIT_GAVE_UP, "gave up after 5.0s");
    start(&bench, "silence");
    bench.audit.is_endless = true;
    bench.run.course.has_ended = false;
    audit_take_wait(&bench.run, "app", 43 * NS_PER_S, AUDIT_END_CUT);
    says(&bench, AUDIT_WAITS, "waited when it was stopped, for 43.0s");
}

static void what_was_under_way_at_the_end_says_something_only_if_it_waited_longest(void **state)
{
    struct bench bench;
    (void)state;
    for (unsigned int seconds = 1; seconds <= 40; seconds += 39) {
        start(&bench, "silence");
        bench.audit.is_endless = true;
        bench.run.course.has_ended = false;
        take(&bench, outcome(VERDICT_FAILURE, FAILURE_RESPONSE_TIMEOUT, 0, 5000));
        audit_take_wait(&bench.run, "app", seconds * NS_PER_S, AUDIT_END_CUT);
        if (seconds == 1)
            says(&bench, AUDIT_GAVE_UP, "gave up after 5.0s, retried once");
        else
            says(&bench, AUDIT_WAITS, "waited when it was stopped, for 40.0s; gave up after 5.0s, retried once");
    }
}

static void a_fault_that_was_not_met_is_said_to_be_so(void **state)
{
    struct bench bench;
    struct event event = outcome(VERDICT_SUCCESS, FAILURE_NONE, 0, 1);
    (void)state;
    start(&bench, "hang");
    bench.run.calls = 0;
    says(&bench, AUDIT_NOT_CALLED, "not called in this run");
    start(&bench, "hang");
    event.injected = false;
    take(&bench, event);
    says(&bench, AUDIT_NOT_PLAYED, "was called, and could not be given the fault");
    start(&bench, "http-503");
    take(&bench, outcome(VERDICT_FAILURE, FAILURE_RESET, ECONNRESET, 1));
    says(&bench, AUDIT_NOT_PLAYED, "was reset instead: it speaks TLS or HTTP/2");
    start(&bench, "reset");
    audit_take_wait(&bench.run, "app", 60 * NS_PER_S, AUDIT_END_HANGS);
    says(&bench, AUDIT_NOT_PLAYED, "met silence instead: it sent nothing");
    start(&bench, "reset");
    bench.run.left_out = "for a reason";
    says(&bench, AUDIT_LEFT_OUT, "left out: for a reason");
}

static void an_interrupted_run_tells_only_what_had_waited_long_enough(void **state)
{
    struct bench bench;
    (void)state;
    start(&bench, "hang");
    bench.run.course = (struct audit_course){.elapsed_ns = 1};
    audit_take_wait(&bench.run, "app", 3 * NS_PER_S, AUDIT_END_CUT);
    says(&bench, AUDIT_NOT_MADE, "interrupted before its end");
    start(&bench, "hang");
    bench.run.course = (struct audit_course){.elapsed_ns = 1};
    audit_take_wait(&bench.run, "app", 60 * NS_PER_S, AUDIT_END_HANGS);
    says(&bench, AUDIT_NEVER, "never (1m00s)");
}

static void a_close_that_comes_soon_says_less_than_a_wait(void **state)
{
    struct bench bench;
    struct event soon = outcome(VERDICT_NEUTRAL, FAILURE_NONE, 0, 2);
    (void)state;
    soon.reason = NEUTRAL_CANCELLED;
    start(&bench, "silence");
    take(&bench, outcome(VERDICT_FAILURE, FAILURE_RESPONSE_TIMEOUT, 0, 900));
    take(&bench, soon);
    says(&bench, AUDIT_GAVE_UP, "gave up after 900ms");
    start(&bench, "silence");
    take(&bench, soon);
    says(&bench, AUDIT_GAVE_UP, "gave up after 2.0ms");
}

static void who_is_killed_while_it_waits_has_given_up_nothing(void **state)
{
    struct bench bench;
    struct event lost = outcome(VERDICT_NEUTRAL, FAILURE_NONE, 0, 4000);
    (void)state;
    lost.reason = NEUTRAL_UNKNOWN;
    start(&bench, "silence");
    take(&bench, lost);
    audit_take_wait(&bench.run, "app", 5 * NS_PER_S, AUDIT_END_KILLED);
    says(&bench, AUDIT_KILLED, "was killed while it waited, after 4.0s to 5.0s, retried once");
}

static void the_worst_stands_first_and_each_program_for_itself(void **state)
{
    struct bench bench;
    size_t count;
    struct event other = outcome(VERDICT_FAILURE, FAILURE_CONNECT_TIMEOUT, 0, 9000);
    (void)state;
    strcpy(other.program, "other");
    start(&bench, "hang");
    struct audit_run runs[2] = {bench.run, bench.run};
    runs[0].fault = "refuse";
    bench.audit.runs = runs;
    bench.audit.run_count = 2;
    struct event refused = outcome(VERDICT_FAILURE, FAILURE_REFUSED, ECONNREFUSED, 0);
    audit_take_outcome(&runs[0], &refused);
    audit_take_outcome(&runs[1], &other);
    audit_take_wait(&runs[1], "app", 60 * NS_PER_S, AUDIT_END_HANGS);
    struct audit_row *rows = audit_rows(&bench.audit, &count);
    assert_int_equal(count, 3);
    assert_int_equal(rows[0].result, AUDIT_NEVER);
    assert_string_equal(rows[0].finding->program, "app");
    assert_int_equal(rows[1].result, AUDIT_GAVE_UP);
    assert_string_equal(rows[1].finding->program, "other");
    assert_int_equal(rows[2].result, AUDIT_TOLD);
    free(rows);
    free(runs[0].findings);
    free(runs[1].findings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_that_the_program_ends_is_given_up),
        cmocka_unit_test(one_call_that_is_made_again_was_retried),
        cmocka_unit_test(of_several_calls_or_addresses_it_is_open_which_was_made_again),
        cmocka_unit_test(what_the_kernel_ends_the_program_has_not_given_up),
        cmocka_unit_test(what_waits_for_as_long_as_the_limit_never_gives_up),
        cmocka_unit_test(who_gives_up_each_time_and_goes_on_is_beyond_the_limit_too),
        cmocka_unit_test(what_is_left_behind_goes_on_too),
        cmocka_unit_test(of_more_outcomes_than_were_kept_only_the_least_is_told),
        cmocka_unit_test(of_a_program_without_an_end_it_is_no_wonder_that_it_goes_on),
        cmocka_unit_test(what_was_under_way_at_the_end_says_something_only_if_it_waited_longest),
        cmocka_unit_test(a_fault_that_was_not_met_is_said_to_be_so),
        cmocka_unit_test(an_interrupted_run_tells_only_what_had_waited_long_enough),
        cmocka_unit_test(a_close_that_comes_soon_says_less_than_a_wait),
        cmocka_unit_test(who_is_killed_while_it_waits_has_given_up_nothing),
        cmocka_unit_test(the_worst_stands_first_and_each_program_for_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
