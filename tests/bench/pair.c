/*
 * pair BATCHES: nanoseconds of one send and one recv of a byte on a connected TCP socket of 127.0.0.1, as the median
 * over BATCHES batches.
 *
 * The peer lives in the same thread and does its half between the batches, outside the measured time, so that nothing
 * but the two calls (and the kernel behind them) is seen. Every send follows an answer, so each pair is a whole call.
 */
#include <netinet/tcp.h>
#include <stdio.h>
#include <unistd.h>

#include "stopwatch.h"

#define PAIRS 64

int main(int argc, char **argv)
{
    size_t batches = argc > 1 ? strtoul(argv[1], NULL, 10) : 2000;
    double *samples = calloc(batches, sizeof *samples);
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0), peer, on = 1;
    struct sockaddr_in address = stopwatch_bind(listener);
    char buffer[PAIRS] = {0};

    if (samples == NULL || batches == 0 || listen(listener, 1))
        err(1, "listen");
    if (client < 0 || connect(client, (struct sockaddr *)&address, sizeof address))
        err(1, "connect");
    if ((peer = accept(listener, NULL, NULL)) < 0)
        err(1, "accept");
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);

    for (size_t batch = 0; batch < batches; batch++) {
        if (send(peer, buffer, PAIRS, 0) != PAIRS)
            err(1, "send");
        uint64_t start = stopwatch_ns();
        for (int i = 0; i < PAIRS; i++) {
            if (send(client, buffer, 1, 0) != 1 || recv(client, buffer, 1, 0) != 1)
                err(1, "send or recv");
        }
        samples[batch] = (double)(stopwatch_ns() - start) / PAIRS;
        if (recv(peer, buffer, PAIRS, MSG_WAITALL) != PAIRS)
            err(1, "recv");
    }
    printf("%.1f\n", stopwatch_median(samples, batches));
    return 0;
}
