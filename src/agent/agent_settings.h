/*
 * agent_settings.h - where the agent's settings come from: -c FILE, a policy's section `[agent]`, or the usual place.
 */
#ifndef SOCKFUSE_AGENT_AGENT_SETTINGS_H
#define SOCKFUSE_AGENT_AGENT_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "policy/agent_section.h"
#include "view/user_options.h"

/* Where they are asked for. */
struct agent_sources {
    const char *file;            /* of -c; NULL: none */
    const struct whose *choices; /* whose policies may have a section; of several the first counts */
    size_t count;
    const char *const *overrides; /* the KEY=VALUE of -o, NULL at the end */
};

/*
 * With -c that file, which must have the section; else the first policy of -p that has one; else agent.conf in the
 * user's folder of settings, or in /etc/sockfuse; else what is built in. False, after messages: something is wrong.
 */
bool agent_settings_read(struct agent_settings *settings, const struct agent_sources *sources);

#endif
