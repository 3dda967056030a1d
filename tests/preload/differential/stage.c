/*
 * stage.c - what a play has around it: servers that listen, refuse or hang, their side of the connections, pipes and
 * files. See player.h. All of it goes past the library.
 */
#define _GNU_SOURCE
#include "stage.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "player.h"

#define HEAP 20000    /* bytes that may lie unread at a peer */
#define WAITS_US 5000 /* SO_RCVTIMEO */
#define ROUNDS 4      /* a packet, its answer, the answer's answer, and one to spare */
#define FILE_BYTES 60000
#define FILLERS 4

static int marker = -1; /* a UDP socket that sends to itself */

bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

/* --- settling --- */

/*
 * On loopback a packet waits in the processor's own queue, first come, first served: when one that is sent now has
 * arrived, so have all before it, and after a few rounds whatever they caused.
 */
void player_settle(void)
{
    char mark = 'm';
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(bare.send(marker, &mark, 1, 0) == 1);
        while (bare.recv(marker, &mark, 1, 0) != 1)
            CHECK(errno == EINTR);
    }
}

static void keep_to_one_processor(void)
{
    cpu_set_t one;
    int cpu = sched_getcpu();
    CPU_ZERO(&one);
    CPU_SET(cpu < 0 ? 0U : (unsigned int)cpu, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
}

/* --- peers --- */

/* No byte waits for an acknowledgement, and nobody for ever. */
static void never_wait(int fd)
{
    const struct timeval waits = {.tv_usec = WAITS_US};
    int yes = 1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &waits, sizeof waits);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

static void keep_peer(int fd)
{
    static unsigned int next;
    unsigned int at = next++ % PEERS;
    if (player.peers[at] >= 0)
        bare.close(player.peers[at]);
    player.peers[at] = fd;
    player.peer_sent[at] = 0;
    never_wait(fd);
    player.fd = fd;
    player.by_number = false;
    player.error = 0;
    told("accepted", 0, "%s", "");
}

/* The next connection, if there is one. */
static int accept_waiting(enum place place, int flags)
{
    struct pollfd look = {.fd = player.places[place].fd, .events = POLLIN};
    return poll(&look, 1, 0) == 1 ? accept4(look.fd, NULL, NULL, flags) : -1;
}

void player_accept(void)
{
    static const enum place listening[] = {PLACE_FOUR, PLACE_SIX, PLACE_PATH, PLACE_ABSTRACT};
    for (size_t i = 0; i < sizeof listening / sizeof *listening; i++) {
        int fd;
        while ((fd = accept_waiting(listening[i], SOCK_NONBLOCK)) >= 0)
            keep_peer(fd);
    }
}

void player_drain(void)
{
    static char heap[HEAP];
    for (int i = 0; i < PEERS; i++) {
        int unread = 0;
        if (ioctl(player.peers[i], FIONREAD, &unread) != 0 || unread < HEAP)
            continue;
        long got;
        player.fd = player.peers[i];
        player.by_number = false;
        while ((got = CALL(bare.recv(player.peers[i], heap, sizeof heap, MSG_DONTWAIT))) > 0)
            told("drained", got, "%s", digest(heap, (size_t)got));
    }
    player_settle();
}

/* --- places --- */

int place_family(enum place place)
{
    return player.places[place].at.ss_family;
}

const char *address_text(const struct sockaddr_storage *address, socklen_t length)
{
    static char texts[4][128];
    static unsigned int next;
    char *text = texts[next++ % 4], host[64] = "";
    const struct sockaddr_in *four = (const struct sockaddr_in *)address;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address;
    in_port_t port = 0;
    if (length >= sizeof *four && address->ss_family == AF_INET) {
        inet_ntop(AF_INET, &four->sin_addr, host, sizeof host);
        port = four->sin_port;
    } else if (length >= sizeof *six && address->ss_family == AF_INET6) {
        inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof host);
        port = six->sin6_port;
    }
    snprintf(text, sizeof texts[0], "family %d length %u %s%s", length ? address->ss_family : -1, length, host,
             port ? " and a port" : "");
    return text;
}

enum place place_for(int fd, enum place place)
{
    int type = 0;
    socklen_t length = sizeof type;
    return bare.getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_DGRAM ? PLACE_DATAGRAM : place;
}

static void open_place(enum place place, const char *host, int type)
{
    struct place_address *made = &player.places[place];
    struct sockaddr_in *four = (struct sockaddr_in *)&made->at;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)&made->at;
    struct sockaddr_un *local = (struct sockaddr_un *)&made->at;
    made->length = sizeof made->at;
    if (inet_pton(AF_INET, host, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        made->length = sizeof *four;
    } else if (inet_pton(AF_INET6, host, &six->sin6_addr) == 1) {
        six->sin6_family = AF_INET6;
        made->length = sizeof *six;
    } else {
        local->sun_family = AF_UNIX;
        snprintf(local->sun_path + (host[0] == '@'), sizeof local->sun_path - 1, "%s/%07d-%d", stage_folder(), getpid(),
                 place);
        made->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (host[0] == '@' ? 1 : 0) +
                                   strlen(local->sun_path + (host[0] == '@')) + (host[0] == '@' ? 0 : 1));
    }
    made->fd = bare.socket(made->at.ss_family, type | SOCK_NONBLOCK, 0);
    CHECK(made->fd >= 0 && bind(made->fd, (struct sockaddr *)&made->at, made->length) == 0);
    if (made->at.ss_family != AF_UNIX)
        CHECK(getsockname(made->fd, (struct sockaddr *)&made->at, &made->length) == 0);
}

