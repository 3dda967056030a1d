/*
 * web_route.h - which request gets which answer. Private to web_server.c, which brings the requests.
 *
 * A request whose answer is still being made is put aside (libmicrohttpd: suspended) until it is there, and so is a
 * reader of the stream for whom nothing has happened.
 */
#ifndef SOCKFUSE_AGENT_WEB_ROUTE_H
#define SOCKFUSE_AGENT_WEB_ROUTE_H

#include <ev.h>
#include <microhttpd.h>
#include <stdbool.h>

#include "view/user_options.h"

/* `wake`: a request that was put aside goes on; libmicrohttpd is to look. */
void web_route_start(struct ev_loop *loop, const struct whose *choice, void (*wake)(void));
/* Of which kind the socket is, and by which names others may ask (web_gate.h). */
void web_route_set(bool is_unix, const char *allow);

/* As libmicrohttpd calls them. */
enum MHD_Result web_route_answer(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                                 const char *version, const char *upload, size_t *upload_size, void **own);
void web_route_completed(void *context, struct MHD_Connection *connection, void **own,
                         enum MHD_RequestTerminationCode how);

/* Something has happened, or (`is_beat`) nothing for a while: the stream's readers go on. */
void web_route_flow(bool is_beat);
/* All that was put aside goes on and ends; no other is. */
void web_route_end(void);
void web_route_free(void);

#endif
