/*
 * processes.c - operations of a play: connections that children and threads use, and answers that are longer than any
 * buffer. See player.h.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "player.h"

#define LONG_MAX_BYTES 300000
#define THREADS 3

/* --- children --- */

static void end_child(unsigned int way, int status)
{
    switch (way) {
    case 0:
        _exit(status);
    case 1:
        syscall(SYS_exit_group, status);
        break;
    case 2:
        quick_exit(status);
    case 3:
        _Exit(status);
    default:
        exit(status);
    }
}

/* The child speaks on its parent's connections, and goes. */
static void fork_and_speak(void)
{
    unsigned int calls = 1 + chance(5), way = chance(5);
    int state = 0, status = (int)chance(3);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        alarm(HANGS_S); /* as its parent's */
        for (unsigned int i = 0; i < calls; i++) {
            const struct operation *tables[] = {sends, receives, attempts, options};
            const struct operation *operations = ONE_OF(tables);
            operations[chance(4)].play();
            player_settle();
        }
        end_child(way, status);
    }
    while (waitpid(pid, &state, 0) < 0)
        CHECK(errno == EINTR);
    player.fd = -1;
    player.error = 0;
    told("fork", state, "%u calls, end %u", calls, way);
}

/* As CPython's subprocess: the child closes what it is not to have, in its parent's memory. */
static void vfork_and_close(void)
{
    static char name[] = "true", *const arguments[] = {name, NULL}, *const environment[] = {NULL};
    volatile int state = 0;
    const int first = player.base, fd = ONE_OF(player.slots), to = any_target();
    const bool executes = once_in(3), ranges = once_in(2);
    int ended = 0;
    pid_t pid = vfork();
    if (pid == 0) {
        if (to >= player.base)
            dup2(fd, to);
        if (ranges)
            close_range((unsigned int)first, ~0u, 0);
        else
            close(fd);
        if (executes)
            execve("/bin/true", arguments, environment);
        _exit(7);
    }
    while (waitpid(pid, &ended, 0) < 0)
        CHECK(errno == EINTR);
    state = ended;
    player.fd = fd;
    player.error = 0;
    told("vfork", state, "%d %d", executes, ranges);
}

/* A child of its own connection, which stdio finds reset, or ended, when the child exits. */
static void fork_and_leave_words(void)
{
    static const enum place places[] = {PLACE_FOUR, PLACE_SIX, PLACE_PATH};
    enum place place = ONE_OF(places);
    unsigned int ending = chance(3);
    bool closes = once_in(2), words = !once_in(3);
    int ended = 0, status = (int)chance(3);
    player_accept();
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        int fd, peer;
        signal(SIGPIPE, SIG_DFL);
        if (!connected_pair(place, &fd, &peer))
            _exit(90);
        FILE *file = fdopen(fd, "r+");
        if (once_in(2))
            fprintf(file, "words"), fflush(file);
        if (ending == 0)
            server_reset(peer);
        else if (ending == 1)
            bare.close(peer);
        player_settle();
        if (words)
            fprintf(file, "more words");
        if (closes)
            status = CALL(fclose(file)) == 0 ? 0 : player.error;
        exit(status);
    }
    while (waitpid(pid, &ended, 0) < 0)
        CHECK(errno == EINTR);
    player.fd = -1;
    player.by_number = false;
    player.error = 0;
    told("fork:words", ended, "place %d, ending %u, %d %d", (int)place, ending, closes, words);
}

/* --- threads --- */

struct stint {
    int fd, peer;
    size_t count; /* bytes */
    unsigned char mark;
    long sent, received, error;
    unsigned char *bytes; /* of the calling side */
};

static void write_all(int fd, const unsigned char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t sent = bare.send(fd, bytes, count, MSG_NOSIGNAL);
        if (sent <= 0)
            return;
        bytes += sent;
        count -= (size_t)sent;
    }
}

/* The peer of one connection: gives back what came, backwards. */
static void *echo(void *context)
{
    struct stint *stint = context;
    unsigned char *bytes = malloc(stint->count);
    size_t got = 0;
    ssize_t part;
    while (got < stint->count && (part = bare.recv(stint->peer, bytes + got, stint->count - got, 0)) > 0)
        got += (size_t)part;
    for (size_t i = 0; i < got / 2; i++) {
        unsigned char swapped = bytes[i];
        bytes[i] = bytes[got - 1 - i];
        bytes[got - 1 - i] = swapped;
    }
    write_all(stint->peer, bytes, got);
    free(bytes);
    return NULL;
}

static void *speak(void *context)
{
    struct stint *stint = context;
    unsigned char *bytes = stint->bytes = malloc(stint->count);
    for (size_t i = 0; i < stint->count; i++)
        bytes[i] = (unsigned char)(i * 3 + stint->mark);
    errno = SENTINEL;
    stint->sent = send(stint->fd, bytes, stint->count, 0);
    stint->received = recv(stint->fd, bytes, stint->count, MSG_WAITALL);
    stint->error = errno;
    return NULL;
}

static void begin_stint(struct stint *stint, size_t count)
{
    enum place place = (enum place)chance(PLACE_ABSTRACT + 1);
    *stint = (struct stint){.fd = -1, .peer = -1, .count = count, .mark = (unsigned char)chance(256)};
    player_accept();
    if (!connected_pair(place, &stint->fd, &stint->peer))
        stint->fd = stint->peer = -1;
}

static void end_stint(struct stint *stint)
{
    player.fd = stint->fd;
    player.by_number = false;
    player.error = (int)stint->error;
    told("exchange", stint->received, "%zu, sent %ld, %s", stint->count, stint->sent,
         stint->received > 0 ? digest(stint->bytes, (size_t)stint->received) : "nothing");
    free(stint->bytes);
    if (stint->fd >= 0) {
        close(stint->fd);
        bare.close(stint->peer);
    }
}

static void exchange_at_length(void)
{
    struct stint stint;
    pthread_t peer;
    begin_stint(&stint, 40000 + chance(LONG_MAX_BYTES - 40000));
    if (stint.fd >= 0) {
        CHECK(pthread_create(&peer, NULL, echo, &stint) == 0);
        speak(&stint);
        pthread_join(peer, NULL);
    }
    end_stint(&stint);
}

static void exchange_side_by_side(void)
{
    struct stint stints[THREADS];
    pthread_t speakers[THREADS], echoes[THREADS];
    for (int i = 0; i < THREADS; i++)
        begin_stint(&stints[i], 1 + chance(20000));
    for (int i = 0; i < THREADS; i++)
        if (stints[i].fd >= 0) {
            CHECK(pthread_create(&echoes[i], NULL, echo, &stints[i]) == 0);
            CHECK(pthread_create(&speakers[i], NULL, speak, &stints[i]) == 0);
        }
    for (int i = 0; i < THREADS; i++)
        if (stints[i].fd >= 0) {
            pthread_join(speakers[i], NULL);
            pthread_join(echoes[i], NULL);
        }
    for (int i = 0; i < THREADS; i++)
        end_stint(&stints[i]);
}

const struct operation processes[] = {
    {"fork", 1, fork_and_speak},           {"fork and words", 1, fork_and_leave_words},
    {"vfork", 1, vfork_and_close},         {"long exchange", 1, exchange_at_length},
    {"threads", 1, exchange_side_by_side}, {NULL, 0, NULL},
};
