/*
 * check_peer.c - a health check by a connection of the caller's own. See check_peer.h.
 */
#define _GNU_SOURCE
#include "agent/check_peer.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/ascii.h"
#include "base/clock.h"
#include "policy/check_value.h"
#include "view/destination.h"

#ifndef SOCKFUSE_VERSION
#define SOCKFUSE_VERSION "unknown"
#endif

/* "HTTP/1.1 200" */
#define STATUS_AT 9u
#define STATUS_END 12u
#define REQUEST_MAX (2 * HEALTH_CHECK_SIZE + 128)

struct peer {
    const struct sockaddr *address;
    socklen_t length;
    int family;
};

static struct check_result failed(int error)
{
    return (struct check_result){.error = error};
}

/* --- waiting ------------------------------------------------------------------------------------------------------ */

static bool await(int fd, short events, uint64_t deadline_ns)
{
    for (;;) {
        const uint64_t now_ns = clock_real_ns();
        struct pollfd poll_one = {.fd = fd, .events = events};
        const int ready = now_ns < deadline_ns ? poll(&poll_one, 1, (int)((deadline_ns - now_ns) / NS_PER_MS) + 1) : 0;
        if (ready > 0)
            return true;
        if (ready == 0 || errno != EINTR) {
            errno = ready == 0 ? ETIMEDOUT : errno;
            return false;
        }
    }
}

/* --- a connection ------------------------------------------------------------------------------------------------- */

/* A port of this host that nobody listens on can be the very one that the kernel gave to this side. */
static bool leads_to_itself(int fd)
{
    struct sockaddr_storage own = {0}, peer = {0};
    socklen_t own_length = sizeof own, peer_length = sizeof peer;
    return getsockname(fd, (struct sockaddr *)&own, &own_length) == 0 &&
           getpeername(fd, (struct sockaddr *)&peer, &peer_length) == 0 && own.ss_family != AF_UNIX &&
           own_length == peer_length && memcmp(&own, &peer, own_length) == 0;
}

/* errno, or 0. */
static int connect_in_time(int fd, const struct peer *peer, uint64_t deadline_ns)
{
    int error = 0;
    socklen_t length = sizeof error;
    if (connect(fd, peer->address, peer->length) == 0)
        return leads_to_itself(fd) ? ECONNREFUSED : 0;
    if (errno != EINPROGRESS)
        return errno; /* of a UNIX socket EAGAIN: its queue is full */
    if (!await(fd, POLLOUT, deadline_ns) || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0)
        return errno;
    return error == 0 && leads_to_itself(fd) ? ECONNREFUSED : error;
}

/* --- a page ------------------------------------------------------------------------------------------------------- */

