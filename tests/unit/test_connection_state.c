/*
 * test_connection_state.c - the table of a connection's states by itself (connection/connection_state.h), and the
 * walks through it that src/README.md tells of.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>

#include "connection/pool.h"

#define STEPS 1000000u
#define THREADS 4u
#define CALLS 300000u

static enum connection_state after(unsigned int state, unsigned int event)
{
    return state_after((enum connection_state)state, (enum connection_event)event);
}

static void every_pair_has_an_answer_that_is_a_state(void **state)
{
    (void)state;
    for (unsigned int from = 0; from < CONNECTION_STATES; from++)
        for (unsigned int event = 0; event < CONNECTION_EVENTS; event++)
            assert_true(after(from, event) < CONNECTION_STATES);
}

static void every_state_is_reached_from_a_record_that_is_nobodys(void **state)
{
    bool reached[CONNECTION_STATES] = {[STATE_NONE] = true};
    (void)state;
    for (unsigned int round = 0; round < CONNECTION_STATES; round++)
        for (unsigned int from = 0; from < CONNECTION_STATES; from++)
            for (unsigned int event = 0; reached[from] && event < CONNECTION_EVENTS; event++)
                reached[after(from, event)] = true;
    for (unsigned int at = 0; at < CONNECTION_STATES; at++)
        assert_true(reached[at]);
}

static void every_event_moves_something(void **state)
{
    (void)state;
    for (unsigned int event = 0; event < CONNECTION_EVENTS; event++) {
        bool moves = false;
        for (unsigned int from = 0; from < CONNECTION_STATES; from++)
            moves = moves || after(from, event) != from;
        assert_true(moves);
    }
}

/* Whatever comes late. */
static void only_an_attempt_or_a_diversion_takes_a_record_and_a_return_gives_each_back(void **state)
{
    (void)state;
    for (unsigned int event = 0; event < CONNECTION_EVENTS; event++)
        if (event != ON_ATTEMPT && event != ON_DIVERSION)
            assert_int_equal(after(STATE_NONE, event), STATE_NONE);
    for (unsigned int from = 0; from < CONNECTION_STATES; from++) {
        assert_int_equal(after(from, ON_RETURN), STATE_NONE);
        if (from != STATE_NONE) {
            assert_int_equal(after(from, ON_ATTEMPT), from);
            assert_int_equal(after(from, ON_DIVERSION), from);
        }
    }
}

static void what_happens_twice_moves_it_once(void **state)
{
    (void)state;
    for (unsigned int from = 0; from < CONNECTION_STATES; from++)
        for (unsigned int event = 0; event < CONNECTION_EVENTS; event++)
            assert_int_equal(after(after(from, event), event), after(from, event));
}

static void nothing_leads_back_to_the_attempt_nor_from_its_failure_to_a_call(void **state)
{
    const enum connection_state ends[] = {STATE_FAILED, STATE_OVER, STATE_BROKEN};
    (void)state;
    for (unsigned int event = 0; event < CONNECTION_EVENTS; event++) {
        for (unsigned int from = STATE_CONNECTED; from < CONNECTION_STATES; from++)
            assert_int_not_equal(after(from, event), STATE_CONNECTING);
        for (unsigned int i = 0; i < 3; i++) {
            enum connection_state next = after(ends[i], event);
            assert_true(next == ends[i] || next == STATE_BROKEN || next == STATE_NONE);
        }
    }
}

static void what_stands_aside_never_bears_a_call(void **state)
{
    (void)state;
    for (unsigned int from = STATE_ASIDE; from < CONNECTION_STATES; from++)
        for (unsigned int event = 0; event < CONNECTION_EVENTS; event++)
            assert_true(after(from, event) == STATE_NONE || state_is_aside(after(from, event)));
    for (unsigned int from = STATE_CONNECTING; from < STATE_ASIDE; from++)
        for (unsigned int event = 0; event < CONNECTION_EVENTS; event++)
            assert_false(state_is_aside(after(from, event)));
}

