/*
 * prices.h - the calls whose price is compared, bare and guarded. Each sample is nanoseconds of one of them.
 *
 * The peer lives in the same thread and does its half outside the measured time, so that nothing is seen but the
 * program's own calls and the kernel behind them.
 */
#ifndef TESTS_BENCH_PRICES_H
#define TESTS_BENCH_PRICES_H

#include <errno.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stopwatch.h"

#define PAIRS 64 /* calls in a batch */

/* --- a send and a receive on a kept connection: each send follows an answer, so each pair is a whole call --- */

static int kept, kept_peer;

static void prepare_exchange(unsigned int count)
{
    int on = 1;

    (void)count;
    listen_with(1);
    kept = connect_live();
    kept_peer = accept_one();
    setsockopt(kept, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(kept_peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static double exchange_batch(void)
{
    char buffer[PAIRS] = {0};

    if (send(kept_peer, buffer, PAIRS, 0) != PAIRS)
        err(1, "send");
    uint64_t start = stopwatch_ns();
    for (int i = 0; i < PAIRS; i++) {
        if (send(kept, buffer, 1, 0) != 1 || recv(kept, buffer, 1, 0) != 1)
            err(1, "send or recv");
    }
    double took = (double)(stopwatch_ns() - start);
    if (recv(kept_peer, buffer, PAIRS, MSG_WAITALL) != PAIRS)
        err(1, "recv");
    return took / PAIRS;
}

static double exchange_sample(void)
{
    double samples[9];

    for (unsigned int i = 0; i < 9; i++)
        samples[i] = exchange_batch();
    return stopwatch_median(samples, 9);
}

/* --- a connection, which is opened and closed; the request and its answer in between are not measured --- */

static void prepare_connection(unsigned int count)
{
    (void)count;
    listen_with(1);
}

static double connection_sample(void)
{
    double samples[PAIRS];

    for (unsigned int i = 0; i < PAIRS; i++) {
        int fd = open_socket(0);
        uint64_t start = stopwatch_ns();
        if (connect(fd, (struct sockaddr *)&live, sizeof live) != 0)
            err(CANNOT, "connect");
        samples[i] = (double)(stopwatch_ns() - start);
        int peer = accept_one();
        pass_byte(fd, peer);
        pass_byte(peer, fd);
        start = stopwatch_ns();
        close(fd);
        samples[i] += (double)(stopwatch_ns() - start);
        close(peer);
    }
    return stopwatch_median(samples, PAIRS);
}

/* --- a refusal: by the kernel, or under a policy that has opened at the first one, by the library --- */

/* Nanoseconds of one connect that nobody answers, whoever refuses it. */
static double refused(const struct sockaddr_in *address, int copied)
{
    int fd = open_socket(0), copy = copied ? dup(fd) : -1;
    uint64_t start = stopwatch_ns();
    int result = connect(fd, (const struct sockaddr *)address, sizeof *address);
    double took = (double)(stopwatch_ns() - start);

    if (result == 0 || errno != ECONNREFUSED)
        errx(1, "connect was not refused");
    close(fd);
    if (copied)
        close(copy);
    return took;
}

static double refusal_sample(void)
{
    double samples[PAIRS];

    for (unsigned int i = 0; i < PAIRS; i++)
        samples[i] = refused(&dead, 0);
    return stopwatch_median(samples, PAIRS);
}

/* --- a program's start and end, with this one's environment --- */

static double start_a_program(void)
{
    char *const words[] = {(char *)"true", NULL};
    uint64_t start = stopwatch_ns();
    pid_t child;
    int status;

    if (posix_spawn(&child, "/bin/true", NULL, NULL, words, environ) != 0 || waitpid(child, &status, 0) != child ||
        status != 0)
        errx(1, "/bin/true did not run");
    return (double)(stopwatch_ns() - start);
}

/* The fastest of some: one that had to wait for its processor says nothing of what a start takes. */
static double start_sample(void)
{
    double fastest = start_a_program();

    for (unsigned int i = 1; i < 5; i++) {
        double took = start_a_program();
        if (took < fastest)
            fastest = took;
    }
    return fastest;
}

#endif
