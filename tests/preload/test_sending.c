/*
 * test_sending.c - every function that sends makes the call a request that waits; what sends nothing does not.
 */
/* links: core */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "support.h"

#define REQUEST "request"
#define LENGTH ((ssize_t)sizeof REQUEST - 1)

/* Other names that libc exports for the same functions. */
extern ssize_t __write(int fd, const void *buffer, size_t count);

static char request[] = REQUEST;
static struct iovec vector[2] = {{request, 3}, {request + 3, 4}};

static int request_file(void)
{
    int fd = open(stage_file("request", REQUEST), O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

static int request_pipe(void)
{
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0 && write(ends[1], request, (size_t)LENGTH) == LENGTH);
    bare.close(ends[1]);
    return ends[0];
}

static ssize_t by_send(int fd)
{
    return send(fd, request, (size_t)LENGTH, 0);
}
static ssize_t by_sendto(int fd)
{
    return sendto(fd, request, (size_t)LENGTH, 0, NULL, 0);
}
static ssize_t by_write(int fd)
{
    return write(fd, request, (size_t)LENGTH);
}
static ssize_t by_writev(int fd)
{
    return writev(fd, vector, 2);
}
static ssize_t by_sendmsg(int fd)
{
    struct msghdr message = {.msg_iov = vector, .msg_iovlen = 2};
    return sendmsg(fd, &message, MSG_NOSIGNAL);
}
static ssize_t by_sendmmsg(int fd)
{
    struct mmsghdr messages[2] = {{.msg_hdr = {.msg_iov = vector, .msg_iovlen = 1}},
                                  {.msg_hdr = {.msg_iov = vector + 1, .msg_iovlen = 1}}};
    return sendmmsg(fd, messages, 2, 0) == 2 ? (ssize_t)(messages[0].msg_len + messages[1].msg_len) : -1;
}
static ssize_t by_sendfile(int fd)
{
    int file = request_file();
    ssize_t sent = sendfile(fd, file, NULL, (size_t)LENGTH);
    close(file);
    return sent;
}
static ssize_t by_sendfile64(int fd)
{
    int file = request_file();
    off64_t offset = 0;
    ssize_t sent = sendfile64(fd, file, &offset, (size_t)LENGTH);
    close(file);
    return offset == sent ? sent : -1;
}
static ssize_t by_splice(int fd)
{
    int pipe = request_pipe();
    ssize_t sent = splice(pipe, NULL, fd, NULL, (size_t)LENGTH, 0);
    close(pipe);
    return sent;
}
static ssize_t by_send_alias(int fd)
{
    ssize_t (*alias)(int, const void *, size_t, int);
    void *found = dlsym(RTLD_DEFAULT, "__send"); /* not every libc lets one link with it */
    memcpy(&alias, &found, sizeof alias);
    return alias(fd, request, (size_t)LENGTH, 0);
}
static ssize_t by_write_alias(int fd)
{
    return __write(fd, request, (size_t)LENGTH);
}
static ssize_t by_number_sendto(int fd)
{
    return syscall(SYS_sendto, fd, request, LENGTH, 0, NULL, 0);
}
static ssize_t by_number_write(int fd)
{
    return syscall(SYS_write, fd, request, LENGTH);
}
static ssize_t by_number_writev(int fd)
{
    return syscall(SYS_writev, fd, vector, 2);
}
static ssize_t by_number_sendmsg(int fd)
{
    struct msghdr message = {.msg_iov = vector, .msg_iovlen = 2};
    return syscall(SYS_sendmsg, fd, &message, 0);
}
static ssize_t by_number_sendmmsg(int fd)
{
    struct mmsghdr messages = {.msg_hdr = {.msg_iov = vector, .msg_iovlen = 2}};
    return syscall(SYS_sendmmsg, fd, &messages, 1, 0) == 1 ? (ssize_t)messages.msg_len : -1;
}
static ssize_t by_number_sendfile(int fd)
{
    int file = request_file();
    ssize_t sent = syscall(SYS_sendfile, fd, file, NULL, LENGTH);
    close(file);
    return sent;
}
static ssize_t by_number_splice(int fd)
{
    int pipe = request_pipe();
    ssize_t sent = syscall(SYS_splice, pipe, NULL, fd, NULL, LENGTH, 0);
    close(pipe);
    return sent;
}

static const struct sender {
    const char *name;
    ssize_t (*send)(int fd);
} senders[] = {
    {"send", by_send},
    {"sendto", by_sendto},
    {"write", by_write},
    {"writev", by_writev},
    {"sendmsg", by_sendmsg},
    {"sendmmsg", by_sendmmsg},
    {"sendfile", by_sendfile},
    {"sendfile64", by_sendfile64},
    {"splice", by_splice},
    {"__send", by_send_alias},
    {"__write", by_write_alias},
    {"syscall(SYS_sendto)", by_number_sendto},
    {"syscall(SYS_write)", by_number_write},
    {"syscall(SYS_writev)", by_number_writev},
    {"syscall(SYS_sendmsg)", by_number_sendmsg},
    {"syscall(SYS_sendmmsg)", by_number_sendmmsg},
    {"syscall(SYS_sendfile)", by_number_sendfile},
    {"syscall(SYS_splice)", by_number_splice},
};
#define SENDERS (sizeof senders / sizeof *senders)

static void sends_make_requests_on(const char *host)
{
    struct server server;
    char received[16];
    server_start(&server, host, SERVER_LISTENS);
    for (size_t i = 0; i < SENDERS; i++) {
        int fd = caller_connect(&server, 0), peer = server_accept(&server);
        assert_int_equal(call_phase(&server), PHASE_CONNECTED);
        errno = 4242;
        ssize_t sent = senders[i].send(fd);
        if (sent != LENGTH || errno != 4242)
            fail_msg("%s: %zd, errno %d", senders[i].name, sent, errno);
        if (call_phase(&server) != PHASE_REQUESTED)
            fail_msg("%s was not seen", senders[i].name);
        assert_int_equal(recv(peer, received, sizeof received, MSG_WAITALL | MSG_DONTWAIT), LENGTH);
        assert_memory_equal(received, REQUEST, (size_t)LENGTH);
        /*
         * Sent, and the stream ends: that is a failure at once, while without a request it could be a program that
         * only looked.
         */
        bare.close(peer);
        poll_for(fd, POLLIN);
        close(fd);
        expect(&server, "1 failed:early-close");
    }
    server_stop(&server);
}

static void every_send_makes_the_call_a_request(void **state)
{
    (void)state;
    sends_make_requests_on("127.0.0.2");
    sends_make_requests_on("unix");
}

static void three_sends_of_bad_memory_fail(int fd)
{
    struct iovec bad = {(void *)8, 4};
    struct msghdr message = {.msg_iov = &bad, .msg_iovlen = 1};
    assert_int_equal(send(fd, (void *)8, 4, 0), -1);
    assert_int_equal(errno, EFAULT);
    assert_int_equal(writev(fd, &bad, 1), -1);
    assert_int_equal(errno, EFAULT);
    assert_int_equal(sendmsg(fd, &message, 0), -1);
    assert_int_equal(errno, EFAULT);
}

static void sends_that_fail_for_own_reasons_leave_the_call(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.2", SERVER_LISTENS);
    int fd = caller_connect(&server, SOCK_NONBLOCK);
    poll_for(fd, POLLOUT);
    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_ERROR, &(int){0}, &(socklen_t){sizeof(int)}), 0);
    three_sends_of_bad_memory_fail(fd);
    assert_int_equal(write(fd, request, 0), 0);
    assert_int_equal(send(fd, request, 4, MSG_OOB | MSG_NOSIGNAL) >= 0, 1);
    expect(&server, "1 in-flight");
    close(fd);
    server_stop(&server);
}

