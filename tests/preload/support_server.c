/*
 * support_server.c - servers on loopback, good and bad, and the sockets that call them. See support.h.
 */
#define _GNU_SOURCE
#include "support.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILL_WAIT_MS 30

static void address_of(struct server *server, const char *host)
{
    static unsigned int number;
    struct sockaddr_un *local = (struct sockaddr_un *)&server->address;
    struct sockaddr_in *four = (struct sockaddr_in *)&server->address;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)&server->address;
    memset(&server->address, 0, sizeof server->address);
    if (!strncmp(host, "unix", 4) || host[0] == '@') {
        /* "unix", or "unix:NAME" where the name decides which target takes it */
        const char *name = host[0] == 'u' && host[4] == ':' ? host + 5 : "server-";
        char path[sizeof local->sun_path];
        local->sun_family = AF_UNIX;
        snprintf(path, sizeof path, "%s/%s%d-%u", stage_folder(), name, getpid(), number++);
        strcpy(local->sun_path + (host[0] == '@'), path);
        server->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path) + (host[0] == '@'));
    } else if (strchr(host, ':')) {
        six->sin6_family = AF_INET6;
        CHECK(inet_pton(AF_INET6, host, &six->sin6_addr) == 1);
        server->length = sizeof *six;
    } else {
        four->sin_family = AF_INET;
        CHECK(inet_pton(AF_INET, host, &four->sin_addr) == 1);
        server->length = sizeof *four;
    }
}

static void name_destination(struct server *server, const char *host)
{
    const struct sockaddr_un *local = (const struct sockaddr_un *)&server->address;
    unsigned int port = ntohs(((const struct sockaddr_in *)&server->address)->sin_port); /* the same place in IPv6 */
    if (local->sun_family == AF_UNIX)
        snprintf(server->destination, sizeof server->destination, "unix:%s%s", host[0] == '@' ? "@" : "",
                 local->sun_path + (host[0] == '@'));
    else
        snprintf(server->destination, sizeof server->destination, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
}

/* Connects past the library until an attempt hangs; the last one is taken back. */
static void fill(struct server *server)
{
    int type = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
    for (size_t i = 0; i < sizeof server->fillers / sizeof *server->fillers; i++) {
        int fd = bare.socket(server->address.ss_family, type, 0);
        CHECK(fd >= 0);
        int result = bare.connect(fd, AT(server));
        struct pollfd wanted = {.fd = fd, .events = POLLOUT};
        if (result != 0 && (errno == EAGAIN || poll(&wanted, 1, FILL_WAIT_MS) == 0)) {
            bare.close(fd);
            return;
        }
        server->fillers[server->filler_count++] = fd;
    }
    check_that(false, "the queue was never full", __FILE__, __LINE__);
}

void server_start(struct server *server, const char *host, enum server_kind kind)
{
    int taken = -1;
    at_hand = NULL;
    do { /* the kernel gives ports again; an earlier test's would come with its circuit */
        memset(server, 0, sizeof *server);
        address_of(server, host);
        server->fd = bare.socket(server->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK(server->fd >= 0);
        CHECK(bind(server->fd, AT(server)) == 0);
        if (taken >= 0)
            bare.close(taken);
        taken = server->fd;
        server->length = sizeof server->address;
        CHECK(getsockname(server->fd, (struct sockaddr *)&server->address, &server->length) == 0);
        name_destination(server, host);
    } while (has_circuit(server));
    if (kind != SERVER_REFUSES)
        CHECK(listen(server->fd, kind == SERVER_BLACK_HOLE ? 0 : 128) == 0);
    if (kind == SERVER_BLACK_HOLE)
        fill(server);
}

void server_stop(struct server *server)
{
    const struct sockaddr_un *local = (const struct sockaddr_un *)&server->address;
    bare.close(server->fd);
    for (int i = 0; i < server->filler_count; i++)
        bare.close(server->fillers[i]);
    if (local->sun_family == AF_UNIX && local->sun_path[0])
        unlink(local->sun_path);
}

void server_at_port(struct server *server, const char *port)
{
    memset(server, 0, sizeof *server);
    address_of(server, "127.0.0.1");
    ((struct sockaddr_in *)&server->address)->sin_port = htons((uint16_t)atoi(port));
    name_destination(server, "127.0.0.1");
    server->fd = -1;
}

const char *server_port(const struct server *server)
{
    static char texts[8][8];
    static unsigned int next;
    char *text = texts[next++ % 8];
    snprintf(text, 8, "%u", ntohs(((const struct sockaddr_in *)&server->address)->sin_port));
    return text;
}

int server_accept(struct server *server)
{
    poll_for(server->fd, POLLIN);
    int peer = accept4(server->fd, NULL, NULL, SOCK_CLOEXEC);
    CHECK(peer >= 0);
    return peer;
}

void server_reset(int peer)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    CHECK(setsockopt(peer, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0);
    CHECK(bare.close(peer) == 0);
}

void server_map(struct server *server)
{
    struct sockaddr_in four = *(const struct sockaddr_in *)&server->address;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)&server->address;
    memset(six, 0, sizeof *six);
    six->sin6_family = AF_INET6;
    six->sin6_port = four.sin_port;
    six->sin6_addr.s6_addr[10] = six->sin6_addr.s6_addr[11] = 0xff;
    memcpy(six->sin6_addr.s6_addr + 12, &four.sin_addr, 4);
    server->length = sizeof *six;
}

int caller_socket(const struct server *server, int flags)
{
    int fd = socket(server->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    CHECK(fd >= 0);
    return fd;
}

int caller_connect(const struct server *server, int flags)
{
    int fd = caller_socket(server, flags);
    int result = connect(fd, AT(server));
    CHECK(result == 0 || (flags & SOCK_NONBLOCK && errno == EINPROGRESS));
    return fd;
}
