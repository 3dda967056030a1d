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
#include "segment/fleet_order.h"

/*
 * Gives the order, whose token and time are filled in here, and waits some seconds for hosts to obey. False: it was not
 * said, or it is not known whether it was; why was told.
 */
bool fleet_forcing_ask(const struct audience *audience, struct fleet_order *order, struct fleet_answer *answer);
/* The end of a line on which was said what was done: how many hosts obey. */
void fleet_forcing_tell(const struct fleet_answer *answer);

#endif
