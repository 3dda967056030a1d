/*
 * test_no_allocation.c - what the library does not do inside a call: it allocates nothing, and asks the environment
 * nothing. So a handler of a signal may call it amid malloc, and a thread while another one changes the environment.
 *
 * The functions that must not be called stand in this program, before libc's.
 */
/* links: core */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "support.h"

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void __libc_free(void *memory);

/* For the dynamic linker to find. */
#define HEARD __attribute__((visibility("default")))

static __thread bool listening;
static __thread unsigned int heard;
static __thread const char *heard_first;

static void hear(const char *name)
{
    if (!listening)
        return;
    heard_first = heard++ ? heard_first : name;
}

HEARD void *malloc(size_t size)
{
    hear("malloc");
    return __libc_malloc(size);
}

HEARD void *calloc(size_t count, size_t size)
{
    hear("calloc");
    return __libc_calloc(count, size);
}

HEARD void *realloc(void *memory, size_t size)
{
    hear("realloc");
    return __libc_realloc(memory, size);
}

HEARD void free(void *memory)
{
    hear("free");
    __libc_free(memory);
}

HEARD char *getenv(const char *name)
{
    size_t length = strlen(name);
    hear("getenv");
    for (char **at = environ; at && *at; at++)
        if (!strncmp(*at, name, length) && (*at)[length] == '=')
            return *at + length + 1;
    return NULL;
}

HEARD char *secure_getenv(const char *name)
{
    hear("secure_getenv");
    return getenv(name);
}

/* What the library asked for during `act`. */
#define LISTEN(what, act)                                                                                              \
    do {                                                                                                               \
        listening = true;                                                                                              \
        act;                                                                                                           \
        listening = false;                                                                                             \
        check_quiet(what);                                                                                             \
    } while (0)

static void check_quiet(const char *what)
{
    if (heard)
        fprintf(stderr, "%s: %s was called, and others: %u in all\n", what, heard_first, heard);
    CHECK(heard == 0);
}

/* A connection with a request, an answer, and each way to handle its descriptor. */
static void live(struct server *server, int flags)
{
    char room[8];
    int error, alias;
    socklen_t length = sizeof error;
    struct iovec vector = {room, sizeof room};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    int fd = caller_connect(server, flags), peer = server_accept(server);
    poll_for(fd, POLLOUT);
    CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0);
    CHECK((alias = dup(fd)) >= 0 && close(alias) == 0);
    CHECK((alias = fcntl(fd, F_DUPFD_CLOEXEC, 100)) >= 100 && dup2(fd, 200) == 200);
    CHECK(close_range((unsigned int)alias, ~0U, 0) == 0);
    CHECK(send(fd, "a", 1, 0) == 1 && write(fd, "b", 1) == 1 && writev(fd, &(struct iovec){"c", 1}, 1) == 1);
    CHECK(bare.send(peer, "HTTP/1.1 503 x\r\nRetry-After: 1\r\n\r\n", 34, 0) == 34);
    poll_for(fd, POLLIN);
    CHECK(recv(fd, room, 1, 0) == 1 && read(fd, room, 1) == 1 && readv(fd, &vector, 1) > 0);
    CHECK(recvmsg(fd, &message, 0) > 0 && syscall(SYS_read, fd, room, 8) == 8);
    CHECK(shutdown(fd, SHUT_RDWR) == 0 && close(fd) == 0);
    bare.close(peer);
}

static void be_refused(struct server *server, int flags)
{
    int fd = caller_socket(server, flags);
    if (connect(fd, AT(server)) == -1 && errno == EINPROGRESS)
        poll_for(fd, POLLOUT);
    close(fd);
}

static void give_up(struct server *server)
{
    int fd = caller_connect(server, SOCK_NONBLOCK);
    wait_long();
    close(fd);
}

static const char *const hosts[] = {"127.0.0.1", "::1", "unix", "127.0.0.2", "127.0.0.3", "127.0.0.9"};

static void no_call_allocates_or_asks_the_environment(void **state)
{
    struct server server, dead;
    (void)state;
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        at_hand = hosts[i];
        server_start(&server, hosts[i], SERVER_LISTENS);
        server_start(&dead, hosts[i], SERVER_REFUSES);
        for (int flags = 0; flags <= SOCK_NONBLOCK; flags += SOCK_NONBLOCK) {
            LISTEN("a life", live(&server, flags));
            LISTEN("a failure", be_refused(&dead, flags));
        }
        server_stop(&server);
        server_stop(&dead);
    }
    server_start(&dead, "127.0.0.1", SERVER_BLACK_HOLE);
    LISTEN("giving up", give_up(&dead));
    expect(&dead, "1 failed:connect-timeout");
    server_stop(&dead);
}

static void no_opening_and_no_refusal_does(void **state)
{
    struct server dead;
    (void)state;
    server_start(&dead, "127.0.0.4", SERVER_REFUSES);
    LISTEN("the failure that opens", be_refused(&dead, 0));
    LISTEN("a refusal", be_refused(&dead, 0));
    LISTEN("a refusal without blocking", be_refused(&dead, SOCK_NONBLOCK));
    expect(&dead, "1 failed:refused, 2 refused, 1 opened");
    server_stop(&dead);
}

static void call_in_a_child(void *context)
{
    struct server *dead = context;
    LISTEN("the first call of a child", be_refused(dead, 0));
    LISTEN("a further call", be_refused(dead, SOCK_NONBLOCK));
}

static void no_first_call_of_a_forks_child_does(void **state)
{
    struct server dead;
    (void)state;
    server_start(&dead, "127.0.0.1", SERVER_REFUSES);
    assert_true(exited_well(actor_wait(actor_fork(call_in_a_child, &dead))));
    expect(&dead, "2 failed:refused");
    server_stop(&dead);
}

static void *call_in_a_thread(void *context)
{
    struct server *dead = context;
    LISTEN("the first call of a thread", be_refused(dead, 0));
    return NULL;
}

static void no_first_call_of_a_thread_does(void **state)
{
    struct server dead;
    pthread_t thread;
    (void)state;
    server_start(&dead, "127.0.0.1", SERVER_REFUSES);
    assert_int_equal(pthread_create(&thread, NULL, call_in_a_thread, &dead), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    expect(&dead, "1 failed:refused");
    server_stop(&dead);
}

/* Or the tests above hear nothing because nothing can be heard. */
static void what_is_called_is_heard(void **state)
{
    (void)state;
    listening = true;
    char *volatile text = strdup("text");
    free(text);
    secure_getenv("HOME");
    listening = false;
    assert_string_equal(heard_first, "malloc"); /* by libc */
    assert_int_equal(heard, 4);
    heard = 0;
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_called_is_heard),        cmocka_unit_test(no_call_allocates_or_asks_the_environment),
        cmocka_unit_test(no_opening_and_no_refusal_does), cmocka_unit_test(no_first_call_of_a_forks_child_does),
        cmocka_unit_test(no_first_call_of_a_thread_does),
    };
    stage_enter(argc, argv, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
