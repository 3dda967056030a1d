/*
 * test_outcome.c - the classifier: every row of its table, with every errno and every flag.
 *
 * `rows` says the rules once more, as a list of cases. The sweeps run through all observations there are and demand
 * that exactly one row takes each, and that the judgement is that row's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "breaker/outcome.h"

#define MS UINT64_C(1000000)
#define ABANDON_NS (300 * MS)
#define ERRNO_MAX 140
#define ALL_KINDS (~0u)

/* Conditions of a row: flags of the observation or of the rules. */
enum {
    AT_ONCE = 1,
    ANSWERED_BEFORE = 2,
    OWN_END = 4,
    SIBLING_WON = 8,
    CONNECT_IS_SUCCESS = 16,
    GAVE_UP = 32, /* before it ended its side */
    END_ANSWERS = 64,
    CLOSE_IS_SUCCESS = 128,
    IS_PROBE = 256,
    FLAGS = 512,
};

/* What keeps the end of a stream from being an answer, or what makes it one that is listed above. */
#define NO_ANSWER (OWN_END | ANSWERED_BEFORE | GAVE_UP | END_ANSWERS)

enum wait { ANY, SHORT, LONG };

/* 0 ends a list; OTHERS in front: all errnos but those. */
#define OTHERS (-1)
static const int timed_out[] = {ETIMEDOUT, 0};
static const int refused[] = {ECONNREFUSED, ENOENT, 0};
static const int unreachable[] = {EHOSTUNREACH, ENETUNREACH, EHOSTDOWN, ENETDOWN, EPROTO, ENOPROTOOPT, 0};
static const int reset[] = {ECONNRESET, EPIPE, ECONNABORTED, 0};
static const int local[] = {OTHERS,   ETIMEDOUT, ECONNREFUSED, ENOENT,     EHOSTUNREACH, ENETUNREACH,  EHOSTDOWN,
                            ENETDOWN, EPROTO,    ENOPROTOOPT,  ECONNRESET, EPIPE,        ECONNABORTED, 0};

/* clang-format off */
#define NOTHING {.verdict = VERDICT_NONE}
#define SUCCESS {.verdict = VERDICT_SUCCESS}
#define FAILS(name) {.verdict = VERDICT_FAILURE, .kind = FAILURE_##name}
#define SPARED(name) {.verdict = VERDICT_NEUTRAL, .reason = NEUTRAL_##name}
/* clang-format on */

