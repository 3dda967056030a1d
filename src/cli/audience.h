/*
 * audience.h - whom a force reaches in one policy: its segment, and what the processes there are known to run.
 *
 * For `sockfuse open`, `close` and `auto`. A process that is attached does not ask a circuit whose target is off, or
 * kept to itself, in the policy that it runs: it is told of apart, and why.
 */
#ifndef SOCKFUSE_CLI_AUDIENCE_H
#define SOCKFUSE_CLI_AUDIENCE_H

#include "cli/reach.h"
#include "cli/select.h"

struct audience {
    struct segment *segment;          /* to write in */
    const struct policy *policy;      /* the file's; NULL: it can't be read */
    const struct policy *handed_over; /* the last one that running processes were told; NULL: none */
    void *bytes;                      /* which that lies in */
    size_t size;
    const struct selected *selected;
    const char *identity, *whose, *which;
    struct reach reach;
    bool gathered, in_use, others_unusable;
};

/* `segment` is `selected`'s, or a fresh one. Free it with audience_free, before the segment. */
void audience_know(struct audience *audience, struct segment *segment, const struct selected *selected,
                   const struct policy *policy);
void audience_free(struct audience *audience);

/* Looks who there is, once. To be called after the word stands: who attaches from then on finds it. */
void audience_gather(struct audience *audience);

/*
 * Ends the line on which was said what was done to the circuit: whom it reached, and below, who was not, and why.
 * Returns how many these are.
 */
size_t audience_tell(const struct audience *audience, const char *destination, const char *target_name);
/* For when it was nobody. */
void audience_tell_nobody(const struct audience *audience, const char *destination);

#endif
