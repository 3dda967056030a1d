/*
 * health.h - the agent's health checks: while a circuit is open whose target asks for them, and only then.
 */
#ifndef SOCKFUSE_AGENT_HEALTH_H
#define SOCKFUSE_AGENT_HEALTH_H

#include <ev.h>

/* Before watched_start. */
void health_register(struct ev_loop *loop);

#endif
