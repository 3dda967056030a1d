/*
 * test_notify_judge.c - what sockets' counters say, as the kernel told them of connections on loopback and across a
 * black hole.
 *
 * links: command
 */
#include <errno.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/units.h"
#include "notify/judge.h"

#define OLD 4000000u /* nothing was ever sent, or came */

static const struct story plain = {.has_facts = true, .age_ns = 5 * NS_PER_MS};

static void check(struct judged judged, enum phase phase, enum seen seen, int error)
{
    assert_true(judged.ended);
    assert_false(judged.unknown);
    assert_int_equal(judged.phase, phase);
    assert_int_equal(judged.seen, seen);
    assert_int_equal(judged.error, error);
}

static void one_that_never_left_this_host_is_local(void **state)
{
    (void)state;
    const struct socket_facts facts = {.state = TCP_CLOSE, .min_rtt_us = UINT32_MAX};
    check(judge_gone(&facts, &plain), PHASE_CONNECTING, SEEN_ERROR, EADDRNOTAVAIL);
}

static void a_blocking_connect_that_failed_is_cleared_and_its_age_tells_why(void **state)
{
    (void)state;
    const struct socket_facts facts = {
        .state = TCP_CLOSE, .port = 40000, .min_rtt_us = UINT32_MAX, .last_sent_ms = OLD, .last_received_ms = OLD};
    struct story story = plain;
    check(judge_gone(&facts, &story), PHASE_CONNECTING, SEEN_ERROR, ECONNREFUSED);
    story.age_ns = 3 * NS_PER_S;
    check(judge_gone(&facts, &story), PHASE_CONNECTING, SEEN_ERROR, EHOSTUNREACH);
    story.age_ns = 130 * NS_PER_S;
    check(judge_gone(&facts, &story), PHASE_CONNECTING, SEEN_ERROR, ETIMEDOUT);
}

static void one_that_was_closed_without_lingering_is_cleared_too_and_was_connected(void **state)
{
    (void)state;
    struct socket_facts facts = {.state = TCP_CLOSE,
                                 .port = 40000,
                                 .send_window = 65536,
                                 .min_rtt_us = 30,
                                 .last_sent_ms = OLD,
                                 .last_received_ms = OLD};
    check(judge_gone(&facts, &plain), PHASE_CONNECTED, SEEN_GAVE_UP, 0);
    facts.last_sent_ms = 4;
    check(judge_gone(&facts, &plain), PHASE_REQUESTED, SEEN_GAVE_UP, 0);
    facts.last_received_ms = 4;
    check(judge_gone(&facts, &plain), PHASE_ANSWERED, SEEN_BYTES, 0);
}

static void a_pending_connect_that_got_a_segment_was_refused_and_one_that_got_none_was_given_up(void **state)
{
    (void)state;
    struct socket_facts facts = {.state = TCP_CLOSE, .port = 40000, .peer = 80, .min_rtt_us = UINT32_MAX, .segs_in = 1};
    check(judge_gone(&facts, &plain), PHASE_CONNECTING, SEEN_ERROR, ECONNREFUSED);
    facts.segs_in = 0;
    check(judge_gone(&facts, &plain), PHASE_CONNECTING, SEEN_GAVE_UP, 0);
}

static const struct socket_facts talked = {.state = TCP_CLOSE,
                                           .port = 40000,
                                           .peer = 80,
                                           .bytes_acked = 20,
                                           .bytes_sent = 18,
                                           .bytes_received = 41,
                                           .segs_in = 4,
                                           .data_segs_in = 1,
                                           .min_rtt_us = 30};

static void bytes_in_a_segment_of_data_are_an_answer(void **state)
{
    (void)state;
    struct socket_facts facts = talked;
    check(judge_gone(&facts, &plain), PHASE_ANSWERED, SEEN_BYTES, 0);
    facts.state = TCP_ESTABLISHED;
    check(judge_standing(&facts, &plain), PHASE_ANSWERED, SEEN_BYTES, 0);
}

static void an_end_is_a_byte_and_no_data_and_a_segment_that_came_twice_data_and_no_byte(void **state)
{
    (void)state;
    struct socket_facts facts = talked;
    struct story story = plain;
    facts.bytes_received = 1;
    facts.data_segs_in = 0;
    check(judge_gone(&facts, &story), PHASE_REQUESTED, SEEN_END, 0);
    facts.state = TCP_ESTABLISHED;
    facts.bytes_received = 40;
    facts.data_segs_in = 2;
    story.received = 40;
    story.data_segs = 1;
    assert_false(judge_standing(&facts, &story).ended);
}

