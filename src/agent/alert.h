/*
 * alert.h - alerts: which events of which circuit start the command that its policy names.
 *
 * What is sent when is alert_state.h's and flapping.h's, what the command is told alert_message.h's, who it is run as
 * as_user.h's. It is what the policy's file says and nobody else (trusted.h). The journal keeps which events were taken
 * for alerts, so that each is told once, whichever agent reads it.
 */
#ifndef SOCKFUSE_AGENT_ALERT_H
#define SOCKFUSE_AGENT_ALERT_H

#include <ev.h>

/* Before watched_start. */
void alert_register(struct ev_loop *loop);

/*
 * The agent is about to end: what waits for its time is sent now, and commands that run have some seconds. What happens
 * from here on is the next agent's to tell.
 */
void alert_finish(void);

#endif
