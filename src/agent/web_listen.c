/*
 * web_listen.c - the socket at which the agent is asked over HTTP. See web_listen.h.
 */
#define _GNU_SOURCE
#include "agent/web_listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "view/output.h"

#define BACKLOG 128

union address {
    struct sockaddr any;
    struct sockaddr_in ipv4;
    struct sockaddr_in6 ipv6;
    struct sockaddr_un unix_path;
};

static socklen_t address_of(union address *address, const struct endpoint *at)
{
    memset(address, 0, sizeof *address);
    if (at->family == ENDPOINT_UNIX) {
        address->unix_path.sun_family = AF_UNIX;
        memcpy(address->unix_path.sun_path, at->path, sizeof address->unix_path.sun_path);
        return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(at->path) + 1);
    }
    if (at->family == ENDPOINT_IPV4) {
        address->ipv4.sin_family = AF_INET;
        address->ipv4.sin_port = htons(at->port);
        memcpy(&address->ipv4.sin_addr, at->address, sizeof address->ipv4.sin_addr);
        return sizeof address->ipv4;
    }
    address->ipv6.sin6_family = AF_INET6;
    address->ipv6.sin6_port = htons(at->port);
    address->ipv6.sin6_scope_id = at->scope_id;
    memcpy(&address->ipv6.sin6_addr, at->address, sizeof address->ipv6.sin6_addr);
    return sizeof address->ipv6;
}

static int new_socket(const struct endpoint *at)
{
    const int family = at->family == ENDPOINT_UNIX ? AF_UNIX : at->family == ENDPOINT_IPV4 ? AF_INET : AF_INET6;
    const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), yes = 1;
    if (fd >= 0 && family != AF_UNIX)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    return fd;
}

/* A socket's file of ours at which nobody listens any more. False: it is something else, or somebody listens. */
static bool remove_left_over(const struct endpoint *at, const union address *address, socklen_t length)
{
    struct stat status;
    if (lstat(at->path, &status) != 0 || !S_ISSOCK(status.st_mode) || status.st_uid != geteuid())
        return false;
    const int fd = new_socket(at);
    const bool is_dead = fd >= 0 && connect(fd, &address->any, length) != 0 && errno == ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    return is_dead && unlink(at->path) == 0;
}

static bool bind_to(int fd, const struct endpoint *at, mode_t mode)
{
    union address address;
    const socklen_t length = address_of(&address, at);
    if (at->family != ENDPOINT_UNIX)
        return bind(fd, &address.any, length) == 0;
    const mode_t usual = umask(0777 & ~mode);
    bool done = bind(fd, &address.any, length) == 0;
    if (!done && errno == EADDRINUSE) {
        done = remove_left_over(at, &address, length) && bind(fd, &address.any, length) == 0;
        if (!done)
            errno = EADDRINUSE;
    }
    umask(usual);
    return done;
}

bool web_listen_open(struct web_listen *place, const struct endpoint *at, mode_t mode)
{
    char text[DESTINATION_MAX];
    *place = (struct web_listen){.fd = new_socket(at), .at = *at};
    endpoint_format(at, text, sizeof text);
    if (place->fd < 0 || !bind_to(place->fd, at, mode) || listen(place->fd, BACKLOG) != 0) {
        warn("%s can't be listened at, and `listen` (--listen) can name another place", text);
        if (place->fd >= 0)
            close(place->fd);
        place->fd = -1;
        return false;
    }
    if (at->family == ENDPOINT_UNIX)
        lstat(at->path, &place->made);
    return true;
}

void web_listen_close(struct web_listen *place)
{
    struct stat now;
    if (place->fd >= 0)
        close(place->fd);
    place->fd = -1;
    if (place->made.st_ino != 0 && lstat(place->at.path, &now) == 0 && now.st_ino == place->made.st_ino &&
        now.st_dev == place->made.st_dev)
        unlink(place->at.path);
    memset(&place->made, 0, sizeof place->made);
}
