/* TLS sessions from outside: what order and lengths of records tell, and what they leave open. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "breaker/tls_records.h"

#define AES_128 0x1301
#define AES_256 0x1302
#define CCM_8 0x1305
#define OLD_SUITE 0xc02c
#define TICKET 250u /* OpenSSL's, on the wire */
#define OFFERED 208u

enum hello_kind { PLAIN = 0, WITH_PSK = 1, EARLY = 2, TLS_1_3 = 4, RETRY = 8, OTHER_PSK = 16, DRAFT = 32 };

struct bytes {
    uint8_t at[20000];
    size_t count;
};

static void add(struct bytes *bytes, const void *from, size_t count)
{
    assert_true(bytes->count + count <= sizeof bytes->at);
    memcpy(bytes->at + bytes->count, from, count);
    bytes->count += count;
}

static void add_number(struct bytes *bytes, unsigned int number, size_t size)
{
    for (size_t i = size; i-- > 0;)
        add(bytes, &(uint8_t){(uint8_t)(number >> (8 * i))}, 1);
}

static void add_zeros(struct bytes *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        add_number(bytes, 0, 1);
}

/* A record of any content. */
static void add_record(struct bytes *bytes, unsigned int type, size_t length)
{
    add_number(bytes, type, 1);
    add_number(bytes, 0x0303, 2);
    add_number(bytes, (unsigned int)length, 2);
    add_zeros(bytes, length);
}

/* A message of the handshake as a record. */
static void add_message(struct bytes *bytes, unsigned int type, const struct bytes *body)
{
    add_number(bytes, 22, 1);
    add_number(bytes, 0x0301, 2);
    add_number(bytes, (unsigned int)body->count + 4, 2);
    add_number(bytes, type, 1);
    add_number(bytes, (unsigned int)body->count, 3);
    add(bytes, body->at, body->count);
}

static void add_extension(struct bytes *bytes, unsigned int type, size_t length)
{
    add_number(bytes, type, 2);
    add_number(bytes, (unsigned int)length, 2);
}

static const uint8_t retry[] = {0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c,
                                0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb,
                                0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c};

static void add_start(struct bytes *body, const uint8_t *random)
{
    add_number(body, 0x0303, 2);
    for (size_t i = 0; i < TLS_RANDOM_BYTES; i++)
        add_number(body, random ? random[i] : (unsigned int)(i + 7), 1);
    add_number(body, 32, 1);
    add_zeros(body, 32);
}

static void add_client_hello(struct bytes *bytes, int kind)
{
    struct bytes body = {.count = 0}, extensions = {.count = 0};
    add_start(&body, NULL);
    add_number(&body, 4, 2);
    add_number(&body, 0x13011302, 4);
    add_number(&body, 1, 1);
    add_number(&body, 0, 1);
    add_extension(&extensions, 10, 4);
    add_zeros(&extensions, 4);
    if (kind & EARLY)
        add_extension(&extensions, 42, 0);
    if (kind & WITH_PSK) {
        add_extension(&extensions, 41, 2 + 2 + OFFERED + 4 + 2 + 33);
        add_number(&extensions, 2 + OFFERED + 4, 2);
        add_number(&extensions, OFFERED, 2);
        add_zeros(&extensions, OFFERED + 4);
        add_number(&extensions, 33, 2);
        add_zeros(&extensions, 33);
    }
    add_number(&body, (unsigned int)extensions.count, 2);
    add(&body, extensions.at, extensions.count);
    add_message(bytes, 1, &body);
}

static void add_server_hello(struct bytes *bytes, int kind, unsigned int suite)
{
    struct bytes body = {.count = 0}, extensions = {.count = 0};
    add_start(&body, kind & RETRY ? retry : NULL);
    add_number(&body, suite, 2);
    add_number(&body, 0, 1);
    if (kind & TLS_1_3) {
        add_extension(&extensions, 43, 2);
        add_number(&extensions, kind & DRAFT ? 0x7f1c : 0x0304, 2);
    }
    if (kind & WITH_PSK) {
        add_extension(&extensions, 41, 2);
        add_number(&extensions, kind & OTHER_PSK ? 1 : 0, 2);
    }
    add_number(&body, (unsigned int)extensions.count, 2);
    add(&body, extensions.at, extensions.count);
    add_message(bytes, 2, &body);
}

/* --- a session --- */

static struct tls_records session;

