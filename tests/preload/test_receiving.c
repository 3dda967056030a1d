/*
 * test_receiving.c - every function that receives shows the answer, the end of stream and the reset for what they are.
 */
/* links: core */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

/* What a program calls that was built with _FORTIFY_SOURCE. */
extern ssize_t __recv_chk(int fd, void *buffer, size_t count, size_t size, int flags);
extern ssize_t __recvfrom_chk(int fd, void *buffer, size_t count, size_t size, int flags, struct sockaddr *address,
                              socklen_t *length);
extern ssize_t __read_chk(int fd, void *buffer, size_t count, size_t size);
/* Another name that libc exports for read. */
extern ssize_t __read(int fd, void *buffer, size_t count);

static char room[64];
static struct iovec vector[2] = {{room, 3}, {room + 3, 61}};

static ssize_t by_recv(int fd)
{
    return recv(fd, room, sizeof room, 0);
}
static ssize_t by_recv_one(int fd)
{
    return recv(fd, room, 1, 0);
}
static ssize_t by_recv_all(int fd)
{
    return recv(fd, room, 3, MSG_WAITALL);
}
static ssize_t by_recv_peek(int fd)
{
    return recv(fd, room, sizeof room, MSG_PEEK);
}
static ssize_t by_recv_dontwait(int fd)
{
    return recv(fd, room, sizeof room, MSG_DONTWAIT);
}
static ssize_t by_recvfrom(int fd)
{
    struct sockaddr_storage from;
    socklen_t length = sizeof from;
    return recvfrom(fd, room, sizeof room, 0, (struct sockaddr *)&from, &length);
}
static ssize_t by_read(int fd)
{
    return read(fd, room, sizeof room);
}
static ssize_t by_readv(int fd)
{
    return readv(fd, vector, 2);
}
static ssize_t by_recvmsg(int fd)
{
    struct msghdr message = {.msg_iov = vector, .msg_iovlen = 2};
    return recvmsg(fd, &message, 0);
}
static ssize_t by_recvmmsg(int fd)
{
    struct mmsghdr messages = {.msg_hdr = {.msg_iov = vector, .msg_iovlen = 2}};
    int got = recvmmsg(fd, &messages, 1, 0, NULL);
    return got == 1 ? (ssize_t)messages.msg_len : got;
}
static ssize_t by_splice(int fd)
{
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    ssize_t got = splice(fd, NULL, ends[1], NULL, sizeof room, 0);
    int error = errno;
    bare.close(ends[0]);
    bare.close(ends[1]);
    errno = error;
    return got;
}
static ssize_t by_recv_chk(int fd)
{
    return __recv_chk(fd, room, 32, sizeof room, 0);
}
static ssize_t by_recvfrom_chk(int fd)
{
    return __recvfrom_chk(fd, room, 32, sizeof room, 0, NULL, NULL);
}
static ssize_t by_read_chk(int fd)
{
    return __read_chk(fd, room, 32, sizeof room);
}
static ssize_t by_read_alias(int fd)
{
    return __read(fd, room, sizeof room);
}
static ssize_t by_number_recvfrom(int fd)
{
    return syscall(SYS_recvfrom, fd, room, sizeof room, 0, NULL, NULL);
}
static ssize_t by_number_read(int fd)
{
    return syscall(SYS_read, fd, room, sizeof room);
}
static ssize_t by_number_readv(int fd)
{
    return syscall(SYS_readv, fd, vector, 2);
}
static ssize_t by_number_recvmsg(int fd)
{
    struct msghdr message = {.msg_iov = vector, .msg_iovlen = 2};
    return syscall(SYS_recvmsg, fd, &message, 0);
}
static ssize_t by_number_recvmmsg(int fd)
{
    struct mmsghdr messages = {.msg_hdr = {.msg_iov = vector, .msg_iovlen = 2}};
    long got = syscall(SYS_recvmmsg, fd, &messages, 1, 0, NULL);
    return got == 1 ? (ssize_t)messages.msg_len : got;
}
static ssize_t by_number_splice(int fd)
{
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    ssize_t got = syscall(SYS_splice, fd, NULL, ends[1], NULL, sizeof room, 0);
    int error = errno;
    bare.close(ends[0]);
    bare.close(ends[1]);
    errno = error;
    return got;
}

static const struct receiver {
    const char *name;
    ssize_t (*receive)(int fd);
    bool dontwait; /* an SO_RCVTIMEO does not concern it */
} receivers[] = {
    {"recv", by_recv, false},
    {"recv of one byte", by_recv_one, false},
    {"recv(MSG_WAITALL)", by_recv_all, false},
    {"recv(MSG_PEEK)", by_recv_peek, false},
    {"recv(MSG_DONTWAIT)", by_recv_dontwait, true},
    {"recvfrom", by_recvfrom, false},
    {"read", by_read, false},
    {"readv", by_readv, false},
    {"recvmsg", by_recvmsg, false},
    {"recvmmsg", by_recvmmsg, false},
    {"splice", by_splice, true},
    {"__recv_chk", by_recv_chk, false},
    {"__recvfrom_chk", by_recvfrom_chk, false},
    {"__read_chk", by_read_chk, false},
    {"__read", by_read_alias, false},
    {"syscall(SYS_recvfrom)", by_number_recvfrom, false},
    {"syscall(SYS_read)", by_number_read, false},
    {"syscall(SYS_readv)", by_number_readv, false},
    {"syscall(SYS_recvmsg)", by_number_recvmsg, false},
    {"syscall(SYS_recvmmsg)", by_number_recvmmsg, false},
    {"syscall(SYS_splice)", by_number_splice, true},
};
#define RECEIVERS (sizeof receivers / sizeof *receivers)

