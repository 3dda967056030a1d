/*
 * fleet_link.h - the agent's connections to one Redis, and the fleets' members that speak over them.
 *
 * One line carries the commands of all members; another one listens for changes that others tell of, which only makes the
 * next look come sooner: what it says is never read.
 */
#ifndef SOCKFUSE_AGENT_FLEET_LINK_H
#define SOCKFUSE_AGENT_FLEET_LINK_H

#include <ev.h>
#include <stdint.h>

#include "agent/fleet.h"
#include "policy/redis_url.h"

#define LINK_MEMBERS 1024u

struct fleet_link;

/* Whether this build can speak to such a Redis; else why not, and what would help. */
bool fleet_link_is_possible(const struct redis_url *url, const char **why);
/* `news` is called when some member's wishes have changed. NULL: no memory, or this build can't. */
struct fleet_link *fleet_link_open(struct ev_loop *loop, const struct redis_url *url, void (*news)(void));
/* Its members leave, as far as that can still be said, and are freed. */
void fleet_link_close(struct fleet_link *link);

/* A member of that name (fleet_create). NULL: no memory, or there are too many. */
struct fleet *fleet_link_join(struct fleet_link *link, const char *name, uint64_t host);
void fleet_link_leave(struct fleet_link *link, struct fleet *fleet);

/* Lets a member look, if it is due; after it was told what is seen. */
void fleet_link_turn(struct fleet_link *link, struct fleet *fleet, uint64_t now_ns);

/* Why it does not work, without a password; "": it works, or nothing is known yet. */
const char *fleet_link_trouble(const struct fleet_link *link);
bool fleet_link_works(const struct fleet_link *link);
/* Commands sent so far. */
uint64_t fleet_link_commands(const struct fleet_link *link);

#endif
