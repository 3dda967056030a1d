/*
 * fleet_self.h - this host, as a fleet knows it: by a number that counts, and by a name that is shown.
 */
#ifndef SOCKFUSE_AGENT_FLEET_SELF_H
#define SOCKFUSE_AGENT_FLEET_SELF_H

#include <stdint.h>

#include "policy/agent_section.h"

/* What agents on one host have in common, and those of others have not: this start of the machine, its network, its name. */
uint64_t fleet_self_number(void);
/* As the settings say, else the host's own. */
void fleet_self_name(const struct agent_settings *settings, char name[AGENT_TEXT_MAX]);

#endif
