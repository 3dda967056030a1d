/*
 * check_child.c - makes a health check in a child. See check_child.h.
 *
 * A child that connects goes on with the agent's memory after it has become the user: it is not dumpable from then on,
 * so that user can't look into it. One that is a command's has nothing of it.
 */
#define _GNU_SOURCE
#include "agent/check_child.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/check_trust.h"
#include "agent/signals_as_new.h"
#include "base/clock.h"
#include "policy/check_value.h"
#include "view/destination.h"
#include "view/output.h"

#define WORDS_MAX (HEALTH_CHECK_SIZE / 2)
#define NOBODYS_GROUP 65534u
#define REPORT_FD 3 /* where the child tells what it saw */
enum { EXIT_IS_TOLD = 0, EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127, EXIT_BY_SIGNAL = 128 };

struct check_child {
    pid_t pid;
    int report; /* to read from; -1: a command's */
    bool is_late;
    struct ev_loop *loop;
    ev_child end;
    ev_timer limit;
    void (*done)(void *context, const struct check_result *result);
    void *context;
};

/* --- in the child ------------------------------------------------------------------------------------------------- */

/* With the groups that the account has; a number without an account has none, and is in nobody's group. */
static bool take_groups(const struct passwd *account)
{
    const gid_t group = account != NULL ? account->pw_gid : NOBODYS_GROUP;
    return (account != NULL ? initgroups(account->pw_name, group) : setgroups(0, NULL)) == 0 &&
           setresgid(group, group, group) == 0;
}

static bool become(uid_t uid, const struct passwd *account)
{
    if (geteuid() != uid && (geteuid() != 0 || !take_groups(account) || setresuid(uid, uid, uid) != 0))
        return false;
    return getuid() == uid && geteuid() == uid;
}

/* Nothing of the agent's is left but the way to tell it. */
static void shut_all(int report)
{
    const int null = open("/dev/null", O_RDWR);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        dup2(null, fd);
    if (report >= 0)
        dup2(report, REPORT_FD);
    close_range(report >= 0 ? REPORT_FD + 1 : REPORT_FD, ~0u, 0);
}

static void set(const char *name, const char *value)
{
    if (setenv(name, value, true) != 0)
        _exit(EXIT_NOT_EXECUTABLE);
}

