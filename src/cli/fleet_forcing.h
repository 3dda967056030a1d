/*
 * fleet_forcing.h - an operator's word for all hosts of a fleet: given to the agent of this host, which says it to the
 * others.
 *
 * For `sockfuse open`, `close` and `auto` with --fleet. The command speaks to no Redis: who may force a circuit here writes
 * an order into its segment (segment/fleet_order.h), and so needs neither the fleet's password nor a way to its server, and
 * the agent listens at no new place.
 */
#ifndef SOCKFUSE_CLI_FLEET_FORCING_H
#define SOCKFUSE_CLI_FLEET_FORCING_H

#include "cli/audience.h"
#include "cli/forcing.h"

/*
 * Gives the order for one circuit, waits some seconds for hosts to obey, and says on how many it holds, or why it was not
 * said. Counts into the forcing as forcing.c does.
 */
void fleet_forcing_act(struct forcing *forcing, const struct audience *audience, const char *target_name,
                       const char *destination);

#endif