/* On a connection that has answered, a request begins with its first byte: without one there is nothing to wait for. */
static void what_sends_nothing_is_no_request_on_a_kept_connection(void **state)
{
    struct server server;
    char room[8];
    int ends[2];
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    int fd = caller_connect(&server, 0), peer = server_accept(&server), file = request_file();
    for (int round = 0; round < 3; round++) {
        assert_int_equal(by_send(fd), LENGTH);
        assert_int_equal(bare.send(peer, "answer", 6, 0), 6);
        assert_int_equal(recv(fd, room, sizeof room, 0), 6);
    }
    expect(&server, "3 succeeded");
    assert_int_equal(write(fd, request, 0), 0);
    assert_int_equal(send(fd, request, 0, 0), 0);
    assert_int_equal(sendfile(fd, file, &(off_t){0}, 0), 0);
    expect(&server, "nothing");
    assert_int_equal(sendfile(fd, file, &(off_t){LENGTH}, 1), 0);
    expect(&server, "1 neutral:cancelled");
    three_sends_of_bad_memory_fail(fd);
    expect(&server, "3 neutral:cancelled");
    /* Not the socket is full, the pipe is empty. */
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(splice(ends[0], NULL, fd, NULL, 1, SPLICE_F_NONBLOCK), -1);
    assert_int_equal(errno, EAGAIN);
    bare.close(ends[1]);
    assert_int_equal(splice(ends[0], NULL, fd, NULL, 1, 0), 0);
    bare.close(ends[0]);
    expect(&server, "2 neutral:cancelled");
    wait_long();
    assert_int_equal(by_send(fd), LENGTH);
    assert_int_equal(bare.send(peer, "answer", 6, 0), 6);
    assert_int_equal(recv(fd, room, sizeof room, 0), 6);
    assert_int_equal(write(fd, request, 0), 0);
    expect(&server, "1 succeeded");
    wait_long();
    close(fd);
    expect(&server, "nothing");
    close(file);
    bare.close(peer);
    server_stop(&server);
}

