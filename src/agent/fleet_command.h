/*
 * fleet_command.h - the commands that a member sends, with their keys. Private to src/agent.
 */
#ifndef SOCKFUSE_AGENT_FLEET_COMMAND_H
#define SOCKFUSE_AGENT_FLEET_COMMAND_H

#include "agent/fleet_model.h"

/* The time of the server at a moment of ours, as far as is known. */
uint64_t fleet_server_ms(const struct fleet *fleet, uint64_t at_ns);

/* The server's time, and the lists of circuits that are open, or voted about, in the fleet. */
void fleet_ask_time(struct fleet *fleet);
void fleet_ask_list(struct fleet *fleet, enum fleet_command_kind kind, uint64_t now_ns);
/* Pause, lease and healing of `count` circuits from place `from` of `reading` on. */
void fleet_ask_circuits(struct fleet *fleet, uint32_t from, uint32_t count);

/* This host's vote, and a note that it calls. */
void fleet_say_vote(struct fleet *fleet, struct fleet_circuit *circuit, uint64_t now_ns);
void fleet_say_note(struct fleet *fleet, struct fleet_circuit *circuit, uint64_t now_ns);
void fleet_take_vote_back(struct fleet *fleet, struct fleet_circuit *circuit);
void fleet_count_votes(struct fleet *fleet, const struct fleet_circuit *circuit, uint64_t now_ns);
void fleet_count_callers(struct fleet *fleet, const struct fleet_circuit *circuit, uint64_t now_ns);

/* Some of its voters; that this host is there, and, less often, its name; how many hosts are. */
void fleet_ask_voters(struct fleet *fleet, const struct fleet_circuit *circuit, uint64_t now_ns);
void fleet_say_here(struct fleet *fleet, bool with_name, uint64_t now_ns);
void fleet_count_hosts(struct fleet *fleet, uint64_t now_ns);
void fleet_ask_names(struct fleet *fleet);

/* Operators' words: all that there are; one; that it stands, renewed or new; who obeys it, and how many do. */
void fleet_ask_words(struct fleet *fleet, uint64_t now_ns);
void fleet_ask_word(struct fleet *fleet, const struct fleet_circuit *circuit);
void fleet_say_spoken(struct fleet *fleet, const struct fleet_circuit *circuit, const struct fleet_spoken *spoken,
                      bool only_new, uint64_t now_ns);
void fleet_keep_spoken(struct fleet *fleet, const struct fleet_circuit *circuit, uint64_t now_ns);
void fleet_say_obeyed(struct fleet *fleet, uint64_t token, uint64_t now_ns);
void fleet_count_obeying(struct fleet *fleet, uint32_t saying, uint64_t now_ns);

/* That the circuit is open in the fleet, and what comes of it if it was just healed; or no more. */
void fleet_say_open(struct fleet *fleet, const struct fleet_circuit *circuit, uint64_t now_ns);
void fleet_say_open_no_more(struct fleet *fleet, const struct fleet_circuit *circuit);

/* A pause that ends at `end_ns`; `only_new`: if there is none. */
void fleet_say_pause(struct fleet *fleet, const struct fleet_circuit *circuit, uint64_t length_ns, uint64_t end_ns,
                     bool only_new, uint64_t now_ns);
/* The lease, under the circuit's token, if nobody has it; and who has it then. */
void fleet_ask_lease(struct fleet *fleet, const struct fleet_circuit *circuit, uint64_t lasts_ns, uint64_t now_ns);
void fleet_give_lease_back(struct fleet *fleet, const struct fleet_circuit *circuit);
/* A probe has succeeded, so long ago. */
void fleet_say_healed(struct fleet *fleet, const struct fleet_circuit *circuit, uint64_t token, uint64_t ago_ns,
                      uint64_t now_ns);

/* Lets the others look. */
void fleet_tell_change(struct fleet *fleet);

#endif
