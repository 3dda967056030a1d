/*
 * growth.h - what is put beside a call, and the call itself where prices.h does not have it: a walk over these would
 * show.
 */
#ifndef TESTS_BENCH_GROWTH_H
#define TESTS_BENCH_GROWTH_H

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "prices.h"

#define GIVEN_UP_AFTER_US 60000 /* longer than that policy's abandon_after */

static double median_of(double (*once)(void))
{
    double samples[PAIRS];

    for (unsigned int i = 0; i < PAIRS; i++)
        samples[i] = once();
    return stopwatch_median(samples, PAIRS);
}

/* --- processes that are attached, each with a connection --- */

static pid_t *attached;
static unsigned int attached_count;

/* Whoever measures next under the same policy is to find their places free. */
static void end_processes(void)
{
    for (unsigned int i = 0; i < attached_count; i++)
        kill(attached[i], SIGKILL);
    for (unsigned int i = 0; i < attached_count; i++)
        waitpid(attached[i], NULL, 0);
}

static void prepare_processes(unsigned int count)
{
    int ready[2];
    char byte;

    attached = calloc(count, sizeof *attached);
    if (attached == NULL || atexit(end_processes) != 0)
        err(1, "no memory");
    listen_with(SOMAXCONN);
    if (pipe(ready) != 0)
        err(1, "pipe");
    for (unsigned int i = 0; i < count; i++) {
        pid_t parent = getpid(), child = fork();

        if (child < 0)
            err(CANNOT, "fork");
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            connect_live();
            if (getppid() != parent || write(ready[1], "!", 1) != 1)
                _exit(1);
            for (;;)
                pause();
        }
        attached[attached_count++] = child;
        if (read(ready[0], &byte, 1) != 1)
            err(1, "read");
        accept_one();
    }
}

/* Of a policy whose max_connections they have all taken: the library refuses. */
static double refused_by_the_limit(void)
{
    return refused(&live, 0);
}

/* --- destinations, descriptors, sockets with a duplicate --- */

static void prepare_circuits(unsigned int count)
{
    for (unsigned int i = 0; i < count; i++) {
        struct sockaddr_in address = stopwatch_bind(open_socket(0));

        refused(&address, 0);
    }
}

static void prepare_descriptors(unsigned int count)
{
    int null = open("/dev/null", O_RDONLY);

    for (unsigned int i = 0; i < count; i++) {
        if (dup(null) < 0)
            err(CANNOT, "dup");
    }
}

static void prepare_duplicates(unsigned int count)
{
    for (unsigned int i = 0; i < count; i++) {
        if (dup(open_socket(0)) < 0)
            err(CANNOT, "dup");
    }
}

static double refused_with_a_duplicate(void)
{
    return refused(&dead, 1);
}

/* --- connections held --- */

static void prepare_connections(unsigned int count)
{
    listen_with(SOMAXCONN);
    for (unsigned int i = 0; i < count; i++) {
        connect_live();
        accept_one();
    }
}

static double open_and_close(void)
{
    int fd = open_socket(0);
    uint64_t start = stopwatch_ns();

    if (connect(fd, (struct sockaddr *)&live, sizeof live) != 0)
        err(CANNOT, "connect");
    int copy = dup(fd);
    close(fd);
    close(copy);
    double took = (double)(stopwatch_ns() - start);
    close(accept_one());
    return took;
}

/* --- calls that become overdue, all at once, by the circuits' clock --- */

static unsigned int overdue_count;
static int (*overdue_pairs)[2];
static uint64_t *fake_now;

