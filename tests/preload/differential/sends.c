/*
 * sends.c - operations of a play: everything that sends. See player.h.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "player.h"

#define PARTS 4

static void play_send(void)
{
    int fd = any_descriptor(), flags = any_send_flags();
    size_t count = any_bytes();
    void *bytes = any_memory();
    long result = EITHER(send(fd, bytes, count, flags), syscall(SYS_sendto, fd, bytes, count, flags, NULL, 0));
    told("send", result, "%zu, %x", count, (unsigned int)flags);
}

static void play_sendto(void)
{
    int fd = any_descriptor(), flags = any_send_flags();
    enum place place = place_for(fd, (enum place)chance(PLACES));
    size_t count = any_bytes();
    void *bytes = any_memory();
    const socklen_t lengths[] = {player.places[place].length, player.places[place].length, 0, 1, 4096};
    socklen_t length = ONE_OF(lengths);
    void *address = once_in(8) ? NULL : once_in(12) ? player.forbidden : &player.places[place].at;
    long result = EITHER(sendto(fd, bytes, count, flags, address, length),
                         syscall(SYS_sendto, fd, bytes, count, flags, address, length));
    told("sendto", result, "%zu, %x, place %d, %u", count, (unsigned int)flags, (int)place, length);
}

static void play_write(void)
{
    int fd = any_descriptor();
    size_t count = any_bytes();
    void *bytes = any_memory();
    long result = EITHER(write(fd, bytes, count), syscall(SYS_write, fd, bytes, count));
    told("write", result, "%zu", count);
}

/* Parts of what any_bytes made; returns how many. `vector` may be too long for the kernel, or not there. */
static int any_parts(struct iovec *room, struct iovec **vector)
{
    static const int counts[] = {0, 1, 1, 2, 3, PARTS};
    size_t left = any_bytes(), at = 0;
    int count = ONE_OF(counts);
    for (int i = 0; i < count; i++) {
        size_t part = i == count - 1 ? left : chance((uint32_t)left + 1);
        room[i] = (struct iovec){i == 0 && once_in(20) ? player.forbidden : player.bytes + at, part};
        at += part;
        left -= part;
    }
    *vector = once_in(20) ? NULL : once_in(20) ? player.forbidden : room;
    if (once_in(30))
        room[0].iov_len = (size_t)-1;
    return once_in(20) ? IOV_MAX + 1 : once_in(30) ? -1 : count;
}

static void play_writev(void)
{
    static struct iovec room[IOV_MAX + 1], *vector;
    int fd = any_descriptor(), count = any_parts(room, &vector);
    long result = EITHER(writev(fd, vector, count), syscall(SYS_writev, fd, vector, count));
    told("writev", result, "%d parts", count);
}

