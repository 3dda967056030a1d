/*
 * name_lookup.h - the addresses of a host's name, asked for in a child with a time limit: getaddrinfo(3) may wait for as
 * long as its resolver does, and the loop must not.
 */
#ifndef SOCKFUSE_AGENT_NAME_LOOKUP_H
#define SOCKFUSE_AGENT_NAME_LOOKUP_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>

#define LOOKUP_ADDRESSES 8u
#define LOOKUP_TEXT 48u /* bytes of one as text, with the end */

struct lookup {
    struct ev_loop *loop;
    void (*done)(struct lookup *lookup); /* with `count` addresses; 0: there is none, or it took too long */
    void *context;
    char at[LOOKUP_ADDRESSES][LOOKUP_TEXT];
    unsigned int count;
    /* Its own. */
    bool is_running;
    ev_io readable;
    ev_timer limit;
    ev_child child;
    size_t length;
    char said[LOOKUP_ADDRESSES * LOOKUP_TEXT];
};

/* An address, v4 or v6, is one without a child, and `done` is called at once. False: no child could be made. */
bool lookup_start(struct lookup *lookup, const char *host, double limit_s);
/* Ends it without calling `done`. May be called at any time. */
void lookup_stop(struct lookup *lookup);

#endif
