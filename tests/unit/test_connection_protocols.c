/*
 * test_connection_protocols.c - what the bytes say of requests and answers: HTTP/1, HTTP/2, uploads, TLS, a cancel
 * request; on a kernel that goes by a script. links: connection
 */
#include "support_engine.h"

#include <string.h>

#include "connection/tls_sessions.h"
#include "connection/upload.h"

#define MS NS_PER_MS
#define GET "GET / HTTP/1.1\r\nHost: db\r\n\r\n"
#define OK "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
#define UNAVAILABLE "HTTP/1.1 503 Service Unavailable\r\n\r\n"

static void brings(int fd, const char *text)
{
    kernel_brings(fd, text, strlen(text));
    program_receive(fd);
}

/* --- HTTP/1 --- */

static void the_status_of_an_answer_decides(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_connected();
    program_calls(fd, GET, OK);
    SUCCEEDED(1);
    program_calls(fd, GET, UNAVAILABLE);
    FAILED(FAILURE_HTTP, 1);
    program_calls(fd, GET, "HTTP/1.1 404 Not Found\r\n\r\n");
    assert_int_equal(counted(COUNT_BUSINESS), 1);
    program_calls(fd, GET, OK);
    SUCCEEDED(2);
    ADMITTED(4);
}

static void an_answer_in_pieces_is_judged_when_its_status_is_known(void **state)
{
    static const char head[] = "HTTP/1.1 503 Service Unavailable\r\n";
    (void)state;
    bench_policy("");
    int fd = program_connected();
    program_calls(fd, GET, OK);
    program_send(fd, GET);
    for (size_t i = 0; i < sizeof head - 1; i++) {
        OUTCOMES(1);
        kernel_brings(fd, head + i, 1);
        program_receive(fd);
    }
    brings(fd, "\r\n");
    FAILED(FAILURE_HTTP, 1);
    OUTCOMES(2);
}

static void an_interim_answer_is_not_the_answer(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_connected();
    program_send(fd, GET);
    brings(fd, "HTTP/1.1 100 Continue\r\n\r\n");
    OUTCOMES(0);
    brings(fd, UNAVAILABLE);
    FAILED(FAILURE_HTTP, 1);
    program_send(fd, GET);
    brings(fd, "HTTP/1.1 100 Continue\r\n\r\n");
    kernel_peer_ends(fd);
    program_receive(fd);
    OUTCOMES(2);
}

static void an_answer_that_breaks_off_in_its_head_is_judged_by_what_came(void **state)
{
    (void)state;
    bench_policy("");
    int ended = program_connected(), closed = program_connected(), short_of_it = program_connected();
    program_send(ended, GET);
    brings(ended, "HTTP/1.1 503 Service Unavailable\r\nServ");
    kernel_peer_ends(ended);
    program_receive(ended);
    FAILED(FAILURE_HTTP, 1);
    program_send(closed, GET);
    brings(closed, "HTTP/1.1 200 OK\r\nContent");
    program_close(closed);
    SUCCEEDED(1);
    program_send(short_of_it, GET);
    brings(short_of_it, "HTTP/1.1 5");
    kernel_fails(short_of_it, ECONNRESET);
    program_receive(short_of_it);
    OUTCOMES(3);
}

static void a_peek_does_not_read_on(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_connected();
    program_send(fd, GET);
    kernel_brings(fd, "HTTP/1.1 ", 9);
    program_receive_flags(fd, MSG_PEEK);
    program_receive(fd);
    OUTCOMES(0);
    brings(fd, "503 \r\n\r\n");
    FAILED(FAILURE_HTTP, 1);
}

static void after_an_upgrade_requests_are_told_apart_no_more(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_connected();
    program_calls(fd, GET, "HTTP/1.1 101 Switching Protocols\r\n\r\n");
    SUCCEEDED(1);
    program_calls(fd, REQUEST, ANSWER);
    program_calls(fd, REQUEST, ANSWER);
    program_close(fd);
    ADMITTED(1);
    OUTCOMES(1);
}

