/*
 * fleet_watch.h - `scope = fleet`: joins the circuits of the watched segments to the fleet of their policy, and writes into
 * the segments what the fleet wants of them.
 *
 * The Redis is the agent's own setting (`fleet` in [agent]); no policy of a user names one, so nobody makes root's agent
 * talk to a port of his choice. A fleet's name begins with the name of the user whose circuits they are: what one user's
 * programs vote for holds nobody else's.
 */
#ifndef SOCKFUSE_AGENT_FLEET_WATCH_H
#define SOCKFUSE_AGENT_FLEET_WATCH_H

#include <ev.h>

#include "agent/fleet.h"
#include "agent/watched.h"
#include "policy/agent_section.h"

/* Registers the watcher, and begins to speak to the Redis of the settings, if these name one. */
void fleet_watch_start(struct ev_loop *loop, const struct agent_settings *settings);
/* Other settings from now on. */
void fleet_watch_set(const struct agent_settings *settings);
/* The last words to the fleet, after the watched segments are gone. */
void fleet_watch_stop(void);

/* Whether a target of the segment's policy is in a fleet; and the member that speaks for it, or NULL. */
bool fleet_watch_wants(const struct watched *watched, const char *target);
struct fleet *fleet_watch_member(const struct watched *watched, const char *target);
/* It has something to ask now. */
void fleet_watch_turn(struct fleet *fleet);

#endif
