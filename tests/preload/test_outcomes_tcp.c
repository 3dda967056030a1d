/*
 * test_outcomes_tcp.c - what a TCP call counts as, by each channel through which its end can become known.
 *
 * Each test runs with a blocking and with a non-blocking socket (its state says which).
 */
/* links: core */
#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "support.h"

/* --- channels: how the program learns, or does not --- */

enum channel { BY_CONNECT, BY_OPTION, BY_SEND, BY_RECEIVE, BY_CLOSE, CHANNELS };

/* Looks through the channel; returns the errno that the program saw (0: none, -1: end of stream). */
static int look(const struct server *server, int fd, enum channel channel)
{
    int error = 0;
    socklen_t length = sizeof error;
    char byte;
    ssize_t got;
    switch (channel) {
    case BY_CONNECT:
        return connect(fd, AT(server)) == 0 ? 0 : errno;
    case BY_OPTION:
        CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0);
        return error;
    case BY_SEND:
        return send(fd, "request", 7, MSG_NOSIGNAL) < 0 ? errno : 0;
    case BY_RECEIVE:
        got = recv(fd, &byte, 1, MSG_DONTWAIT);
        return got < 0 ? errno : got == 0 ? -1 : 0;
    default:
        return 0;
    }
}

static int flags_of(void **state)
{
    return *state ? SOCK_NONBLOCK : 0;
}

static void request(int fd)
{
    assert_int_equal(send(fd, "request", 7, MSG_NOSIGNAL), 7);
}

/* The peer has it. */
static void request_to(int fd, int peer)
{
    request(fd);
    poll_for(peer, POLLIN);
    assert_int_equal(bare.recv(peer, (char[8]){0}, 8, 0), 7);
}

/* The server speaks first. */
static void greet(int peer, int fd)
{
    assert_int_equal(bare.send(peer, "greeting", 8, 0), 8);
    poll_for(fd, POLLIN);
    assert_int_equal(recv(fd, (char[16]){0}, 16, 0), 8);
}

/* --- attempts --- */

static void refused_attempt_counts_as_refused_by_every_channel(void **state)
{
    struct server server;
    server_start(&server, "127.0.0.1", SERVER_REFUSES);
    for (enum channel channel = 0; channel < CHANNELS; channel++) {
        int fd = caller_socket(&server, flags_of(state));
        int result = connect(fd, AT(&server));
        assert_int_equal(result, -1);
        if (errno == EINPROGRESS) {
            poll_for(fd, POLLOUT);
            int seen = look(&server, fd, channel);
            assert_int_equal(seen, channel == BY_CLOSE ? 0 : ECONNREFUSED);
        } else {
            assert_int_equal(errno, ECONNREFUSED);
        }
        if (channel != BY_CLOSE)
            expect(&server, "1 failed:refused");
        close(fd);
        expect(&server, channel != BY_CLOSE ? "nothing" : "1 failed:refused");
    }
    server_stop(&server);
}

static void attempt_that_succeeded_is_only_provisional(void **state)
{
    struct server server;
    server_start(&server, "127.0.0.2", SERVER_LISTENS);
    for (enum channel channel = 0; channel < CHANNELS; channel++) {
        int fd = caller_connect(&server, flags_of(state));
        poll_for(fd, POLLOUT);
        int seen = look(&server, fd, channel);
        /* connect(2): the socket layer may take one more call to notice that a pending attempt is over. */
        assert_true(channel == BY_RECEIVE ? seen == EAGAIN : seen == 0 || (channel == BY_CONNECT && seen == EISCONN));
        expect(&server, "1 in-flight");
        close(fd);
        expect(&server, "1 neutral:cancelled");
    }
    server_stop(&server);
}