static void who_ended_first_tells_an_early_close_from_a_program_that_gave_up(void **state)
{
    (void)state;
    struct socket_facts facts = talked;
    struct story story = plain;
    facts.bytes_received = 1;
    facts.data_segs_in = 0;
    story.pauses = true;
    check(judge_gone(&facts, &story), PHASE_REQUESTED, SEEN_GAVE_UP, 0);
    story.pauses = false;
    story.program_ended_first = true;
    check(judge_gone(&facts, &story), PHASE_REQUESTED, SEEN_GAVE_UP, 0);
    story.peer_ended_first = true;
    check(judge_gone(&facts, &story), PHASE_REQUESTED, SEEN_END, 0);
    facts.bytes_sent = 0;
    facts.bytes_acked = 2;
    check(judge_gone(&facts, &story), PHASE_CONNECTED, SEEN_END, 0);
}

static void a_peer_that_took_no_end_of_ours_has_reset(void **state)
{
    (void)state;
    struct socket_facts facts = talked;
    facts.bytes_received = 0;
    facts.data_segs_in = 0;
    facts.bytes_acked = 19;
    check(judge_gone(&facts, &plain), PHASE_REQUESTED, SEEN_ERROR, ECONNRESET);
    facts.bytes_sent = 0;
    facts.bytes_acked = 1;
    check(judge_gone(&facts, &plain), PHASE_CONNECTED, SEEN_ERROR, ECONNRESET);
}

static void what_is_sent_again_asks_nothing_more(void **state)
{
    (void)state;
    struct socket_facts facts = talked;
    const struct story story = {.has_facts = true, .was_connected = true, .asked = 18, .received = 41, .data_segs = 1};
    facts.state = TCP_ESTABLISHED;
    facts.bytes_sent = 36;
    facts.bytes_retrans = 18;
    assert_int_equal(judge_standing(&facts, &story).phase, PHASE_CONNECTED);
    facts.bytes_sent = 54;
    assert_int_equal(judge_standing(&facts, &story).phase, PHASE_REQUESTED);
}

static void of_an_end_without_any_counters_nobody_can_tell(void **state)
{
    (void)state;
    const struct socket_facts facts = {0};
    const struct story story = {.was_connected = true};
    assert_true(judge_gone(&facts, &story).unknown);
    assert_true(judge_gone(&facts, &story).ended);
}

static void a_pending_connect_that_has_failed_says_why_by_what_came(void **state)
{
    (void)state;
    struct socket_facts facts = {.state = TCP_SYN_SENT, .port = 40000, .peer = 80};
    assert_int_equal(judge_connect_error(&facts, NS_PER_MS), 0);
    facts.state = TCP_CLOSE;
    assert_int_equal(judge_connect_error(&facts, NS_PER_S), EHOSTUNREACH);
    assert_int_equal(judge_connect_error(&facts, 130 * NS_PER_S), ETIMEDOUT);
    facts.segs_in = 1;
    assert_int_equal(judge_connect_error(&facts, NS_PER_MS), ECONNREFUSED);
    facts.bytes_acked = 1;
    assert_int_equal(judge_connect_error(&facts, NS_PER_MS), ECONNRESET);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_never_left_this_host_is_local),
        cmocka_unit_test(a_blocking_connect_that_failed_is_cleared_and_its_age_tells_why),
        cmocka_unit_test(one_that_was_closed_without_lingering_is_cleared_too_and_was_connected),
        cmocka_unit_test(a_pending_connect_that_got_a_segment_was_refused_and_one_that_got_none_was_given_up),
        cmocka_unit_test(bytes_in_a_segment_of_data_are_an_answer),
        cmocka_unit_test(an_end_is_a_byte_and_no_data_and_a_segment_that_came_twice_data_and_no_byte),
        cmocka_unit_test(who_ended_first_tells_an_early_close_from_a_program_that_gave_up),
        cmocka_unit_test(a_peer_that_took_no_end_of_ours_has_reset),
        cmocka_unit_test(what_is_sent_again_asks_nothing_more),
        cmocka_unit_test(of_an_end_without_any_counters_nobody_can_tell),
        cmocka_unit_test(a_pending_connect_that_has_failed_says_why_by_what_came),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
