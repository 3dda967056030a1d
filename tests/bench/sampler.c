/*
 * sampler WALK COUNT: measures one kind of call (`walks`, in growth.h), beside COUNT others where it has such. Writes
 * when it is ready, and then for each byte that it reads, what the call costs now: nanoseconds, as a double. Ends with
 * its input.
 *
 * bench.py runs two of them at the same time, each in an environment of its own (bare, guarded, another policy), and
 * asks them by turns: so what else the machine does hits both alike. Exit status 77: this machine can't.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "growth.h"

#define SPARE 100 /* descriptors beside those that are counted */

/* Who may not raise it is told so by what fails then. */
static void allow_files(unsigned int count)
{
    struct rlimit files = {count + SPARE, count + SPARE}, present;

    if (getrlimit(RLIMIT_NOFILE, &present) != 0 || present.rlim_cur >= files.rlim_cur)
        return;
    if (files.rlim_max < present.rlim_max)
        files.rlim_max = present.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
}

int main(int argc, char **argv)
{
    double sample = 0;
    char byte;

    if (argc != 3)
        errx(2, "usage: sampler WALK COUNT");
    const struct walk *walk = find_walk(argv[1]);
    unsigned int count = (unsigned int)strtoul(argv[2], NULL, 10);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    allow_files(2 * count);
    dead = stopwatch_bind(open_socket(0));
    walk->prepare(count);
    walk->sample();
    do {
        if (write(STDOUT_FILENO, &sample, sizeof sample) != sizeof sample)
            return 1;
        if (read(STDIN_FILENO, &byte, 1) != 1)
            return 0;
    } while ((sample = walk->sample()) > 0);
    return 1;
}
