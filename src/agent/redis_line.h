/*
 * redis_line.h - one connection to a Redis on the agent's loop: it resolves the name, connects, says who it is, and when it
 * breaks comes again, later each time and never at the same moment as all others.
 *
 * Commands are written and answers read by hiredis. Its connections are not used: they resolve names by waiting, and an
 * answer that nobody asked for ends the program there (it asserts that there is none). Nothing here waits. What the server sends is
 * bounded before it is held: an answer of more than a megabyte, or a list of more than a few thousand, ends the
 * connection. Built without hiredis, a line can't be opened, and redis_line_is_possible says why.
 */
#ifndef SOCKFUSE_AGENT_REDIS_LINE_H
#define SOCKFUSE_AGENT_REDIS_LINE_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/fleet.h"
#include "policy/redis_url.h"

struct redis_line;

struct redis_line_events {
    /* It stands, and is authenticated. */
    void (*stands)(void *context);
    /* It stood, and does no more: what was not answered never will be. */
    void (*broken)(void *context);
    /* An answer, in the order of the commands. */
    void (*answer)(void *context, uint32_t tag, const struct fleet_reply *reply);
    /* What nobody asked for, as messages of a channel are. NULL: that ends the connection. */
    void (*message)(void *context, const struct fleet_reply *reply);
    void *context;
};

/* Begins at once. NULL: no memory. Nothing is called before the loop runs. */
struct redis_line *redis_line_open(struct ev_loop *loop, const struct redis_url *url,
                                   const struct redis_line_events *events);
/* What was sent just now still leaves, as far as the kernel takes it at once. Not from within its own events. */
void redis_line_close(struct redis_line *line);

/* Nothing is sent on a line that does not stand. */
void redis_line_send(struct redis_line *line, const struct fleet_command *command);
/* To be given up, and begun again after a while; `why` is kept, to be shown. May be called from within its events. */
void redis_line_give_up(struct redis_line *line, const char *why);
/* It goes well: the next pause before it comes again is a short one. */
void redis_line_is_well(struct redis_line *line);

/* Why it does not stand, in words without a password; "": nothing is known to be wrong. */
const char *redis_line_trouble(const struct redis_line *line);
bool redis_line_stands(const struct redis_line *line);

/* Whether this build can speak to such a Redis; else `why`, and what would help. */
bool redis_line_is_possible(const struct redis_url *url, const char **why);

#endif