static void attempt_alone_is_success_where_the_policy_says_so(void **state)
{
    struct server server;
    server_start(&server, "127.0.0.3", SERVER_LISTENS);
    for (enum channel channel = 0; channel < CHANNELS; channel++) {
        int fd = caller_connect(&server, flags_of(state));
        poll_for(fd, POLLOUT);
        look(&server, fd, channel);
        bool seen = !flags_of(state) || (channel != BY_CLOSE && channel != BY_RECEIVE);
        if (seen)
            expect(&server, "1 succeeded");
        close(fd);
        expect(&server, seen ? "nothing" : "1 succeeded");
    }
    server_stop(&server);
}

static void pending_attempt_given_up_late_is_a_connect_timeout(void **state)
{
    struct server server;
    int fds[CHANNELS];
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_BLACK_HOLE);
    for (enum channel channel = 0; channel < CHANNELS; channel++)
        fds[channel] = caller_connect(&server, SOCK_NONBLOCK);
    wait_long();
    for (enum channel channel = 0; channel < CHANNELS; channel++) {
        int seen = look(&server, fds[channel], channel);
        assert_int_equal(seen, channel == BY_CONNECT                         ? EALREADY
                               : channel == BY_SEND || channel == BY_RECEIVE ? EAGAIN
                                                                             : 0);
    }
    expect(&server, "5 in-flight");
    for (enum channel channel = 0; channel < CHANNELS; channel++)
        close(fds[channel]);
    expect(&server, "5 failed:connect-timeout");
    server_stop(&server);
}

static void pending_attempt_given_up_soon_is_a_cancellation(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.2", SERVER_BLACK_HOLE);
    int fd = caller_connect(&server, SOCK_NONBLOCK);
    wait_long();
    close(fd);
    expect(&server, "1 neutral:cancelled");
    server_stop(&server);
}

static void sndtimeo_that_runs_out_in_connect_is_a_connect_timeout(void **state)
{
    struct server server;
    struct timeval limit = {.tv_usec = 20000};
    (void)state;
    server_start(&server, "127.0.0.2", SERVER_BLACK_HOLE);
    int fd = caller_socket(&server, 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit), 0);
    assert_int_equal(connect(fd, AT(&server)), -1);
    assert_int_equal(errno, EINPROGRESS);
    expect(&server, "1 failed:connect-timeout");
    close(fd);
    expect(&server, "nothing");
    server_stop(&server);
}

/*
 * TCP_USER_TIMEOUT takes effect at the first retransmission, a second after the attempt: one second for all channels.
 */
static void kernel_timeout_is_a_connect_timeout_by_every_channel(void **state)
{
    struct server server;
    int fds[CHANNELS], limit = 300;
    (void)state;
    server_start(&server, "127.0.0.2", SERVER_BLACK_HOLE);
    for (enum channel channel = 0; channel < CHANNELS; channel++) {
        fds[channel] = caller_socket(&server, SOCK_NONBLOCK);
        assert_int_equal(setsockopt(fds[channel], IPPROTO_TCP, TCP_USER_TIMEOUT, &limit, sizeof limit), 0);
        assert_int_equal(connect(fds[channel], AT(&server)), -1);
        assert_int_equal(errno, EINPROGRESS);
    }
    int blocking = caller_socket(&server, 0);
    assert_int_equal(setsockopt(blocking, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit, sizeof limit), 0);
    assert_int_equal(connect(blocking, AT(&server)), -1);
    assert_int_equal(errno, ETIMEDOUT);
    expect(&server, "1 failed:connect-timeout, 5 in-flight");
    close(blocking);
    for (enum channel channel = 0; channel < CHANNELS; channel++) {
        poll_for(fds[channel], POLLOUT);
        int seen = look(&server, fds[channel], channel);
        assert_int_equal(seen, channel == BY_CLOSE ? 0 : ETIMEDOUT);
        close(fds[channel]);
    }
    expect(&server, "5 failed:connect-timeout");
    server_stop(&server);
}