static void answers_are_seen_on(const char *host)
{
    struct server server;
    server_start(&server, host, SERVER_LISTENS);
    for (size_t i = 0; i < RECEIVERS; i++) {
        int fd = caller_connect(&server, 0), peer = server_accept(&server);
        assert_int_equal(bare.send(peer, "answer", 6, 0), 6);
        poll_for(fd, POLLIN);
        errno = 4242;
        ssize_t got = receivers[i].receive(fd);
        if (got <= 0 || errno != 4242)
            fail_msg("%s: %zd, errno %d", receivers[i].name, got, errno);
        at_hand = receivers[i].name;
        expect(&server, "1 succeeded");
        close(fd);
        bare.close(peer);
        expect(&server, "nothing");
    }
    server_stop(&server);
}

static void every_receive_sees_the_answer(void **state)
{
    (void)state;
    answers_are_seen_on("127.0.0.2");
    answers_are_seen_on("unix");
}

static void ends_are_seen_on(const char *host)
{
    struct server server;
    server_start(&server, host, SERVER_LISTENS);
    for (size_t i = 0; i < RECEIVERS; i++) {
        int fd = caller_connect(&server, 0);
        bare.close(server_accept(&server));
        poll_for(fd, POLLIN);
        errno = 4242;
        ssize_t got = receivers[i].receive(fd);
        if (got != 0 || errno != 4242)
            fail_msg("%s: %zd, errno %d", receivers[i].name, got, errno);
        at_hand = receivers[i].name;
        expect(&server, "1 failed:early-close");
        close(fd);
        expect(&server, "nothing");
    }
    server_stop(&server);
}

static void every_receive_sees_the_end_of_stream(void **state)
{
    (void)state;
    ends_are_seen_on("127.0.0.2");
    ends_are_seen_on("unix");
}

static void every_receive_sees_the_reset(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.2", SERVER_LISTENS);
    for (size_t i = 0; i < RECEIVERS; i++) {
        int fd = caller_connect(&server, 0);
        server_reset(server_accept(&server));
        poll_for(fd, POLLIN);
        ssize_t got = receivers[i].receive(fd);
        if (got != -1 || errno != ECONNRESET)
            fail_msg("%s: %zd, errno %d", receivers[i].name, got, errno);
        at_hand = receivers[i].name;
        expect(&server, "1 failed:reset");
        close(fd);
        expect(&server, "nothing");
    }
    server_stop(&server);
}

static void every_receive_sees_its_rcvtimeo_run_out(void **state)
{
    struct server server;
    struct timeval limit = {.tv_usec = 1000};
    int fds[RECEIVERS];
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    for (size_t i = 0; i < RECEIVERS; i++) {
        fds[i] = caller_connect(&server, 0);
        assert_int_equal(send(fds[i], "request", 7, 0), 7);
        assert_int_equal(setsockopt(fds[i], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    }
    wait_long(); /* from now on a limit that runs out is more than abandon_after away from the request */
    for (size_t i = 0; i < RECEIVERS; i++) {
        ssize_t got = receivers[i].receive(fds[i]);
        if (got != -1 || errno != EAGAIN)
            fail_msg("%s: %zd, errno %d", receivers[i].name, got, errno);
        at_hand = receivers[i].name;
        /* Seen by the receive itself; those that do not wait leave it to the close. */
        assert_int_equal(counted(&server, COUNT_FAILURE_KIND + FAILURE_RESPONSE_TIMEOUT),
                         receivers[i].dontwait ? i : i + 1);
        close(fds[i]);
        assert_int_equal(counted(&server, COUNT_FAILURE_KIND + FAILURE_RESPONSE_TIMEOUT), i + 1);
    }
    server_stop(&server);
}

static void read_too_much(void *context)
{
    volatile size_t count = sizeof room;
    int quiet = open("/dev/null", O_WRONLY | O_CLOEXEC);
    (void)context;
    dup2(quiet, STDERR_FILENO); /* libc says it loudly */
    __read_chk(STDIN_FILENO, room, count, 8);
}

static void fortified_overflow_is_still_caught_by_libc(void **state)
{
    (void)state;
    /* The check is libc's own: with a count above the buffer's size the program ends by SIGABRT. */
    int status = actor_wait(actor_fork(read_too_much, NULL));
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_receive_sees_the_answer),
        cmocka_unit_test(every_receive_sees_the_end_of_stream),
        cmocka_unit_test(every_receive_sees_the_reset),
        cmocka_unit_test(every_receive_sees_its_rcvtimeo_run_out),
        cmocka_unit_test(fortified_overflow_is_still_caught_by_libc),
    };
    stage_enter(argc, argv, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