/* The program sends, and the server's bytes so far have all been read. */
static void sends(const struct bytes *bytes)
{
    tls_records_sending(&session, session.in.bytes);
    tls_records_sent(&session, bytes->at, bytes->count);
    tls_records_send_is_over(&session);
}

static void sends_data(size_t length)
{
    struct bytes bytes = {.count = 0};
    add_record(&bytes, 23, length);
    sends(&bytes);
}

static void comes(size_t length)
{
    struct bytes bytes = {.count = 0};
    add_record(&bytes, 23, length);
    tls_records_came(&session, bytes.at, bytes.count);
}

static void stands(enum tls_standing standing)
{
    assert_int_equal(tls_records_standing(&session), standing);
}

static void hellos(int kind, unsigned int suite)
{
    struct bytes client = {.count = 0}, server = {.count = 0};
    session = (struct tls_records){0};
    add_client_hello(&client, kind & (WITH_PSK | EARLY));
    add_server_hello(&server, kind, suite);
    sends(&client);
    tls_records_came(&session, server.at, server.count);
}

/* Up to the server's Finished. */
static void server_flight(int kind, unsigned int suite)
{
    struct bytes flight = {.count = 0};
    hellos(kind | TLS_1_3, suite);
    add_record(&flight, 20, 1);
    add_record(&flight, 23, 23);
    if (!(kind & WITH_PSK)) {
        add_record(&flight, 23, 496);
        add_record(&flight, 23, 96);
    }
    add_record(&flight, 23, suite == AES_256 ? 69 : 53);
    tls_records_came(&session, flight.at, flight.count);
    if (!session.is_lost)
        stands(RECORDS_HANDSHAKE);
}

static void finishes(size_t length)
{
    struct bytes bytes = {.count = 0};
    add_record(&bytes, 20, 1);
    add_record(&bytes, 23, length);
    sends(&bytes);
}

static void shaken_hands(int kind)
{
    server_flight(kind, AES_256);
    finishes(69);
    stands(RECORDS_READY);
}

/* --- TLS 1.3 --- */

static void a_request_without_an_answer_has_asked(void **state)
{
    (void)state;
    shaken_hands(PLAIN);
    sends_data(100);
    stands(RECORDS_ASKED);
}

static void two_tickets_behind_the_request_are_no_answer(void **state)
{
    (void)state;
    shaken_hands(PLAIN);
    sends_data(100);
    comes(TICKET);
    stands(RECORDS_HELD);
    comes(TICKET);
    stands(RECORDS_ASKED);
    sends_data(100); /* the rest of the request */
    stands(RECORDS_ASKED);
    comes(500);
    stands(RECORDS_ANSWERED);
}

static void tickets_that_came_before_are_none_either(void **state)
{
    (void)state;
    shaken_hands(PLAIN);
    comes(TICKET);
    stands(RECORDS_READY);
    comes(TICKET);
    stands(RECORDS_READY);
    sends_data(100);
    stands(RECORDS_ASKED);
    comes(TICKET);
    stands(RECORDS_ANSWERED);
}

static void one_ticket_before_and_one_behind_are_no_answer(void **state)
{
    (void)state;
    shaken_hands(PLAIN);
    comes(TICKET);
    sends_data(100);
    comes(TICKET);
    stands(RECORDS_ASKED);
}

static void what_had_come_unread_before_the_request_is_no_answer(void **state)
{
    struct bytes request = {.count = 0};
    (void)state;
    shaken_hands(PLAIN);
    add_record(&request, 23, 100);
    tls_records_sending(&session, session.in.bytes + TLS_HEADER_BYTES + 77);
    tls_records_sent(&session, request.at, request.count);
    tls_records_send_is_over(&session);
    comes(77); /* any other server's ticket */
    stands(RECORDS_ASKED);
    comes(77);
    stands(RECORDS_ANSWERED);
}

static void one_record_may_be_a_late_ticket_or_the_answer(void **state)
{
    (void)state;
    shaken_hands(PLAIN);
    sends_data(100);
    comes(TICKET);
    stands(RECORDS_HELD);
    sends_data(100); /* the next request */
    stands(RECORDS_ANSWERED);
    comes(TICKET); /* whose answer has the same length */
    stands(RECORDS_ANSWERED);
}

static void records_that_are_no_tickets_are_an_answer(void **state)
{
    const size_t lengths[] = {19, 22, 35, 58, 73, 75, 249, 251, 252, 4186, 16401};
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        shaken_hands(PLAIN);
        sends_data(100);
        comes(lengths[i]);
        stands(RECORDS_ANSWERED);
    }
}