static void shutdown_of_a_pending_attempt_is_the_programs_own_giving_up(void **state)
{
    static const int hows[] = {SHUT_RD, SHUT_WR, SHUT_RDWR};
    struct server server, patient;
    int fds[3];
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_BLACK_HOLE);
    server_start(&patient, "127.0.0.2", SERVER_BLACK_HOLE);
    for (int i = 0; i < 3; i++) {
        int fd = caller_connect(&patient, SOCK_NONBLOCK);
        shutdown(fd, hows[i]);
        expect(&patient, "1 neutral:cancelled");
        close(fd);
        expect(&patient, "nothing");
        fds[i] = caller_connect(&server, SOCK_NONBLOCK);
    }
    wait_long();
    for (int i = 0; i < 3; i++)
        shutdown(fds[i], hows[i]);
    expect(&server, "3 failed:connect-timeout");
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    expect(&server, "nothing");
    server_stop(&server);
    server_stop(&patient);
}

/* --- after the connection --- */

static void reset_counts_as_reset_by_every_channel(void **state)
{
    struct server server;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    for (int requested = 0; requested < 2; requested++) {
        for (enum channel channel = 0; channel < CHANNELS; channel++) {
            int fd = caller_connect(&server, flags_of(state));
            int peer = server_accept(&server);
            if (requested) {
                poll_for(fd, POLLOUT);
                request(fd);
                poll_for(peer, POLLIN);
            }
            server_reset(peer);
            poll_for(fd, POLLIN);
            int seen = look(&server, fd, channel);
            if (channel == BY_CONNECT && seen == EISCONN)
                seen = look(&server, fd,
                            BY_OPTION); /* a blocking socket's connect had returned: it is known to be connected */
            if (channel == BY_CLOSE)
                expect(&server, "1 in-flight");
            else
                assert_true(seen == ECONNRESET);
            close(fd);
            expect(&server, "1 failed:reset");
        }
    }
    server_stop(&server);
}

static void first_byte_of_an_answer_is_success(void **state)
{
    struct server server;
    char answer[8];
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    for (int requested = 0; requested < 2; requested++) {
        int fd = caller_connect(&server, flags_of(state));
        int peer = server_accept(&server);
        if (requested)
            request(fd);
        assert_int_equal(bare.send(peer, "answer", 6, 0), 6);
        poll_for(fd, POLLIN);
        expect(&server, "1 in-flight");
        assert_int_equal(recv(fd, answer, 1, 0), 1);
        expect(&server, "1 succeeded");
        /* The call is over: what follows counts neither way. */
        assert_int_equal(recv(fd, answer, sizeof answer, 0), 5);
        server_reset(peer);
        poll_for(fd, POLLIN);
        assert_int_equal(recv(fd, answer, sizeof answer, 0), -1);
        assert_int_equal(errno, ECONNRESET);
        close(fd);
        expect(&server, "nothing");
    }
    server_stop(&server);
}

static void answer_that_was_never_read_is_found_at_the_close(void **state)
{
    struct server server;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    int fd = caller_connect(&server, flags_of(state));
    int peer = server_accept(&server);
    request(fd);
    assert_int_equal(bare.send(peer, "answer", 6, 0), 6);
    poll_for(fd, POLLIN);
    wait_long();
    close(fd);
    expect(&server, "1 succeeded");
    bare.close(peer);
    server_stop(&server);
}

static void end_of_stream_before_the_answer_is_an_early_close(void **state)
{
    struct server server;
    char byte;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    for (int requested = 0; requested < 2; requested++) {
        int fd = caller_connect(&server, flags_of(state));
        int peer = server_accept(&server);
        if (requested) {
            request_to(fd, peer);
        }
        bare.close(peer);
        poll_for(fd, POLLIN);
        assert_int_equal(recv(fd, &byte, 1, 0), 0);
        expect(&server, "1 failed:early-close");
        close(fd);
        expect(&server, "nothing");
    }
    server_stop(&server);
}

static void end_of_stream_that_was_not_read_is_found_at_the_close(void **state)
{
    struct server server;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    int fd = caller_connect(&server, flags_of(state));
    int peer = server_accept(&server);
    request_to(fd, peer);
    bare.close(peer);
    poll_for(fd, POLLIN);
    close(fd);
    expect(&server, "1 failed:early-close");
    server_stop(&server);
}

