/*
 * redis_connection.c - one connection to a Redis: its life. See redis_line.h.
 */
#define _GNU_SOURCE
#include "agent/redis_line.h"

#include <stdlib.h>
#include <string.h>

#ifdef SOCKFUSE_HIREDIS

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/redis_line_model.h"
#include "base/hash.h"
#include "base/text.h"

/* No less than TLS hands over at once: what it keeps back no event would tell of (RFC 8446, section 5.1). */
#define TAKEN_AT_ONCE 16384u
#define LOOKUP_LIMIT_S 5.0
#define CONNECT_LIMIT_S 5.0
/* Between two tries: doubled each time, and each time the latter half of it by chance. */
#define PAUSE_FIRST_S 0.5
#define PAUSE_LONGEST_S 30.0

static double by_chance(struct redis_line *line, double most)
{
    const uint64_t drawn = hash_spread(line->random += HASH_STEP) >> 11;

    return most / 2 + most / 2 * (double)drawn / (double)(UINT64_C(1) << 53);
}

static void set_timer(struct redis_line *line, double in_s)
{
    ev_timer_stop(line->loop, &line->timer);
    ev_timer_set(&line->timer, in_s, 0);
    ev_timer_start(line->loop, &line->timer);
}

void redis_line_tell(struct redis_line *line, const char *what, const char *detail)
{
    struct text text;

    text_start(&text, line->trouble, sizeof line->trouble);
    text_add(&text, what);
    text_add(&text, detail[0] != '\0' ? ": " : "");
    text_add_printable(&text, detail);
}

static void close_connection(struct redis_line *line)
{
    ev_io_stop(line->loop, &line->readable);
    ev_io_stop(line->loop, &line->writable);
    redis_tls_end(line->tls);
    line->tls = NULL;
    if (line->readable.fd >= 0)
        close(line->readable.fd);
    ev_io_set(&line->readable, -1, EV_READ);
    ev_io_set(&line->writable, -1, EV_WRITE);
    redis_speech_ends(line);
    line->is_given_up = false;
}

static void come_again(struct redis_line *line)
{
    const bool stood = line->state == LINE_STANDS;

    close_connection(line);
    lookup_stop(&line->lookup);
    line->state = LINE_WAITS;
    line->next_address++;
    set_timer(line, by_chance(line, line->pause_s));
    line->pause_s = line->pause_s * 2 < PAUSE_LONGEST_S ? line->pause_s * 2 : PAUSE_LONGEST_S;
    if (stood)
        line->events.broken(line->events.context);
}

static void is_over(struct redis_line *line, const char *what, const char *detail)
{
    redis_line_tell(line, what, detail);
    come_again(line);
}

void redis_line_give_up(struct redis_line *line, const char *why)
{
    if (line->readable.fd < 0 || line->is_given_up)
        return;
    redis_line_tell(line, why, "");
    line->is_given_up = true;
    set_timer(line, 0);
}

/* --- TLS, and what comes and leaves --- */

static void want(struct redis_line *line, enum tls_need need)
{
    ev_io_start(line->loop, &line->readable);
    if (need == TLS_WRITABLE)
        ev_io_start(line->loop, &line->writable);
    else
        ev_io_stop(line->loop, &line->writable);
}

static void shake(struct redis_line *line)
{
    char why[sizeof line->trouble];
    enum tls_need need;

    line->state = LINE_SHAKES;
    if (line->tls == NULL && (line->tls = redis_tls_begin(&line->url, line->readable.fd, why, sizeof why)) == NULL) {
        is_over(line, why, "");
    } else if (!redis_tls_shake(line->tls, &need, why, sizeof why)) {
        is_over(line, why, "");
    } else if (need != TLS_NOTHING) {
        want(line, need);
    } else {
        want(line, TLS_READABLE);
        redis_speech_greet(line);
    }
}

static void breaks(struct redis_line *line, int error)
{
    if (line->tls != NULL && error == EPROTO)
        is_over(line, redis_tls_reason(line->tls), "");
    else
        is_over(line, "the connection broke", error != 0 ? strerror(error) : "");
}

static ssize_t receive(struct redis_line *line, char *bytes, size_t size)
{
    if (line->tls == NULL)
        return recv(line->readable.fd, bytes, size, 0);
    const ssize_t got = redis_tls_recv(line->tls, bytes, size);
    /* What TLS waited for may have come; and it may have to say something of its own before it reads on. */
    if (line->unsent_length > 0 || redis_tls_needs(line->tls) == TLS_WRITABLE)
        ev_io_start(line->loop, &line->writable);
    return got;
}

static void take_what_comes(struct redis_line *line)
{
    char bytes[TAKEN_AT_ONCE];

    const ssize_t got = receive(line, bytes, sizeof bytes);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0)
        breaks(line, got < 0 ? errno : 0);
    else if (!redis_speech_take(line, bytes, (size_t)got))
        is_over(line, redis_speech_is_excessive(line) ? "it answers more than can be meant" : "it is no Redis",
                redis_speech_is_excessive(line) ? "" : line->reader->errstr);
}

static void on_readable(struct ev_loop *loop, ev_io *watcher, int events)
{
    struct redis_line *line = watcher->data;
    (void)loop, (void)events;

    if (line->state == LINE_SHAKES)
        shake(line);
    else
        take_what_comes(line);
}

