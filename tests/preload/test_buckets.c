/*
 * test_buckets.c - TLS whose records are sent after the library's call, from outside of it: each request on a kept
 * connection is a call of its own all the same.
 */
/* links: core */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "support.h"

static int (*tls_connect)(void *session);
static int (*tls_read)(void *session, void *buffer, int count);
static int (*tls_write)(void *session, const void *buffer, int count);
static int (*buckets_flush)(void *session);

/* As helpers/buckets.c has it. */
struct session {
    int fd;
    size_t kept;
    char record[64];
    int peer;
};

static void load_library(void)
{
    void *library = dlopen(stage_compile("buckets", NULL, ""), RTLD_NOW | RTLD_GLOBAL);
    CHECK(library);
    *(void **)&tls_connect = dlsym(RTLD_DEFAULT, "SSL_connect");
    *(void **)&tls_read = dlsym(RTLD_DEFAULT, "SSL_read");
    *(void **)&tls_write = dlsym(RTLD_DEFAULT, "SSL_write");
    *(void **)&buckets_flush = dlsym(library, "buckets_flush");
    CHECK(dlsym(library, "SSL_write") != *(void **)&tls_write); /* ours stands in front of it */
}

static void say(struct session *session, const char *bytes, size_t count)
{
    assert_int_equal(bare.send(session->peer, bytes, count, 0), count);
}

static struct session session_open(struct server *server)
{
    struct session session = {.fd = caller_connect(server, 0)};
    session.peer = server_accept(server);
    say(&session, (const char[]){22, 3, 3, 0, 1, 2}, 6); /* its part of the handshake waits there already */
    assert_int_equal(tls_connect(&session), 1);
    return session;
}

static void session_close(struct session *session)
{
    assert_int_equal(close(session->fd), 0);
    bare.close(session->peer);
}

static int ask(struct session *session)
{
    assert_int_equal(tls_write(session, "ask", 3), 3);
    return buckets_flush(session);
}

static void answer(struct session *session)
{
    char plain[16];
    say(session, (const char[]){23, 3, 3, 0, 1, '+'}, 6);
    assert_int_equal(tls_read(session, plain, sizeof plain), 1);
}

static void each_request_whose_record_is_sent_later_is_a_call(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    struct session session = session_open(&server);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ask(&session), 0);
        expect(&server, "1 in-flight");
        answer(&session);
        expect(&server, "1 succeeded");
    }
    assert_int_equal(ask(&session), 0);
    wait_long();
    session_close(&session);
    expect(&server, "1 failed:response-timeout");
    server_stop(&server);
}

static void record_that_nobody_wrote_is_no_request(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    struct session session = session_open(&server);
    assert_int_equal(ask(&session), 0);
    answer(&session);
    expect(&server, "1 succeeded");
    assert_int_equal(buckets_flush(&session), 0); /* close_notify goes the same way */
    wait_long();
    session_close(&session);
    expect(&server, "nothing");
    server_stop(&server);
}

static void request_whose_record_is_sent_later_is_refused_while_the_circuit_is_open(void **state)
{
    struct server server;
    char seen[64];
    (void)state;
    server_start(&server, "127.0.0.4", SERVER_LISTENS);
    struct session session = session_open(&server), other = session_open(&server);
    assert_int_equal(ask(&session), 0);
    answer(&session);
    bare.recv(session.peer, seen, sizeof seen, 0);
    assert_int_equal(ask(&other), 0);
    server_reset(other.peer);
    assert_int_equal(tls_read(&other, seen, sizeof seen), -1);
    expect(&server, "1 succeeded, 1 failed:reset, 1 opened");
    assert_int_equal(ask(&session), -1);
    assert_int_equal(errno, ECONNRESET);
    assert_int_equal(bare.recv(session.peer, seen, sizeof seen, MSG_DONTWAIT), -1);
    expect(&server, "1 refused");
    close(other.fd);
    session_close(&session);
    server_stop(&server);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_request_whose_record_is_sent_later_is_a_call),
        cmocka_unit_test(record_that_nobody_wrote_is_no_request),
        cmocka_unit_test(request_whose_record_is_sent_later_is_refused_while_the_circuit_is_open),
    };
    stage_enter(argc, argv, NULL, NULL);
    load_library();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
