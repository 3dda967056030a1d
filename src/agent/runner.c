/*
 * runner.c - the process that watches over something that is done as another user. See runner.h.
 *
 * It is the child's parent and its descendants' too, whatever sessions they make (PR_SET_CHILD_SUBREAPER), so it finds
 * them all when they are to end. It reads nothing of what they say but bytes to hand on.
 */
#define _GNU_SOURCE
#include "agent/runner.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/become_user.h"
#include "agent/close_all.h"
#include "agent/signals_as_new.h"
#include "base/clock.h"
#include "view/output.h"

/* Who is asked to end has so long for it. */
#define GRACE_MS 1000u
/* What the child tells in place of an errno. */
#define NO_COMMAND (-1)
/* Rounds of killing: each ends all that were there, a millisecond apart. */
#define ROUNDS_MAX 3000u

struct task {
    const struct as_user_order *order;
    pid_t child;
    int output, trouble; /* what it says; the errno of an exec that failed */
    int signals;
    char *said;
    size_t length;
    uint64_t from_ms;
    struct report report;
    bool has_ended, was_asked;
};

static uint64_t now_ms(void)
{
    return clock_real_ns() / NS_PER_MS;
}

/* --- the child ---------------------------------------------------------------------------------------------------- */

_Noreturn static void give_up(int trouble, int code)
{
    const ssize_t written = write(trouble, &code, sizeof code);
    (void)written;
    _exit(127);
}

static bool be_silent(void)
{
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const bool good = null >= 0 && dup2(null, STDOUT_FILENO) >= 0 && dup2(null, STDERR_FILENO) >= 0;
    if (null >= 0)
        close(null);
    return good;
}

/* It is not to outlive its runner, which may be gone already. */
static void end_with(pid_t runner)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != runner)
        _exit(EXIT_FAILURE);
}

