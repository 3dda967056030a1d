/*
 * web_kept.h - what was made for those who ask over HTTP (web_making.h), kept for as long as it is asked for or taken.
 *
 * Who reads slowly reads what is old by now, and keeps it in memory: of that there is so much at the most, and then the
 * slowest is cut off. What nobody has asked for in a while is dropped.
 */
#ifndef SOCKFUSE_AGENT_WEB_KEPT_H
#define SOCKFUSE_AGENT_WEB_KEPT_H

#include <ev.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/web_making.h"

void web_kept_start(struct ev_loop *loop);
void web_kept_free(void);

/* As web_made. Returns what all get who ask now, to give it headers; NULL: it came to nothing. */
struct MHD_Response *web_kept_take(enum web_kind kind, char *bytes, size_t length, const char *why);

/* Whether it is young enough for who asks now. */
bool web_kept_is_fresh(enum web_kind kind);
/* NULL: there is one. */
const char *web_kept_why_not(enum web_kind kind);
enum MHD_Result web_kept_send(struct MHD_Connection *connection, enum web_kind kind);

#endif