static void two_records_of_two_lengths_are_an_answer(void **state)
{
    (void)state;
    shaken_hands(PLAIN);
    sends_data(100);
    comes(TICKET);
    comes(TICKET + 16);
    stands(RECORDS_ANSWERED);
}

static void a_third_ticket_may_be_the_answer(void **state)
{
    (void)state;
    shaken_hands(PLAIN);
    sends_data(100);
    for (int i = 0; i < 3; i++)
        comes(TICKET);
    stands(RECORDS_ANSWERED);
}

static void half_an_answer_is_one(void **state)
{
    struct bytes answer = {.count = 0};
    (void)state;
    shaken_hands(PLAIN);
    sends_data(100);
    add_record(&answer, 23, 16401);
    tls_records_came(&session, answer.at, 4);
    stands(RECORDS_ASKED);
    assert_false(tls_records_saw_all(&session, session.in.bytes)); /* nor is that silence */
    tls_records_came(&session, answer.at + 4, 100);
    stands(RECORDS_ANSWERED);
}

static void a_resumed_session_has_one_ticket_as_long_as_the_one_before(void **state)
{
    (void)state;
    shaken_hands(WITH_PSK);
    sends_data(100);
    comes(OFFERED + 42);
    stands(RECORDS_ASKED);
    comes(OFFERED + 42);
    stands(RECORDS_ANSWERED);

    shaken_hands(WITH_PSK);
    sends_data(100);
    comes(OFFERED + 42 + 8); /* that allows early data */
    stands(RECORDS_ASKED);

    shaken_hands(WITH_PSK);
    sends_data(100);
    comes(OFFERED + 42 + 16);
    stands(RECORDS_ANSWERED);

    shaken_hands(WITH_PSK | OTHER_PSK);
    sends_data(100);
    comes(OFFERED + 42);
    stands(RECORDS_ANSWERED);
}

static void a_request_that_goes_with_the_finished_has_asked(void **state)
{
    struct bytes bytes = {.count = 0};
    (void)state;
    server_flight(PLAIN, AES_128);
    add_record(&bytes, 20, 1);
    add_record(&bytes, 23, 53);
    add_record(&bytes, 23, 100);
    sends(&bytes);
    stands(RECORDS_ASKED);
    comes(500);
    stands(RECORDS_ANSWERED);
}

static void an_answer_that_comes_while_the_send_is_under_way_is_one(void **state)
{
    struct bytes bytes = {.count = 0};
    (void)state;
    server_flight(PLAIN, AES_128);
    add_record(&bytes, 23, 53);
    add_record(&bytes, 23, 100);
    tls_records_sending(&session, session.in.bytes);
    comes(500);
    stands(RECORDS_HANDSHAKE);
    tls_records_sent(&session, bytes.at, bytes.count);
    tls_records_send_is_over(&session);
    stands(RECORDS_ANSWERED);
}

static void the_servers_hello_may_be_read_before_the_clients_is_told_of(void **state)
{
    struct bytes client = {.count = 0}, server = {.count = 0};
    (void)state;
    session = (struct tls_records){0};
    add_client_hello(&client, WITH_PSK);
    add_server_hello(&server, TLS_1_3 | WITH_PSK, AES_128);
    tls_records_came(&session, server.at, server.count);
    sends(&client);
    finishes(53);
    sends_data(100);
    comes(OFFERED + 42);
    stands(RECORDS_ASKED);
}

static void of_two_sends_at_once_nobody_knows_which_one_asked(void **state)
{
    (void)state;
    shaken_hands(PLAIN);
    tls_records_sending(&session, session.in.bytes);
    tls_records_sending(&session, session.in.bytes);
    stands(RECORDS_LOST);
}

static void javas_padding_is_known_by_its_finished(void **state)
{
    (void)state;
    server_flight(PLAIN, AES_256);
    finishes(69 + 16);
    stands(RECORDS_READY);
    sends_data(19 + 16); /* goodbye, or a key update */
    sends_data(22 + 16);
    stands(RECORDS_READY);
    sends_data(19);
    stands(RECORDS_ASKED);
}

static void alerts_and_key_updates_ask_for_nothing(void **state)
{
    (void)state;
    shaken_hands(PLAIN);
    sends_data(19);
    sends_data(22);
    stands(RECORDS_READY);
    comes(22);
    stands(RECORDS_ANSWERED); /* or two bytes more than nothing: who knows */
}