/* Descriptors, or bytes that are none; returns how long. */
static size_t any_control(char *room)
{
    struct cmsghdr *part = (struct cmsghdr *)room;
    int fds[2] = {ONE_OF(player.slots), player.file};
    size_t count = 1 + chance(2);
    *part = (struct cmsghdr){CMSG_LEN(count * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(part), fds, count * sizeof(int));
    switch (chance(5)) {
    case 0:
        part->cmsg_len = 3;
        return 16;
    case 1:
        part->cmsg_type = 99;
        break;
    default:
        break;
    }
    return CMSG_SPACE(count * sizeof(int));
}

static void play_sendmsg(void)
{
    static struct iovec room[IOV_MAX + 1], *vector;
    _Alignas(struct cmsghdr) char control[64];
    int fd = any_descriptor(), flags = any_send_flags(), count = any_parts(room, &vector);
    enum place place = place_for(fd, (enum place)chance(PLACES));
    struct msghdr message = {.msg_iov = vector, .msg_iovlen = (size_t)count};
    const struct msghdr *given = once_in(20) ? NULL : once_in(20) ? player.forbidden : &message;
    if (once_in(4)) {
        message.msg_name = &player.places[place].at;
        message.msg_namelen = player.places[place].length;
    }
    if (once_in(4)) {
        message.msg_control = once_in(10) ? player.forbidden : control;
        message.msg_controllen = any_control(control);
    }
    long result = EITHER(sendmsg(fd, given, flags), syscall(SYS_sendmsg, fd, given, flags));
    told("sendmsg", result, "%d parts, name %u, control %zu, %x", count, message.msg_namelen, message.msg_controllen,
         (unsigned int)flags);
}

static void play_sendmmsg(void)
{
    static const unsigned int counts[] = {0, 1, 2, 3};
    static struct iovec rooms[3][IOV_MAX + 1], *vector;
    struct mmsghdr messages[3];
    int fd = any_descriptor(), flags = any_send_flags(), parts = 0;
    unsigned int count = ONE_OF(counts);
    memset(messages, 0, sizeof messages);
    for (unsigned int i = 0; i < count; i++) {
        parts = any_parts(rooms[i], &vector);
        messages[i].msg_hdr = (struct msghdr){.msg_iov = vector, .msg_iovlen = (size_t)parts};
        messages[i].msg_len = 77;
    }
    struct mmsghdr *given = once_in(20) ? NULL : once_in(20) ? player.forbidden : messages;
    long result = EITHER(sendmmsg(fd, given, count, flags), syscall(SYS_sendmmsg, fd, given, count, flags));
    told("sendmmsg", result, "%u, %x, lengths %u %u %u", count, (unsigned int)flags, messages[0].msg_len,
         messages[1].msg_len, messages[2].msg_len);
}

static void play_sendfile(void)
{
    static const size_t counts[] = {0, 1, 100, 5000, 30000};
    int fd = any_descriptor(), in = once_in(10) ? any_target() : player.file;
    off_t offset = (off_t)chance(40000), *at = once_in(3) ? NULL : once_in(12) ? player.forbidden : &offset;
    size_t count = ONE_OF(counts);
    bool large = once_in(2);
    long result = player.by_number ? CALL(syscall(SYS_sendfile, fd, in, at, count))
                  : large          ? CALL(sendfile64(fd, in, at, count))
                                   : CALL(sendfile(fd, in, at, count));
    told("sendfile", result, "%zu, offset now %ld, position %ld", count, (long)offset,
         (long)lseek(player.file, 0, SEEK_CUR));
    lseek(player.file, 0, SEEK_SET);
}

/* From the pipe, which then is empty again. */
static void splice_out(void)
{
    static const size_t counts[] = {0, 1, 100, 5000, 30000};
    static char rest[ROOM];
    int fd = any_descriptor();
    size_t count = ONE_OF(counts), filled = once_in(4) ? 0 : any_bytes();
    off64_t offset = 5, *at = once_in(12) ? &offset : NULL;
    unsigned int flags = once_in(3) ? SPLICE_F_MORE | SPLICE_F_NONBLOCK : SPLICE_F_NONBLOCK;
    flags = once_in(20) ? 0xffff : flags & ~(unsigned int)SPLICE_F_MORE;
    long in = write(player.pipe_in, player.bytes, filled);
    long result = EITHER(splice(player.pipe_out, NULL, fd, at, count, flags),
                         syscall(SYS_splice, player.pipe_out, NULL, fd, at, count, flags));
    long left = read(player.pipe_out, rest, sizeof rest);
    told("splice:out", result, "%zu of %ld, %x, left %ld", count, in, flags, left);
}

const struct operation sends[] = {
    {"send", 10, play_send},        {"sendto", 5, play_sendto},    {"write", 8, play_write},
    {"writev", 5, play_writev},     {"sendmsg", 7, play_sendmsg},  {"sendmmsg", 4, play_sendmmsg},
    {"sendfile", 4, play_sendfile}, {"splice out", 3, splice_out}, {NULL, 0, NULL},
};