static const struct row {
    enum phase phase;
    enum seen seen;
    const int *errors; /* of SEEN_ERROR */
    unsigned int with, without;
    enum wait wait;
    struct outcome expected;
} rows[] = {
    {PHASE_CONNECTING, SEEN_CONNECTED, NULL, 0, CONNECT_IS_SUCCESS, ANY, NOTHING},
    {PHASE_CONNECTING, SEEN_CONNECTED, NULL, CONNECT_IS_SUCCESS, 0, ANY, SUCCESS},
    {PHASE_CONNECTING, SEEN_BYTES, NULL, 0, 0, ANY, SUCCESS},
    {PHASE_CONNECTING, SEEN_END, NULL, OWN_END, 0, ANY, SPARED(CANCELLED)},
    {PHASE_CONNECTING, SEEN_END, NULL, GAVE_UP, OWN_END, ANY, FAILS(RESPONSE_TIMEOUT)},
    {PHASE_CONNECTING, SEEN_END, NULL, ANSWERED_BEFORE, OWN_END | GAVE_UP, ANY, SPARED(STALE)},
    {PHASE_CONNECTING, SEEN_END, NULL, 0, OWN_END | ANSWERED_BEFORE | GAVE_UP, ANY, FAILS(EARLY_CLOSE)},
    {PHASE_CONNECTING, SEEN_ERROR, timed_out, 0, 0, ANY, FAILS(CONNECT_TIMEOUT)},
    {PHASE_CONNECTING, SEEN_ERROR, refused, 0, 0, ANY, FAILS(REFUSED)},
    {PHASE_CONNECTING, SEEN_ERROR, unreachable, 0, AT_ONCE, ANY, FAILS(UNREACHABLE)},
    {PHASE_CONNECTING, SEEN_ERROR, unreachable, AT_ONCE, 0, ANY, SPARED(LOCAL)},
    {PHASE_CONNECTING, SEEN_ERROR, reset, 0, 0, ANY, FAILS(RESET)},
    {PHASE_CONNECTING, SEEN_ERROR, local, 0, 0, ANY, SPARED(LOCAL)},
    {PHASE_CONNECTING, SEEN_WAIT_ENDED, NULL, 0, 0, ANY, FAILS(CONNECT_TIMEOUT)},
    {PHASE_CONNECTING, SEEN_GAVE_UP, NULL, SIBLING_WON, 0, ANY, SPARED(SIBLING)},
    {PHASE_CONNECTING, SEEN_GAVE_UP, NULL, 0, SIBLING_WON, LONG, FAILS(CONNECT_TIMEOUT)},
    {PHASE_CONNECTING, SEEN_GAVE_UP, NULL, 0, SIBLING_WON, SHORT, SPARED(CANCELLED)},
    {PHASE_CONNECTING, SEEN_OVERDUE, NULL, 0, 0, ANY, FAILS(CONNECT_TIMEOUT)},
    {PHASE_CONNECTING, SEEN_REFUSED, NULL, 0, 0, ANY, FAILS(REFUSED)},
    {PHASE_CONNECTING, SEEN_HANDED, NULL, 0, 0, ANY, NOTHING},

    {PHASE_CONNECTED, SEEN_CONNECTED, NULL, 0, CONNECT_IS_SUCCESS, ANY, NOTHING},
    {PHASE_CONNECTED, SEEN_CONNECTED, NULL, CONNECT_IS_SUCCESS, 0, ANY, SUCCESS},
    {PHASE_CONNECTED, SEEN_BYTES, NULL, 0, 0, ANY, SUCCESS},
    {PHASE_CONNECTED, SEEN_END, NULL, OWN_END, 0, ANY, SPARED(CANCELLED)},
    {PHASE_CONNECTED, SEEN_END, NULL, GAVE_UP, OWN_END, ANY, FAILS(RESPONSE_TIMEOUT)},
    {PHASE_CONNECTED, SEEN_END, NULL, ANSWERED_BEFORE, OWN_END | GAVE_UP, ANY, SPARED(STALE)},
    {PHASE_CONNECTED, SEEN_END, NULL, 0, OWN_END | ANSWERED_BEFORE | GAVE_UP, ANY, FAILS(EARLY_CLOSE)},
    {PHASE_CONNECTED, SEEN_ERROR, timed_out, 0, 0, ANY, FAILS(RESPONSE_TIMEOUT)},
    {PHASE_CONNECTED, SEEN_ERROR, refused, 0, 0, ANY, FAILS(REFUSED)},
    {PHASE_CONNECTED, SEEN_ERROR, unreachable, 0, 0, ANY, FAILS(UNREACHABLE)},
    {PHASE_CONNECTED, SEEN_ERROR, reset, GAVE_UP, 0, ANY, FAILS(RESPONSE_TIMEOUT)},
    {PHASE_CONNECTED, SEEN_ERROR, reset, 0, ANSWERED_BEFORE | GAVE_UP, ANY, FAILS(RESET)},
    {PHASE_CONNECTED, SEEN_ERROR, reset, ANSWERED_BEFORE, GAVE_UP, ANY, SPARED(STALE)},
    {PHASE_CONNECTED, SEEN_ERROR, local, 0, 0, ANY, SPARED(LOCAL)},
    {PHASE_CONNECTED, SEEN_WAIT_ENDED, NULL, 0, 0, ANY, FAILS(RESPONSE_TIMEOUT)},
    {PHASE_CONNECTED, SEEN_GAVE_UP, NULL, CONNECT_IS_SUCCESS, 0, ANY, SUCCESS},
    {PHASE_CONNECTED, SEEN_GAVE_UP, NULL, OWN_END, CONNECT_IS_SUCCESS, ANY, SPARED(CANCELLED)},
    {PHASE_CONNECTED, SEEN_GAVE_UP, NULL, 0, OWN_END | CONNECT_IS_SUCCESS, LONG, FAILS(RESPONSE_TIMEOUT)},
    {PHASE_CONNECTED, SEEN_GAVE_UP, NULL, 0, OWN_END | CONNECT_IS_SUCCESS, SHORT, SPARED(CANCELLED)},
    {PHASE_CONNECTED, SEEN_OVERDUE, NULL, 0, 0, ANY, FAILS(RESPONSE_TIMEOUT)},
    {PHASE_CONNECTED, SEEN_REFUSED, NULL, 0, 0, ANY, FAILS(REFUSED)},
    {PHASE_CONNECTED, SEEN_HANDED, NULL, IS_PROBE, 0, ANY, SUCCESS},
    {PHASE_CONNECTED, SEEN_HANDED, NULL, 0, IS_PROBE, ANY, NOTHING},

    {PHASE_REQUESTED, SEEN_CONNECTED, NULL, 0, CONNECT_IS_SUCCESS, ANY, NOTHING},
    {PHASE_REQUESTED, SEEN_CONNECTED, NULL, CONNECT_IS_SUCCESS, 0, ANY, SUCCESS},
    {PHASE_REQUESTED, SEEN_BYTES, NULL, 0, 0, ANY, SUCCESS},
    {PHASE_REQUESTED, SEEN_END, NULL, OWN_END, 0, ANY, SPARED(CANCELLED)},
    {PHASE_REQUESTED, SEEN_END, NULL, GAVE_UP, OWN_END, ANY, FAILS(RESPONSE_TIMEOUT)},
    {PHASE_REQUESTED, SEEN_END, NULL, ANSWERED_BEFORE, OWN_END | GAVE_UP, ANY, SPARED(STALE)},
    {PHASE_REQUESTED, SEEN_END, NULL, END_ANSWERS, OWN_END | ANSWERED_BEFORE | GAVE_UP, ANY, SUCCESS},
    {PHASE_REQUESTED, SEEN_END, NULL, CLOSE_IS_SUCCESS, CONNECT_IS_SUCCESS | NO_ANSWER, ANY, SUCCESS},
    {PHASE_REQUESTED, SEEN_END, NULL, CLOSE_IS_SUCCESS | CONNECT_IS_SUCCESS, NO_ANSWER, ANY, FAILS(EARLY_CLOSE)},
    {PHASE_REQUESTED, SEEN_END, NULL, 0, NO_ANSWER | CLOSE_IS_SUCCESS, ANY, FAILS(EARLY_CLOSE)},
    {PHASE_REQUESTED, SEEN_ERROR, timed_out, 0, 0, ANY, FAILS(RESPONSE_TIMEOUT)},
    {PHASE_REQUESTED, SEEN_ERROR, refused, 0, 0, ANY, FAILS(REFUSED)},
    {PHASE_REQUESTED, SEEN_ERROR, unreachable, 0, 0, ANY, FAILS(UNREACHABLE)},
    {PHASE_REQUESTED, SEEN_ERROR, reset, GAVE_UP, 0, ANY, FAILS(RESPONSE_TIMEOUT)},
    {PHASE_REQUESTED, SEEN_ERROR, reset, 0, ANSWERED_BEFORE | GAVE_UP, ANY, FAILS(RESET)},
    {PHASE_REQUESTED, SEEN_ERROR, reset, ANSWERED_BEFORE, GAVE_UP, ANY, SPARED(STALE)},
    {PHASE_REQUESTED, SEEN_ERROR, local, 0, 0, ANY, SPARED(LOCAL)},
    {PHASE_REQUESTED, SEEN_WAIT_ENDED, NULL, 0, 0, ANY, FAILS(RESPONSE_TIMEOUT)},
    {PHASE_REQUESTED, SEEN_GAVE_UP, NULL, CONNECT_IS_SUCCESS, 0, ANY, SUCCESS},
    {PHASE_REQUESTED, SEEN_GAVE_UP, NULL, 0, CONNECT_IS_SUCCESS, LONG, FAILS(RESPONSE_TIMEOUT)},
    {PHASE_REQUESTED, SEEN_GAVE_UP, NULL, 0, CONNECT_IS_SUCCESS, SHORT, SPARED(CANCELLED)},
    {PHASE_REQUESTED, SEEN_OVERDUE, NULL, 0, 0, ANY, FAILS(RESPONSE_TIMEOUT)},
    {PHASE_REQUESTED, SEEN_REFUSED, NULL, 0, 0, ANY, FAILS(REFUSED)},
    {PHASE_REQUESTED, SEEN_HANDED, NULL, IS_PROBE, 0, ANY, SUCCESS},
    {PHASE_REQUESTED, SEEN_HANDED, NULL, 0, IS_PROBE, ANY, NOTHING},

    {PHASE_ANSWERED, SEEN_CONNECTED, NULL, 0, 0, ANY, NOTHING},
    {PHASE_ANSWERED, SEEN_BYTES, NULL, 0, 0, ANY, NOTHING},
    {PHASE_ANSWERED, SEEN_END, NULL, 0, 0, ANY, NOTHING},
    {PHASE_ANSWERED, SEEN_ERROR, NULL, 0, 0, ANY, NOTHING},
    {PHASE_ANSWERED, SEEN_WAIT_ENDED, NULL, 0, 0, ANY, NOTHING},
    {PHASE_ANSWERED, SEEN_GAVE_UP, NULL, 0, 0, ANY, NOTHING},
    {PHASE_ANSWERED, SEEN_OVERDUE, NULL, 0, 0, ANY, NOTHING},
    {PHASE_ANSWERED, SEEN_REFUSED, NULL, 0, 0, ANY, NOTHING},
    {PHASE_ANSWERED, SEEN_HANDED, NULL, 0, 0, ANY, NOTHING},
};

