/*
 * attempts.c - operations of a play: socket and connect, well and badly called. See player.h.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "player.h"

#define WAITS_US 5000 /* for a place whose queue is full */

static void make_socket(void)
{
    static const int domains[] = {AF_INET, AF_INET, AF_INET6, AF_INET6, AF_UNIX, AF_UNIX, AF_UNSPEC, 9999};
    static const int types[] = {SOCK_STREAM, SOCK_STREAM, SOCK_STREAM, SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET, 0x77};
    static const int flags[] = {0, SOCK_NONBLOCK, SOCK_CLOEXEC, SOCK_NONBLOCK | SOCK_CLOEXEC};
    static const int protocols[] = {0, 0, 0, 0, IPPROTO_TCP, IPPROTO_UDP, 1, 9999};
    int domain = ONE_OF(domains), type = ONE_OF(types) | ONE_OF(flags), protocol = ONE_OF(protocols);
    player.by_number = once_in(4);
    long fd = EITHER(socket(domain, type, protocol), syscall(SYS_socket, domain, type, protocol));
    player.fd = (int)fd;
    player_keep((int)fd);
    told("socket", fd, "%d, %x, %d", domain, (unsigned int)type, protocol);
}

/* A place that the descriptor's family can reach, mostly. */
static enum place any_place(int fd)
{
    int domain = AF_INET;
    socklen_t length = sizeof domain;
    bare.getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length);
    if (place_for(fd, PLACES) == PLACE_DATAGRAM)
        return PLACE_DATAGRAM;
    for (;;) {
        enum place place = (enum place)chance(PLACES);
        bool is_good = place <= PLACE_ABSTRACT;
        if ((place_family(place) == domain || once_in(30)) && (is_good || once_in(2)))
            return place;
    }
}

static bool is_pending(int fd)
{
    unsigned char state = 0; /* the first byte of TCP_INFO */
    socklen_t length = sizeof state;
    return bare.getsockopt(fd, IPPROTO_TCP, TCP_INFO, &state, &length) == 0 && state == TCP_SYN_SENT;
}

/* Where nobody answers, a blocking connect comes back all the same. Only there: a slow machine would run into it. */
static void limit_wait(int fd, enum place place)
{
    bool hangs = place == PLACE_HOLE || place == PLACE_HOLE_PATH || is_pending(fd);
    const struct timeval waits = {.tv_usec = hangs ? WAITS_US : 0};
    if (fd >= player.base)
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &waits, sizeof waits);
}

static void call_connect(const char *name, const void *address, socklen_t length, int place)
{
    int fd = player.fd;
    long result = EITHER(connect(fd, address, length), syscall(SYS_connect, fd, address, length));
    told(name, result, "place %d, length %u", place, length);
}

static void connect_well(void)
{
    enum place place = any_place(any_descriptor());
    limit_wait(player.fd, place);
    call_connect("connect", &player.places[place].at, player.places[place].length, (int)place);
}

static void connect_with_odd_length(void)
{
    enum place place = any_place(any_descriptor());
    socklen_t whole = player.places[place].length;
    const socklen_t lengths[] = {0, 1, 2, 3, whole - 1, whole + 1, sizeof(struct sockaddr_storage), 129, 4096, ~0u};
    struct sockaddr_storage room[2] = {player.places[place].at};
    limit_wait(player.fd, place);
    call_connect("connect:length", room, ONE_OF(lengths), (int)place);
}

static void connect_with_odd_family(void)
{
    static const sa_family_t families[] = {AF_INET, AF_INET6, AF_UNIX, AF_PACKET, 0xffff};
    const sa_family_t *family;
    enum place place = any_place(any_descriptor());
    struct sockaddr_storage room = player.places[place].at;
    do /* a path's letters would be an address somewhere in the world; of the others it is this host's */
        family = &ONE_OF(families);
    while (place_family(place) == AF_UNIX && (*family == AF_INET || *family == AF_INET6));
    room.ss_family = *family;
    limit_wait(player.fd, place);
    call_connect("connect:family", &room, chance(2) ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6),
                 (int)place);
}