static void prepare_overdue(unsigned int count)
{
    int file = open(getenv("SOCKFUSE_CLOCK"), O_RDWR);

    fake_now = mmap(NULL, sizeof *fake_now, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (fake_now == MAP_FAILED)
        err(1, "mmap");
    listen_with(SOMAXCONN);
    overdue_count = count;
    overdue_pairs = reserve(count, sizeof *overdue_pairs);
    for (unsigned int i = 0; i < count; i++) {
        overdue_pairs[i][0] = connect_live();
        overdue_pairs[i][1] = accept_one();
    }
}

/* From this side's request to the other side's answer the connections hang. */
static void overdue_exchange(unsigned int side)
{
    for (unsigned int i = 0; i < overdue_count; i++)
        pass_byte(overdue_pairs[i][side], overdue_pairs[i][1 - side]);
}

/* The first attempt after they became overdue, which charges as many of them as one may. */
static double beside_the_overdue(void)
{
    overdue_exchange(0);
    __atomic_fetch_add(fake_now, UINT64_C(60000000000), __ATOMIC_RELAXED);
    double took = refused(&dead, 0);
    overdue_exchange(1);
    return took;
}

/* --- attempts that are pending, to a name with two addresses --- */

static int *pending, pending_next;
static unsigned int pending_count;

static int begin_pending(unsigned int number)
{
    struct sockaddr_in address = live;
    int fd = open_socket(SOCK_NONBLOCK);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + number % 2);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0 && errno != EINPROGRESS)
        err(CANNOT, "connect");
    return fd;
}

/* Nobody accepts, and the queue is full: the kernel answers nobody else. */
static void prepare_pending(unsigned int count)
{
    int any = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t length = sizeof live;
    struct sockaddr_in address = {.sin_family = AF_INET};

    if (bind(any, (struct sockaddr *)&address, sizeof address) != 0 || listen(any, 0) != 0 ||
        getsockname(any, (struct sockaddr *)&live, &length) != 0)
        err(1, "listen");
    for (unsigned int i = 0; i < 4; i++)
        begin_pending(i);
    usleep(GIVEN_UP_AFTER_US);
    pending_count = count + PAIRS;
    pending = reserve(pending_count, sizeof *pending);
    for (unsigned int i = 0; i < pending_count; i++)
        pending[i] = begin_pending(i);
}

static double give_one_up(void)
{
    uint64_t start = stopwatch_ns();

    close(pending[pending_next]);
    double took = (double)(stopwatch_ns() - start);
    pending[pending_next] = begin_pending((unsigned int)pending_next);
    pending_next = (pending_next + 1) % (int)pending_count;
    return took;
}

static double give_some_up(void)
{
    usleep(GIVEN_UP_AFTER_US);
    return median_of(give_one_up);
}

/* --- all of it --- */

static double refused_with_duplicates(void)
{
    return median_of(refused_with_a_duplicate);
}

static double open_and_close_some(void)
{
    return median_of(open_and_close);
}

static double refused_by_the_limit_some(void)
{
    return median_of(refused_by_the_limit);
}

static void prepare_nothing(unsigned int count)
{
    (void)count;
}

static const struct walk {
    const char *name;
    void (*prepare)(unsigned int count);
    double (*sample)(void);
} walks[] = {
    {"exchange", prepare_exchange, exchange_sample},
    {"connection", prepare_connection, connection_sample},
    {"refusal", prepare_nothing, refusal_sample},
    {"start", prepare_nothing, start_sample},
    {"processes", prepare_processes, refusal_sample},
    {"circuits", prepare_circuits, refusal_sample},
    {"connections", prepare_connections, open_and_close_some},
    {"overdue", prepare_overdue, beside_the_overdue},
    {"pending", prepare_pending, give_some_up},
    {"duplicates", prepare_duplicates, refused_with_duplicates},
    {"descriptors", prepare_descriptors, refusal_sample},
    {"holders", prepare_processes, refused_by_the_limit_some},
    {"targets", prepare_nothing, refusal_sample},
    {"patterns", prepare_nothing, start_sample},
};

static const struct walk *find_walk(const char *name)
{
    for (size_t i = 0; i < sizeof walks / sizeof *walks; i++) {
        if (strcmp(walks[i].name, name) == 0)
            return &walks[i];
    }
    errx(2, "no walk %s", name);
}

#endif