static bool lists(const int *errors, int error)
{
    bool others = errors[0] == OTHERS;

    for (const int *listed = others ? errors + 1 : errors; *listed != 0; listed++) {
        if (*listed == error)
            return !others;
    }
    return others;
}

static bool takes(const struct row *row, const struct observation *seen, unsigned int flags, enum wait wait)
{
    return row->phase == seen->phase && row->seen == seen->seen &&
           (row->errors == NULL || lists(row->errors, seen->error)) && (flags & row->with) == row->with &&
           (flags & row->without) == 0 && (row->wait == ANY || row->wait == wait);
}

static struct observation observation_with(enum phase phase, enum seen what, int error, unsigned int flags)
{
    return (struct observation){.phase = phase,
                                .seen = what,
                                .error = error,
                                .at_once = (flags & AT_ONCE) != 0,
                                .answered_before = (flags & ANSWERED_BEFORE) != 0,
                                .own_end = (flags & OWN_END) != 0,
                                .gave_up = (flags & GAVE_UP) != 0,
                                .end_answers = (flags & END_ANSWERS) != 0,
                                .is_probe = (flags & IS_PROBE) != 0,
                                .sibling_won = (flags & SIBLING_WON) != 0};
}

static struct outcome_rules rules_with(unsigned int flags)
{
    return (struct outcome_rules){.abandon_after_ns = ABANDON_NS,
                                  .failure_mask = ALL_KINDS,
                                  .success = flags & CONNECT_IS_SUCCESS ? SUCCESS_CONNECT
                                             : flags & CLOSE_IS_SUCCESS ? SUCCESS_CLOSE
                                                                        : SUCCESS_ANSWER};
}

