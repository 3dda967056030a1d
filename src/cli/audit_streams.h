/*
 * audit_streams.h - what the command of an audit reads and writes.
 *
 * For audit.c and audit_stage.c.
 */
#ifndef SOCKFUSE_CLI_AUDIT_STREAMS_H
#define SOCKFUSE_CLI_AUDIT_STREAMS_H

#include <stdbool.h>

/* First of all: where one of the three is closed, none of those that are opened later is taken for it. */
void audit_streams_begin(void);

/* A descriptor for the standard input of a run: a file is read by each from the same place on, else it is empty. */
int audit_streams_input(void);
/* Whether there was something to read that no run was given: it could be read once only. */
bool audit_streams_lost_input(void);

/*
 * One for its output and error: this command's standard error where all is to be shown; else, if `heard` is given, a
 * pipe of which that is the other end; else nothing.
 */
int audit_streams_output(bool is_shown, int *heard);
/* Takes what came out of the pipe, and keeps the last of it. */
void audit_streams_hear(int heard);
/* Says the last lines of what was kept. */
void audit_streams_tell(void);

#endif