static uint64_t draining_since_ms;

/* A peer that takes its time, and then takes all. */
static void *drain(void *context)
{
    static char block[65536];
    int peer = *(int *)context;
    wait_ms(100);
    draining_since_ms = now_ms();
    while (bare.recv(peer, block, sizeof block, 0) > 0) {
    }
    return NULL;
}

/* A request that blocks on its way, for it is larger than what the kernel holds: nobody waits for an answer yet. */
static void the_wait_for_an_answer_begins_when_the_request_is_sent(void **state)
{
    static char large[64 << 20];
    struct server server;
    pthread_t thread;
    char room[8];
    (void)state;
    server_start(&server, "127.0.0.6", SERVER_LISTENS);
    int fd = caller_connect(&server, 0), peer = server_accept(&server);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(by_send(fd), LENGTH);
        assert_int_equal(bare.recv(peer, room, (size_t)LENGTH, 0), LENGTH);
        assert_int_equal(bare.send(peer, "answer", 6, 0), 6);
        assert_int_equal(recv(fd, room, sizeof room, 0), 6);
    }
    assert_int_equal(pthread_create(&thread, NULL, drain, &peer), 0);
    assert_int_equal(send(fd, large, sizeof large, 0), sizeof large);
    assert_in_range(call_waits_since_ms(&server), draining_since_ms, now_ms());
    expect(&server, "2 succeeded, 1 in-flight");
    close(fd);
    assert_int_equal(pthread_join(thread, NULL), 0);
    expect(&server, "1 neutral:cancelled");
    bare.close(peer);
    server_stop(&server);
}

static void *send_large(void *context)
{
    static char large[16 << 20];
    CHECK(send(*(int *)context, large, sizeof large, 0) == sizeof large);
    return NULL;
}

/* Its connection has answered a request, although that was not known to be sent: no greeting, and so a kept one. */
static void an_answer_may_overtake_the_send_of_its_request(void **state)
{
    struct server server;
    pthread_t sender, drainer;
    char room[8];
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    int fd = caller_connect(&server, 0), peer = server_accept(&server);
    assert_int_equal(pthread_create(&sender, NULL, send_large, &fd), 0);
    poll_for(peer, POLLIN);
    assert_int_equal(bare.send(peer, "answer", 6, 0), 6);
    assert_int_equal(recv(fd, room, sizeof room, 0), 6);
    expect(&server, "1 succeeded");
    assert_int_equal(pthread_create(&drainer, NULL, drain, &peer), 0);
    assert_int_equal(pthread_join(sender, NULL), 0);
    assert_int_equal(by_send(fd), LENGTH);
    shutdown(peer, SHUT_WR);
    assert_int_equal(recv(fd, room, sizeof room, 0), 0);
    expect(&server, "1 neutral:stale");
    close(fd);
    assert_int_equal(pthread_join(drainer, NULL), 0);
    bare.close(peer);
    server_stop(&server);
}

