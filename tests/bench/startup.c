/*
 * startup RUNS [LIBRARY]: nanoseconds from the spawn of /bin/true to its end, as the median over RUNS runs; with
 * LIBRARY, /bin/true is started with that in LD_PRELOAD.
 */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stopwatch.h"

int main(int argc, char **argv)
{
    size_t runs = argc > 1 ? strtoul(argv[1], NULL, 10) : 200;
    double *samples = calloc(runs, sizeof *samples);
    char *child[] = {(char *)"/bin/true", NULL};

    if (samples == NULL || runs == 0)
        err(1, "calloc");
    if (argc > 2)
        setenv("LD_PRELOAD", argv[2], 1);
    for (size_t run = 0; run < runs; run++) {
        pid_t pid;
        int status;
        uint64_t start = stopwatch_ns();

        if (posix_spawn(&pid, child[0], NULL, NULL, child, environ) || waitpid(pid, &status, 0) != pid || status != 0)
            errx(1, "%s did not run", child[0]);
        samples[run] = (double)(stopwatch_ns() - start);
    }
    printf("%.0f\n", stopwatch_median(samples, runs));
    return 0;
}