static void a_refusal_is_for_good(void **state)
{
    (void)state;
    for (unsigned int event = 0; event < CONNECTION_EVENTS; event++)
        if (event != ON_RETURN) {
            assert_int_equal(after(STATE_BROKEN, event), STATE_BROKEN);
            assert_int_equal(after(STATE_ASIDE_BROKEN, event), STATE_ASIDE_BROKEN);
        }
}

static void a_call_ends_where_another_may_begin_or_none_does(void **state)
{
    const enum connection_event ends[] = {ON_ANSWER, ON_SILENCE, ON_LOSS};
    (void)state;
    for (unsigned int from = STATE_CONNECTING; from <= STATE_ANSWERING; from++)
        for (unsigned int i = 0; i < 3; i++)
            assert_false(state_is_open(after(from, ends[i])));
    for (unsigned int from = STATE_CONNECTED; from <= STATE_UNANSWERED; from++)
        assert_int_equal(after(from, ON_BEGINNING), STATE_REQUESTED);
}

/* Late or not: threads race, and children answer. */
static void what_is_seen_of_a_connection_says_the_same_whatever_went_before(void **state)
{
    static const struct {
        enum connection_event event;
        enum connection_state to;
    } seen[] = {{ON_REQUEST, STATE_REQUESTED},
                {ON_PART, STATE_ANSWERING},
                {ON_ANSWER, STATE_IDLE},
                {ON_SILENCE, STATE_UNANSWERED},
                {ON_LOSS, STATE_OVER}};
    (void)state;
    for (unsigned int from = STATE_CONNECTED; from <= STATE_UNANSWERED; from++)
        for (size_t i = 0; i < sizeof seen / sizeof *seen; i++)
            if (from != STATE_ANSWERING || seen[i].event != ON_REQUEST) /* more of what is being answered */
                assert_int_equal(after(from, seen[i].event), seen[i].to);
    assert_int_equal(after(STATE_ANSWERING, ON_REQUEST), STATE_ANSWERING);
    assert_int_equal(after(STATE_CONNECTING, ON_SILENCE), STATE_FAILED);
}

static void random_histories_stay_in_the_table(void **state)
{
    uint64_t random = 1;
    unsigned int at = STATE_NONE, seen[CONNECTION_STATES] = {0};
    (void)state;
    for (unsigned int step = 0; step < STEPS; step++) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        at = after(at, (unsigned int)(random >> 33) % CONNECTION_EVENTS);
        assert_true(at < CONNECTION_STATES);
        seen[at]++;
    }
    for (unsigned int each = 0; each < CONNECTION_STATES; each++)
        assert_true(seen[each] > 0);
}

/* --- threads --- */

static struct connection shared;
static _Atomic uint32_t turns, inside, wrong;

/* Sends, and receives its answer if it was the one that began the call. */
static void *call_often(void *unused)
{
    for (unsigned int i = 0; i < CALLS; i++) {
        if (connection_happens(&shared, ON_BEGINNING) != STATE_IDLE)
            continue;
        if (atomic_fetch_add(&inside, 1) != 0)
            atomic_fetch_add(&wrong, 1);
        atomic_fetch_add(&turns, 1);
        atomic_fetch_sub(&inside, 1);
        if (connection_happens(&shared, ON_ANSWER) != STATE_REQUESTED)
            atomic_fetch_add(&wrong, 1);
    }
    return unused;
}

/* Each call is begun by one thread, and it is the only one in it. */
static void of_threads_that_send_at_once_one_begins_the_call(void **state)
{
    pthread_t threads[THREADS];
    (void)state;
    connection_happens(&shared, ON_ATTEMPT);
    connection_happens(&shared, ON_ANSWER);
    for (unsigned int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call_often, NULL), 0);
    for (unsigned int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(connection_state(&shared), STATE_IDLE);
    assert_true(atomic_load(&turns) > 0);
    assert_int_equal(atomic_load(&wrong), 0);
}

/* --- walks --- */

struct step {
    enum connection_event event;
    enum connection_state to;
};