static struct outcome excused(enum failure_kind kind, enum neutral_reason reason)
{
    return (struct outcome){.verdict = VERDICT_NEUTRAL, .kind = kind, .reason = reason};
}

static void assert_outcome(struct outcome found, struct outcome expected)
{
    assert_int_equal(found.verdict, expected.verdict);
    assert_int_equal(found.kind, expected.kind);
    assert_int_equal(found.reason, expected.reason);
    assert_int_equal(found.http_status, expected.http_status);
}

/* Calls `check` for every observation there is; errnos only where one was seen. */
static void for_every_observation(void (*check)(const struct observation *seen, const struct outcome_rules *rules,
                                                unsigned int flags, enum wait wait))
{
    static const struct {
        uint64_t waited_ns;
        enum wait wait;
    } waits[] = {{0, SHORT}, {ABANDON_NS - 1, SHORT}, {ABANDON_NS, LONG}, {UINT64_MAX, LONG}};

    for (int phase = PHASE_CONNECTING; phase <= PHASE_ANSWERED; phase++) {
        for (int what = SEEN_CONNECTED; what <= SEEN_HANDED; what++) {
            for (int error = 0; error <= (what == SEEN_ERROR ? ERRNO_MAX : 0); error++) {
                for (unsigned int flags = 0; flags < FLAGS; flags++) {
                    struct observation seen = observation_with((enum phase)phase, (enum seen)what, error, flags);
                    struct outcome_rules rules = rules_with(flags);

                    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
                        seen.waited_ns = waits[i].waited_ns;
                        check(&seen, &rules, flags, waits[i].wait);
                    }
                }
            }
        }
    }
}

static void check_row(const struct observation *seen, const struct outcome_rules *rules, unsigned int flags,
                      enum wait wait)
{
    const struct row *taken = NULL;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!takes(&rows[i], seen, flags, wait))
            continue;
        assert_null(taken);
        taken = &rows[i];
    }
    assert_non_null(taken);
    assert_outcome(outcome_judge(seen, rules), taken->expected);
}

