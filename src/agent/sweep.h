/*
 * sweep.h - the agent's sweeps: what is overdue is charged, and what the dead left is given back, while nobody calls.
 */
#ifndef SOCKFUSE_AGENT_SWEEP_H
#define SOCKFUSE_AGENT_SWEEP_H

#include "policy/agent_section.h"

/* Before watched_start. The settings stand as long as the agent does, and may change. */
void sweep_register(const struct agent_settings *settings);

#endif