static void what_is_no_http2_behind_its_preface_is_one_call(void **state)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    (void)state;
    bench_policy("");
    int fd = program_connected();
    program_calls(fd, preface, "settings");
    for (unsigned int i = 0; i < 3; i++) {
        program_send(fd, "frame");
        brings(fd, "frame");
    }
    kernel_peer_ends(fd);
    program_receive(fd);
    program_close(fd);
    ADMITTED(1);
    OUTCOMES(1);
}

/* --- requests that take time --- */

#define POST "POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\n"

static void while_a_request_is_not_whole_nobody_waits_for_an_answer(void **state)
{
    (void)state;
    bench_policy("response_timeout = 2s\n");
    int fd = program_connected();
    program_calls(fd, GET, OK);
    program_send(fd, POST "12345");
    kernel_pass_ns(5 * NS_PER_S);
    program_close(program_connected());
    assert_int_equal(counted(COUNT_OVERDUE), 0);
    program_send(fd, "67890");
    kernel_pass_ns(1 * NS_PER_S);
    program_close(program_connected());
    assert_int_equal(counted(COUNT_OVERDUE), 0);
    kernel_pass_ns(1 * NS_PER_S);
    program_close(program_connected());
    assert_int_equal(counted(COUNT_OVERDUE), 1);
    brings(fd, OK);
    assert_int_equal(counted(COUNT_OVERDUE_ENDED), 1);
    ADMITTED(5);
}

static void an_answer_before_the_request_is_whole_is_its_answer_and_the_rest_of_it_no_call(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_connected();
    program_send(fd, POST "12345");
    brings(fd, "HTTP/1.1 413 Content Too Large\r\n\r\n");
    assert_int_equal(counted(COUNT_BUSINESS), 1);
    program_send(fd, "67890");
    ADMITTED(1);
    program_calls(fd, GET, OK);
    ADMITTED(2);
}

static void a_program_that_pauses_in_its_request_and_gives_up_has_not_waited_for_its_peer(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_connected();
    program_calls(fd, GET, OK);
    program_send(fd, POST "12345");
    kernel_pass_ns(5 * NS_PER_S);
    program_close(fd);
    NEUTRAL(NEUTRAL_CANCELLED, 1);
}

static void a_large_request_that_the_peer_still_takes_is_not_overdue(void **state)
{
    static char large[4 * UPLOAD_LARGE];
    (void)state;
    bench_policy("response_timeout = 2s\n");
    int fd = program_kept();
    program_send_bytes(fd, large, sizeof large, 0);
    kernel_socket(fd)->unsent = UPLOAD_LARGE;
    kernel_pass_ns(1900 * MS);
    kernel_socket(fd)->ack_ns = kernel_socket(fd)->sent_ns = kernel.now_ns;
    kernel_pass_ns(1900 * MS);
    program_close(program_connected());
    assert_int_equal(counted(COUNT_OVERDUE), 0);
    kernel_pass_ns(1900 * MS);
    program_close(program_connected());
    assert_int_equal(counted(COUNT_OVERDUE), 1);
}

/* --- what is answered by an end --- */

static void the_end_of_the_stream_answers_a_cancel_request(void **state)
{
    static const unsigned char cancel[16] = {0, 0, 0, 16, 0x04, 0xd2, 0x16, 0x2e};
    (void)state;
    bench_policy("");
    int fd = program_connected();
    program_send_bytes(fd, cancel, sizeof cancel, 0);
    kernel_peer_ends(fd);
    program_receive(fd);
    SUCCEEDED(1);
    program_close(fd);
    OUTCOMES(1);
}

static void what_only_resembles_one_is_not_answered_by_an_end(void **state)
{
    static const unsigned char alike[][16] = {
        {0, 0, 0, 15, 0x04, 0xd2, 0x16, 0x2e}, /* another length */
        {0, 0, 0, 16, 0x04, 0xd2, 0x16, 0x2f}, /* and another request: for TLS */
    };
    (void)state;
    bench_policy("failure_threshold = 100\n");
    for (size_t i = 0; i < 2; i++) {
        int fd = program_connected();
        program_send_bytes(fd, alike[i], sizeof alike[i], 0);
        kernel_peer_ends(fd);
        program_receive(fd);
        FAILED(FAILURE_EARLY_CLOSE, i + 1);
    }
}

