/*
 * receives.c - operations of a play: everything that receives. See player.h. Receives of the calling side end after
 * its SO_RCVTIMEO.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "player.h"

/* What a program calls that was built with _FORTIFY_SOURCE. */
extern ssize_t fortified_recv(int fd, void *buffer, size_t count, size_t size, int flags) __asm__("__recv_chk");
extern ssize_t fortified_recvfrom(int fd, void *buffer, size_t count, size_t size, int flags, struct sockaddr *address,
                                  socklen_t *length) __asm__("__recvfrom_chk");
extern ssize_t fortified_read(int fd, void *buffer, size_t count, size_t size) __asm__("__read_chk");

static size_t any_count(void)
{
    static const size_t counts[] = {0, 1, 1, 3, 10, 64, 100, 1000, 5000, ROOM};
    return ONE_OF(counts);
}

static const char *received(void)
{
    return digest(player.bytes, sizeof player.bytes);
}

static void play_recv(void)
{
    int fd = once_in(4) ? any_descriptor() : any_readable(), flags = any_receive_flags();
    size_t count = any_count();
    void *bytes = any_memory();
    bool fortified = once_in(4);
    long result = fortified
                      ? CALL(fortified_recv(fd, bytes, count, ROOM, flags))
                      : EITHER(recv(fd, bytes, count, flags), syscall(SYS_recvfrom, fd, bytes, count, flags, 0, 0));
    told(fortified ? "__recv_chk" : "recv", result, "%zu, %x, %s", count, (unsigned int)flags, received());
}

static void play_recvfrom(void)
{
    static const socklen_t lengths[] = {sizeof(struct sockaddr_storage), sizeof(struct sockaddr_in), 3, 0, ~0u};
    int fd = once_in(4) ? any_descriptor() : any_readable(), flags = any_receive_flags();
    size_t count = any_count();
    void *bytes = any_memory();
    struct sockaddr_storage from = {0};
    socklen_t length = ONE_OF(lengths), *at = once_in(20) ? NULL : once_in(20) ? player.forbidden : &length;
    void *address = once_in(8) ? NULL : once_in(20) ? player.forbidden : &from;
    bool fortified = once_in(4);
    long result = fortified ? CALL(fortified_recvfrom(fd, bytes, count, ROOM, flags, address, at))
                            : EITHER(recvfrom(fd, bytes, count, flags, address, at),
                                     syscall(SYS_recvfrom, fd, bytes, count, flags, address, at));
    told(fortified ? "__recvfrom_chk" : "recvfrom", result, "%zu, %x, %s, %s", count, (unsigned int)flags, received(),
         address_text(&from, length));
}

static void play_read(void)
{
    int fd = once_in(4) ? any_descriptor() : any_readable();
    size_t count = any_count();
    void *bytes = any_memory();
    bool fortified = once_in(4);
    long result = fortified ? CALL(fortified_read(fd, bytes, count, ROOM))
                            : EITHER(read(fd, bytes, count), syscall(SYS_read, fd, bytes, count));
    told(fortified ? "__read_chk" : "read", result, "%zu, %s", count, received());
    lseek(player.file, 0, SEEK_SET);
}

/* Room in three parts. */
static int any_parts(struct iovec *room, struct iovec **vector)
{
    static const int counts[] = {0, 1, 1, 2, 3};
    int count = ONE_OF(counts);
    for (int i = 0; i < count; i++)
        room[i] = (struct iovec){i == 0 && once_in(20) ? player.forbidden : player.bytes + i * (ROOM / 3),
                                 any_count() % (ROOM / 3)};
    *vector = once_in(20) ? NULL : once_in(20) ? player.forbidden : room;
    return once_in(20) ? IOV_MAX + 1 : once_in(30) ? -1 : count;
}

static void play_readv(void)
{
    static struct iovec room[IOV_MAX + 1], *vector;
    int fd = once_in(4) ? any_descriptor() : any_readable(), count = any_parts(room, &vector);
    long result = EITHER(readv(fd, vector, count), syscall(SYS_readv, fd, vector, count));
    told("readv", result, "%d parts, %s", count, received());
    lseek(player.file, 0, SEEK_SET);
}

/* Descriptors that came are told and closed. */
static void tell_control(const struct msghdr *message, char *text, size_t size)
{
    int length = snprintf(text, size, "control %zu", message->msg_controllen);
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR((struct msghdr *)message, part)) {
        int fds[8];
        size_t bytes = part->cmsg_len - CMSG_LEN(0), count = bytes / sizeof(int);
        length +=
            snprintf(text + length, size - (size_t)length, " [%d %d %zu", part->cmsg_level, part->cmsg_type, bytes);
        if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS && count <= 8) {
            memcpy(fds, CMSG_DATA(part), count * sizeof(int));
            for (size_t i = 0; i < count; i++) {
                length += snprintf(text + length, size - (size_t)length, " fd %d", fds[i]);
                close(fds[i]);
            }
        }
        length += snprintf(text + length, size - (size_t)length, "]");
    }
}

