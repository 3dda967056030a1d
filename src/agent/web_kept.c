/*
 * web_kept.c - what was made for those who ask over HTTP. See web_kept.h.
 */
#ifdef SOCKFUSE_HTTPD
#define _GNU_SOURCE
#include "agent/web_kept.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/web_library.h"
#include "agent/web_patience.h"
#include "base/clock.h"
#include "view/output.h"

/* What was made is told to all who ask within this time. */
#define FRESH_NS NS_PER_S
/* What nobody asks for is dropped after this time, by the circuits' clock. */
#define UNASKED_NS (60 * NS_PER_S)
#define LOOK_SECONDS 2.0
/* Of what is old, and still taken by somebody. */
#define OLD_BYTES_MAX ((size_t)64 << 20)
#define PIECE ((size_t)64 << 10)

struct body {
    char *bytes;
    size_t length;
    bool is_old;      /* there is a newer one */
    bool is_given_up; /* who takes it was cut off */
    struct body *next, **place;
};

static struct {
    struct ev_loop *loop;
    struct {
        struct MHD_Response *response; /* NULL: it came to nothing */
        struct body *body;
        char why[96];
        uint64_t made_ns;  /* real clock; 0: never */
        uint64_t asked_ns; /* circuits' clock */
    } made[WEB_KINDS];
    struct body *bodies; /* the youngest first */
    ev_timer timer;      /* runs while there are any */
} kept;

/* --- bodies ------------------------------------------------------------------------------------------------------- */

static ssize_t read_body(void *context, uint64_t position, char *bytes, size_t size)
{
    const struct body *body = context;
    const size_t left = body->length - (size_t)position, taken = left < size ? left : size;
    memcpy(bytes, body->bytes + position, taken);
    return (ssize_t)taken;
}

/* Nobody has it any more. */
static void free_body(void *context)
{
    struct body *body = context;
    *body->place = body->next;
    if (body->next != NULL)
        body->next->place = body->place;
    free(body->bytes);
    free(body);
}

static struct body *new_body(char *bytes, size_t length)
{
    struct body *body = allocate(1, sizeof *body);
    *body = (struct body){.bytes = bytes, .length = length, .next = kept.bodies, .place = &kept.bodies};
    if (body->next != NULL)
        body->next->place = &body->next;
    kept.bodies = body;
    return body;
}

/* Cuts off who takes the oldest, until what is old is little enough. */
static void bound_the_old(void)
{
    for (;;) {
        struct body *oldest = NULL;
        size_t sum = 0;
        for (struct body *body = kept.bodies; body != NULL; body = body->next) {
            if (!body->is_old || body->is_given_up)
                continue;
            sum += body->length;
            oldest = body;
        }
        if (sum <= OLD_BYTES_MAX)
            return;
        oldest->is_given_up = true;
        web_patience_cut(oldest);
    }
}

/* --- what was made ------------------------------------------------------------------------------------------------ */

static void drop(enum web_kind kind)
{
    struct MHD_Response *response = kept.made[kind].response;
    kept.made[kind].why[0] = '\0';
    if (response == NULL)
        return;
    kept.made[kind].body->is_old = true;
    kept.made[kind].body = NULL;
    kept.made[kind].response = NULL;
    kept.made[kind].made_ns = 0;
    httpd.MHD_destroy_response(response); /* and its body, if nobody takes it */
}

static void look(struct ev_loop *loop, ev_timer *timer, int events)
{
    const uint64_t now_ns = clock_circuit_ns();
    (void)events;
    for (unsigned int kind = 0; kind < WEB_KINDS; kind++)
        if (now_ns - kept.made[kind].asked_ns > UNASKED_NS)
            drop((enum web_kind)kind);
    if (kept.bodies == NULL)
        ev_timer_stop(loop, timer);
}

struct MHD_Response *web_kept_take(enum web_kind kind, char *bytes, size_t length, const char *why)
{
    drop(kind);
    if (bytes != NULL) {
        struct body *body = new_body(bytes, length);
        kept.made[kind].body = body;
        kept.made[kind].response = httpd.MHD_create_response_from_callback(length, PIECE, read_body, body, free_body);
        if (kept.made[kind].response == NULL)
            free_body(body);
    }
    if (kept.made[kind].response == NULL)
        snprintf(kept.made[kind].why, sizeof kept.made[kind].why, "%s", why != NULL ? why : "no memory is left");
    kept.made[kind].made_ns = clock_real_ns();
    kept.made[kind].asked_ns = clock_circuit_ns();
    ev_timer_start(kept.loop, &kept.timer);
    bound_the_old();
    return kept.made[kind].response;
}

bool web_kept_is_fresh(enum web_kind kind)
{
    return kept.made[kind].made_ns != 0 && clock_real_ns() - kept.made[kind].made_ns < FRESH_NS;
}

const char *web_kept_why_not(enum web_kind kind)
{
    if (kept.made[kind].response != NULL)
        return NULL;
    return kept.made[kind].why[0] != '\0' ? kept.made[kind].why : "the agent ends";
}

enum MHD_Result web_kept_send(struct MHD_Connection *connection, enum web_kind kind)
{
    kept.made[kind].asked_ns = clock_circuit_ns();
    web_patience_takes(connection, kept.made[kind].body);
    return httpd.MHD_queue_response(connection, MHD_HTTP_OK, kept.made[kind].response);
}

void web_kept_start(struct ev_loop *loop)
{
    kept.loop = loop;
    ev_timer_init(&kept.timer, look, LOOK_SECONDS, LOOK_SECONDS);
}

void web_kept_free(void)
{
    for (unsigned int kind = 0; kind < WEB_KINDS; kind++)
        drop((enum web_kind)kind);
    ev_timer_stop(kept.loop, &kept.timer);
}

#else
typedef int nothing_kept_without_libmicrohttpd;
#endif
