/*
 * options.c - operations of a play: options, addresses, shutdown, and what poll and epoll say. See player.h.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "player.h"

/* When an end is acknowledged is chance: the states before and after it are one. */
static unsigned char state_that_stays(unsigned char state)
{
    switch (state) {
    case TCP_FIN_WAIT2:
        return TCP_FIN_WAIT1;
    case TCP_LAST_ACK:
    case TCP_CLOSING:
    case TCP_TIME_WAIT:
        return TCP_CLOSE;
    default:
        return state;
    }
}

static void play_getsockopt(void)
{
    static const int pairs[][2] = {
        {SOL_SOCKET, SO_ERROR},      {SOL_SOCKET, SO_ERROR},     {SOL_SOCKET, SO_ERROR},
        {SOL_SOCKET, SO_TYPE},       {SOL_SOCKET, SO_DOMAIN},    {SOL_SOCKET, SO_PROTOCOL},
        {SOL_SOCKET, SO_ACCEPTCONN}, {SOL_SOCKET, SO_KEEPALIVE}, {SOL_SOCKET, SO_LINGER},
        {SOL_SOCKET, SO_RCVTIMEO},   {SOL_SOCKET, SO_SNDTIMEO},  {SOL_SOCKET, SO_OOBINLINE},
        {IPPROTO_TCP, TCP_NODELAY},  {IPPROTO_TCP, TCP_INFO},    {IPPROTO_TCP, TCP_KEEPIDLE},
        {IPPROTO_TCP, TCP_SYNCNT},   {IPPROTO_TCP, TCP_KEEPCNT}, {IPPROTO_IPV6, IPV6_V6ONLY},
        {SOL_SOCKET, SO_BROADCAST},  {SOL_SOCKET, 9999},         {9999, SO_ERROR},
    };
    static const socklen_t lengths[] = {4, 4, 16, 64, 0, 1, 2, 3, (socklen_t)-1};
    unsigned char value[64];
    int fd = any_descriptor();
    const int *pair = ONE_OF(pairs);
    socklen_t length = ONE_OF(lengths), *at = once_in(25) ? NULL : once_in(25) ? player.forbidden : &length;
    void *to = once_in(25) ? NULL : once_in(25) ? player.forbidden : value;
    memset(value, 0xa5, sizeof value);
    long result =
        EITHER(getsockopt(fd, pair[0], pair[1], to, at), syscall(SYS_getsockopt, fd, pair[0], pair[1], to, at));
    if (pair[0] == IPPROTO_TCP && pair[1] == TCP_INFO) {
        value[0] = state_that_stays(value[0]);
        memset(value + 1, 0, sizeof value - 1); /* what is measured */
    }
    told("getsockopt", result, "%d, %d, length %u, %s", pair[0], pair[1], length, digest(value, sizeof value));
}

static void play_setsockopt(void)
{
    static const int pairs[][2] = {{SOL_SOCKET, SO_KEEPALIVE},
                                   {SOL_SOCKET, SO_OOBINLINE},
                                   {IPPROTO_TCP, TCP_NODELAY},
                                   {IPPROTO_TCP, TCP_QUICKACK},
                                   {SOL_SOCKET, 9999}};
    int fd = any_target(), yes = 1;
    const int *pair = ONE_OF(pairs);
    player.fd = fd;
    player.by_number = once_in(4);
    long result = EITHER(setsockopt(fd, pair[0], pair[1], &yes, sizeof yes),
                         syscall(SYS_setsockopt, fd, pair[0], pair[1], &yes, sizeof yes));
    told("setsockopt", result, "%d, %d", pair[0], pair[1]);
}

static void set_a_timeout(void)
{
    const struct timeval waits = {.tv_usec = 1000 + 3000 * (suseconds_t)chance(4)};
    player.fd = any_target();
    player.by_number = false;
    long result = CALL(setsockopt(player.fd, SOL_SOCKET, SO_RCVTIMEO, &waits, sizeof waits));
    told("setsockopt:timeout", result, "%ld", (long)waits.tv_usec);
}

