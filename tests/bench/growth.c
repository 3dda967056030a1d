/*
 * growth WALK SMALL LARGE ROUNDS LIBRARY POLICY-SMALL POLICY-LARGE: what one call costs beside SMALL others, and beside
 * LARGE: two medians in nanoseconds, then the median of the rounds' ratios and how far its middle half spreads.
 *
 * The two measure themselves at the same time, each in a process of its own under the library and its own policy, in
 * turn: what else the machine does hits both alike. Which others there are is told by the walk (see `walks`). Exit
 * status 77: this machine can't.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stopwatch.h"
#include "walks.h"

#define NAMES "twins=127.0.0.1,127.0.0.2" /* a name with two addresses; see the policy of `pending` */

/* --- the two that are measured --- */

/* Says when it is ready, and then takes a sample for each byte that it is sent. */
static int measured(const struct walk *walk, unsigned int count)
{
    struct rlimit files;
    double sample = 0;
    char byte;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    dead = stopwatch_bind(open_socket(0));
    walk->prepare(count);
    walk->sample();
    do {
        if (write(STDOUT_FILENO, &sample, sizeof sample) != sizeof sample)
            return 1;
    } while (read(STDIN_FILENO, &byte, 1) == 1 && (sample = walk->sample()) > 0);
    return 0;
}

struct side {
    pid_t process;
    int to, from;
};

static struct side start_side(char **argv, const char *count, const char *policy)
{
    int to[2], from[2];
    struct side side;

    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0 || (side.process = fork()) < 0)
        err(1, "fork");
    if (side.process == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        setenv("LD_PRELOAD", argv[5], 1);
        setenv("SOCKFUSE_POLICY", policy, 1);
        setenv("SOCKFUSE_NAMES", NAMES, 1);
        execl("/proc/self/exe", argv[0], argv[1], count, (char *)NULL);
        err(1, "exec");
    }
    close(to[0]);
    close(from[1]);
    side.to = to[1];
    side.from = from[0];
    return side;
}

/* What it has to say next; a side that can't says nothing and ends. */
static double hear(const struct side *side)
{
    double sample;
    int status;

    if (read(side->from, &sample, sizeof sample) == sizeof sample)
        return sample;
    waitpid(side->process, &status, 0);
    exit(WIFEXITED(status) && WEXITSTATUS(status) == CANNOT ? CANNOT : 1);
}

static double ask(const struct side *side)
{
    if (write(side->to, "?", 1) != 1)
        err(1, "write");
    return hear(side);
}

int main(int argc, char **argv)
{
    if (argc == 3)
        return measured(find_walk(argv[1]), (unsigned int)strtoul(argv[2], NULL, 10));
    if (argc != 8)
        errx(2, "usage: growth WALK SMALL LARGE ROUNDS LIBRARY POLICY-SMALL POLICY-LARGE");
    size_t rounds = strtoul(argv[4], NULL, 10);
    double *small = reserve(rounds + 1, sizeof *small), *large = reserve(rounds + 1, sizeof *large);
    double *ratios = reserve(rounds + 1, sizeof *ratios);
    struct side sides[2] = {start_side(argv, argv[2], argv[6]), start_side(argv, argv[3], argv[7])};

    hear(&sides[0]);
    hear(&sides[1]);
    for (size_t round = 0; round < rounds; round++) {
        /* Each goes first in half of the rounds. */
        if (round % 2 == 0)
            small[round] = ask(&sides[0]);
        large[round] = ask(&sides[1]);
        if (round % 2 != 0)
            small[round] = ask(&sides[0]);
        ratios[round] = large[round] / small[round];
    }
    double ratio = stopwatch_median(ratios, rounds);
    printf("%.0f %.0f %.3f %.2f %.2f\n", stopwatch_median(small, rounds), stopwatch_median(large, rounds), ratio,
           ratios[rounds / 4], ratios[rounds - 1 - rounds / 4]);
    return 0;
}
