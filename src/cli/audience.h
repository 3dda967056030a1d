/*
 * audience.h - whom a force reaches in one policy: its segment, and what the processes there run.
 *
 * For `sockfuse open`, `close` and `auto`. A process that is attached does not ask a circuit that the policy which it
 * runs does not have, or whose target is off there, or kept to itself: it is told of apart, and why. What the file says
 * does not matter to it before a reload.
 */
#ifndef SOCKFUSE_CLI_AUDIENCE_H
#define SOCKFUSE_CLI_AUDIENCE_H

#include "cli/reach.h"
#include "view/running.h"
#include "view/select.h"

struct audience {
    struct segment *segment;          /* to write in, once it is open */
    const struct running *running;    /* what is in force */
    const struct policy *handed_over; /* the last one that running processes were told; NULL: none */
    void *bytes;                      /* which that lies in */
    size_t size;
    const struct selected *selected;
    const char *identity, *whose, *which;
    struct reach reach;
    bool gathered, in_use, others_unusable;
};

/* `running` is of `selected`. Free it with audience_free, before them. */
void audience_know(struct audience *audience, const struct selected *selected, const struct running *running);
void audience_free(struct audience *audience);

/* Looks who there is, once. To be called after the word stands: who attaches from then on finds it. */
void audience_gather(struct audience *audience);

/*
 * Ends the line on which was said what was done to the circuit: whom it reached, and below, who was not, and why.
 * Returns how many these are.
 */
size_t audience_tell(const struct audience *audience, const char *destination, const char *target_name);
/* For when it was nobody; `forced`: there is a word that the next one obeys. */
void audience_tell_nobody(const struct audience *audience, const char *destination, bool forced);

#endif
