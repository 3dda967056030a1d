/*
 * test_further_connect.c - a program that asks how its attempt stands by the same connect once more, with an address in
 * memory that may go at any time: the library does not read it before the kernel has.
 */
/* links: core */
#define _GNU_SOURCE
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support.h"

static struct server server;
static struct sockaddr *mapped;

/* A pending attempt, whose address lies in a mapping. */
static int attempt(enum server_kind kind)
{
    server_start(&server, "127.0.0.1", kind);
    mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(mapped != MAP_FAILED);
    memcpy(mapped, &server.address, server.length);
    int fd = caller_socket(&server, SOCK_NONBLOCK);
    assert_int_equal(connect(fd, mapped, server.length), -1);
    assert_int_equal(errno, EINPROGRESS);
    return fd;
}

static void asked_again(int fd, int error)
{
    assert_int_equal(connect(fd, mapped, server.length), error ? -1 : 0);
    if (error)
        assert_int_equal(errno, error);
}

static void end(int fd)
{
    close(fd);
    munmap(mapped, 4096);
    server_stop(&server);
}

static void it_says_that_the_attempt_is_pending_and_then_connected(void **state)
{
    (void)state;
    int fd = attempt(SERVER_BLACK_HOLE);
    asked_again(fd, EALREADY);
    expect(&server, "1 in-flight");
    end(fd);
    fd = attempt(SERVER_LISTENS);
    poll_for(fd, POLLOUT);
    asked_again(fd, 0);
    int peer = server_accept(&server);
    assert_int_equal(send(fd, "request", 7, 0), 7);
    assert_int_equal(bare.send(peer, "+", 1, 0), 1);
    poll_for(fd, POLLIN);
    char byte;
    assert_int_equal(recv(fd, &byte, 1, 0), 1);
    expect(&server, "1 succeeded");
    asked_again(fd, EISCONN);
    bare.close(peer);
    end(fd);
}

static void an_address_that_has_gone_meanwhile_is_a_bad_one(void **state)
{
    (void)state;
    int fd = attempt(SERVER_BLACK_HOLE);
    assert_int_equal(munmap(mapped, 4096), 0);
    asked_again(fd, EFAULT);
    expect(&server, "1 in-flight");
    assert_int_equal(connect(fd, AT(&server)), -1);
    assert_int_equal(errno, EALREADY);
    close(fd);
    server_stop(&server);
}

static void an_address_that_was_made_none_in_its_place_dissolves_the_association(void **state)
{
    (void)state;
    int fd = attempt(SERVER_BLACK_HOLE);
    mapped->sa_family = AF_UNSPEC;
    asked_again(fd, 0);
    expect(&server, "1 neutral:unknown");
    memcpy(mapped, &server.address, server.length);
    asked_again(fd, EINPROGRESS);
    expect(&server, "1 in-flight");
    end(fd);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_says_that_the_attempt_is_pending_and_then_connected),
        cmocka_unit_test(an_address_that_has_gone_meanwhile_is_a_bad_one),
        cmocka_unit_test(an_address_that_was_made_none_in_its_place_dissolves_the_association),
    };
    stage_enter(argc, argv, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
