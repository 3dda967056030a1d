/*
 * audit_look.h - looks at the segment of one run of an audit while it lasts, and at its end.
 *
 * For audit.c. The times are real ones: no circuits' clock is in use.
 */
#ifndef SOCKFUSE_CLI_AUDIT_LOOK_H
#define SOCKFUSE_CLI_AUDIT_LOOK_H

#include "cli/audit_model.h"
#include "segment/segment.h"

/* A call whose process has died; its place may be another's afterwards. */
struct audit_loss {
    uint32_t place, number;
    uint64_t waited_ns;
    char program[PROGRAM_NAME_MAX];
};

struct audit_look {
    const struct segment *segment;
    uint64_t limit_ns;
    uint64_t longest_ns; /* of the calls that wait now; 0: none does */
    struct audit_loss *losses;
    size_t loss_count;
};

/* How much longer than the limit a call may wait that is given up just then. */
uint64_t audit_slack(uint64_t limit_ns);

/* How many calls were counted so in all circuits: COUNT_ADMITTED, or COUNT_INJECTED of these. */
uint64_t audit_count(const struct segment *segment, unsigned int counter);

/* Sees which calls with a fault wait. */
void audit_look_again(struct audit_look *look);
/* The last time: what came of the fault. */
void audit_look_at_end(struct audit_look *look, struct audit_run *run);

/* Whom the command called without a fault. */
void audit_look_at_bare(const struct segment *segment, struct audit *audit);

#endif