_Noreturn static void live_as_user(const struct as_user_order *order, pid_t runner, int input, int output, int trouble)
{
    struct new_user user;
    signals_as_new();
    end_with(runner);
    new_user_know(&user, order->user); /* who does not answer keeps it waiting until its time is over */
    /* Each to its number: all three lie above them. */
    if (dup2(input, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 || dup2(output, STDERR_FILENO) < 0 ||
        dup3(trouble, STDERR_FILENO + 1, O_CLOEXEC) < 0)
        give_up(trouble, errno);
    trouble = STDERR_FILENO + 1;
    close_all_from(trouble + 1);
    if (order->is_silent && !be_silent())
        give_up(trouble, errno);
    char **environment = environment_of_user(&user, order->environment);
    if (!become_user(&user, order->limit_ms))
        give_up(trouble, errno != 0 ? errno : EPERM);
    /* Behind the change of user, which takes both away: it is nobody's to look into, and ends with its runner. */
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    end_with(runner);
    environ = environment;
    const char *const *words = order->words;
    if (words == NULL && order->find_words == NULL)
        _exit(order->job(order->job_context));
    if (words == NULL && (words = order->find_words(order->job_context)) == NULL)
        give_up(trouble, NO_COMMAND);
    execute_as_user(words, environment);
    give_up(trouble, errno);
}

/* What it is to read, as a file without a name: nobody has to wait for it to be read. */
static int make_input(const struct as_user_order *order)
{
    const int fd = memfd_create("sockfuse-event", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    for (size_t written = 0; written < order->input_length;) {
        const ssize_t more = write(fd, order->input + written, order->input_length - written);
        if (more <= 0) {
            close(fd);
            return -1;
        }
        written += (size_t)more;
    }
    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
    lseek(fd, 0, SEEK_SET);
    return fd;
}

/* A descriptor above the three that the child has, and above the fourth that tells of its exec. */
static int above(int fd)
{
    if (fd < 0)
        return fd;
    const int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 2);
    close(fd);
    return moved;
}

static bool begin(struct task *task)
{
    const pid_t runner = getpid();
    int output[2], trouble[2];
    const int input = above(make_input(task->order));
    if (input < 0 || pipe2(output, O_CLOEXEC) != 0 || pipe2(trouble, O_CLOEXEC) != 0)
        return false;
    for (unsigned int i = 0; i < 2; i++) {
        output[i] = above(output[i]);
        trouble[i] = above(trouble[i]);
    }
    task->child = fork();
    if (task->child == 0)
        live_as_user(task->order, runner, input, output[1], trouble[1]);
    close(input);
    close(output[1]);
    close(trouble[1]);
    task->output = output[0];
    task->trouble = trouble[0];
    fcntl(task->output, F_SETFL, O_NONBLOCK);
    return task->child > 0;
}

/* --- its end ------------------------------------------------------------------------------------------------------ */

/* All that the child has started and that is not gone: whoever loses its parent becomes the runner's. */
static void kill_children(void)
{
    char *path = format_text("/proc/self/task/%d/children", (int)getpid());
    FILE *list = fopen(path, "re");
    char *number = NULL;
    size_t room = 0;
    free(path);
    while (list != NULL && getdelim(&number, &room, ' ', list) > 0) {
        const long child = strtol(number, NULL, 10);
        if (child > 1)
            kill((pid_t)child, SIGKILL);
    }
    free(number);
    if (list != NULL)
        fclose(list);
}

/*
 * By its group once, while that is certainly its own: it was not waited for yet. What has left the group, and what is
 * started meanwhile, is found among the runner's children.
 */
static void end_all(const struct task *task)
{
    kill(-task->child, SIGKILL);
    for (unsigned int round = 0; round < ROUNDS_MAX; round++) {
        kill_children();
        pid_t ended;
        do
            ended = waitpid(-1, NULL, WNOHANG);
        while (ended > 0);
        if (ended < 0) /* nobody is left */
            return;
        usleep(1000);
    }
}

/* It stays a zombie, so that its number is nobody else's. */
static void note_exit(struct task *task)
{
    siginfo_t information = {.si_pid = 0};
    int code;
    if (waitid(P_PID, (id_t)task->child, &information, WEXITED | WNOHANG | WNOWAIT) != 0 || information.si_pid == 0)
        return;
    task->has_ended = true;
    if (task->was_asked)
        return;
    task->report.end = information.si_code == CLD_EXITED ? AS_USER_EXITED : AS_USER_SIGNALLED;
    task->report.code = information.si_status;
    if (read(task->trouble, &code, sizeof code) == (ssize_t)sizeof code) {
        task->report.end = code == NO_COMMAND ? AS_USER_NO_COMMAND : AS_USER_NOT_EXECUTED;
        task->report.code = code == NO_COMMAND ? 0 : code;
    }
}

/* It is to end, for that reason: asked first, as a script may have something to put in order. */
static void ask_to_end(struct task *task, enum as_user_end why)
{
    if (task->was_asked)
        return;
    task->was_asked = true;
    task->report.end = (int32_t)why;
    kill(-task->child, SIGTERM);
    kill(task->child, SIGTERM);
}

/* False: there is no more. */
static bool take_output(struct task *task)
{
    static char thrown_away[65536];
    for (;;) {
        const size_t room = task->order->output_max - task->length;
        const ssize_t got = read(task->output, room > 0 ? task->said + task->length : thrown_away,
                                 room > 0 ? room : sizeof thrown_away);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 && errno == EAGAIN;
        if (room > 0) {
            task->length += (size_t)got;
        } else {
            ask_to_end(task, AS_USER_TALKED);
            return true;
        }
    }
}

static void watch(struct task *task)
{
    struct pollfd ready[] = {{.fd = task->signals, .events = POLLIN}, {.fd = task->output, .events = POLLIN}};
    uint64_t end_ms = task->from_ms + task->order->limit_ms;
    for (bool graced = false; !task->has_ended;) {
        const uint64_t ms = now_ms();
        if (task->was_asked && !graced) {
            graced = true;
            end_ms = ms + GRACE_MS;
            ready[1].fd = -1; /* who was told to end is not listened to */
        }
        if (ms >= end_ms && graced)
            return;
        if (ms >= end_ms) {
            ask_to_end(task, AS_USER_TIMED_OUT);
            continue;
        }
        if (poll(ready, 2, (int)(end_ms - ms)) < 0 && errno != EINTR)
            return;
        if (ready[0].revents != 0) {
            struct signalfd_siginfo information;
            while (read(task->signals, &information, sizeof information) > 0) {
                if (information.ssi_signo == SIGTERM)
                    ask_to_end(task, AS_USER_TIMED_OUT);
                else
                    note_exit(task);
            }
        }
        if (ready[1].revents != 0 && !take_output(task))
            ready[1].fd = -1;
    }
}

static void tell(const void *bytes, size_t length, int fd)
{
    for (const char *at = bytes; length > 0;) {
        const ssize_t written = write(fd, at, length);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return;
        at += written;
        length -= (size_t)written;
    }
}

/* Of its child's end, and that it is to end itself: what it watches over comes to an end with it. */
static void signals_of_runner(sigset_t *heard)
{
    sigemptyset(heard);
    sigaddset(heard, SIGCHLD);
    sigaddset(heard, SIGTERM);
}

/* Nothing of the agent's but the way back to it: no socket, no segment's file, no signal handler. */
static int start_anew(int report_to)
{
    sigset_t heard;
    report_to = dup3(report_to, STDERR_FILENO + 1, O_CLOEXEC) >= 0 || errno == EINVAL ? STDERR_FILENO + 1 : -1;
    close_all_from(STDERR_FILENO + 2);
    signal(SIGINT, SIG_IGN); /* a terminal's is for the agent */
    signal(SIGHUP, SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
    signals_of_runner(&heard);
    sigprocmask(SIG_SETMASK, &heard, NULL);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    return report_to;
}

_Noreturn void runner_live(const struct as_user_order *order, int report_to)
{
    struct task task = {.order = order, .from_ms = now_ms(), .report = {.end = AS_USER_LOST}};
    sigset_t heard;
    report_to = start_anew(report_to);
    signals_of_runner(&heard);
    task.signals = signalfd(-1, &heard, SFD_CLOEXEC | SFD_NONBLOCK);
    task.said = allocate(order->output_max + 1, 1);
    if (report_to >= 0 && task.signals >= 0 && begin(&task)) {
        watch(&task);
        take_output(&task);
        end_all(&task);
    }
    task.report.took_ms = now_ms() - task.from_ms;
    task.report.length = task.length;
    tell(&task.report, sizeof task.report, report_to);
    tell(task.said, task.length, report_to);
    _exit(EXIT_SUCCESS);
}