/*
 * A server that greets (MySQL, SMTP) and then loses each client that asks for something: a connection that has answered
 * nothing yet is not one that was kept, and its end is no staleness.
 */
static void loss_of_the_first_request_after_a_greeting_is_a_failure(void **state)
{
    static const char *const outcomes[] = {"1 failed:early-close", "1 failed:reset", "1 succeeded"};
    struct server server;
    char room[16];
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    for (size_t end = 0; end < sizeof outcomes / sizeof *outcomes; end++) {
        int fd = caller_connect(&server, flags_of(state)), peer = server_accept(&server);
        greet(peer, fd);
        expect(&server, "1 succeeded");
        request_to(fd, peer);
        if (end == 0)
            bare.close(peer);
        else if (end == 1)
            server_reset(peer);
        else
            assert_int_equal(bare.send(peer, "answer", 6, 0), 6);
        poll_for(fd, POLLIN);
        assert_int_equal(recv(fd, room, sizeof room, 0), end == 0 ? 0 : end == 1 ? -1 : 6);
        expect(&server, outcomes[end]);
        if (end == 2) { /* from now on it is one */
            request_to(fd, peer);
            bare.close(peer);
            poll_for(fd, POLLIN);
            assert_int_equal(recv(fd, room, sizeof room, 0), 0);
            expect(&server, "1 neutral:stale");
        }
        close(fd);
        expect(&server, "nothing");
    }
    server_stop(&server);
}

/* Nothing has been asked by a send that took nothing. */
static void request_after_a_greeting_that_was_withdrawn_is_still_the_first(void **state)
{
    struct server server;
    char room[16];
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    int fd = caller_connect(&server, flags_of(state)), peer = server_accept(&server);
    greet(peer, fd);
    assert_int_equal(send(fd, (const void *)8, 7, 0), -1);
    assert_int_equal(errno, EFAULT);
    expect(&server, "1 succeeded, 1 neutral:cancelled");
    request_to(fd, peer);
    bare.close(peer);
    poll_for(fd, POLLIN);
    assert_int_equal(recv(fd, room, sizeof room, 0), 0);
    expect(&server, "1 failed:early-close");
    close(fd);
    server_stop(&server);
}

static void request_without_an_answer_given_up_late_is_a_response_timeout(void **state)
{
    struct server server, patient;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    server_start(&patient, "127.0.0.2", SERVER_LISTENS);
    int fd = caller_connect(&server, flags_of(state)), greeting = caller_connect(&server, flags_of(state));
    int other = caller_connect(&patient, flags_of(state));
    request(fd);
    request(other);
    wait_long();
    close(fd);
    expect(&server, "1 failed:response-timeout, 1 in-flight");
    /* Nothing was sent: it waited for a server that should have spoken first. */
    close(greeting);
    expect(&server, "1 failed:response-timeout");
    close(other);
    expect(&patient, "1 neutral:cancelled");
    server_stop(&server);
    server_stop(&patient);
}

static void rcvtimeo_that_runs_out_is_a_response_timeout(void **state)
{
    struct server server, patient;
    struct timeval limit = {.tv_usec = 60000};
    char byte;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    server_start(&patient, "127.0.0.2", SERVER_LISTENS);
    for (int requested = 0; requested < 2; requested++) {
        int fd = caller_connect(&server, 0), peer = server_accept(&server);
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
        if (requested)
            request(fd);
        assert_int_equal(recv(fd, &byte, 1, 0), -1);
        assert_int_equal(errno, EAGAIN);
        expect(&server, "1 failed:response-timeout");
        if (requested) { /* a connection that has answered nothing yet is none that was kept */
            request(fd);
            shutdown(peer, SHUT_WR);
            poll_for(fd, POLLIN);
            assert_int_equal(recv(fd, &byte, 1, 0), 0);
            expect(&server, "1 failed:early-close");
        }
        close(fd);
        bare.close(peer);
        expect(&server, "nothing");
    }
    /* Sooner than abandon_after, it is a program that looks round now and then. */
    limit.tv_usec = 10000;
    int fd = caller_connect(&patient, 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    request(fd);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(recv(fd, &byte, 1, 0), -1);
        assert_int_equal(errno, EAGAIN);
    }
    assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
    expect(&patient, "1 in-flight");
    close(fd);
    expect(&patient, "1 neutral:cancelled");
    server_stop(&server);
    server_stop(&patient);
}