/* What a command is given: who it is, and what it is to look at. */
static void clean_environment(const struct check_order *order, const struct passwd *account)
{
    struct destination destination;
    char why[DESTINATION_WHY_MAX], room[DESTINATION_MAX], port[8];
    clearenv();
    set("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    set("LANG", "C.UTF-8");
    set("SOCKFUSE", "off");
    if (account != NULL) {
        set("HOME", account->pw_dir);
        set("USER", account->pw_name);
        set("LOGNAME", account->pw_name);
    }
    set("SOCKFUSE_TARGET", order->target);
    set("SOCKFUSE_DESTINATION", order->destination);
    if (destination_read(&destination, order->destination, why) && destination.endpoint.family != ENDPOINT_UNIX) {
        snprintf(port, sizeof port, "%u", destination.endpoint.port);
        set("SOCKFUSE_PORT", port);
        if (destination.name != NULL || endpoint_format_address(&destination.endpoint, room, sizeof room) > 0)
            set("SOCKFUSE_HOST", destination.name != NULL ? destination.name : room);
    }
    destination_free(&destination);
}

_Noreturn static void execute(const struct check_order *order, const char *value, const struct passwd *account)
{
    char words[HEALTH_CHECK_SIZE], *argv[WORDS_MAX + 1], *rest = words;
    size_t count = 0;
    strcpy(words, check_command(value));
    for (char *word; count < WORDS_MAX && (word = strsep(&rest, " ")) != NULL;)
        argv[count++] = word;
    argv[count] = NULL;
    clean_environment(order, account);
    execvp(argv[0], argv);
    _exit(errno == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE);
}

/* What is to be done: of the kind that is in force, and a connection, or what the file has. */
static bool may_do(const struct check_order *order, char value[HEALTH_CHECK_SIZE])
{
    const enum check_kind kind = check_kind(order->value);
    if (kind == CHECK_CONNECT) {
        strcpy(value, order->value);
        return true;
    }
    return check_trusted_value(value, order->identity, order->target, order->uid) && check_kind(value) == kind;
}

_Noreturn static void live(const struct check_order *order, int report, pid_t agent)
{
    const uint64_t deadline_ns = clock_real_ns() + order->timeout_ns;
    const bool is_command = check_kind(order->value) == CHECK_COMMAND;
    struct check_result result = {.error = EPERM};
    char value[HEALTH_CHECK_SIZE];
    setpgid(0, 0);
    signals_as_new();
    shut_all(is_command ? -1 : report);
    const struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    const struct passwd *account = getpwuid(order->uid);
    const bool is_user = become(order->uid, account) && chdir("/") == 0 &&
                         prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 &&
                         getppid() == agent && may_do(order, value);
    if (is_command && is_user)
        execute(order, value, account);
    if (is_command)
        _exit(EXIT_NOT_EXECUTABLE);
    if (is_user)
        result = check_peer(value, order->destination, deadline_ns);
    if (write(REPORT_FD, &result, sizeof result) != (ssize_t)sizeof result)
        _exit(EXIT_FAILURE);
    _exit(EXIT_IS_TOLD);
}

/* --- in the agent ------------------------------------------------------------------------------------------------- */

static struct check_result result_of(struct check_child *child, int status)
{
    struct check_result result = {.error = ETIMEDOUT};
    if (child->is_late)
        return result;
    if (child->report >= 0)
        return read(child->report, &result, sizeof result) == (ssize_t)sizeof result
                   ? result
                   : (struct check_result){.error = EPROTO};
    const int exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_BY_SIGNAL + WTERMSIG(status);
    return (struct check_result){.passed = exit_status == 0, .exit_status = (uint32_t)exit_status};
}

static void free_child(struct check_child *child)
{
    ev_child_stop(child->loop, &child->end);
    ev_timer_stop(child->loop, &child->limit);
    if (child->report >= 0)
        close(child->report);
    free(child);
}

static void ended(struct ev_loop *loop, ev_child *end, int events)
{
    struct check_child *child = end->data;
    const struct check_result result = result_of(child, end->rstatus);
    (void)loop, (void)events;
    void (*const done)(void *, const struct check_result *) = child->done;
    void *const context = child->context;
    free_child(child);
    if (done != NULL)
        done(context, &result);
}

/* The child itself is not buried before `ended`, so its number is nobody else's. */
static void overrun(struct ev_loop *loop, ev_timer *limit, int events)
{
    struct check_child *child = limit->data;
    (void)loop, (void)events;
    child->is_late = true;
    kill(-child->pid, SIGKILL);
    kill(child->pid, SIGKILL);
}

/* Both ends on other numbers than the streams', so that the child's place for it is free. */
static bool open_report(int ends[2])
{
    return pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0;
}

struct check_child *check_start(struct ev_loop *loop, const struct check_order *order,
                                void (*done)(void *context, const struct check_result *result), void *context)
{
    const pid_t agent = getpid();
    int ends[2];
    if (!open_report(ends))
        return NULL;
    const pid_t pid = fork();
    if (pid == 0)
        live(order, ends[1], agent);
    close(ends[1]);
    if (pid < 0 || check_kind(order->value) == CHECK_COMMAND) {
        close(ends[0]);
        ends[0] = -1;
    }
    if (pid < 0)
        return NULL;
    setpgid(pid, pid); /* whoever of the two comes first */
    struct check_child *child = allocate(1, sizeof *child);
    *child = (struct check_child){.pid = pid, .report = ends[0], .loop = loop, .done = done, .context = context};
    ev_child_init(&child->end, ended, pid, 0);
    ev_timer_init(&child->limit, overrun, (double)order->timeout_ns / (double)NS_PER_S, 0);
    child->end.data = child->limit.data = child;
    ev_now_update(loop); /* a look may have taken a while */
    ev_child_start(loop, &child->end);
    ev_timer_start(loop, &child->limit);
    return child;
}

void check_cancel(struct check_child *child)
{
    child->done = NULL;
    overrun(child->loop, &child->limit, 0);
}