static void each_observation_has_one_row_and_is_judged_by_it(void **state)
{
    (void)state;
    for_every_observation(check_row);
}

static void check_neighbour(const struct observation *seen, const struct outcome_rules *rules, unsigned int flags,
                            enum wait wait)
{
    struct outcome plain = outcome_judge(seen, rules);
    struct observation beside = *seen;

    (void)wait;
    beside.other_answered = true;
    struct outcome outcome = outcome_judge(&beside, rules);
    if (plain.verdict == VERDICT_FAILURE && (seen->phase == PHASE_CONNECTING || (flags & ANSWERED_BEFORE) == 0))
        assert_outcome(outcome, excused(plain.kind, NEUTRAL_ADDRESS));
    else
        assert_outcome(outcome, plain);
}

static void a_neighbour_that_answers_excuses_failures_before_any_answer_and_nothing_else(void **state)
{
    (void)state;
    for_every_observation(check_neighbour);
}

static void check_other_tried(const struct observation *seen, const struct outcome_rules *rules, unsigned int flags,
                              enum wait wait)
{
    struct outcome plain = outcome_judge(seen, rules);
    struct observation beside = *seen;

    (void)flags, (void)wait;
    beside.other_tried = true;
    struct outcome outcome = outcome_judge(&beside, rules);
    if (plain.verdict == VERDICT_FAILURE && seen->phase == PHASE_CONNECTING)
        assert_outcome(outcome, excused(plain.kind, NEUTRAL_ADDRESS));
    else
        assert_outcome(outcome, plain);
}

static void a_neighbour_that_was_tried_instead_excuses_a_failed_attempt_and_nothing_else(void **state)
{
    (void)state;
    for_every_observation(check_other_tried);
}

static void check_mask(const struct observation *seen, const struct outcome_rules *rules, unsigned int flags,
                       enum wait wait)
{
    struct outcome plain = outcome_judge(seen, rules);
    struct outcome_rules masked = *rules;

    (void)flags, (void)wait;
    for (unsigned int kind = FAILURE_NONE; kind < FAILURE_KINDS; kind++) {
        masked.failure_mask = ~(1u << kind);
        if (plain.verdict == VERDICT_FAILURE && plain.kind == kind)
            assert_outcome(outcome_judge(seen, &masked), excused(plain.kind, NEUTRAL_UNLISTED));
        else
            assert_outcome(outcome_judge(seen, &masked), plain);
    }
}

static void a_kind_that_is_not_listed_is_neutral_and_keeps_its_name(void **state)
{
    (void)state;
    for_every_observation(check_mask);
}

static void a_neighbour_that_answers_goes_before_an_unlisted_kind(void **state)
{
    struct observation seen = observation_with(PHASE_CONNECTING, SEEN_ERROR, ECONNREFUSED, 0);
    struct outcome_rules rules = {.abandon_after_ns = ABANDON_NS, .failure_mask = 0};

    (void)state;
    seen.other_answered = true;
    assert_outcome(outcome_judge(&seen, &rules), excused(FAILURE_REFUSED, NEUTRAL_ADDRESS));
}

static void giving_up_before_50_ms_is_never_a_timeout(void **state)
{
    (void)state;
    for (int phase = PHASE_CONNECTING; phase <= PHASE_REQUESTED; phase++) {
        struct observation seen = observation_with((enum phase)phase, SEEN_GAVE_UP, 0, 0);
        struct outcome_rules rules = {.abandon_after_ns = 0, .failure_mask = ALL_KINDS};

        seen.waited_ns = 50 * MS - 1;
        assert_outcome(outcome_judge(&seen, &rules), (struct outcome)SPARED(CANCELLED));
        seen.waited_ns = 50 * MS;
        assert_int_equal(outcome_judge(&seen, &rules).verdict, VERDICT_FAILURE);
    }
}

static void accept_then_silence_is_a_failure_and_no_success(void **state)
{
    struct observation seen = observation_with(PHASE_CONNECTING, SEEN_CONNECTED, 0, 0);
    struct outcome_rules rules = rules_with(0);

    (void)state;
    assert_outcome(outcome_judge(&seen, &rules), (struct outcome)NOTHING);
    seen = observation_with(PHASE_REQUESTED, SEEN_GAVE_UP, 0, 0);
    seen.waited_ns = 1000 * MS;
    assert_outcome(outcome_judge(&seen, &rules), (struct outcome)FAILS(RESPONSE_TIMEOUT));
}

