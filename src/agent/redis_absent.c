/*
 * redis_absent.c - stands for redis_connection.c in a build without hiredis. See redis_line.h.
 */
#include "agent/redis_line.h"

#include <stddef.h>

#ifndef SOCKFUSE_HIREDIS

struct redis_line *redis_line_open(struct ev_loop *loop, const struct redis_url *url,
                                   const struct redis_line_events *events)
{
    (void)loop, (void)url, (void)events;
    return NULL;
}

void redis_line_close(struct redis_line *line)
{
    (void)line;
}

void redis_line_send(struct redis_line *line, const struct fleet_command *command)
{
    (void)line, (void)command;
}

void redis_line_give_up(struct redis_line *line, const char *why)
{
    (void)line, (void)why;
}

void redis_line_is_well(struct redis_line *line)
{
    (void)line;
}

const char *redis_line_trouble(const struct redis_line *line)
{
    (void)line;
    return "";
}

bool redis_line_stands(const struct redis_line *line)
{
    (void)line;
    return false;
}

bool redis_line_is_possible(const struct redis_url *url, const char **why)
{
    (void)url;
    *why = "this build has no hiredis, by which a Redis is spoken to: install libhiredis-dev and build again";
    return false;
}

#endif
