/*
 * web_server.c - what the agent answers over HTTP: the socket, and libmicrohttpd in the agent's loop. See web_server.h.
 */
#ifdef SOCKFUSE_HTTPD
#define _GNU_SOURCE
#include "agent/web_server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/web_library.h"
#include "agent/web_listen.h"
#include "agent/web_patience.h"
#include "agent/web_route.h"
#include "agent/web_stream.h"
#include "policy/listen_address.h"
#include "segment/places.h"
#include "view/output.h"

/* Connections at once, bytes of a request's head, and seconds of silence after which a connection is closed. */
#define CONNECTIONS_MAX 480u
#define HEAD_MAX ((size_t)16 << 10)
#define SILENCE_MAX 15u
/* Of the stream: so long after the last line another one is sent. */
#define BEAT_SECONDS 15.0
#define LAST_TURNS 8u
#define SOCKET_NAME "agent.socket"

static struct {
    struct ev_loop *loop;
    struct MHD_Daemon *daemon; /* NULL: it listens nowhere */
    struct web_listen place;
    bool may_show; /* one policy, or all */
    char listen[AGENT_TEXT_MAX], allow[AGENT_TEXT_MAX];
    mode_t mode;
    ev_io ready;
    ev_timer due, beat;
} server = {.place.fd = -1};

/* --- libmicrohttpd in the loop ------------------------------------------------------------------------------------ */

/* Lets it do what there is to do, and comes back when it wants to. */
static void turn(void)
{
    MHD_UNSIGNED_LONG_LONG wait_ms;
    if (server.daemon == NULL)
        return;
    httpd.MHD_run(server.daemon);
    ev_timer_stop(server.loop, &server.due);
    if (httpd.MHD_get_timeout(server.daemon, &wait_ms) != MHD_YES)
        return;
    ev_timer_set(&server.due, (double)wait_ms / 1e3, 0);
    ev_timer_start(server.loop, &server.due);
}

static void be_ready(struct ev_loop *loop, ev_io *ready, int events)
{
    (void)loop, (void)ready, (void)events;
    turn();
}

static void be_due(struct ev_loop *loop, ev_timer *due, int events)
{
    (void)loop, (void)due, (void)events;
    turn();
}

static void beat(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop, (void)timer, (void)events;
    web_route_flow(true);
}

/* Not at once: who wakes it may stand in one of its own calls. */
static void wake(void)
{
    if (server.daemon == NULL)
        return;
    ev_timer_stop(server.loop, &server.due);
    ev_timer_set(&server.due, 0, 0);
    ev_timer_start(server.loop, &server.due);
}

/* --- where -------------------------------------------------------------------------------------------------------- */

/* Of root's agent: in its state folder, where nobody else comes in. */
static bool find_usual_place(struct endpoint *at)
{
    struct state_places places;
    bool found = false;
    if (geteuid() != 0 || !state_places(environment, &places))
        return false;
    if (places.count > 0) {
        char *path = format_text("unix:%s/" SOCKET_NAME, places.at[0].folder);
        found = (mkdir(places.at[0].folder, 0700) == 0 || errno == EEXIST) && endpoint_parse(at, path);
        free(path);
    }
    state_places_free(&places);
    return found;
}

/* False: it is wanted, and can't be; that was said. `at` without a family: it is not wanted. */
static bool find_place(struct endpoint *at, bool *is_usual)
{
    char why[VALUE_TEXT_MAX];
    *is_usual = server.listen[0] == '\0';
    memset(at, 0, sizeof *at);
    if (*is_usual) {
        if (!server.may_show || !find_usual_place(at))
            at->family = ENDPOINT_NONE;
        return true;
    }
    if (!listen_address_parse(at, server.listen, why, sizeof why)) {
        warnx("listen = %s: %s", server.listen, why);
        return false;
    }
    if (at->family != ENDPOINT_NONE && !server.may_show) {
        warnx("--listen shows one policy (-p), or all: with several -p it can't be");
        return false;
    }
    if (!listen_address_is_local(at) && server.allow[0] == '\0') {
        warnx("listen = %s can be reached from other hosts, where everybody could read it: --allow NAME names by which "
              "name they ask, and that this is wanted",
              server.listen);
        return false;
    }
    return true;
}