static void half_close_after_the_request_waits_for_the_answer(void **state)
{
    struct server server;
    char byte;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    int fd = caller_connect(&server, flags_of(state));
    int peer = server_accept(&server);
    request(fd);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    expect(&server, "1 in-flight");
    assert_int_equal(bare.send(peer, "answer", 6, 0), 6);
    poll_for(fd, POLLIN);
    assert_int_equal(recv(fd, &byte, 1, 0), 1);
    expect(&server, "1 succeeded");
    close(fd);
    bare.close(peer);
    expect(&server, "nothing");

    /* Given up: shutdown and close are the end of one patience. */
    fd = caller_connect(&server, flags_of(state));
    request(fd);
    wait_long();
    shutdown(fd, SHUT_WR);
    close(fd);
    expect(&server, "1 failed:response-timeout");

    /* No answer, but the peer's end of stream. */
    fd = caller_connect(&server, flags_of(state));
    request(fd);
    shutdown(fd, SHUT_WR);
    bare.close(server_accept(&server)); /* the former one */
    peer = server_accept(&server);
    assert_int_equal(bare.recv(peer, (char[8]){0}, 8, 0), 7);
    bare.close(peer);
    poll_for(fd, POLLIN);
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    expect(&server, "1 failed:early-close");
    close(fd);
    server_stop(&server);
}

/* The program's time-out, said politely: the service that was silent hears that its client is gone, and ends too. */
static void half_close_after_a_long_silence_that_the_peer_answers_in_kind_is_a_response_timeout(void **state)
{
    struct server server;
    char byte;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    for (int request_number = 0; request_number < 2; request_number++) {
        int fd = caller_connect(&server, flags_of(state));
        int peer = server_accept(&server);
        for (int answered = 0; answered < request_number; answered++) {
            request(fd);
            assert_int_equal(bare.send(peer, "+", 1, 0), 1);
            poll_for(fd, POLLIN);
            assert_int_equal(recv(fd, &byte, 1, 0), 1);
            expect(&server, "1 succeeded");
        }
        request(fd);
        wait_long();
        assert_int_equal(shutdown(fd, SHUT_WR), 0);
        while (bare.recv(peer, (char[8]){0}, 8, 0) > 0)
            ;
        bare.close(peer);
        poll_for(fd, POLLIN);
        assert_int_equal(recv(fd, &byte, 1, 0), 0);
        expect(&server, "1 failed:response-timeout");
        close(fd);
    }
    server_stop(&server);
}

static void own_shutdown_is_no_failure_of_the_peer(void **state)
{
    struct server server;
    char byte;
    server_start(&server, "127.0.0.2", SERVER_LISTENS);
    /* Nothing was sent, and the own side is shut: the peer's end of stream answers that. */
    int fd = caller_connect(&server, flags_of(state));
    poll_for(fd, POLLOUT);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    bare.close(server_accept(&server));
    poll_for(fd, POLLIN);
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    close(fd);
    expect(&server, "1 neutral:cancelled");

    /* The receiving side is shut by the program: the kernel reports an end of stream by itself. */
    fd = caller_connect(&server, flags_of(state));
    poll_for(fd, POLLOUT);
    request(fd);
    assert_int_equal(shutdown(fd, SHUT_RD), 0);
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    close(fd);
    expect(&server, "1 neutral:cancelled");

    /* EPIPE of the own shutdown. */
    fd = caller_connect(&server, flags_of(state));
    poll_for(fd, POLLOUT);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    assert_int_equal(send(fd, "request", 7, MSG_NOSIGNAL), -1);
    assert_int_equal(errno, EPIPE);
    close(fd);
    expect(&server, "1 neutral:cancelled");
    server_stop(&server);
}

