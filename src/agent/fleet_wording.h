/*
 * fleet_wording.h - a command that a member sends, word by word. Private to src/agent.
 */
#ifndef SOCKFUSE_AGENT_FLEET_WORDING_H
#define SOCKFUSE_AGENT_FLEET_WORDING_H

#include "agent/fleet_model.h"
#include "base/text.h"

/* A command under construction: its words lie in the fleet's scratch, one behind the other. */
struct wording {
    struct fleet *fleet;
    struct text text;
    const char *words[FLEET_ARGUMENTS];
    size_t lengths[FLEET_ARGUMENTS];
    unsigned int count;
};

void wording_start(struct wording *command, struct fleet *fleet);
void wording_word(struct wording *command, const char *word);
void wording_number(struct wording *command, uint64_t number);
/* "sockfuse:1:{FLEET}:KIND", and ":CIRCUIT" where there is one. */
void wording_key(struct wording *command, const char *kind, const struct fleet_circuit *circuit);
/* For words of several parts: what was added to the text since the last word is one. */
void wording_key_begins(struct wording *command, const char *kind);
void wording_ends(struct wording *command);
void wording_send(struct wording *command, enum fleet_command_kind kind, uint32_t of);

#endif
