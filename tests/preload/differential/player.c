/*
 * player.c - chance, lines, and the order of a play. See player.h.
 */
#define _GNU_SOURCE
#include "player.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include "stage.h"

#define CALLS 150

struct player player;
static uint64_t state;

/* --- chance --- */

void chance_begin(uint64_t seed)
{
    state = seed;
}

/* splitmix64 */
uint32_t chance(uint32_t below)
{
    uint64_t mixed = state += UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((mixed ^ mixed >> 31) >> 32) % below;
}

/* Mostly one that is open. */
static int any_slot(void)
{
    int fd = ONE_OF(player.slots);
    for (int i = 0; i < 3 && !is_open(fd); i++)
        fd = ONE_OF(player.slots);
    return fd;
}

int any_descriptor(void)
{
    player.by_number = once_in(4);
    if (!once_in(12))
        return player.fd = any_slot();
    const int strangers[] = {-1,
                             DESCRIPTORS - 1,
                             INT_MAX,
                             player.file,
                             player.folder,
                             player.pipe_in,
                             player.pipe_out,
                             player.epoll,
                             player.places[PLACE_FOUR].fd,
                             player.places[PLACE_DATAGRAM].fd};
    return player.fd = ONE_OF(strangers);
}

int any_readable(void)
{
    struct pollfd look = {.fd = any_descriptor(), .events = POLLIN};
    for (int i = 0; i < SLOTS && poll(&look, 1, 0) != 1; i++)
        look.fd = any_slot();
    return player.fd = look.fd;
}

int any_target(void)
{
    const int odd[] = {-1, DESCRIPTORS, DESCRIPTORS - 2, player.base + 30};
    return once_in(5) ? ONE_OF(odd) : any_slot();
}

size_t any_bytes(void)
{
    static const char *const beginnings[] = {
        "",
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "\026\003\001\002",
        "\025\003\003",
    };
    static const size_t sizes[] = {0, 1, 1, 5, 6, 17, 64, 100, 100, 1000, 4096, 16384, 16385, 20000, 33000};
    size_t count = ONE_OF(sizes);
    unsigned char mark = (unsigned char)chance(256);
    const char *beginning = ONE_OF(beginnings);
    for (size_t i = 0; i < count; i++)
        player.bytes[i] = (unsigned char)(i * 7 + mark);
    memcpy(player.bytes, beginning, strlen(beginning) < count ? strlen(beginning) : count);
    return count;
}

void *any_memory(void)
{
    switch (chance(24)) {
    case 0:
        return NULL;
    case 1:
        return (void *)1;
    case 2:
        return player.forbidden;
    default:
        return player.bytes;
    }
}

int any_send_flags(void)
{
    static const int flags[] = {
        0,           0,       0,       MSG_NOSIGNAL, MSG_NOSIGNAL, MSG_DONTWAIT, MSG_DONTWAIT | MSG_NOSIGNAL,
        MSG_CONFIRM, MSG_EOR, MSG_OOB, MSG_PEEK,     MSG_ZEROCOPY, 0x40000000};
    int drawn = ONE_OF(flags);
    return drawn & MSG_OOB && is_local(player.fd) ? 0 : drawn;
}

bool is_local(int fd)
{
    int domain = 0;
    socklen_t length = sizeof domain;
    return bare.getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain == AF_UNIX;
}

int any_receive_flags(void)
{
    static const int flags[] = {0,
                                0,
                                0,
                                MSG_DONTWAIT,
                                MSG_DONTWAIT,
                                MSG_PEEK,
                                MSG_PEEK | MSG_DONTWAIT,
                                MSG_TRUNC,
                                MSG_PEEK | MSG_TRUNC,
                                MSG_WAITALL,
                                MSG_OOB,
                                MSG_ERRQUEUE,
                                MSG_NOSIGNAL,
                                0x40000000};
    return ONE_OF(flags);
}

/* --- lines --- */

const char *digest(const void *bytes, size_t count)
{
    static char texts[4][40];
    static unsigned int next;
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3);
    char *text = texts[next++ % 4];
    snprintf(text, sizeof texts[0], "%zu:%016llx", count, (unsigned long long)hash);
    return text;
}

static void write_line(const char *line, size_t length)
{
    while (length > 0) {
        ssize_t wrote = write(STDOUT_FILENO, line, length);
        if (wrote < 0)
            _exit(96);
        line += wrote;
        length -= (size_t)wrote;
    }
}

void told(const char *name, long result, const char *format, ...)
{
    char line[1200];
    const size_t room = sizeof line - 2;
    sigset_t blocked;
    unsigned long mask = 0;
    va_list arguments;
    sigprocmask(SIG_SETMASK, NULL, &blocked);
    memcpy(&mask, &blocked, sizeof mask);
    int length = snprintf(line, room, "%s%s(%d", name, player.by_number ? "*" : "", player.fd);
    va_start(arguments, format);
    if (format[0]) {
        length += snprintf(line + length, room - (size_t)length, ", ");
        length += vsnprintf(line + length, room - (size_t)length, format, arguments);
    }
    va_end(arguments);
    length += snprintf(line + length, room - (size_t)length, ") = %ld errno %d", result, player.error);
    int flags = fcntl(player.fd, F_GETFL), own = fcntl(player.fd, F_GETFD);
    length += snprintf(line + length, room - (size_t)length, " | flags %x %d mask %lx SIGPIPE %d SIGALRM %d",
                       (unsigned int)flags, own, mask, (int)player.broken_pipes, (int)player.alarms);
    line[length] = '\n';
    write_line(line, (size_t)length + 1);
}

/* --- the play --- */

static void note_signal(int number)
{
    if (number == SIGPIPE)
        player.broken_pipes++;
    else
        player.alarms++;
}

static const struct operation *any_operation(void)
{
    static const struct operation *const tables[] = {attempts, sends, receives, options, descriptors, peers, processes};
    unsigned int sum = 0;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const struct operation *operation = tables[i]; operation->name; operation++)
            sum += operation->weight;
    unsigned int drawn = chance(sum);
    for (size_t i = 0;; i++)
        for (const struct operation *operation = tables[i]; operation->name; operation++) {
            if (drawn < operation->weight)
                return operation;
            drawn -= operation->weight;
        }
}

/* What is open at the end, and what it is. */
static void tell_descriptors(void)
{
    for (int fd = 0; fd < DESCRIPTORS + 4; fd++) {
        int type = 0;
        socklen_t length = sizeof type;
        if (!is_open(fd))
            continue;
        player.fd = fd;
        long result = CALL(bare.getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length));
        told("left", result, "%d", type);
    }
}

int player_play(int argc, char **argv)
{
    const struct sigaction noting = {.sa_handler = note_signal};
    const struct itimerval limit = {.it_value.tv_sec = HANGS_S, .it_interval.tv_sec = 1}, none = {0};
    CHECK(argc > 0);
    chance_begin(strtoull(argv[0], NULL, 10));
    CHECK(sigaction(SIGPIPE, &noting, NULL) == 0 && sigaction(SIGALRM, &noting, NULL) == 0);
    stage_set();
    for (int i = 0; i < CALLS; i++) {
        const struct operation *operation = any_operation();
        memset(player.bytes, 0xa5, sizeof player.bytes);
        player_drain();
        setitimer(ITIMER_REAL, &limit, NULL);
        operation->play();
        setitimer(ITIMER_REAL, &none, NULL);
        player_settle();
        player_accept();
    }
    tell_descriptors();
    stage_clear();
    return 0;
}