static void failed_attempt_frees_the_socket_for_another(void **state)
{
    struct server dead, alive;
    char byte;
    server_start(&dead, "127.0.0.1", SERVER_REFUSES);
    server_start(&alive, "127.0.0.1", SERVER_LISTENS);
    int fd = caller_socket(&dead, flags_of(state));
    assert_int_equal(connect(fd, AT(&dead)), -1);
    if (errno == EINPROGRESS) {
        poll_for(fd, POLLOUT);
        assert_int_equal(look(&dead, fd, BY_CONNECT), ECONNREFUSED);
    }
    expect(&dead, "1 failed:refused");
    int result = connect(fd, AT(&alive));
    assert_true(result == 0 || errno == EINPROGRESS);
    poll_for(fd, POLLOUT);
    expect(&dead, "nothing");
    int peer = server_accept(&alive);
    assert_int_equal(bare.send(peer, "answer", 6, 0), 6);
    poll_for(fd, POLLIN);
    assert_int_equal(recv(fd, &byte, 1, 0), 1);
    expect(&alive, "1 succeeded");
    close(fd);
    bare.close(peer);
    server_stop(&dead);
    server_stop(&alive);
}

/* After SO_ERROR was read, the kernel answers the next connect with ECONNABORTED: nothing that the peer did. */
static void connect_after_a_consumed_error_charges_nobody(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_REFUSES);
    int fd = caller_socket(&server, SOCK_NONBLOCK);
    assert_int_equal(connect(fd, AT(&server)), -1);
    poll_for(fd, POLLOUT);
    assert_int_equal(look(&server, fd, BY_OPTION), ECONNREFUSED);
    expect(&server, "1 failed:refused");
    assert_int_equal(connect(fd, AT(&server)), -1);
    assert_int_equal(errno, ECONNABORTED);
    expect(&server, "1 neutral:local");
    close(fd);
    expect(&server, "nothing");
    server_stop(&server);
}

#define both(test)                                                                                                     \
    {#test " (blocking)", test, NULL, NULL, NULL},                                                                     \
    {                                                                                                                  \
#test " (non-blocking)", test, NULL, NULL, (void *)1                                                           \
    }

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        both(refused_attempt_counts_as_refused_by_every_channel),
        both(attempt_that_succeeded_is_only_provisional),
        both(attempt_alone_is_success_where_the_policy_says_so),
        cmocka_unit_test(pending_attempt_given_up_late_is_a_connect_timeout),
        cmocka_unit_test(pending_attempt_given_up_soon_is_a_cancellation),
        cmocka_unit_test(sndtimeo_that_runs_out_in_connect_is_a_connect_timeout),
        cmocka_unit_test(kernel_timeout_is_a_connect_timeout_by_every_channel),
        cmocka_unit_test(shutdown_of_a_pending_attempt_is_the_programs_own_giving_up),
        both(reset_counts_as_reset_by_every_channel),
        both(first_byte_of_an_answer_is_success),
        both(answer_that_was_never_read_is_found_at_the_close),
        both(end_of_stream_before_the_answer_is_an_early_close),
        both(end_of_stream_that_was_not_read_is_found_at_the_close),
        both(loss_of_the_first_request_after_a_greeting_is_a_failure),
        both(request_after_a_greeting_that_was_withdrawn_is_still_the_first),
        both(request_without_an_answer_given_up_late_is_a_response_timeout),
        cmocka_unit_test(rcvtimeo_that_runs_out_is_a_response_timeout),
        both(half_close_after_the_request_waits_for_the_answer),
        both(half_close_after_a_long_silence_that_the_peer_answers_in_kind_is_a_response_timeout),
        both(own_shutdown_is_no_failure_of_the_peer),
        both(failed_attempt_frees_the_socket_for_another),
        cmocka_unit_test(connect_after_a_consumed_error_charges_nobody),
    };
    stage_enter(argc, argv, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