static void a_server_that_speaks_first_is_heard(void **state)
{
    (void)state;
    shaken_hands(PLAIN);
    comes(TICKET);
    comes(TICKET);
    stands(RECORDS_READY);
    comes(100);
    stands(RECORDS_ANSWERED);
}

static void a_clients_certificate_goes_before_its_finished(void **state)
{
    (void)state;
    server_flight(PLAIN, AES_256);
    sends_data(1200);
    sends_data(280);
    stands(RECORDS_HANDSHAKE);
    sends_data(69);
    stands(RECORDS_READY);
    sends_data(100);
    stands(RECORDS_ASKED);
}

static void a_finished_that_is_not_recognised_leaves_nothing_to_tell(void **state)
{
    (void)state;
    server_flight(PLAIN, AES_256);
    sends_data(1500); /* all in one record */
    comes(TICKET);
    stands(RECORDS_LOST);

    server_flight(PLAIN, AES_256);
    for (int i = 0; i < 4; i++)
        sends_data(1500);
    stands(RECORDS_LOST);

    server_flight(PLAIN, CCM_8);
    finishes(45);
    stands(RECORDS_LOST);
}

static void early_data_leaves_nothing_to_tell(void **state)
{
    struct bytes bytes = {.count = 0};
    (void)state;
    hellos(WITH_PSK | EARLY | TLS_1_3, AES_256);
    stands(RECORDS_LOST);
    session = (struct tls_records){0};
    add_client_hello(&bytes, PLAIN);
    add_record(&bytes, 23, 100);
    sends(&bytes);
    stands(RECORDS_LOST);
}

static void a_retry_makes_both_say_hello_again(void **state)
{
    struct bytes bytes = {.count = 0}, server = {.count = 0};
    (void)state;
    hellos(RETRY | TLS_1_3, AES_128);
    stands(RECORDS_HANDSHAKE);
    add_record(&bytes, 20, 1);
    add_client_hello(&bytes, WITH_PSK);
    sends(&bytes);
    add_server_hello(&server, TLS_1_3 | WITH_PSK, AES_256);
    add_record(&server, 23, 69);
    tls_records_came(&session, server.at, server.count);
    finishes(69);
    sends_data(100);
    comes(OFFERED + 42);
    stands(RECORDS_ASKED);
}

static void an_unknown_version_leaves_nothing_to_tell(void **state)
{
    (void)state;
    hellos(TLS_1_3 | DRAFT, AES_128);
    stands(RECORDS_LOST);
}

static void an_alert_in_the_handshake_rejects(void **state)
{
    (void)state;
    server_flight(PLAIN, AES_256);
    sends_data(19);
    stands(RECORDS_REJECTED);
}

/* --- TLS 1.2 --- */

static void handshake_1_2(void)
{
    struct bytes client = {.count = 0}, server = {.count = 0};
    hellos(PLAIN, OLD_SUITE);
    stands(RECORDS_HANDSHAKE);
    add_record(&server, 22, 500);
    add_record(&server, 22, 4);
    tls_records_came(&session, server.at, server.count);
    add_record(&client, 22, 37);
    add_record(&client, 20, 1);
    add_record(&client, 22, 40);
    sends(&client);
    server.count = 0;
    add_record(&server, 22, 186); /* its ticket */
    add_record(&server, 20, 1);
    add_record(&server, 22, 40);
    tls_records_came(&session, server.at, server.count);
    stands(RECORDS_READY);
}

static void in_tls_1_2_the_types_tell(void **state)
{
    (void)state;
    handshake_1_2();
    sends_data(40);
    stands(RECORDS_ASKED);
    comes(40);
    stands(RECORDS_ANSWERED);

    struct bytes alert = {.count = 0};
    handshake_1_2();
    add_record(&alert, 21, 26);
    sends_data(40);
    tls_records_came(&session, alert.at, alert.count);
    stands(RECORDS_ASKED); /* a goodbye is no answer */
}

static void an_alert_before_the_end_of_the_handshake_is_an_answer(void **state)
{
    struct bytes bytes = {.count = 0}, alert = {.count = 0};
    (void)state;
    session = (struct tls_records){0};
    add_client_hello(&bytes, PLAIN);
    sends(&bytes);
    add_record(&alert, 21, 2);
    tls_records_came(&session, alert.at, alert.count);
    stands(RECORDS_ANSWERED);

    hellos(PLAIN, OLD_SUITE);
    sends(&alert);
    stands(RECORDS_REJECTED);
}

