/*
 * name_lookup.c - a name's addresses, asked for in a child. See name_lookup.h.
 */
#define _GNU_SOURCE
#include "agent/name_lookup.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/close_all.h"

void lookup_stop(struct lookup *lookup)
{
    if (!lookup->is_running)
        return;
    lookup->is_running = false;
    ev_io_stop(lookup->loop, &lookup->readable);
    close(lookup->readable.fd);
    ev_timer_stop(lookup->loop, &lookup->limit);
    ev_child_stop(lookup->loop, &lookup->child);
    /* Until it was waited for the number is the child's; libev reaps those that nobody watches, too. */
    if (lookup->child.rpid == 0)
        kill(lookup->child.pid, SIGKILL);
}

/* Each line is an address, and what is none was not written by our child. */
static void take_lines(struct lookup *lookup)
{
    unsigned char address[16];
    char *line = lookup->said, *end;

    for (; lookup->count < LOOKUP_ADDRESSES && (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        if ((size_t)(end - line) < LOOKUP_TEXT &&
            (inet_pton(AF_INET, line, address) == 1 || inet_pton(AF_INET6, line, address) == 1))
            memcpy(lookup->at[lookup->count++], line, (size_t)(end - line) + 1);
    }
}

static void finish(struct lookup *lookup)
{
    lookup->said[lookup->length] = '\0';
    take_lines(lookup);
    lookup_stop(lookup);
    lookup->done(lookup);
}

static void on_readable(struct ev_loop *loop, ev_io *watcher, int events)
{
    struct lookup *lookup = watcher->data;
    (void)loop, (void)events;
    const ssize_t got = read(watcher->fd, lookup->said + lookup->length, sizeof lookup->said - 1 - lookup->length);
    if (got > 0)
        lookup->length += (size_t)got;
    if (got == 0 || lookup->length == sizeof lookup->said - 1)
        finish(lookup);
}

static void on_limit(struct ev_loop *loop, ev_timer *watcher, int events)
{
    struct lookup *lookup = watcher->data;
    (void)loop, (void)events;
    lookup->length = 0;
    finish(lookup);
}

/* The pipe's end tells what it had to say; what the watcher notes, that its number may be another's from now on. */
static void on_exit_of_child(struct ev_loop *loop, ev_child *watcher, int events)
{
    (void)events;
    ev_child_stop(loop, watcher);
}

static void resolve(const char *host, int to)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *found = NULL;
    char text[LOOKUP_TEXT + 1];

    if (getaddrinfo(host, NULL, &hints, &found) != 0)
        _exit(1);
    for (unsigned int count = 0; found != NULL && count < LOOKUP_ADDRESSES; found = found->ai_next, count++) {
        if (getnameinfo(found->ai_addr, found->ai_addrlen, text, LOOKUP_TEXT, NULL, 0, NI_NUMERICHOST) != 0)
            continue;
        const size_t length = strlen(text);
        text[length] = '\n';
        if (write(to, text, length + 1) != (ssize_t)length + 1)
            _exit(1);
    }
    _exit(0);
}

/* Nothing of the agent's: no socket that it listens at, no segment's file. Returns where it may write. */
static int child_is_alone(int to)
{
    const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD, SIGPIPE};
    sigset_t none;

    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        signal(signals[i], SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (dup2(to, STDERR_FILENO + 1) < 0)
        _exit(1);
    close_all_from(STDERR_FILENO + 2);
    return STDERR_FILENO + 1;
}

bool lookup_start(struct lookup *lookup, const char *host, double limit_s)
{
    unsigned char address[16];
    int ends[2];

    lookup_stop(lookup);
    lookup->count = 0;
    lookup->length = 0;
    if (strlen(host) < LOOKUP_TEXT &&
        (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1)) {
        memcpy(lookup->at[lookup->count++], host, strlen(host) + 1);
        lookup->done(lookup);
        return true;
    }
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return false;
    const pid_t pid = fork();
    if (pid == 0) {
        resolve(host, child_is_alone(ends[1]));
    }
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return false;
    }
    lookup->is_running = true;
    ev_io_init(&lookup->readable, on_readable, ends[0], EV_READ);
    ev_timer_init(&lookup->limit, on_limit, limit_s, 0);
    ev_child_init(&lookup->child, on_exit_of_child, pid, 0);
    lookup->child.rpid = 0;
    lookup->readable.data = lookup->limit.data = lookup->child.data = lookup;
    ev_io_start(lookup->loop, &lookup->readable);
    ev_timer_start(lookup->loop, &lookup->limit);
    ev_child_start(lookup->loop, &lookup->child);
    return true;
}
