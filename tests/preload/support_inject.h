/*
 * support_inject.h - what the tests of injected faults share: a policy with a loopback address for each fault, and
 * looks at its victims.
 *
 * For tests/preload/test_inject*.c only.
 */
#ifndef SOCKFUSE_TESTS_PRELOAD_SUPPORT_INJECT_H
#define SOCKFUSE_TESTS_PRELOAD_SUPPORT_INJECT_H

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support.h"

#define REQUEST "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
#define LENGTH ((ssize_t)sizeof REQUEST - 1)
#define DELAY_MS 120u

/* One loopback address for each fault. */
#define REFUSES "127.0.1.1"
#define RESETS "127.0.1.2"
#define HANGS "127.0.1.3"
#define ANSWERS "127.0.1.4"
#define DELAYS "127.0.1.5"
#define SOMETIMES "127.0.1.6"
#define BUSINESS "127.0.1.7"
#define TOUCHY "127.0.1.8"
#define SILENT "127.0.1.9"
#define CLOSING "127.0.1.10"
#define SLOW "127.0.1.11"
#define SLOW_MS 300u

static const char inject_policy[] = "[defaults]\n"
                                    "failure_threshold = 1000\n"
                                    "failure_rate = 0%\n"
                                    "abandon_after = 50ms\n"
                                    "[refuses]\nmatch = 127.0.1.1:* unix:*/refuses-*\ninject = refuse\n"
                                    "[resets]\nmatch = 127.0.1.2:* unix:*/resets-*\ninject = reset\n"
                                    "[hangs]\nmatch = 127.0.1.3:*\ninject = hang\n"
                                    "[answers]\nmatch = 127.0.1.4:*\ninject = http-503\n"
                                    "[delays]\nmatch = 127.0.1.5:* unix:*/delays-*\ninject = delay 120ms\n"
                                    "[sometimes]\nmatch = 127.0.1.6:*\ninject = refuse at 20%, http-503 at 10%\n"
                                    "[business]\nmatch = 127.0.1.7:*\ninject = http-404\n"
                                    "[touchy]\nmatch = 127.0.1.8:*\ninject = http-503\n"
                                    "failure_threshold = 3\nreset_timeout = 1h\n"
                                    "[silent]\nmatch = 127.0.1.9:*\ninject = silence\n"
                                    "[closing]\nmatch = 127.0.1.10:*\ninject = early-close\n"
                                    "[slow]\nmatch = 127.0.1.11:* unix:*/slow-*\ninject = slow 300ms\n"
                                    "[six]\nmatch = [::1]:*\ninject = reset\n";

/* What the tests ask for; vectors want it writable. */
static inline char *request_text(void)
{
    static char text[] = REQUEST;
    return text;
}

static inline void nobody_came(struct server *server)
{
    struct pollfd wanted = {.fd = server->fd, .events = POLLIN};
    assert_int_equal(poll(&wanted, 1, 0), 0);
}

static inline int pending_error(int fd)
{
    int error = -1;
    socklen_t length = sizeof error;
    CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0);
    return error;
}

static const char head_503[] = "HTTP/1.1 503 Service Unavailable\r\n";

/* Reads all there is. */
static inline size_t read_all(int fd, char *buffer, size_t size)
{
    size_t length = 0;
    ssize_t got;
    while ((got = recv(fd, buffer + length, size - 1 - length, 0)) > 0)
        length += (size_t)got;
    CHECK(got == 0);
    buffer[length] = '\0';
    return length;
}

/* The body is as long as the head says. */
static inline void assert_whole(const char *answer, size_t length, const char *first_line, bool has_body)
{
    assert_memory_equal(answer, first_line, strlen(first_line));
    const char *body = strstr(answer, "\r\n\r\n"), *promise = strstr(answer, "Content-Length: ");
    assert_non_null(body);
    assert_non_null(promise);
    assert_non_null(strstr(answer, "Connection: close\r\n"));
    size_t promised = (size_t)atoi(promise + 16);
    assert_true(promised > 0);
    assert_int_equal((size_t)(answer + length - (body + 4)), has_body ? promised : 0);
}

#endif