static void or_whatever_was_asked_where_the_policy_says_so(void **state)
{
    (void)state;
    bench_policy("success = close\n");
    int fd = program_connected();
    program_send(fd, REQUEST);
    kernel_peer_ends(fd);
    program_receive(fd);
    SUCCEEDED(1);
}

/* --- TLS --- */

static const unsigned char hello[] = {22, 3, 1, 0, 5, 'h', 'e', 'l', 'l', 'o'};
static const unsigned char record[] = {23, 3, 3, 0, 40, 'd', 'a', 't', 'a'};
static const unsigned char alert[] = {21, 3, 3, 0, 2, 2, 48};
static const unsigned char sealed_alert[] = {23, 3, 3, 0, 19, 'e'};
static int session; /* its address is the library's session */

static void tls_sends(int fd, enum tls_doing doing, const void *bytes, size_t count)
{
    struct tls_thread outer;
    tls_enter(&session, doing, &outer);
    assert_int_equal(program_send_bytes(fd, bytes, count, 0), count);
    tls_leave(&outer, &fd);
}

static void tls_receives(int fd, enum tls_doing doing, const void *bytes, size_t count)
{
    struct tls_thread outer;
    kernel_brings(fd, bytes, count);
    tls_enter(&session, doing, &outer);
    assert_int_equal(program_receive(fd), count);
    tls_leave(&outer, &fd);
}

/* What a program writes into its session, which sends it at once; or keeps it. */
static void tls_writes(int fd, const char *text, bool kept)
{
    struct tls_thread outer;
    int used = fd;
    tls_enter(&session, TLS_WRITE, &outer);
    if (!kept)
        assert_int_equal(program_send_bytes(fd, record, sizeof record, 0), sizeof record);
    descriptor entry = tls_leave(&outer, &used);
    connection_asked(entry, used, text, strlen(text), kept);
}

static void tls_reads(int fd, const char *text)
{
    struct tls_thread outer;
    int used = fd;
    kernel_brings(fd, (const char *)record, sizeof record);
    tls_enter(&session, TLS_READ, &outer);
    program_receive(fd);
    descriptor entry = tls_leave(&outer, &used);
    connection_answered(entry, used, text, strlen(text));
}

static int tls_connected(void)
{
    int fd = program_connected();
    tls_sends(fd, TLS_HANDSHAKE, hello, sizeof hello);
    tls_receives(fd, TLS_HANDSHAKE, hello, sizeof hello);
    return fd;
}

static void inside_tls_the_plaintext_is_the_answer_and_not_what_comes_over_the_wire(void **state)
{
    (void)state;
    bench_policy("");
    int fd = tls_connected();
    OUTCOMES(0);
    tls_writes(fd, GET, false);
    tls_receives(fd, TLS_READ, record, sizeof record); /* session tickets */
    OUTCOMES(0);
    tls_reads(fd, UNAVAILABLE);
    FAILED(FAILURE_HTTP, 1);
    tls_writes(fd, GET, false);
    ADMITTED(2);
    tls_reads(fd, OK);
    SUCCEEDED(1);
    ADMITTED(2);
    kernel_pass_ns(NS_PER_S);
    tls_sends(fd, TLS_NOTHING, sealed_alert, sizeof sealed_alert); /* the goodbye is no request */
    program_close(fd);
    ADMITTED(2);
    OUTCOMES(2);
}

static void what_the_library_keeps_is_asked_when_it_is_sent(void **state)
{
    (void)state;
    bench_policy("");
    int fd = tls_connected();
    tls_writes(fd, GET, false);
    tls_reads(fd, OK);
    tls_writes(fd, GET, true);
    ADMITTED(1);
    program_send_bytes(fd, record, sizeof record, 0);
    ADMITTED(2);
    tls_reads(fd, OK);
    SUCCEEDED(2);
}

