/*
 * audit_progress.h - how far an audit is: one line on standard error, where that is a terminal, that is written over.
 *
 * For audit*.c.
 */
#ifndef SOCKFUSE_CLI_AUDIT_PROGRESS_H
#define SOCKFUSE_CLI_AUDIT_PROGRESS_H

#include "cli/audit_model.h"

/* A run begins, the `number`th. `in_full`: the program writes between; then it is a line of its own, on any standard error. */
void audit_progress_begin(const struct audit *audit, const struct audit_run *run, size_t number, bool in_full);
/* It lasts; `run` NULL: the one without a fault. */
void audit_progress_show(const struct audit *audit, const struct audit_run *run, size_t number, uint64_t elapsed_ns);
/* It is over: the line goes. */
void audit_progress_end(void);

#endif