static void the_loser_of_happy_eyeballs_is_no_failure_however_long_it_waited(void **state)
{
    struct observation seen = observation_with(PHASE_CONNECTING, SEEN_GAVE_UP, 0, SIBLING_WON);
    struct outcome_rules rules = rules_with(0);

    (void)state;
    seen.waited_ns = 3600 * 1000 * MS;
    assert_outcome(outcome_judge(&seen, &rules), (struct outcome)SPARED(SIBLING));
}

static void what_is_out_of_range_decides_nothing(void **state)
{
    const struct outcome_rules rules = rules_with(0);

    (void)state;
    for (int phase = -2; phase < 10; phase++) {
        for (int what = -2; what < 12; what++) {
            if (phase >= PHASE_CONNECTING && phase <= PHASE_ANSWERED && what >= SEEN_CONNECTED && what <= SEEN_HANDED)
                continue;
            struct observation seen = observation_with((enum phase)phase, (enum seen)what, ECONNREFUSED, 0);
            assert_outcome(outcome_judge(&seen, &rules), (struct outcome)NOTHING);
        }
    }
}

static void kinds_and_reasons_have_names_and_kinds_are_found_by_theirs(void **state)
{
    static const char *const kinds[] = {"none",  "connect-timeout", "response-timeout", "refused",
                                        "reset", "unreachable",     "early-close",      "http"};
    static const char *const reasons[] = {"none",    "local", "cancelled", "sibling",
                                          "address", "stale", "unlisted",  "unknown"};

    (void)state;
    for (unsigned int kind = 0; kind < FAILURE_KINDS; kind++) {
        assert_string_equal(failure_kind_name(kind), kinds[kind]);
        assert_int_equal(failure_kind_named(kinds[kind]), kind);
    }
    for (unsigned int reason = 0; reason < NEUTRAL_REASONS; reason++)
        assert_string_equal(neutral_reason_name(reason), reasons[reason]);
    assert_string_equal(failure_kind_name(FAILURE_KINDS), "unknown");
    assert_string_equal(failure_kind_name(UINT32_MAX), "unknown");
    assert_string_equal(neutral_reason_name(NEUTRAL_REASONS), "unknown");
    assert_int_equal(failure_kind_named(""), FAILURE_NONE);
    assert_int_equal(failure_kind_named("Refused"), FAILURE_NONE);
    assert_int_equal(failure_kind_named("resets"), FAILURE_NONE);
}

static void errors_of_a_connection_that_stands_are_the_peers_if_they_count_and_no_path_is_meant(void **state)
{
    (void)state;
    const struct outcome_rules rules = {.failure_mask = UINT32_MAX};
    assert_true(outcome_is_from_peer(ECONNRESET));
    assert_false(outcome_is_from_peer(EAGAIN));
    for (int error = 1; error < ERRNO_MAX; error++) {
        const struct observation seen = {.seen = SEEN_ERROR, .phase = PHASE_REQUESTED, .error = error};
        bool counts = outcome_judge(&seen, &rules).verdict == VERDICT_FAILURE;
        assert_int_equal(outcome_is_from_peer(error), counts && error != ENOENT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_observation_has_one_row_and_is_judged_by_it),
        cmocka_unit_test(errors_of_a_connection_that_stands_are_the_peers_if_they_count_and_no_path_is_meant),
        cmocka_unit_test(a_neighbour_that_answers_excuses_failures_before_any_answer_and_nothing_else),
        cmocka_unit_test(a_neighbour_that_was_tried_instead_excuses_a_failed_attempt_and_nothing_else),
        cmocka_unit_test(a_kind_that_is_not_listed_is_neutral_and_keeps_its_name),
        cmocka_unit_test(a_neighbour_that_answers_goes_before_an_unlisted_kind),
        cmocka_unit_test(giving_up_before_50_ms_is_never_a_timeout),
        cmocka_unit_test(accept_then_silence_is_a_failure_and_no_success),
        cmocka_unit_test(the_loser_of_happy_eyeballs_is_no_failure_however_long_it_waited),
        cmocka_unit_test(what_is_out_of_range_decides_nothing),
        cmocka_unit_test(kinds_and_reasons_have_names_and_kinds_are_found_by_theirs),
    };

    return cmocka_run_group_tests_name("outcomes", tests, NULL, NULL);
}