static void a_goodbye_after_a_long_wait_gives_it_up(void **state)
{
    (void)state;
    bench_policy("");
    int fd = tls_connected();
    tls_writes(fd, GET, false);
    kernel_pass_ns(NS_PER_S);
    tls_sends(fd, TLS_WRITE, sealed_alert, sizeof sealed_alert);
    kernel_peer_ends(fd);
    tls_receives(fd, TLS_READ, alert, sizeof alert);
    program_receive(fd);
    FAILED(FAILURE_RESPONSE_TIMEOUT, 1);
    program_close(fd);
    OUTCOMES(1);
}

static void who_rejects_its_peers_certificate_has_ended_the_connection_itself(void **state)
{
    (void)state;
    bench_policy("");
    int fd = tls_connected();
    tls_sends(fd, TLS_HANDSHAKE, alert, sizeof alert);
    kernel_fails(fd, ECONNRESET);
    program_receive(fd);
    program_close(fd);
    assert_int_equal(counted(COUNT_FAILED), 0);
    OUTCOMES(1);
}

static void of_tls_inside_the_program_the_handshake_is_all_there_is_to_see(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_connected();
    program_send_bytes(fd, hello, sizeof hello, 0);
    kernel_brings(fd, (const char *)hello, sizeof hello);
    program_receive(fd);
    SUCCEEDED(1);
    program_send_bytes(fd, record, sizeof record, 0);
    ADMITTED(1);
    program_close(fd);
    OUTCOMES(1);
}

static void starttls_turns_a_connection_into_one_that_is_seen_into(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_connected();
    program_calls(fd, "STARTTLS\r\n", "220 go\r\n");
    tls_sends(fd, TLS_HANDSHAKE, hello, sizeof hello);
    tls_receives(fd, TLS_HANDSHAKE, hello, sizeof hello);
    tls_writes(fd, "EHLO\r\n", false);
    tls_reads(fd, "250 ok\r\n");
    tls_writes(fd, "MAIL\r\n", false);
    kernel_pass_ns(NS_PER_S);
    program_close(fd);
    FAILED(FAILURE_RESPONSE_TIMEOUT, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH_WAYS(the_status_of_an_answer_decides),
        BOTH_WAYS(an_answer_in_pieces_is_judged_when_its_status_is_known),
        BOTH_WAYS(an_interim_answer_is_not_the_answer),
        BOTH_WAYS(an_answer_that_breaks_off_in_its_head_is_judged_by_what_came),
        BOTH_WAYS(a_peek_does_not_read_on),
        BOTH_WAYS(after_an_upgrade_requests_are_told_apart_no_more),
        BOTH_WAYS(what_is_no_http2_behind_its_preface_is_one_call),
        BOTH_WAYS(while_a_request_is_not_whole_nobody_waits_for_an_answer),
        BOTH_WAYS(an_answer_before_the_request_is_whole_is_its_answer_and_the_rest_of_it_no_call),
        BOTH_WAYS(a_program_that_pauses_in_its_request_and_gives_up_has_not_waited_for_its_peer),
        BOTH_WAYS(a_large_request_that_the_peer_still_takes_is_not_overdue),
        BOTH_WAYS(the_end_of_the_stream_answers_a_cancel_request),
        BOTH_WAYS(what_only_resembles_one_is_not_answered_by_an_end),
        BOTH_WAYS(or_whatever_was_asked_where_the_policy_says_so),
        BOTH_WAYS(inside_tls_the_plaintext_is_the_answer_and_not_what_comes_over_the_wire),
        BOTH_WAYS(what_the_library_keeps_is_asked_when_it_is_sent),
        BOTH_WAYS(a_goodbye_after_a_long_wait_gives_it_up),
        BOTH_WAYS(who_rejects_its_peers_certificate_has_ended_the_connection_itself),
        BOTH_WAYS(of_tls_inside_the_program_the_handshake_is_all_there_is_to_see),
        BOTH_WAYS(starttls_turns_a_connection_into_one_that_is_seen_into),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