static void play_recvmsg(void)
{
    static struct iovec room[IOV_MAX + 1], *vector;
    _Alignas(struct cmsghdr) char control[128];
    static const size_t sizes[] = {0, 0, 8, 20, sizeof control};
    struct sockaddr_storage from = {0};
    char text[300];
    int fd = once_in(4) ? any_descriptor() : any_readable(), flags = any_receive_flags(),
        count = any_parts(room, &vector);
    struct msghdr message = {.msg_iov = vector, .msg_iovlen = (size_t)count, .msg_control = control};
    struct msghdr *given = once_in(20) ? NULL : once_in(20) ? player.forbidden : &message;
    message.msg_controllen = ONE_OF(sizes);
    if (once_in(3)) {
        message.msg_name = &from;
        message.msg_namelen = sizeof from;
    }
    memset(control, 0, sizeof control);
    long result = EITHER(recvmsg(fd, given, flags), syscall(SYS_recvmsg, fd, given, flags));
    if (result >= 0)
        tell_control(&message, text, sizeof text);
    told("recvmsg", result, "%d parts, %x, %s, %s, %x, %s", count, (unsigned int)flags, received(),
         address_text(&from, message.msg_namelen), (unsigned int)message.msg_flags, result >= 0 ? text : "");
}

static void play_recvmmsg(void)
{
    static struct iovec rooms[2][IOV_MAX + 1], *vector;
    static const int more[] = {MSG_DONTWAIT, MSG_WAITFORONE, 0};
    struct mmsghdr messages[2];
    struct timespec timeouts[] = {{0, 1000000}, {0, 0}, {-1, 0}, {0, -1}}, *timeout = &ONE_OF(timeouts);
    int fd = once_in(4) ? any_descriptor() : any_readable(), flags = any_receive_flags() | ONE_OF(more);
    unsigned int count = chance(3);
    memset(messages, 0, sizeof messages);
    for (unsigned int i = 0; i < count; i++) {
        int parts = any_parts(rooms[i], &vector);
        messages[i].msg_hdr = (struct msghdr){.msg_iov = vector, .msg_iovlen = (size_t)parts};
        messages[i].msg_len = 77;
    }
    struct mmsghdr *given = once_in(20) ? NULL : once_in(20) ? player.forbidden : messages;
    if (once_in(2))
        timeout = NULL;
    long result =
        EITHER(recvmmsg(fd, given, count, flags, timeout), syscall(SYS_recvmmsg, fd, given, count, flags, timeout));
    told("recvmmsg", result, "%u, %x, timeout %s, %u %x %u %x, %s", count, (unsigned int)flags, timeout ? "yes" : "no",
         messages[0].msg_len, (unsigned int)messages[0].msg_hdr.msg_flags, messages[1].msg_len,
         (unsigned int)messages[1].msg_hdr.msg_flags, received());
}

/* Into the pipe, which then is emptied. */
static void splice_in(void)
{
    int fd = once_in(4) ? any_descriptor() : any_readable();
    size_t count = any_count();
    off64_t offset = 5, *at = once_in(12) ? &offset : NULL;
    unsigned int flags = once_in(20) ? 0xffff : once_in(3) ? 0 : SPLICE_F_NONBLOCK;
    long result = EITHER(splice(fd, at, player.pipe_in, NULL, count, flags),
                         syscall(SYS_splice, fd, at, player.pipe_in, NULL, count, flags));
    long came = read(player.pipe_out, player.bytes, sizeof player.bytes);
    told("splice:in", result, "%zu, %x, came %ld, %s", count, flags, came, received());
}

/* A signal comes while it waits. */
static void interrupted(void)
{
    const struct itimerval soon = {{0, 3000}, {0, 3000}}, none = {0};
    const struct timeval forever = {0}, short_wait = {.tv_usec = 5000};
    struct pollfd look = {.fd = ONE_OF(player.slots), .events = POLLIN};
    int type = 0, before = player.alarms;
    socklen_t length = sizeof type;
    player.fd = look.fd;
    player.by_number = once_in(4);
    if (look.fd < player.base || bare.getsockopt(look.fd, SOL_SOCKET, SO_TYPE, &type, &length) != 0 ||
        poll(&look, 1, 0) != 0)
        return;
    setsockopt(look.fd, SOL_SOCKET, SO_RCVTIMEO, &forever, sizeof forever);
    setitimer(ITIMER_REAL, &soon, NULL);
    long result = EITHER(recv(look.fd, player.bytes, 10, 0), syscall(SYS_read, look.fd, player.bytes, 10));
    setitimer(ITIMER_REAL, &none, NULL);
    setsockopt(look.fd, SOL_SOCKET, SO_RCVTIMEO, &short_wait, sizeof short_wait);
    player.alarms = before; /* how many there were is chance */
    told("recv:interrupted", result, "%s", "");
}

const struct operation receives[] = {
    {"recv", 10, play_recv},     {"recvfrom", 5, play_recvfrom},  {"read", 9, play_read},
    {"readv", 5, play_readv},    {"recvmsg", 7, play_recvmsg},    {"recvmmsg", 4, play_recvmmsg},
    {"splice in", 3, splice_in}, {"interrupted", 1, interrupted}, {NULL, 0, NULL},
};
