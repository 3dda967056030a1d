/*
 * supervisor.c - the orphaned pair: how it comes to be. See notify.h.
 *
 * The keeper is made by a child that ends at once, so it has no parent among the program's processes, and the child
 * announces its end to nobody: a program finds no child, and no signal, that it did not make. First the keeper tries
 * what it will have to do on the very process that it is for; only then is there a filter, which can't be taken back.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "notify/filter.h"
#include "notify/keeper.h"
#include "notify/notify.h"
#include "notify/socket_news.h"

#define HERE 0  /* of the pair of sockets: the program's end */
#define THERE 1 /* the keeper's */
/* Workers that die so soon, one after the other, are not able to begin: then calls pass for a while. */
#define SOON_NS NS_PER_S
#define DEATHS_IN_A_ROW 4u
#define PASSED_MS 1000

struct findings {
    uint32_t keeper;                /* its pid */
    char reason[NOTIFY_REASON_MAX]; /* "": it can be */
};

/* --- the keeper --------------------------------------------------------------------------------------------------- */

/* Nothing of the program's is kept open, or in use, and nothing ends it but the end of the last whom it guards. */
static void stand_apart(int kept)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    signal(SIGCHLD, SIG_DFL);
    setsid();
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max; /* the program's own limit is the program's */
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    (void)!chdir("/");
    const int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd <= 2 && null >= 0; fd++)
        if (fd != kept)
            dup2(null, fd);
    if (kept > 3)
        close_range(3, (unsigned int)kept - 1, 0);
    close_range(kept > 2 ? (unsigned int)kept + 1 : 3, ~0u, 0);
}

static const char readable[] = "sockfuse";

static int yama_scope(void)
{
    char digit = '0';
    const int fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!read(fd, &digit, 1);
        close(fd);
    }
    return digit - '0';
}

/* Whether the process can be read, and its descriptors copied: `fd` is one that it has. */
static void try_process(pid_t program, int fd, char *reason)
{
    char bytes[sizeof readable];
    const struct iovec here = {bytes, sizeof bytes}, there = {(void *)(uintptr_t)readable, sizeof readable};
    if (process_vm_readv(program, &here, 1, &there, 1, 0) != (ssize_t)sizeof bytes) {
        const int scope = yama_scope();
        if (scope > 0)
            snprintf(reason, NOTIFY_REASON_MAX,
                     "kernel.yama.ptrace_scope is %d, so its connects can't be read; set it to 1 or 0, or run as root",
                     scope);
        else
            snprintf(reason, NOTIFY_REASON_MAX,
                     "its connects can't be read (process_vm_readv: %s); in a container, --cap-add SYS_PTRACE helps",
                     strerror(errno));
        return;
    }
    const int task = (int)syscall(SYS_pidfd_open, program, 0);
    const int copy = task >= 0 ? (int)syscall(SYS_pidfd_getfd, task, fd, 0) : -1;
    if (copy < 0)
        snprintf(reason, NOTIFY_REASON_MAX,
                 "its sockets can't be looked at (pidfd_getfd: %s); in a container, --cap-add SYS_PTRACE helps",
                 strerror(errno));
    if (copy >= 0)
        close(copy);
    if (task >= 0)
        close(task);
}

static void try_news(char *reason)
{
    struct socket_news news;
    const char *what;
    if (!socket_news_open(&news, &what))
        snprintf(reason, NOTIFY_REASON_MAX, "what becomes of its connections can't be seen (%s: %s)%s", what,
                 strerror(errno), strcmp(what, "tcp_diag") == 0 ? "; modprobe tcp_diag helps" : "");
    close(news.closes);
    close(news.deaths);
    close(news.question);
}

static int receive_descriptor(int from)
{
    char byte;
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    struct iovec vector = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    int fd = -1;
    if (recvmsg(from, &message, MSG_CMSG_CLOEXEC) != 1)
        return -1;
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header && header->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(header), sizeof fd);
    return fd;
}