/* False: it is over. */
static bool has_connected(struct redis_line *line)
{
    int error = 0;
    socklen_t size = sizeof error;

    if (getsockopt(line->writable.fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
        is_over(line, "it can't be reached", strerror(error != 0 ? error : errno));
        return false;
    }
    return true;
}

static void on_writable(struct ev_loop *loop, ev_io *watcher, int events)
{
    struct redis_line *line = watcher->data;
    (void)loop, (void)events;

    if (line->state == LINE_CONNECTS) {
        if (!has_connected(line))
            return;
        ev_io_start(line->loop, &line->readable);
        if (!line->url.is_tls)
            redis_speech_greet(line);
    }
    if (line->url.is_tls && line->state <= LINE_SHAKES) {
        shake(line);
        return;
    }
    if (line->unsent_length > 0) {
        if (!redis_speech_flush(line))
            breaks(line, errno);
        return;
    }
    ev_io_stop(line->loop, &line->writable);
    if (line->tls != NULL)
        take_what_comes(line);
}

/* --- connecting --- */

static socklen_t address_of(const struct redis_line *line, const char *host, struct sockaddr_storage *address)
{
    struct sockaddr_in *in = (struct sockaddr_in *)address;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)address;
    struct sockaddr_un *un = (struct sockaddr_un *)address;

    memset(address, 0, sizeof *address);
    if (host == NULL) {
        un->sun_family = AF_UNIX;
        memcpy(un->sun_path, line->url.path, sizeof un->sun_path);
        return sizeof *un;
    }
    if (inet_pton(AF_INET, host, &in->sin_addr) == 1) {
        in->sin_family = AF_INET;
        in->sin_port = htons(line->url.port);
        return sizeof *in;
    }
    if (inet_pton(AF_INET6, host, &in6->sin6_addr) != 1)
        return 0;
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(line->url.port);
    return sizeof *in6;
}

/* `host`: an address; NULL: the path. */
static void connect_to(struct redis_line *line, const char *host)
{
    struct sockaddr_storage address;
    const socklen_t length = address_of(line, host, &address);
    const int one = 1;
    const int fd = length > 0 ? socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0) : -1;

    if (fd < 0) {
        is_over(line, "no socket can be had", strerror(errno));
        return;
    }
    ev_io_set(&line->readable, fd, EV_READ);
    ev_io_set(&line->writable, fd, EV_WRITE);
    line->state = LINE_CONNECTS;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    if (!redis_speech_begins(line) || (connect(fd, (struct sockaddr *)&address, length) != 0 && errno != EINPROGRESS)) {
        is_over(line, "it can't be reached", strerror(errno));
        return;
    }
    set_timer(line, CONNECT_LIMIT_S);
    ev_io_start(line->loop, &line->writable);
}

static void on_addresses(struct lookup *lookup)
{
    struct redis_line *line = lookup->context;

    if (lookup->count == 0)
        is_over(line, "its name is not known", line->url.host);
    else
        connect_to(line, lookup->at[line->next_address % lookup->count]);
}

static void begin(struct redis_line *line)
{
    line->state = LINE_ASKS;
    if (line->url.host[0] == '\0')
        connect_to(line, NULL);
    else if (!lookup_start(&line->lookup, line->url.host, LOOKUP_LIMIT_S))
        is_over(line, "no child can be made to ask for its name", "");
}

static void on_timer(struct ev_loop *loop, ev_timer *watcher, int events)
{
    struct redis_line *line = watcher->data;
    (void)loop, (void)events;

    if (line->state == LINE_WAITS)
        begin(line);
    else if (line->is_given_up)
        come_again(line);
    else
        is_over(line, line->state == LINE_SHAKES ? "it does not answer by TLS" : "it does not answer", "");
}

struct redis_line *redis_line_open(struct ev_loop *loop, const struct redis_url *url,
                                   const struct redis_line_events *events)
{
    struct redis_line *line = calloc(1, sizeof *line);

    if (line == NULL)
        return NULL;
    line->loop = line->lookup.loop = loop;
    line->url = *url;
    line->events = *events;
    line->lookup.done = on_addresses;
    line->lookup.context = line;
    line->pause_s = PAUSE_FIRST_S;
    if (getrandom(&line->random, sizeof line->random, GRND_NONBLOCK) != sizeof line->random)
        line->random = (uint64_t)(uintptr_t)line ^ (uint64_t)(ev_time() * 1e6);
    ev_io_init(&line->readable, on_readable, -1, EV_READ);
    ev_io_init(&line->writable, on_writable, -1, EV_WRITE);
    ev_timer_init(&line->timer, on_timer, 0, 0);
    line->readable.data = line->writable.data = line->timer.data = line;
    ev_timer_start(loop, &line->timer);
    return line;
}

void redis_line_close(struct redis_line *line)
{
    if (line == NULL)
        return;
    if (line->state == LINE_STANDS && !line->is_given_up && line->unsent_length > 0)
        redis_speech_flush(line);
    close_connection(line);
    lookup_stop(&line->lookup);
    ev_timer_stop(line->loop, &line->timer);
    explicit_bzero(line->url.password, sizeof line->url.password);
    free(line->unsent);
    free(line->tags);
    free(line);
}

void redis_line_is_well(struct redis_line *line)
{
    line->pause_s = PAUSE_FIRST_S;
}

const char *redis_line_trouble(const struct redis_line *line)
{
    return line->trouble;
}

bool redis_line_stands(const struct redis_line *line)
{
    return line->state == LINE_STANDS && !line->is_given_up;
}

bool redis_line_is_possible(const struct redis_url *url, const char **why)
{
    *why = NULL;
    return !url->is_tls || redis_tls_is_possible(why);
}

#endif