static bool begin(void)
{
    struct endpoint at;
    char text[DESTINATION_MAX];
    bool is_usual;
    if (!find_place(&at, &is_usual))
        return false;
    if (at.family == ENDPOINT_NONE)
        return true;
    if (!web_library_load() || !web_listen_open(&server.place, &at, server.mode))
        return is_usual;
    web_route_set(at.family == ENDPOINT_UNIX, server.allow);
    server.daemon = httpd.MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, web_route_answer, NULL, MHD_OPTION_LISTEN_SOCKET,
        server.place.fd, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT, HEAD_MAX,
        MHD_OPTION_CONNECTION_TIMEOUT, SILENCE_MAX, MHD_OPTION_NOTIFY_COMPLETED, web_route_completed, NULL,
        MHD_OPTION_NOTIFY_CONNECTION, web_patience_notified, NULL, MHD_OPTION_END);
    if (server.daemon == NULL) {
        warnx("HTTP: libmicrohttpd does not begin");
        web_listen_close(&server.place);
        return is_usual;
    }
    ev_io_init(&server.ready, be_ready, httpd.MHD_get_daemon_info(server.daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd,
               EV_READ);
    ev_io_start(server.loop, &server.ready);
    ev_timer_init(&server.due, be_due, 0, 0);
    ev_timer_init(&server.beat, beat, BEAT_SECONDS, BEAT_SECONDS);
    ev_timer_start(server.loop, &server.beat);
    endpoint_format(&at, text, sizeof text);
    warnx("listens at %s", text);
    turn();
    return true;
}

static void end(void)
{
    if (server.daemon == NULL)
        return;
    ev_io_stop(server.loop, &server.ready);
    ev_timer_stop(server.loop, &server.beat);
    web_route_end();
    httpd.MHD_quiesce_daemon(server.daemon); /* the socket is ours to close */
    /* Streams are ended by a last piece, which takes a few turns; who takes nothing is cut off. */
    for (unsigned int turns = 0; turns < LAST_TURNS; turns++)
        httpd.MHD_run(server.daemon);
    httpd.MHD_stop_daemon(server.daemon);
    server.daemon = NULL;
    /* Behind all that wakes: begin() makes it anew, and an active one would be lost in the loop. */
    ev_timer_stop(server.loop, &server.due);
    web_listen_close(&server.place);
}

/* --- the journals ------------------------------------------------------------------------------------------------- */

static void hear(struct watched *watched, const struct event *event)
{
    if (server.daemon == NULL)
        return;
    web_stream_add(watched, event);
    web_route_flow(false);
}

static struct watcher watcher = {.name = "web", .event = hear};

/* --- start, settings, stop ---------------------------------------------------------------------------------------- */

static void take(const struct agent_settings *settings)
{
    memcpy(server.listen, settings->listen, sizeof server.listen);
    memcpy(server.allow, settings->allow, sizeof server.allow);
    server.mode = (mode_t)settings->listen_mode;
}

bool web_server_start(struct ev_loop *loop, const struct agent_settings *settings, const struct whose *choices,
                      size_t count)
{
    server.loop = loop;
    server.may_show = count == 1;
    take(settings);
    watched_register(&watcher);
    web_patience_start(loop);
    web_route_start(loop, &choices[0], wake);
    return begin();
}

void web_server_set(const struct agent_settings *settings)
{
    if (strcmp(server.listen, settings->listen) == 0 && strcmp(server.allow, settings->allow) == 0 &&
        server.mode == (mode_t)settings->listen_mode)
        return;
    struct agent_settings before = {.listen_mode = server.mode};
    memcpy(before.listen, server.listen, sizeof before.listen);
    memcpy(before.allow, server.allow, sizeof before.allow);
    end();
    take(settings);
    if (begin())
        return;
    warnx("it goes on listening where it did");
    take(&before);
    if (!begin())
        warnx("it listens nowhere now");
}

void web_server_stop(void)
{
    end();
    web_route_free();
}

#else
typedef int no_server_without_libmicrohttpd;
#endif