static bool send_descriptor(int to, int fd)
{
    char byte = 0;
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec vector = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    return sendmsg(to, &message, MSG_NOSIGNAL) == 1;
}

static _Noreturn void be_keeper(const struct notify_wish *wish, pid_t program, const int ends[2])
{
    struct findings findings = {.keeper = (uint32_t)getpid()};
    char go;
    stand_apart(ends[THERE]);
    prctl(PR_SET_NAME, "sockfuse-keeper", 0, 0, 0);
    /* The program names us as one who may look at it before it is tried. */
    if (write(ends[THERE], &findings, sizeof findings) != (ssize_t)sizeof findings || read(ends[THERE], &go, 1) != 1)
        _exit(0);
    try_news(findings.reason);
    if (findings.reason[0] == '\0')
        try_process(program, ends[HERE], findings.reason);
    if (write(ends[THERE], &findings, sizeof findings) != (ssize_t)sizeof findings || findings.reason[0] != '\0')
        _exit(0);
    const int listener = receive_descriptor(ends[THERE]);
    if (listener < 0)
        _exit(0);
    close(ends[THERE]);
    keeper_run(wish, listener);
    _exit(0);
}

/* --- the program -------------------------------------------------------------------------------------------------- */

static bool make_keeper(const struct notify_wish *wish, const int ends[2])
{
    const pid_t program = getpid();
    const pid_t between = keeper_make_child();
    if (between == 0) {
        if (keeper_make_child() == 0)
            be_keeper(wish, program, ends);
        _exit(0);
    }
    while (between > 0 && waitpid(between, NULL, __WALL) < 0 && errno == EINTR) {
    }
    return between > 0;
}

static bool hear_verdict(int end, struct findings *findings)
{
    return recv(end, findings, sizeof *findings, MSG_WAITALL) == (ssize_t)sizeof *findings;
}

/* Why there can be no filter. */
static void explain_filter(char *reason)
{
    const char *why = errno == EBUSY    ? "another program asks the kernel about this tree's system calls already (a "
                                          "container's manager, a sandbox, sockfuse itself)"
                      : errno == EINVAL ? "this kernel is older than 5.19"
                      : errno == EPERM || errno == EACCES ? "a filter of system calls is not allowed here"
                                                          : strerror(errno);
    snprintf(reason, NOTIFY_REASON_MAX, "%s", why);
}

static bool hand_over(int end, struct notify_start *start)
{
    struct findings findings;
    if (!hear_verdict(end, &findings)) {
        snprintf(start->reason, sizeof start->reason, "its supervisor did not start");
        return false;
    }
    prctl(PR_SET_PTRACER, (unsigned long)findings.keeper, 0, 0, 0); /* where Yama asks for it; it holds over exec */
    if (send(end, "", 1, MSG_NOSIGNAL) != 1 || !hear_verdict(end, &findings)) {
        snprintf(start->reason, sizeof start->reason, "its supervisor died");
        return false;
    }
    if (findings.reason[0] != '\0') {
        memcpy(start->reason, findings.reason, sizeof start->reason);
        return false;
    }
    const int listener = filter_install(&start->gave_up_more);
    if (listener < 0) {
        explain_filter(start->reason);
        return false;
    }
    const bool is_handed = send_descriptor(end, listener);
    close(listener);
    if (!is_handed)
        snprintf(start->reason, sizeof start->reason, "its supervisor died, and connects fail from now on");
    return is_handed;
}

bool notify_start(const struct notify_wish *wish, struct notify_start *start)
{
    int ends[2];
    *start = (struct notify_start){0};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        snprintf(start->reason, sizeof start->reason, "%s", strerror(errno));
        return false;
    }
    bool is_started = make_keeper(wish, ends);
    close(ends[THERE]);
    if (is_started)
        is_started = hand_over(ends[HERE], start);
    else
        snprintf(start->reason, sizeof start->reason, "no process can be made (%s)", strerror(errno));
    close(ends[HERE]);
    return is_started;
}
