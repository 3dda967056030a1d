/*
 * refusal BATCHES: nanoseconds of one connect that is refused, as the median over BATCHES batches.
 *
 * The port is bound and nobody listens on it. Bare, the kernel refuses; under a policy that opens at the first failure,
 * that first one (not measured) opens the circuit and the library refuses all others. socket and close stay outside the
 * measured time.
 */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "stopwatch.h"

#define SOCKETS 64

static void connect_refused(int fd, const struct sockaddr_in *address)
{
    if (connect(fd, (const struct sockaddr *)address, sizeof *address) == 0 || errno != ECONNREFUSED)
        err(1, "connect was not refused");
}

int main(int argc, char **argv)
{
    size_t batches = argc > 1 ? strtoul(argv[1], NULL, 10) : 500;
    double *samples = calloc(batches, sizeof *samples);
    int holder = socket(AF_INET, SOCK_STREAM, 0), fds[SOCKETS];
    struct sockaddr_in address = stopwatch_bind(holder);

    if (samples == NULL || batches == 0)
        err(1, "calloc");
    fds[0] = socket(AF_INET, SOCK_STREAM, 0);
    connect_refused(fds[0], &address);
    close(fds[0]);

    for (size_t batch = 0; batch < batches; batch++) {
        for (int i = 0; i < SOCKETS; i++) {
            if ((fds[i] = socket(AF_INET, SOCK_STREAM, 0)) < 0)
                err(1, "socket");
        }
        uint64_t start = stopwatch_ns();
        for (int i = 0; i < SOCKETS; i++)
            connect_refused(fds[i], &address);
        samples[batch] = (double)(stopwatch_ns() - start) / SOCKETS;
        for (int i = 0; i < SOCKETS; i++)
            close(fds[i]);
    }
    printf("%.1f\n", stopwatch_median(samples, batches));
    return 0;
}