/* Attempts until one hangs, which is taken back. */
static void fill(enum place place)
{
    struct place_address *hole = &player.places[place];
    CHECK(listen(hole->fd, 0) == 0);
    for (int i = 0; i < FILLERS; i++) {
        struct sockaddr_storage peer;
        socklen_t length = sizeof peer;
        int fd = bare.socket(hole->at.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
        bare.connect(fd, (struct sockaddr *)&hole->at, hole->length);
        player_settle();
        if (getpeername(fd, (struct sockaddr *)&peer, &length) != 0) {
            bare.close(fd);
            return;
        }
    }
    check_that(false, "the queue was never full", __FILE__, __LINE__);
}

static void open_places(void)
{
    open_place(PLACE_DATAGRAM, "127.0.0.1", SOCK_DGRAM);
    open_place(PLACE_FOUR, "127.0.0.1", SOCK_STREAM);
    open_place(PLACE_SIX, "::1", SOCK_STREAM);
    open_place(PLACE_PATH, "unix", SOCK_STREAM);
    open_place(PLACE_ABSTRACT, "@", SOCK_STREAM);
    open_place(PLACE_REFUSED, "127.0.0.1", SOCK_STREAM);
    open_place(PLACE_REFUSED_PATH, "unix", SOCK_STREAM);
    open_place(PLACE_HOLE, "127.0.0.1", SOCK_STREAM);
    open_place(PLACE_HOLE_PATH, "unix", SOCK_STREAM);
    for (int i = PLACE_FOUR; i <= PLACE_ABSTRACT; i++)
        if (i != PLACE_MAPPED)
            CHECK(listen(player.places[i].fd, 64) == 0);
    fill(PLACE_HOLE);
    fill(PLACE_HOLE_PATH);
    struct server mapped = {.length = player.places[PLACE_FOUR].length};
    mapped.address = player.places[PLACE_FOUR].at;
    server_map(&mapped);
    player.places[PLACE_MAPPED] = (struct place_address){-1, mapped.address, mapped.length};
}

void stage_clear(void)
{
    for (int i = 0; i < PLACES; i++) {
        const struct sockaddr_un *local = (const struct sockaddr_un *)&player.places[i].at;
        if (local->sun_family == AF_UNIX && local->sun_path[0])
            unlink(local->sun_path);
    }
}

void stage_set(void)
{
    const struct rlimit limit = {DESCRIPTORS, DESCRIPTORS};
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof own;
    int ends[2];
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    keep_to_one_processor();
    marker = bare.socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(bind(marker, (struct sockaddr *)&own, length) == 0);
    CHECK(getsockname(marker, (struct sockaddr *)&own, &length) == 0);
    CHECK(bare.connect(marker, (struct sockaddr *)&own, length) == 0);
    open_places();
    player.file = memfd_create("content", 0);
    for (size_t i = 0; i < ROOM; i++)
        player.bytes[i] = (unsigned char)(i * 13 + i / 256);
    CHECK(write(player.file, player.bytes, ROOM) == ROOM && write(player.file, player.bytes, FILE_BYTES - ROOM) > 0);
    CHECK(lseek(player.file, 0, SEEK_SET) == 0);
    player.folder = open("/", O_RDONLY | O_DIRECTORY);
    CHECK(pipe2(ends, O_NONBLOCK) == 0);
    player.pipe_out = ends[0];
    player.pipe_in = ends[1];
    player.epoll = epoll_create1(0);
    player.base = player.epoll + 1;
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && mprotect(pages + 4096, 4096, PROT_NONE) == 0);
    player.forbidden = pages + 4096;
    for (int i = 0; i < SLOTS; i++)
        player.slots[i] = -1;
    for (int i = 0; i < PEERS; i++)
        player.peers[i] = -1;
}

/* --- the calling side --- */

void player_keep(int fd)
{
    int *slot = &ONE_OF(player.slots);
    if (fd < 0)
        return;
    if (*slot != fd && *slot >= player.base && is_open(*slot))
        close(*slot);
    *slot = fd;
    never_wait(fd);
}

bool connected_pair(enum place place, int *fd, int *peer)
{
    int yes = 1;
    *fd = socket(place_family(place), SOCK_STREAM, 0);
    if (*fd < 0)
        return false;
    setsockopt(*fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (connect(*fd, (struct sockaddr *)&player.places[place].at, player.places[place].length) != 0) {
        close(*fd);
        return false;
    }
    player_settle();
    *peer = accept_waiting(place == PLACE_MAPPED ? PLACE_FOUR : place, 0);
    if (*peer < 0)
        close(*fd);
    return *peer >= 0;
}
