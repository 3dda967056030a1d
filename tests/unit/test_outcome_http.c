/*
 * test_outcome_http.c - the classifier's judgement of HTTP statuses, and what they are called.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "breaker/outcome.h"

static const struct outcome_rules usual = {
    .abandon_after_ns = 300000000,
    .failure_mask = ~0u,
    .http_failure_count = 3,
    .http_failures = {{429, 429}, {502, 504}, {520, 529}},
};

static struct outcome judge(unsigned int status, const struct outcome_rules *rules)
{
    const struct observation seen = {.phase = PHASE_REQUESTED, .seen = SEEN_BYTES, .http_status = status};
    return outcome_judge(&seen, rules);
}

static void a_status_that_is_listed_is_a_failure_and_one_that_is_not_business_from_400_to_599(void **state)
{
    (void)state;
    for (unsigned int status = 0; status <= 1000; status++) {
        const struct outcome outcome = judge(status, &usual);
        const bool listed = status == 429 || (status >= 502 && status <= 504) || (status >= 520 && status <= 529);
        const bool refused = status >= 400 && status <= 599;

        assert_int_equal(outcome.verdict, listed ? VERDICT_FAILURE : refused ? VERDICT_BUSINESS : VERDICT_SUCCESS);
        assert_int_equal(outcome.kind, listed ? FAILURE_HTTP : FAILURE_NONE);
        assert_int_equal(outcome.http_status, listed ? status : 0);
        assert_int_equal(outcome.reason, NEUTRAL_NONE);
        if (status != 0)
            assert_int_equal(outcome_status_succeeds(&usual, status), outcome.verdict == VERDICT_SUCCESS);
    }
}

static void without_a_list_no_status_is_a_failure(void **state)
{
    struct outcome_rules rules = usual;

    (void)state;
    rules.http_failure_count = 0;
    assert_int_equal(judge(503, &rules).verdict, VERDICT_BUSINESS);
    assert_int_equal(judge(200, &rules).verdict, VERDICT_SUCCESS);
}

static void statuses_outside_400_to_599_can_be_listed(void **state)
{
    const struct outcome_rules rules = {.http_failure_count = 1, .http_failures = {{100, 999}}};

    (void)state;
    assert_int_equal(judge(200, &rules).verdict, VERDICT_FAILURE);
    assert_false(outcome_status_succeeds(&rules, 200));
    assert_int_equal(judge(999, &rules).http_status, 999);
    assert_int_equal(judge(0, &rules).verdict, VERDICT_SUCCESS);
}

static void a_status_counts_in_every_phase_until_the_answer_and_only_as_an_answer(void **state)
{
    (void)state;
    for (unsigned int phase = PHASE_CONNECTING; phase <= PHASE_ANSWERED; phase++) {
        for (unsigned int what = SEEN_CONNECTED; what <= SEEN_HANDED; what++) {
            const struct observation seen = {
                .phase = (enum phase)phase, .seen = (enum seen)what, .http_status = 503, .waited_ns = 1000000000};
            const bool counts = phase != PHASE_ANSWERED && what == SEEN_BYTES;

            assert_int_equal(outcome_judge(&seen, &usual).kind == FAILURE_HTTP, counts);
        }
    }
}

static void nothing_excuses_a_failure_that_the_peer_itself_has_told(void **state)
{
    struct outcome_rules rules = usual;

    (void)state;
    rules.failure_mask = 0;
    for (unsigned int phase = PHASE_CONNECTING; phase <= PHASE_REQUESTED; phase++) {
        for (unsigned int flags = 0; flags < 32; flags++) {
            const struct observation seen = {
                .phase = (enum phase)phase,
                .seen = SEEN_BYTES,
                .http_status = 503,
                .other_answered = (flags & 1) != 0,
                .other_tried = (flags & 2) != 0,
                .answered_before = (flags & 4) != 0,
                .sibling_won = (flags & 8) != 0,
                .own_end = (flags & 16) != 0,
            };
            const struct outcome outcome = outcome_judge(&seen, &rules);

            assert_int_equal(outcome.verdict, VERDICT_FAILURE);
            assert_int_equal(outcome.kind, FAILURE_HTTP);
            assert_int_equal(outcome.http_status, 503);
        }
    }
}

static void a_failure_is_called_by_its_status_where_that_is_known(void **state)
{
    char text[FAILURE_LABEL_MAX];

    (void)state;
    assert_string_equal(failure_label(FAILURE_HTTP, 503, text), "http-503");
    assert_string_equal(failure_label(FAILURE_HTTP, 429, text), "http-429");
    assert_string_equal(failure_label(FAILURE_HTTP, 100, text), "http-100");
    assert_string_equal(failure_label(FAILURE_HTTP, 999, text), "http-999");
    assert_string_equal(failure_label(FAILURE_HTTP, 0, text), "http");
    assert_string_equal(failure_label(FAILURE_HTTP, 99, text), "http");
    assert_string_equal(failure_label(FAILURE_HTTP, 1000, text), "http");
    assert_string_equal(failure_label(FAILURE_HTTP, GRPC_STATUS_BASE + 14, text), "grpc-14");
    assert_string_equal(failure_label(FAILURE_HTTP, ANSWER_STATUS_MAX + 1, text), "http");
    assert_string_equal(failure_label(FAILURE_REFUSED, 503, text), "refused");
    assert_string_equal(failure_label(FAILURE_KINDS, 503, text), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_status_that_is_listed_is_a_failure_and_one_that_is_not_business_from_400_to_599),
        cmocka_unit_test(without_a_list_no_status_is_a_failure),
        cmocka_unit_test(statuses_outside_400_to_599_can_be_listed),
        cmocka_unit_test(a_status_counts_in_every_phase_until_the_answer_and_only_as_an_answer),
        cmocka_unit_test(nothing_excuses_a_failure_that_the_peer_itself_has_told),
        cmocka_unit_test(a_failure_is_called_by_its_status_where_that_is_known),
    };

    return cmocka_run_group_tests_name("HTTP outcomes", tests, NULL, NULL);
}
