/*
 * stopwatch.h - the clock of the benchmarks, the median of their samples, and what they do with sockets.
 */
#ifndef TESTS_BENCH_STOPWATCH_H
#define TESTS_BENCH_STOPWATCH_H

#include <arpa/inet.h>
#include <err.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#define CANNOT 77 /* exit status: this machine can't */

/* Nanoseconds of CLOCK_MONOTONIC. */
static inline uint64_t stopwatch_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline int stopwatch_compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

/* One preempted sample in ten must not move the result. Sorts `samples`. */
static inline double stopwatch_median(double *samples, size_t count)
{
    qsort(samples, count, sizeof *samples, stopwatch_compare);
    return samples[count / 2];
}

/* Binds `fd` to a port of 127.0.0.1 that the kernel picks, and returns the address. */
static inline struct sockaddr_in stopwatch_bind(int fd)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, length) ||
        getsockname(fd, (struct sockaddr *)&address, &length))
        err(CANNOT, "bind");
    return address;
}

static struct sockaddr_in dead; /* nobody listens there: the kernel refuses */
static struct sockaddr_in live; /* where listen_with listens */
static int listener = -1;

static inline void *reserve(size_t count, size_t size)
{
    void *memory = calloc(count, size);

    if (memory == NULL)
        err(1, "calloc");
    return memory;
}

static inline int open_socket(int flags)
{
    int fd = socket(AF_INET, SOCK_STREAM | flags, 0);

    if (fd < 0)
        err(CANNOT, "socket");
    return fd;
}

static inline void listen_with(int backlog)
{
    listener = open_socket(0);
    live = stopwatch_bind(listener);
    if (listen(listener, backlog) != 0)
        err(1, "listen");
}

static inline int connect_live(void)
{
    int fd = open_socket(0);

    if (connect(fd, (struct sockaddr *)&live, sizeof live) != 0)
        err(CANNOT, "connect");
    return fd;
}

static inline int accept_one(void)
{
    int fd = accept(listener, NULL, NULL);

    if (fd < 0)
        err(CANNOT, "accept");
    return fd;
}

/* One byte from `fd` to `peer`. */
static inline void pass_byte(int fd, int peer)
{
    char byte = '!';

    if (send(fd, &byte, 1, MSG_NOSIGNAL) != 1 || recv(peer, &byte, 1, 0) != 1)
        err(1, "send or recv");
}

#endif
