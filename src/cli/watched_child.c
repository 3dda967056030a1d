/*
 * watched_child.c - a program as this process's child. See watched_child.h.
 */
#define _GNU_SOURCE
#include "cli/watched_child.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Those by which programs are told to end, to read their files anew, or something of their own. */
static const int handed_on[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGCONT};
#define HANDED_ON (sizeof handed_on / sizeof *handed_on)

static volatile sig_atomic_t child_pid;

/* What the kernel sends (a terminal's keys, its hanging up) goes to the whole group; the child has it already. */
static void hand_on(int number, siginfo_t *information, void *context)
{
    const int error = errno;
    (void)context;
    if (information->si_code <= 0 && information->si_pid != child_pid)
        kill(child_pid, number);
    errno = error;
}

static void watch_signals(void)
{
    for (size_t i = 0; i < HANDED_ON; i++) {
        struct sigaction action = {.sa_sigaction = hand_on, .sa_flags = SA_SIGINFO | SA_RESTART};
        sigemptyset(&action.sa_mask);
        sigaction(handed_on[i], &action, NULL);
    }
}

/* Looks now and then until the child ends. Where its end can't be waited for so (before Linux 5.3), nobody looks. */
static void look_until_end(pid_t pid, const struct watch *watch)
{
    struct pollfd end = {.fd = pidfd_open(pid, 0), .events = POLLIN};
    if (end.fd < 0)
        return;
    for (int ready = 0; ready == 0 || (ready < 0 && errno == EINTR);) {
        ready = poll(&end, 1, watch->every_ms);
        if (ready == 0)
            watch->look(watch->context);
    }
    close(end.fd);
}

bool watched_child_run(int (*become)(void *context), void *context, const struct watch *watch, pid_t *pid, int *status)
{
    sigset_t watched, before;
    sigemptyset(&watched);
    for (size_t i = 0; i < HANDED_ON; i++)
        sigaddset(&watched, handed_on[i]);
    /* None is to come before it can be handed on. */
    sigprocmask(SIG_BLOCK, &watched, &before);
    *pid = fork();
    if (*pid == 0) {
        sigprocmask(SIG_SETMASK, &before, NULL);
        _exit(become(context));
    }
    if (*pid > 0) {
        child_pid = *pid;
        watch_signals();
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (*pid < 0)
        return false;
    if (watch != NULL)
        look_until_end(*pid, watch);
    while (waitpid(*pid, status, 0) < 0)
        if (errno != EINTR)
            return false;
    return true;
}

int watched_child_end_as(int status)
{
    static const struct rlimit none = {0, 0}; /* the child has left the core, if it was to */
    sigset_t own;
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    const int number = WTERMSIG(status);
    setrlimit(RLIMIT_CORE, &none);
    signal(number, SIG_DFL);
    sigemptyset(&own);
    sigaddset(&own, number);
    sigprocmask(SIG_UNBLOCK, &own, NULL);
    raise(number);
    return 128 + number;
}
