/*
 * web_route.c - which request gets which answer. See web_route.h.
 */
#ifdef SOCKFUSE_HTTPD
#define _GNU_SOURCE
#include "agent/web_route.h"

#include <stdlib.h>
#include <string.h>

#include "agent/watched.h"
#include "agent/web_flow.h"
#include "agent/web_gate.h"
#include "agent/web_kept.h"
#include "agent/web_library.h"
#include "agent/web_making.h"
#include "agent/web_page.h"
#include "agent/web_patience.h"
#include "view/output.h"

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

static struct {
    void (*wake)(void);
    const char *allow;
    bool is_unix, is_ending;
    struct waiter *waiters;
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
    const size_t aside = watched_aside();
    char *more =
        aside == 0 ? copy_text("") : format_text("; stands by for %zu, after which another agent looks", aside);
    char *text = format_text("ok: watches %zu polic%s%s\n", watched_count(), watched_count() == 1 ? "y" : "ies", more);
    free(more);
    const enum MHD_Result result = send_text(connection, MHD_HTTP_OK, text);
    free(text);
    return result;
}

/* --- what is made by a command ------------------------------------------------------------------------------------ */

static enum MHD_Result send_made(struct MHD_Connection *connection, enum web_kind kind)
{
    const char *why = web_kept_why_not(kind);
    if (why == NULL)
        return web_kept_send(connection, kind);
    char *text = format_text("It can't be told now: %s.\n", why);
    const enum MHD_Result result = send_text(connection, MHD_HTTP_SERVICE_UNAVAILABLE, text);
    free(text);
    return result;
}

static void take_made(enum web_kind kind, char *bytes, size_t length, const char *why)
{
    struct MHD_Response *response = web_kept_take(kind, bytes, length, why);
    if (response != NULL)
        add_headers(response, made_of[kind].type);
    for (struct waiter *waiter = route.waiters; waiter != NULL; waiter = waiter->next) {
        if (waiter->kind != kind || !waiter->is_aside)
            continue;
        waiter->is_aside = false;
        httpd.MHD_resume_connection(waiter->connection);
    }
    route.wake();
}

static enum MHD_Result ask(struct MHD_Connection *connection, enum web_kind kind, void **own)
{
    if (web_kept_is_fresh(kind) || route.is_ending)
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
    struct MHD_Response *response =
        web_flow_begin(connection, httpd.MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Last-Event-ID"));
    if (response == NULL)
        return MHD_NO;
    add_headers(response, FLOW_TYPE);
    web_patience_set(connection, WEB_FOLLOWS);
    const enum MHD_Result result = httpd.MHD_queue_response(connection, MHD_HTTP_OK, response);
    httpd.MHD_destroy_response(response);
    return result;
}

void web_route_flow(bool is_beat)
{
    if (web_flow_go_on(is_beat))
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
    web_kept_start(loop);
    web_making_start(loop, choice, take_made);
}

void web_route_set(bool is_unix, const char *allow)
{
    route.is_unix = is_unix;
    route.allow = allow;
    route.is_ending = false;
    web_flow_set_ending(false);
}

void web_route_end(void)
{
    route.is_ending = true;
    web_flow_set_ending(true);
    for (struct waiter *waiter = route.waiters; waiter != NULL; waiter = waiter->next) {
        if (!waiter->is_aside)
            continue;
        waiter->is_aside = false;
        httpd.MHD_resume_connection(waiter->connection);
    }
    web_route_flow(true);
}

void web_route_free(void)
{
    web_making_stop();
    web_kept_free();
    web_page_free();
}

#else
typedef int no_route_without_libmicrohttpd;
#endif
