/*
 * web_patience.c - how long one who asks over HTTP may take. See web_patience.h.
 */
#ifdef SOCKFUSE_HTTPD
#define _GNU_SOURCE
#include "agent/web_patience.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "agent/web_library.h"
#include "base/clock.h"
#include "view/output.h"

#define LOOK_SECONDS 2.0

static const uint64_t patience_ns[] = {
    [WEB_ASKS] = 20 * NS_PER_S,
    [WEB_TAKES] = 60 * NS_PER_S,
    [WEB_FOLLOWS] = UINT64_MAX,
};

struct asker {
    struct MHD_Connection *connection;
    enum web_patience what;
    uint64_t since_ns; /* circuits' clock */
    const void *takes;
    struct asker *next, **place;
};

static struct {
    struct ev_loop *loop;
    struct asker *askers;
    ev_timer timer; /* runs while there are any */
} patience;

/* Shut down, not closed: the descriptor is libmicrohttpd's, which sees an end. */
static void cut(const struct asker *asker)
{
    const union MHD_ConnectionInfo *info =
        httpd.MHD_get_connection_info(asker->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info != NULL)
        shutdown(info->connect_fd, SHUT_RDWR);
}

static void look(struct ev_loop *loop, ev_timer *timer, int events)
{
    const uint64_t now_ns = clock_circuit_ns();
    (void)loop, (void)timer, (void)events;
    for (struct asker *asker = patience.askers; asker != NULL; asker = asker->next)
        if (now_ns - asker->since_ns > patience_ns[asker->what])
            cut(asker);
}

void web_patience_start(struct ev_loop *loop)
{
    patience.loop = loop;
    ev_timer_init(&patience.timer, look, LOOK_SECONDS, LOOK_SECONDS);
}

static void set(struct asker *asker, enum web_patience what)
{
    asker->what = what;
    asker->since_ns = clock_circuit_ns();
    asker->takes = NULL;
}

static struct asker *asker_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        httpd.MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info != NULL ? info->socket_context : NULL;
}

void web_patience_set(struct MHD_Connection *connection, enum web_patience what)
{
    struct asker *asker = asker_of(connection);
    if (asker != NULL)
        set(asker, what);
}

void web_patience_takes(struct MHD_Connection *connection, const void *what)
{
    struct asker *asker = asker_of(connection);
    if (asker != NULL)
        asker->takes = what;
}

void web_patience_cut(const void *what)
{
    for (const struct asker *asker = patience.askers; asker != NULL; asker = asker->next)
        if (asker->takes == what)
            cut(asker);
}

static void add(struct MHD_Connection *connection, void **own)
{
    struct asker *asker = allocate(1, sizeof *asker);
    *asker = (struct asker){.connection = connection, .next = patience.askers, .place = &patience.askers};
    set(asker, WEB_ASKS);
    if (asker->next != NULL)
        asker->next->place = &asker->next;
    patience.askers = asker;
    *own = asker;
    ev_timer_start(patience.loop, &patience.timer);
}

static void drop(struct asker *asker)
{
    *asker->place = asker->next;
    if (asker->next != NULL)
        asker->next->place = asker->place;
    free(asker);
    if (patience.askers == NULL)
        ev_timer_stop(patience.loop, &patience.timer);
}

void web_patience_notified(void *context, struct MHD_Connection *connection, void **own,
                           enum MHD_ConnectionNotificationCode what)
{
    (void)context;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        add(connection, own);
    } else if (*own != NULL) {
        drop(*own);
        *own = NULL;
    }
}

#else
typedef int no_patience_without_libmicrohttpd;
#endif