static void walk(const struct step *steps, size_t count)
{
    enum connection_state at = STATE_NONE;
    for (size_t i = 0; i < count; i++) {
        at = state_after(at, steps[i].event);
        assert_int_equal(at, steps[i].to);
    }
}
#define WALK(...)                                                                                                      \
    do {                                                                                                               \
        static const struct step steps[] = {__VA_ARGS__};                                                              \
        walk(steps, sizeof steps / sizeof *steps);                                                                     \
    } while (0)

static void the_walks(void **state)
{
    (void)state;
    /* A connect, a request in two sends, its answer in two parts, and a second request. */
    WALK({ON_ATTEMPT, STATE_CONNECTING}, {ON_CONNECTION, STATE_CONNECTED}, {ON_REQUEST, STATE_REQUESTED},
         {ON_REQUEST, STATE_REQUESTED}, {ON_PART, STATE_ANSWERING}, {ON_ANSWER, STATE_IDLE},
         {ON_BEGINNING, STATE_REQUESTED}, {ON_ANSWER, STATE_IDLE}, {ON_RETURN, STATE_NONE});
    /* A connect that is refused. */
    WALK({ON_ATTEMPT, STATE_CONNECTING}, {ON_LOSS, STATE_FAILED}, {ON_RETURN, STATE_NONE});
    /* A server that speaks first, and a program that gives up on its answer and asks again. */
    WALK({ON_ATTEMPT, STATE_CONNECTING}, {ON_CONNECTION, STATE_CONNECTED}, {ON_ANSWER, STATE_IDLE},
         {ON_BEGINNING, STATE_REQUESTED}, {ON_SILENCE, STATE_UNANSWERED}, {ON_BEGINNING, STATE_REQUESTED});
    /* A kept connection that has gone stale, and one whose request is refused. */
    WALK({ON_ATTEMPT, STATE_CONNECTING}, {ON_ANSWER, STATE_IDLE}, {ON_BEGINNING, STATE_REQUESTED},
         {ON_LOSS, STATE_OVER}, {ON_BEGINNING, STATE_OVER});
    WALK({ON_ATTEMPT, STATE_CONNECTING}, {ON_ANSWER, STATE_IDLE}, {ON_BEGINNING, STATE_REQUESTED},
         {ON_REFUSAL, STATE_BROKEN}, {ON_BEGINNING, STATE_BROKEN});
    /* A send that took nothing. */
    WALK({ON_ATTEMPT, STATE_CONNECTING}, {ON_ANSWER, STATE_IDLE}, {ON_BEGINNING, STATE_REQUESTED},
         {ON_SILENCE, STATE_UNANSWERED}, {ON_WITHDRAWAL, STATE_IDLE});
    /* At the fallback, and back. */
    WALK({ON_DIVERSION, STATE_ASIDE}, {ON_ANSWER, STATE_ASIDE_IDLE}, {ON_BEGINNING, STATE_ASIDE},
         {ON_ANSWER, STATE_ASIDE_IDLE}, {ON_REFUSAL, STATE_ASIDE_BROKEN});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_has_an_answer_that_is_a_state),
        cmocka_unit_test(every_state_is_reached_from_a_record_that_is_nobodys),
        cmocka_unit_test(every_event_moves_something),
        cmocka_unit_test(only_an_attempt_or_a_diversion_takes_a_record_and_a_return_gives_each_back),
        cmocka_unit_test(what_happens_twice_moves_it_once),
        cmocka_unit_test(nothing_leads_back_to_the_attempt_nor_from_its_failure_to_a_call),
        cmocka_unit_test(what_stands_aside_never_bears_a_call),
        cmocka_unit_test(a_refusal_is_for_good),
        cmocka_unit_test(a_call_ends_where_another_may_begin_or_none_does),
        cmocka_unit_test(what_is_seen_of_a_connection_says_the_same_whatever_went_before),
        cmocka_unit_test(random_histories_stay_in_the_table),
        cmocka_unit_test(of_threads_that_send_at_once_one_begins_the_call),
        cmocka_unit_test(the_walks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
