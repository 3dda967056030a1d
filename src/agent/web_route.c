/*
 * web_route.c - which request gets which answer. See web_route.h.
 */
#ifdef SOCKFUSE_HTTPD
#define _GNU_SOURCE
#include "agent/web_route.h"

#include <stdlib.h>
#include <string.h>

#include "agent/watched.h"
#include "agent/web_gate.h"
#include "agent/web_library.h"
#include "agent/web_making.h"
#include "agent/web_page.h"
#include "agent/web_patience.h"
#include "agent/web_stream.h"
#include "base/clock.h"
#include "base/units.h"
#include "view/output.h"

/* What was made is told to all who ask within this time. */
#define FRESH_NS NS_PER_S
#define FLOWS_MAX 64u
#define FLOW_PIECE 4096u

#define TEXT_TYPE "text/plain; charset=utf-8"
#define JSON_TYPE "application/json"
#define FLOW_TYPE "text/event-stream"

static const struct {
    const char *path, *type;
} made_of[WEB_KINDS] = {
    [WEB_METRICS] = {"/metrics", "application/openmetrics-text; version=1.0.0; charset=utf-8"},
    [WEB_STATUS] = {"/status.json", JSON_TYPE},
    [WEB_CALLS] = {"/calls.json", JSON_TYPE},
    [WEB_REPORT] = {"/report.json", JSON_TYPE},
};

static const char index_text[] =
    "There is / (a live page), /metrics, /status.json, /calls.json, /report.json, /events and /healthz.\n";

/* A request that waits for what is being made. */
struct waiter {
    struct MHD_Connection *connection;
    enum web_kind kind;
    bool is_aside;
    struct waiter *next;
};

/* A reader of the stream. */
struct flow {
    struct MHD_Connection *connection;
    struct web_reader reader;
    bool is_aside;
    struct flow *next;
};

static struct {
    void (*wake)(void);
    const char *allow;
    bool is_unix, is_ending;
    struct {
        struct MHD_Response *response; /* NULL: it came to nothing */
        const char *why;
        uint64_t made_ns; /* real clock; 0: never */
    } made[WEB_KINDS];
    struct waiter *waiters;
    struct flow *flows;
    unsigned int flow_count;
} route;

/* A request's own, when it was let in and waits for nothing. */
static char is_let_in;

/* --- responses ---------------------------------------------------------------------------------------------------- */

