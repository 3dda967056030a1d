/*
 * audit_stage.h - the runs of an audit: its command as it is, and under one fault at one destination.
 *
 * For audit.c. Between staged_runs_begin and staged_runs_end.
 */
#ifndef SOCKFUSE_CLI_AUDIT_STAGE_H
#define SOCKFUSE_CLI_AUDIT_STAGE_H

#include "cli/audit_model.h"
#include "cli/audit_wish.h"

/*
 * Runs the command as it is, and finds whom it calls. Returns EXIT_SUCCESS, or after a message the exit status of the
 * audit: it could not be started, or nothing can be seen of it.
 */
int audit_stage_bare(struct audit *audit, const struct audit_wish *wish);

/* Why this destination can't be given that fault; NULL: it can. */
const char *audit_stage_left_out(const struct audit_destination *destination, const char *fault);
/* How long a run takes at the most. */
uint64_t audit_stage_bound(const struct audit *audit);
/* Runs it under a fault: the `number`th of the planned. As audit_stage_bare. */
int audit_stage_fault(struct audit *audit, const struct audit_wish *wish, struct audit_run *run, size_t number);

#endif
