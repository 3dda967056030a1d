/*
 * What the benchmarks share: the clock, a loopback listener, and the median of their samples.
 * Each benchmark is one small program that prints one number; scripts/bench runs it bare and guarded, in turn, and
 * compares. Not for the tests: nothing here judges anything.
 */
#ifndef TESTS_BENCH_STOPWATCH_H
#define TESTS_BENCH_STOPWATCH_H

#include <arpa/inet.h>
#include <err.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

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

/* The median: one preempted sample in ten must not move the result. Sorts `samples`. */
static inline double stopwatch_median(double *samples, size_t count)
{
    qsort(samples, count, sizeof *samples, stopwatch_compare);
    return samples[count / 2];
}

/* Binds `fd` to a port of 127.0.0.1 that the kernel picks, and returns the address. Exits when that fails. */
static inline struct sockaddr_in stopwatch_bind(int fd)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, length) ||
        getsockname(fd, (struct sockaddr *)&address, &length))
        err(1, "bind");
    return address;
}

#endif