/* Addresses at which nothing can be. */
static void connect_to_nothing(void)
{
    static void *const nothings[] = {NULL, (void *)1, (void *)64, (void *)4095};
    any_descriptor();
    call_connect("connect:nothing", ONE_OF(nothings), chance(2) ? 16 : 0, -1);
}

static void connect_unaligned(void)
{
    char room[sizeof(struct sockaddr_storage) + 8];
    enum place place = any_place(any_descriptor());
    size_t shift = 1 + chance(7);
    memcpy(room + shift, &player.places[place].at, player.places[place].length);
    limit_wait(player.fd, place);
    call_connect("connect:unaligned", room + shift, player.places[place].length, (int)place);
}

static void dissolve(void)
{
    static const socklen_t lengths[] = {sizeof(struct sockaddr), 2, 1, sizeof(struct sockaddr_storage)};
    struct sockaddr_storage none = {.ss_family = AF_UNSPEC};
    player.by_number = once_in(4);
    player.fd = ONE_OF(player.slots); /* the place's own must go on listening */
    call_connect("connect:unspec", &none, ONE_OF(lengths), -1);
}

/* What most programs do. */
static void call_a_place(void)
{
    enum place place = once_in(6) ? (enum place)chance(PLACES) : (enum place)chance(PLACE_ABSTRACT + 1);
    int flags = once_in(2) ? SOCK_NONBLOCK : 0;
    player.by_number = false;
    long fd = CALL(socket(place_family(place), (place == PLACE_DATAGRAM ? SOCK_DGRAM : SOCK_STREAM) | flags, 0));
    player.fd = (int)fd;
    player_keep((int)fd);
    told("socket", fd, "for place %d", (int)place);
    limit_wait((int)fd, place);
    call_connect("connect", &player.places[place].at, player.places[place].length, (int)place);
}

/* With TCP Fast Open, the first send connects. */
static void send_fast(void)
{
    static const int flags[] = {0, MSG_DONTWAIT, MSG_NOSIGNAL};
    enum place place = any_place(any_descriptor());
    size_t count = any_bytes();
    int flag = ONE_OF(flags) | MSG_FASTOPEN, fd = player.fd;
    void *bytes = any_memory();
    struct sockaddr *address = once_in(10) ? NULL : (struct sockaddr *)&player.places[place].at;
    socklen_t length = player.places[place].length;
    struct iovec vector = {bytes, count};
    struct msghdr message = {.msg_name = address, .msg_namelen = length, .msg_iov = &vector, .msg_iovlen = 1};
    long result;
    limit_wait(fd, place);
    if (once_in(2))
        result = EITHER(sendto(fd, bytes, count, flag, address, length),
                        syscall(SYS_sendto, fd, bytes, count, flag, address, length));
    else
        result = EITHER(sendmsg(fd, &message, flag), syscall(SYS_sendmsg, fd, &message, flag));
    told("send:fastopen", result, "place %d, %zu, %x", (int)place, count, (unsigned int)flag);
}

static void connect_lazily(void)
{
    int yes = 1;
    any_descriptor();
    player.by_number = false;
    long result = CALL(setsockopt(player.fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &yes, sizeof yes));
    told("setsockopt:fastopen", result, "%s", "");
}

const struct operation attempts[] = {
    {"socket", 4, make_socket},
    {"call a place", 26, call_a_place},
    {"connect", 8, connect_well},
    {"connect, odd length", 3, connect_with_odd_length},
    {"connect, odd family", 2, connect_with_odd_family},
    {"connect to nothing", 1, connect_to_nothing},
    {"connect, unaligned", 1, connect_unaligned},
    {"dissolve", 2, dissolve},
    {"send with Fast Open", 3, send_fast},
    {"connect with Fast Open", 1, connect_lazily},
    {NULL, 0, NULL},
};
