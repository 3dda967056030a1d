/*
 * audit_finding.h - what came of a fault: made of outcomes and of calls that wait, and said in words.
 *
 * Computes; reads no segment and starts nothing. For audit*.c.
 */
#ifndef SOCKFUSE_CLI_AUDIT_FINDING_H
#define SOCKFUSE_CLI_AUDIT_FINDING_H

#include "cli/audit_model.h"

/* An outcome of the journal: counted if its call was given the fault. */
void audit_take_outcome(struct audit_run *run, const struct event *event);
/* A call that was given it waited still when the run ended, or when its process died; nothing was seen of its end. */
void audit_take_wait(struct audit_run *run, const char *program, uint64_t waited_ns, enum audit_end end);

/* What came of it for one program; NULL: none met the fault. */
enum audit_result audit_result_of(const struct audit *audit, const struct audit_run *run,
                                  const struct audit_finding *finding);
/* Whether something waited for longer than the limit. */
bool audit_is_beyond(enum audit_result result);
/* "never", "gave-up", …: for JSON. */
const char *audit_result_name(enum audit_result result);

/* How often the one call was made again; 0: not at all, or that can't be told. */
uint64_t audit_retries(const struct audit_run *run, const struct audit_finding *finding);

/* "gave up after 5.0s, retried 3 times"; to be freed, and safe to print. */
char *audit_text(const struct audit *audit, const struct audit_row *row);

/* All rows, the worst first; to be freed. */
struct audit_row *audit_rows(const struct audit *audit, size_t *count);

#endif
