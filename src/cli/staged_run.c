/*
 * staged_run.c - a program's run that is looked at and stopped in bounded time. See staged_run.h.
 */
#define _GNU_SOURCE
#include "cli/staged_run.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "view/output.h"

#define LOOK_EVERY_NS (50 * NS_PER_MS)
/* Who is asked to end has time to tidy up; who is killed needs it for the kernel's work alone. */
#define GRACE_NS NS_PER_S
#define KILLING_NS (5 * NS_PER_S)

static struct {
    sigset_t kept, before; /* what ends this process; what was blocked before */
    void (*on_child)(int);
    int descriptor; /* at which the kept ones are read */
    int came;
} signals;

void staged_runs_begin(void)
{
    static const int ending[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    sigemptyset(&signals.kept);
    sigaddset(&signals.kept, SIGCHLD);
    signals.on_child = signal(SIGCHLD, SIG_DFL);
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++) {
        struct sigaction present;
        if (sigaction(ending[i], NULL, &present) == 0 && present.sa_handler != SIG_IGN)
            sigaddset(&signals.kept, ending[i]);
    }
    sigprocmask(SIG_BLOCK, &signals.kept, &signals.before);
    signals.descriptor = signalfd(-1, &signals.kept, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals.descriptor < 0)
        err(EXIT_FAILURE, "signalfd");
    /* Also what loses its parent stays below this process. */
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

static void take_signals(void)
{
    struct signalfd_siginfo one;
    while (read(signals.descriptor, &one, sizeof one) == (ssize_t)sizeof one)
        if (one.ssi_signo != SIGCHLD)
            signals.came = (int)one.ssi_signo;
}

/* Waits for a signal, for something to hear, or so long. (The pipe's other end is open here too, so it has no end.) */
static void wait_for_news(const struct staged_run *run, uint64_t span_ns)
{
    struct pollfd news[] = {{.fd = signals.descriptor, .events = POLLIN}, {.fd = run->heard, .events = POLLIN}};
    poll(news, 2, (int)(span_ns / NS_PER_MS) + 1);
    take_signals();
    if (news[1].revents & POLLIN)
        run->hear(run->heard);
}

int staged_runs_interrupted(void)
{
    take_signals();
    return signals.came;
}

void staged_runs_end(void)
{
    const int number = staged_runs_interrupted();
    sigprocmask(SIG_SETMASK, &signals.before, NULL);
    if (number != 0)
        raise(number);
}

/* --- the child ---------------------------------------------------------------------------------------------------- */

static void begin_child(const struct staged_run *run, pid_t parent)
{
    setsid();
    /* Who is killed takes the program along; what that has started is out of reach then. */
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != parent)
        _exit(EXIT_FAILURE);
    dup2(run->input, STDIN_FILENO);
    dup2(run->output, STDOUT_FILENO);
    dup2(run->output, STDERR_FILENO);
    signal(SIGCHLD, signals.on_child);
    sigprocmask(SIG_SETMASK, &signals.before, NULL);
    _exit(run->become(run->start));
}

/* --- the parent --------------------------------------------------------------------------------------------------- */

struct stage {
    struct staged_run *run;
    pid_t pid;
    uint64_t began_ns;
    bool is_reaped; /* the program itself */
};

/* False: nothing is left of it. */
static bool reap(struct stage *stage)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid != stage->pid)
            continue;
        stage->is_reaped = true;
        stage->run->status = status;
        stage->run->elapsed_ns = clock_real_ns() - stage->began_ns;
    }
    return pid == 0;
}

/* Whether a process is a child of this one, by /proc. */
static bool is_child(const char *pid)
{
    char *path = format_text("/proc/%s/stat", pid), line[512];
    FILE *file = fopen(path, "re");
    int parent = 0;
    free(path);
    if (file == NULL)
        return false;
    const size_t length = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[length] = '\0';
    /* The name may hold anything, also brackets. */
    char *behind = NULL;
    for (char *at = line; *at != '\0'; at++)
        behind = *at == ')' ? at : behind;
    return behind != NULL && sscanf(behind, ") %*c %d", &parent) == 1 && /* NOLINT(cert-err34-c): a kernel's number */
           parent == getpid();
}

/* Sends it to all children; returns how many there are. */
static unsigned int signal_children(int number)
{
    DIR *folder = opendir("/proc");
    unsigned int count = 0;
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        if (!isdigit((unsigned char)entry->d_name[0]) || !is_child(entry->d_name))
            continue;
        kill((pid_t)strtol(entry->d_name, NULL, 10), number);
        count++;
    }
    if (folder != NULL)
        closedir(folder);
    return count;
}

/* As long as the program is not reaped, its number is its own, and so is its group's. */
static unsigned int signal_all(const struct stage *stage, int number)
{
    if (!stage->is_reaped)
        kill(-stage->pid, number);
    return signal_children(number);
}

/* Until nothing is left of it, or so long. */
static bool wait_for_end(struct stage *stage, uint64_t span_ns)
{
    const uint64_t until_ns = clock_real_ns() + span_ns;
    while (reap(stage)) {
        const uint64_t now_ns = clock_real_ns();
        if (now_ns >= until_ns)
            return false;
        wait_for_news(stage->run, until_ns - now_ns < LOOK_EVERY_NS ? until_ns - now_ns : LOOK_EVERY_NS);
    }
    return true;
}

static void stop(struct stage *stage)
{
    signal_all(stage, SIGTERM);
    signal_all(stage, SIGCONT); /* what was stopped is to hear it */
    if (wait_for_end(stage, GRACE_NS))
        return;
    const uint64_t until_ns = clock_real_ns() + KILLING_NS;
    do /* those that lost their parent just now are children from then on */
        stage->run->left_over = signal_all(stage, SIGKILL);
    while (!wait_for_end(stage, 20 * NS_PER_MS) && clock_real_ns() < until_ns);
    if (!reap(stage))
        stage->run->left_over = 0;
}

bool staged_run(struct staged_run *run)
{
    const pid_t parent = getpid();
    struct stage stage = {.run = run, .began_ns = clock_real_ns()};
    stage.pid = fork();
    if (stage.pid < 0)
        return false;
    if (stage.pid == 0)
        begin_child(run, parent);
    bool is_running;
    while ((is_running = reap(&stage)) && staged_runs_interrupted() == 0 &&
           !run->is_enough(run->looker, clock_real_ns() - stage.began_ns))
        wait_for_news(run, LOOK_EVERY_NS);
    run->has_ended = stage.is_reaped;
    run->left_some = is_running && stage.is_reaped;
    run->is_interrupted = is_running && staged_runs_interrupted() != 0;
    if (run->heard >= 0)
        run->hear(run->heard);
    const uint64_t looked_ns = clock_real_ns() - stage.began_ns;
    if (is_running) /* so that nothing changes while it is looked at */
        signal_all(&stage, SIGSTOP);
    run->last_look(run->looker);
    if (is_running)
        stop(&stage);
    if (!run->has_ended)
        run->elapsed_ns = looked_ns;
    return true;
}
