/*
 * fleet_round.h - a round: what Redis is asked, and what is made of it. Private to src/agent.
 *
 *     reading      the server's time, the list of circuits that are open in the fleet, and of those that this host votes
 *                  about pause, lease and healing
 *     acting       what follows of these: votes, a lease asked for or given back, a pause, a healing
 *     announcing   that a circuit has its quorum
 *
 * A stage ends with its last reply. Where there is nothing to act on, the round ends with its reading.
 */
#ifndef SOCKFUSE_AGENT_FLEET_ROUND_H
#define SOCKFUSE_AGENT_FLEET_ROUND_H

#include "agent/fleet_model.h"

/* All replies of the present stage are there. */
void fleet_stage_ends(struct fleet *fleet, uint64_t now_ns);

/* Whether this host's circuit is one to vote about: open, and somebody asks for it, or will be told at the pause's end. */
bool fleet_would_vote(const struct fleet_circuit *circuit, uint64_t now_ns);
bool fleet_is_open(const struct fleet_circuit *circuit, uint64_t now_ns);

/* This host has the lease, or it has not: what was read says. */
void fleet_probe_begins(struct fleet *fleet, struct fleet_circuit *circuit, uint64_t now_ns);
/* What follows for the one probe of all hosts (fleet_probe.c). */
void fleet_probe_turn(struct fleet *fleet, struct fleet_circuit *circuit, uint64_t now_ns);

#endif
