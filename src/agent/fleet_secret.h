/*
 * fleet_secret.h - the password of the fleet's Redis, where it is not in its URL: `file /PATH` or `environment NAME`.
 *
 * It is read by the agent itself, as whoever runs it: its settings are his.
 */
#ifndef SOCKFUSE_AGENT_FLEET_SECRET_H
#define SOCKFUSE_AGENT_FLEET_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#include "policy/redis_url.h"

/*
 * Puts it into the URL. An empty text: the URL stays as it is. False: `why` says what is wrong, without a word of what the
 * file holds. A file that others may read is one that is said: false too.
 */
bool fleet_secret_read(struct redis_url *url, const char *from, char *why, size_t why_size);

#endif
