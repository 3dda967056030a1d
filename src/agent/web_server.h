/*
 * web_server.h - what the agent answers over HTTP: metrics, status, calls, the journals as they flow, and a live page.
 *
 * Read-only. Who asks costs the agent no waiting: libmicrohttpd in the agent's own loop, answers made in children
 * (web_making.h) and shared by all who ask within a second.
 */
#ifndef SOCKFUSE_AGENT_WEB_SERVER_H
#define SOCKFUSE_AGENT_WEB_SERVER_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>

#include "policy/agent_section.h"
#include "view/user_options.h"

/*
 * Registers the watcher, and begins to listen where the settings say so; root's agent, unless they say otherwise, at
 * agent.socket in its state folder. False, after a message: it is to listen somewhere and can't.
 */
bool web_server_start(struct ev_loop *loop, const struct agent_settings *settings, const struct whose *choices,
                      size_t count);
/* Other settings from now on; a place that can't be had is said, and none is listened at. */
void web_server_set(const struct agent_settings *settings);
void web_server_stop(void);

#endif
