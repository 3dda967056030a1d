/*
 * web_absent.c - stands for web_server.c in a build without libmicrohttpd. See web_server.h.
 */
#ifndef SOCKFUSE_HTTPD
#include <string.h>

#include "agent/web_server.h"
#include "view/output.h"

static bool is_wanted(const struct agent_settings *settings)
{
    return settings->listen[0] != '\0' && strcmp(settings->listen, "off") != 0;
}

static void say(void)
{
    warnx("HTTP: this agent was built without libmicrohttpd (Debian: libmicrohttpd-dev); install that, then make and "
          "make install");
}

bool web_server_start(struct ev_loop *loop, const struct agent_settings *settings, const struct whose *choices,
                      size_t count)
{
    (void)loop, (void)choices, (void)count;
    if (is_wanted(settings))
        say();
    return !is_wanted(settings);
}

void web_server_set(const struct agent_settings *settings)
{
    if (is_wanted(settings))
        say();
}

void web_server_stop(void)
{
}

#else
typedef int nothing_with_libmicrohttpd;
#endif