/* What no other site's page may do with it, and that nobody keeps it. */
static void add_headers(struct MHD_Response *response, const char *type)
{
    static const char *const headers[][2] = {
        {"Cache-Control", "no-store"},
        {"X-Content-Type-Options", "nosniff"},
        {"X-Frame-Options", "DENY"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Cross-Origin-Opener-Policy", "same-origin"},
        {"Referrer-Policy", "no-referrer"},
    };
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        httpd.MHD_add_response_header(response, headers[i][0], headers[i][1]);
    httpd.MHD_add_response_header(response, "Content-Type", type);
    httpd.MHD_add_response_header(response, "Content-Security-Policy",
                                  strncmp(type, "text/html", 9) == 0 ? "frame-ancestors 'none'"
                                                                     : "default-src 'none'; frame-ancestors 'none'");
}

static enum MHD_Result send_text(struct MHD_Connection *connection, unsigned int status, const char *text)
{
    char *line = format_text("%s%s", text, strchr(text, '\n') != NULL ? "" : "\n");
    struct MHD_Response *response = httpd.MHD_create_response_from_buffer(strlen(line), line, MHD_RESPMEM_MUST_FREE);
    if (response == NULL) {
        free(line);
        return MHD_NO;
    }
    add_headers(response, TEXT_TYPE);
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        httpd.MHD_add_response_header(response, "Allow", "GET, HEAD");
    if (status == MHD_HTTP_SERVICE_UNAVAILABLE)
        httpd.MHD_add_response_header(response, "Retry-After", "2");
    const enum MHD_Result result = httpd.MHD_queue_response(connection, status, response);
    httpd.MHD_destroy_response(response);
    return result;
}

static enum MHD_Result send_page(struct MHD_Connection *connection)
{
    size_t length;
    const char *text = web_page(&length);
    if (text == NULL)
        return send_text(
            connection, MHD_HTTP_SERVICE_UNAVAILABLE,
            "The page is not here: 'make page' makes it, with nodejs and npm; /status.json and the others are.");
    struct MHD_Response *response =
        httpd.MHD_create_response_from_buffer(length, (void *)(uintptr_t)text, MHD_RESPMEM_PERSISTENT);
    if (response == NULL)
        return MHD_NO;
    add_headers(response, "text/html; charset=utf-8");
    const enum MHD_Result result = httpd.MHD_queue_response(connection, MHD_HTTP_OK, response);
    httpd.MHD_destroy_response(response);
    return result;
}

static enum MHD_Result send_health(struct MHD_Connection *connection)
{
    char *text = format_text("ok: watches %zu polic%s\n", watched_count(), watched_count() == 1 ? "y" : "ies");
    const enum MHD_Result result = send_text(connection, MHD_HTTP_OK, text);
    free(text);
    return result;
}

/* --- what is made by a command ------------------------------------------------------------------------------------ */

static enum MHD_Result send_made(struct MHD_Connection *connection, enum web_kind kind)
{
    if (route.made[kind].response != NULL)
        return httpd.MHD_queue_response(connection, MHD_HTTP_OK, route.made[kind].response);
    char *text = format_text("It can't be told now: %s.\n", route.made[kind].why);
    const enum MHD_Result result = send_text(connection, MHD_HTTP_SERVICE_UNAVAILABLE, text);
    free(text);
    return result;
}

static void take_made(enum web_kind kind, char *bytes, size_t length, const char *why)
{
    if (route.made[kind].response != NULL)
        httpd.MHD_destroy_response(route.made[kind].response);
    route.made[kind].response =
        bytes != NULL ? httpd.MHD_create_response_from_buffer(length, bytes, MHD_RESPMEM_MUST_FREE) : NULL;
    route.made[kind].why = why != NULL ? why : "no memory is left";
    route.made[kind].made_ns = clock_real_ns();
    if (route.made[kind].response != NULL)
        add_headers(route.made[kind].response, made_of[kind].type);
    for (struct waiter *waiter = route.waiters; waiter != NULL; waiter = waiter->next) {
        if (waiter->kind != kind || !waiter->is_aside)
            continue;
        waiter->is_aside = false;
        httpd.MHD_resume_connection(waiter->connection);
    }
    route.wake();
}

static bool is_fresh(enum web_kind kind)
{
    return route.made[kind].made_ns != 0 && clock_real_ns() - route.made[kind].made_ns < FRESH_NS;
}

static enum MHD_Result ask(struct MHD_Connection *connection, enum web_kind kind, void **own)
{
    if (is_fresh(kind) || route.is_ending)
        return send_made(connection, kind);
    struct waiter *waiter = allocate(1, sizeof *waiter);
    *waiter = (struct waiter){connection, kind, true, route.waiters};
    route.waiters = waiter;
    *own = waiter;
    httpd.MHD_suspend_connection(connection);
    web_making_begin(kind);
    return MHD_YES;
}

/* --- the stream --------------------------------------------------------------------------------------------------- */

static ssize_t flow_read(void *context, uint64_t position, char *bytes, size_t size)
{
    struct flow *flow = context;
    (void)position;
    if (route.is_ending)
        return MHD_CONTENT_READER_END_OF_STREAM;
    const size_t taken = web_reader_take(&flow->reader, bytes, size);
    if (taken > 0)
        return (ssize_t)taken;
    flow->is_aside = true;
    httpd.MHD_suspend_connection(flow->connection);
    return 0;
}

static void flow_free(void *context)
{
    struct flow *flow = context, **at = &route.flows;
    while (*at != flow)
        at = &(*at)->next;
    *at = flow->next;
    route.flow_count--;
    web_reader_end(&flow->reader);
    free(flow);
}

/* To HEAD libmicrohttpd (0.9.75) would send the end of a stream's body. */
static enum MHD_Result send_flow_head(struct MHD_Connection *connection)
{
    struct MHD_Response *response = httpd.MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    if (response == NULL)
        return MHD_NO;
    add_headers(response, FLOW_TYPE);
    const enum MHD_Result result = httpd.MHD_queue_response(connection, MHD_HTTP_OK, response);
    httpd.MHD_destroy_response(response);
    return result;
}

static enum MHD_Result send_flow(struct MHD_Connection *connection)
{
    if (route.flow_count >= FLOWS_MAX)
        return send_text(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "Too many follow the journals already.");
    struct flow *flow = allocate(1, sizeof *flow);
    *flow = (struct flow){.connection = connection, .next = route.flows};
    web_reader_start(&flow->reader, httpd.MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Last-Event-ID"));
    route.flows = flow;
    route.flow_count++;
    struct MHD_Response *response =
        httpd.MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, FLOW_PIECE, flow_read, flow, flow_free);
    if (response == NULL) {
        flow_free(flow);
        return MHD_NO;
    }
    add_headers(response, FLOW_TYPE);
    web_patience_set(connection, WEB_FOLLOWS);
    const enum MHD_Result result = httpd.MHD_queue_response(connection, MHD_HTTP_OK, response);
    httpd.MHD_destroy_response(response);
    return result;
}

void web_route_flow(bool is_beat)
{
    bool any = false;
    for (struct flow *flow = route.flows; flow != NULL; flow = flow->next) {
        flow->reader.is_to_be_kept = is_beat || flow->reader.is_to_be_kept;
        if (!flow->is_aside)
            continue;
        flow->is_aside = false;
        any = true;
        httpd.MHD_resume_connection(flow->connection);
    }
    if (any)
        route.wake();
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

static struct web_verdict let_in(struct MHD_Connection *connection, const char *method)
{
    const struct web_asker asker = {
        .method = method,
        .host = httpd.MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host"),
        .origin = httpd.MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Origin"),
        .fetch_site = httpd.MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Sec-Fetch-Site"),
        .fetch_mode = httpd.MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Sec-Fetch-Mode"),
    };
    return web_gate(&asker, route.is_unix, route.allow);
}

/* A request that was let in, and is here in full. */
static enum MHD_Result answer(struct MHD_Connection *connection, const char *url, bool is_head, void **own)
{
    for (unsigned int kind = 0; kind < WEB_KINDS; kind++)
        if (strcmp(url, made_of[kind].path) == 0)
            return ask(connection, (enum web_kind)kind, own);
    if (strcmp(url, "/") == 0)
        return send_page(connection);
    if (strcmp(url, "/events") == 0)
        return is_head ? send_flow_head(connection) : send_flow(connection);
    if (strcmp(url, "/healthz") == 0)
        return send_health(connection);
    return send_text(connection, MHD_HTTP_NOT_FOUND, index_text);
}

/*
 * libmicrohttpd calls it once for the head, and again when all has come. What is answered at the first call ends the
 * connection: good for who is not let in, while others may ask again on theirs.
 */
enum MHD_Result web_route_answer(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                                 const char *version, const char *upload, size_t *upload_size, void **own)
{
    (void)context, (void)version, (void)upload;
    if (*own == NULL) {
        const struct web_verdict verdict = let_in(connection, method);
        web_patience_set(connection, WEB_TAKES);
        *own = &is_let_in;
        return verdict.status != 0 ? send_text(connection, verdict.status, verdict.why) : MHD_YES;
    }
    if (*upload_size != 0) /* a body: nobody has asked for one */
        return MHD_NO;
    if (*own != &is_let_in)
        return send_made(connection, ((struct waiter *)*own)->kind);
    return answer(connection, url, strcmp(method, "HEAD") == 0, own);
}

void web_route_completed(void *context, struct MHD_Connection *connection, void **own,
                         enum MHD_RequestTerminationCode how)
{
    struct waiter **at = &route.waiters;
    (void)context, (void)how;
    web_patience_set(connection, WEB_ASKS);
    if (*own != NULL && *own != &is_let_in) {
        while (*at != *own)
            at = &(*at)->next;
        *at = (*at)->next;
        free(*own);
    }
    *own = NULL;
}

void web_route_start(struct ev_loop *loop, const struct whose *choice, void (*wake)(void))
{
    route.wake = wake;
    route.allow = "";
    web_making_start(loop, choice, take_made);
}

void web_route_set(bool is_unix, const char *allow)
{
    route.is_unix = is_unix;
    route.allow = allow;
    route.is_ending = false;
}

void web_route_end(void)
{
    route.is_ending = true;
    for (struct waiter *waiter = route.waiters; waiter != NULL; waiter = waiter->next) {
        if (!waiter->is_aside)
            continue;
        waiter->is_aside = false;
        if (route.made[waiter->kind].why == NULL)
            route.made[waiter->kind].why = "the agent ends";
        httpd.MHD_resume_connection(waiter->connection);
    }
    web_route_flow(true);
}

void web_route_free(void)
{
    web_making_stop();
    for (unsigned int kind = 0; kind < WEB_KINDS; kind++) {
        if (route.made[kind].response != NULL)
            httpd.MHD_destroy_response(route.made[kind].response);
        route.made[kind].response = NULL;
        route.made[kind].made_ns = 0;
    }
    web_page_free();
}

#else
typedef int no_route_without_libmicrohttpd;
#endif
