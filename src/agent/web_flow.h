/*
 * web_flow.h - those who follow the journals over HTTP (web_stream.h has what they get).
 *
 * There are so many places. When all are taken, whoever of the peers (a user of a UNIX socket, a host) has most of them
 * loses his oldest: a browser comes again, and goes on where it was. So nobody keeps the others out, nor does who is dead
 * and was not found to be so yet.
 */
#ifndef SOCKFUSE_AGENT_WEB_FLOW_H
#define SOCKFUSE_AGENT_WEB_FLOW_H

#include <microhttpd.h>
#include <stdbool.h>

/* One more, from the event behind that id on (of Last-Event-ID, or NULL). NULL: there is no memory. */
struct MHD_Response *web_flow_begin(struct MHD_Connection *connection, const char *last_id);

/* Something has happened, or, a beat, nothing for a while. True: libmicrohttpd has something to do. */
bool web_flow_go_on(bool is_beat);

/* All are ended from now on, or none is. */
void web_flow_set_ending(bool is_ending);

#endif
