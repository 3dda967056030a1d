/*
 * web_listen.h - the socket at which the agent is asked over HTTP.
 */
#ifndef SOCKFUSE_AGENT_WEB_LISTEN_H
#define SOCKFUSE_AGENT_WEB_LISTEN_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "policy/endpoint.h"

struct web_listen {
    int fd; /* -1: none */
    struct endpoint at;
    struct stat made; /* the UNIX socket's file, so that no other one is removed at the end */
};

/* False, after a message: it can't be had. What a dead agent left in the way is removed. */
bool web_listen_open(struct web_listen *place, const struct endpoint *at, mode_t mode);
/* Closes it, unless `fd` is -1 by then, and removes the file that was made for it. */
void web_listen_close(struct web_listen *place);

#endif