static void full_buffer_is_no_failure(void **state)
{
    static char block[65536];
    struct server server;
    ssize_t sent;
    char room[8];
    (void)state;
    server_start(&server, "127.0.0.2", SERVER_LISTENS);
    int fd = caller_connect(&server, SOCK_NONBLOCK), peer = server_accept(&server);
    poll_for(fd, POLLOUT);
    for (int i = 0; i < 10000 && (sent = send(fd, block, sizeof block, 0)) > 0; i++) {
    }
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(call_phase(&server), PHASE_REQUESTED);
    expect(&server, "1 in-flight");
    /* The next request waits for a peer that has answered, and does not read. */
    assert_int_equal(bare.send(peer, "answer", 6, 0), 6);
    poll_for(fd, POLLIN);
    assert_int_equal(recv(fd, room, sizeof room, 0), 6);
    expect(&server, "1 succeeded");
    for (int i = 0; i < 10000 && (sent = send(fd, block, sizeof block, 0)) > 0; i++) {
    }
    assert_int_equal(errno, EAGAIN);
    expect(&server, "1 in-flight");
    close(fd);
    expect(&server, "1 neutral:cancelled");
    bare.close(peer);
    server_stop(&server);
}

static void every_send_on_a_reset_connection_is_a_reset(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.2", SERVER_LISTENS);
    for (size_t i = 0; i < SENDERS; i++) {
        int fd = caller_connect(&server, 0);
        server_reset(server_accept(&server));
        poll_for(fd, POLLIN);
        ssize_t sent = senders[i].send(fd);
        if (sent != -1 || (errno != ECONNRESET && errno != EPIPE))
            fail_msg("%s: %zd, errno %d", senders[i].name, sent, errno);
        expect(&server, "1 failed:reset");
        close(fd);
        expect(&server, "nothing");
    }
    server_stop(&server);
}

static volatile sig_atomic_t pipes;

static void count_pipe(int number)
{
    (void)number;
    pipes++;
}

static void sigpipe_comes_as_without_the_library(void **state)
{
    struct server server;
    struct sigaction action = {.sa_handler = count_pipe}, former;
    (void)state;
    server_start(&server, "127.0.0.2", SERVER_LISTENS);
    sigaction(SIGPIPE, &action, &former);
    int fd = caller_connect(&server, 0);
    shutdown(fd, SHUT_WR);
    assert_int_equal(send(fd, request, 1, 0), -1);
    assert_int_equal(errno, EPIPE);
    assert_int_equal(pipes, 1);
    assert_int_equal(send(fd, request, 1, MSG_NOSIGNAL), -1);
    assert_int_equal(pipes, 1);
    close(fd);
    expect(&server, "1 neutral:cancelled");
    sigaction(SIGPIPE, &former, NULL);
    server_stop(&server);
}

/* The kernel does not look at a vector of no parts. */
static void messages_without_bytes_may_have_any_vector(void **state)
{
    struct server server;
    struct iovec bytes = {"request", 7};
    struct mmsghdr messages[2] = {{.msg_hdr.msg_iov = (void *)1}, {.msg_hdr = {.msg_iov = &bytes, .msg_iovlen = 1}}};
    (void)state;
    server_start(&server, "127.0.0.2", SERVER_LISTENS);
    int fd = caller_connect(&server, 0);
    assert_int_equal(sendmmsg(fd, messages, 1, 0), 1);
    assert_int_equal(call_phase(&server), PHASE_CONNECTED);
    assert_int_equal(sendmmsg(fd, messages, 2, 0), 2);
    assert_int_equal(messages[0].msg_len, 0);
    assert_int_equal(messages[1].msg_len, 7);
    assert_int_equal(call_phase(&server), PHASE_REQUESTED);
    close(fd);
    server_stop(&server);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_send_makes_the_call_a_request),
        cmocka_unit_test(sends_that_fail_for_own_reasons_leave_the_call),
        cmocka_unit_test(what_sends_nothing_is_no_request_on_a_kept_connection),
        cmocka_unit_test(the_wait_for_an_answer_begins_when_the_request_is_sent),
        cmocka_unit_test(an_answer_may_overtake_the_send_of_its_request),
        cmocka_unit_test(full_buffer_is_no_failure),
        cmocka_unit_test(every_send_on_a_reset_connection_is_a_reset),
        cmocka_unit_test(sigpipe_comes_as_without_the_library),
        cmocka_unit_test(messages_without_bytes_may_have_any_vector),
    };
    stage_enter(argc, argv, NULL, NULL);
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