/* --- any --- */

static void what_is_no_record_leaves_nothing_to_tell(void **state)
{
    const uint8_t others[][5] = {
        {19, 3, 3, 0, 1}, {24, 3, 3, 0, 1}, {23, 2, 3, 0, 1}, {23, 3, 5, 0, 1}, {23, 3, 3, 0x48, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        shaken_hands(PLAIN);
        tls_records_came(&session, others[i], 5);
        stands(RECORDS_LOST);
    }
}

static void the_clients_random_is_known(void **state)
{
    (void)state;
    hellos(PLAIN, OLD_SUITE);
    assert_true(session.has_random);
    for (size_t i = 0; i < TLS_RANDOM_BYTES; i++)
        assert_int_equal(session.random[i], i + 7);
}

static void pieces_make_no_difference(void **state)
{
    struct bytes client = {.count = 0}, server = {.count = 0}, request = {.count = 0};
    struct tls_records whole;
    (void)state;
    add_client_hello(&client, WITH_PSK);
    add_server_hello(&server, TLS_1_3 | WITH_PSK, AES_128);
    add_record(&server, 23, 53);
    add_record(&request, 23, 53);
    add_record(&request, 23, 100);
    for (size_t piece = 0; piece < 40; piece++) {
        session = (struct tls_records){0};
        const struct bytes *turns[] = {&client, &server, &request};
        for (size_t turn = 0; turn < 3; turn++) {
            if (turn != 1)
                tls_records_sending(&session, session.in.bytes);
            for (size_t from = 0, part; from < turns[turn]->count; from += part) {
                part = piece == 0 || piece > turns[turn]->count - from ? turns[turn]->count - from : piece;
                if (turn == 1)
                    tls_records_came(&session, turns[turn]->at + from, part);
                else
                    tls_records_sent(&session, turns[turn]->at + from, part);
            }
            tls_records_send_is_over(&session);
        }
        comes(OFFERED + 42);
        stands(RECORDS_ASKED);
        if (piece == 0)
            whole = session;
        assert_memory_equal(&session, &whole, sizeof whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_without_an_answer_has_asked),
        cmocka_unit_test(two_tickets_behind_the_request_are_no_answer),
        cmocka_unit_test(tickets_that_came_before_are_none_either),
        cmocka_unit_test(one_ticket_before_and_one_behind_are_no_answer),
        cmocka_unit_test(what_had_come_unread_before_the_request_is_no_answer),
        cmocka_unit_test(one_record_may_be_a_late_ticket_or_the_answer),
        cmocka_unit_test(records_that_are_no_tickets_are_an_answer),
        cmocka_unit_test(two_records_of_two_lengths_are_an_answer),
        cmocka_unit_test(a_third_ticket_may_be_the_answer),
        cmocka_unit_test(half_an_answer_is_one),
        cmocka_unit_test(a_resumed_session_has_one_ticket_as_long_as_the_one_before),
        cmocka_unit_test(a_request_that_goes_with_the_finished_has_asked),
        cmocka_unit_test(an_answer_that_comes_while_the_send_is_under_way_is_one),
        cmocka_unit_test(the_servers_hello_may_be_read_before_the_clients_is_told_of),
        cmocka_unit_test(of_two_sends_at_once_nobody_knows_which_one_asked),
        cmocka_unit_test(javas_padding_is_known_by_its_finished),
        cmocka_unit_test(alerts_and_key_updates_ask_for_nothing),
        cmocka_unit_test(a_server_that_speaks_first_is_heard),
        cmocka_unit_test(a_clients_certificate_goes_before_its_finished),
        cmocka_unit_test(a_finished_that_is_not_recognised_leaves_nothing_to_tell),
        cmocka_unit_test(early_data_leaves_nothing_to_tell),
        cmocka_unit_test(a_retry_makes_both_say_hello_again),
        cmocka_unit_test(an_unknown_version_leaves_nothing_to_tell),
        cmocka_unit_test(an_alert_in_the_handshake_rejects),
        cmocka_unit_test(in_tls_1_2_the_types_tell),
        cmocka_unit_test(an_alert_before_the_end_of_the_handshake_is_an_answer),
        cmocka_unit_test(what_is_no_record_leaves_nothing_to_tell),
        cmocka_unit_test(the_clients_random_is_known),
        cmocka_unit_test(pieces_make_no_difference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