static bool send_all(int fd, const char *text, size_t length, uint64_t deadline_ns)
{
    while (length > 0) {
        const ssize_t sent = send(fd, text, length, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        if (sent < 0 && !await(fd, POLLOUT, deadline_ns))
            return false;
        if (sent > 0) {
            text += sent;
            length -= (size_t)sent;
        }
    }
    return true;
}

/* As much as a status needs; false with errno: it did not come. */
static bool receive_status(int fd, char text[STATUS_END], uint64_t deadline_ns)
{
    for (size_t length = 0; length < STATUS_END;) {
        const ssize_t received = recv(fd, text + length, STATUS_END - length, 0);
        if (received == 0)
            errno = ECONNRESET;
        if (received == 0 || (received < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        if (received < 0 && !await(fd, POLLIN, deadline_ns))
            return false;
        length += received > 0 ? (size_t)received : 0;
    }
    return true;
}

static struct check_result ask(int fd, const char *request, uint64_t deadline_ns)
{
    char text[STATUS_END];
    unsigned int status = 0;
    if (!send_all(fd, request, strlen(request), deadline_ns) || !receive_status(fd, text, deadline_ns))
        return failed(errno);
    if (memcmp(text, "HTTP/1.", 7) != 0 || text[STATUS_AT - 1] != ' ')
        return failed(EPROTO);
    for (unsigned int i = STATUS_AT; i < STATUS_END; i++) {
        if (!ascii_is_digit(text[i]))
            return failed(EPROTO);
        status = status * 10 + (unsigned int)(text[i] - '0');
    }
    return (struct check_result){.passed = status >= 200 && status <= 399, .http_status = status};
}

/* --- one address, and all of a name's ----------------------------------------------------------------------------- */

static struct check_result check_one(const struct peer *peer, const char *request, uint64_t deadline_ns)
{
    const int fd = socket(peer->family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return failed(errno);
    const int error = connect_in_time(fd, peer, deadline_ns);
    const struct check_result result = error != 0        ? failed(error)
                                       : request != NULL ? ask(fd, request, deadline_ns)
                                                         : (struct check_result){.passed = true};
    close(fd);
    return result;
}

static struct check_result check_unix(const struct endpoint *endpoint, const char *request, uint64_t deadline_ns)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const size_t length = strlen(endpoint->path), start = endpoint->abstract ? 1 : 0;
    if (start + length > sizeof address.sun_path)
        return failed(ENAMETOOLONG);
    memcpy(address.sun_path + start, endpoint->path, length);
    const struct peer peer = {.address = (const struct sockaddr *)&address,
                              .length = endpoint->abstract
                                            ? (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)
                                            : (socklen_t)sizeof address,
                              .family = AF_UNIX};
    return check_one(&peer, request, deadline_ns);
}

static int error_of_name(int error)
{
    return error == EAI_SYSTEM ? errno : error == EAI_AGAIN ? EAGAIN : EHOSTUNREACH;
}

static struct check_result check_host(const char *host, uint16_t port, const char *request, uint64_t deadline_ns)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    struct check_result result = failed(EHOSTUNREACH);
    char service[8];
    uint64_t left = 0;
    snprintf(service, sizeof service, "%u", port);
    const int error = getaddrinfo(host, service, &hints, &list);
    if (error != 0)
        return failed(error_of_name(error));
    for (const struct addrinfo *at = list; at != NULL; at = at->ai_next)
        left++;
    for (const struct addrinfo *at = list; at != NULL && !result.passed; at = at->ai_next, left--) {
        const struct peer peer = {at->ai_addr, at->ai_addrlen, at->ai_family};
        const uint64_t now_ns = clock_real_ns();
        result = check_one(&peer, request, now_ns < deadline_ns ? now_ns + (deadline_ns - now_ns) / left : now_ns);
    }
    freeaddrinfo(list);
    return result;
}

/* "name", "192.0.2.1", "2001:db8::1" of where a destination leads. */
static const char *host_of(const struct destination *destination, char room[DESTINATION_MAX])
{
    if (destination->name != NULL)
        return destination->name;
    return endpoint_format_address(&destination->endpoint, room, DESTINATION_MAX) > 0 ? room : "";
}

static void format_request(char request[REQUEST_MAX], const struct check_url *url, const char *host)
{
    const bool is_v6 = strchr(host, ':') != NULL;
    snprintf(request, REQUEST_MAX,
             "GET %s HTTP/1.1\r\nHost: %s%.255s%s\r\nUser-Agent: sockfuse-agent/" SOCKFUSE_VERSION
             "\r\nAccept: */*\r\nConnection: close\r\n\r\n",
             url->path[0] != '\0' ? url->path : "/", is_v6 ? "[" : "", host, is_v6 ? "]" : "");
}

struct check_result check_peer(const char *value, const char *text, uint64_t deadline_ns)
{
    char why[DESTINATION_WHY_MAX], room[DESTINATION_MAX], request[REQUEST_MAX];
    const bool is_http = check_kind(value) == CHECK_HTTP;
    struct check_url url = {.host = ""};
    struct destination destination;
    if (is_http)
        check_url(&url, value);
    if (url.host[0] != '\0') {
        format_request(request, &url, url.host);
        return check_host(url.host, url.port, request, deadline_ns);
    }
    struct check_result result = failed(EDESTADDRREQ);
    if (destination_read(&destination, text, why)) {
        const bool is_unix = destination.endpoint.family == ENDPOINT_UNIX;
        const char *host = is_unix ? "localhost" : host_of(&destination, room);
        if (is_http)
            format_request(request, &url, host);
        result = is_unix ? check_unix(&destination.endpoint, is_http ? request : NULL, deadline_ns)
                         : check_host(host, destination.endpoint.port, is_http ? request : NULL, deadline_ns);
    }
    destination_free(&destination);
    return result;
}
