/*
 * web_making.h - answers that take a while: what a command says, made by that very command in a child.
 *
 * So an answer and a command can't differ; other users' segments, which are hostile input, are read by a process that
 * ends; and the agent never waits. At most one child for each kind, with a limit of time and of bytes. Nothing is kept
 * here: who asks keeps what was made (web_server.c), and lets a crowd of askers share it.
 */
#ifndef SOCKFUSE_AGENT_WEB_MAKING_H
#define SOCKFUSE_AGENT_WEB_MAKING_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>

#include "view/user_options.h"

enum web_kind { WEB_METRICS, WEB_STATUS, WEB_CALLS, WEB_REPORT, WEB_KINDS };

/* `bytes`, to be freed, is the command's standard output; NULL: it came to nothing, and `why` says why. */
typedef void web_made(enum web_kind kind, char *bytes, size_t length, const char *why);

/* Whose circuits are shown; `made` is told of each that was begun. */
void web_making_start(struct ev_loop *loop, const struct whose *choice, web_made *made);
/* Begins, where none is at it. */
void web_making_begin(enum web_kind kind);
/* Ends those at it; nobody is told. */
void web_making_stop(void);

#endif