/* Of a reset when it is closed. */
static void set_linger(void)
{
    const struct linger linger = {.l_onoff = 1, .l_linger = 0};
    player.fd = any_target();
    player.by_number = false;
    long result = CALL(setsockopt(player.fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
    told("setsockopt:linger", result, "%s", "");
}

/* Not of the places' own. */
static void play_shutdown(void)
{
    static const int ways[] = {SHUT_RD, SHUT_WR, SHUT_WR, SHUT_RDWR, 3, -1};
    int fd = player.fd = any_target(), how = ONE_OF(ways);
    player.by_number = once_in(4);
    long result = EITHER(shutdown(fd, how), syscall(SYS_shutdown, fd, how));
    told("shutdown", result, "%d", how);
}

static void tell_names(void)
{
    struct sockaddr_storage own = {0}, peer = {0};
    socklen_t own_length = sizeof own, peer_length = sizeof peer;
    int fd = any_descriptor();
    player.by_number = false;
    long result = CALL(getsockname(fd, (struct sockaddr *)&own, &own_length));
    told("getsockname", result, "%s", result == 0 ? address_text(&own, own_length) : "");
    result = CALL(getpeername(fd, (struct sockaddr *)&peer, &peer_length));
    int place = 0;
    while (place < PLACES && memcmp(&player.places[place].at, &peer, peer_length) != 0)
        place++;
    told("getpeername", result, "%s, place %d", result == 0 ? address_text(&peer, peer_length) : "", place);
}

static void count_unread(void)
{
    int unread = -7, fd = any_descriptor();
    long result = EITHER(ioctl(fd, FIONREAD, &unread), syscall(SYS_ioctl, fd, FIONREAD, &unread));
    told("ioctl:FIONREAD", result, "%d", unread);
}

static void play_poll(void)
{
    struct pollfd looks[SLOTS];
    char text[SLOTS * 12] = "";
    int length = 0;
    for (int i = 0; i < SLOTS; i++)
        looks[i] = (struct pollfd){player.slots[i], POLLIN | POLLOUT | POLLPRI | POLLRDHUP, 0};
    player.fd = -1;
    player.by_number = false;
    long result = CALL(poll(looks, SLOTS, once_in(4) ? 1 : 0));
    for (int i = 0; i < SLOTS; i++)
        length += snprintf(text + length, sizeof text - (size_t)length, " %x", (unsigned int)looks[i].revents);
    told("poll", result, "%s", text);
}

static void play_epoll(void)
{
    static const int ways[] = {EPOLL_CTL_ADD, EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL};
    int way = ONE_OF(ways), fd = any_descriptor();
    struct epoll_event wanted = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP, .data.u32 = (uint32_t)fd}, came[SLOTS];
    player.by_number = false;
    long result = CALL(epoll_ctl(player.epoll, way, fd, &wanted));
    told("epoll_ctl", result, "%d", way);
    result = CALL(epoll_wait(player.epoll, came, SLOTS, 0));
    uint64_t sum = 0; /* in whatever order */
    for (long i = 0; i < result; i++)
        sum += (came[i].events + UINT64_C(1000003)) * (came[i].data.u32 + 7);
    told("epoll_wait", result, "%llu", (unsigned long long)sum);
}

/* The resolver's own sockets are not the program's. */
static void resolve(void)
{
    static const char *const hosts[] = {"localhost", "127.0.0.1", "::1", "not.a.number", NULL};
    static const char *const services[] = {"80", "http", "no-such-service", NULL};
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = once_in(2) ? AI_NUMERICHOST : 0};
    const char *host = ONE_OF(hosts), *service = ONE_OF(services);
    bool numeric = host && host[0] == 'n';
    struct addrinfo *list = NULL, only = {.ai_flags = AI_NUMERICHOST};
    char text[200] = "";
    int length = 0;
    player.fd = -1;
    player.by_number = false;
    long result = CALL(getaddrinfo(host, service, numeric ? &only : &hints, &list));
    for (struct addrinfo *at = list; at && length < 150; at = at->ai_next) {
        struct sockaddr_storage address = {0};
        memcpy(&address, at->ai_addr, at->ai_addrlen);
        length += snprintf(text + length, sizeof text - (size_t)length, " %s", address_text(&address, at->ai_addrlen));
    }
    if (list)
        freeaddrinfo(list);
    told("getaddrinfo", result, "%s, %s,%s", host ? host : "none", service ? service : "none", text);
}

const struct operation options[] = {
    {"getsockopt", 9, play_getsockopt},
    {"setsockopt", 2, play_setsockopt},
    {"set a timeout", 1, set_a_timeout},
    {"set linger", 1, set_linger},
    {"shutdown", 4, play_shutdown},
    {"names", 2, tell_names},
    {"unread", 2, count_unread},
    {"resolve", 1, resolve},
    {"poll", 3, play_poll},
    {"epoll", 3, play_epoll},
    {NULL, 0, NULL},
};
