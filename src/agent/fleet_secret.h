/*
 * fleet_secret.h - the password of the fleet's Redis, where it is not in its URL: `file /PATH` or `environment NAME`.
 *
 * It is read by the agent itself, as whoever runs it: its settings are his.
 */
#ifndef SOCKFUSE_AGENT_FLEET_SECRET_H
#define SOCKFUSE_AGENT_FLEET_SECRET_H

#include "policy/agent_section.h"
#include "policy/redis_url.h"

/*
 * Where the settings say that the fleet's Redis is, its password with it; files are read anew. All zero: nowhere, or, after a
 * message without a word of the URL or of what a file holds, it can't be had. A password that everybody may read can't.
 */
void fleet_secret_address(struct redis_url *url, const struct agent_settings *settings);

#endif
