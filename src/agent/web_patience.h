/*
 * web_patience.h - how long one who asks over HTTP may take. libmicrohttpd closes what is silent; one who says, or takes,
 * a byte now and then would keep his place for ever, and with some hundred of them all places.
 */
#ifndef SOCKFUSE_AGENT_WEB_PATIENCE_H
#define SOCKFUSE_AGENT_WEB_PATIENCE_H

#include <ev.h>
#include <microhttpd.h>

/* What is waited for on a connection. */
enum web_patience {
    WEB_ASKS,    /* a whole request */
    WEB_TAKES,   /* that its answer is taken */
    WEB_FOLLOWS, /* nothing: it follows the journals */
};

void web_patience_start(struct ev_loop *loop);
void web_patience_set(struct MHD_Connection *connection, enum web_patience what);

/* What it takes, until that is over; and that all who take that are cut off. */
void web_patience_takes(struct MHD_Connection *connection, const void *what);
void web_patience_cut(const void *what);

/* For libmicrohttpd: a connection comes, or goes. */
void web_patience_notified(void *context, struct MHD_Connection *connection, void **own,
                           enum MHD_ConnectionNotificationCode what);

#endif
