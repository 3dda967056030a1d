/*
 * inversions.h - a caller that gives up before its callee does: what the callee waits for after that is for nobody.
 *
 * Along the chains of this host: a program that was seen to give up on a destination (timeouts.h), the program that
 * listens there, and how long that one was seen to wait for destinations of its own. Known of programs that still run,
 * from what their circuits have learnt. Two programs of one name can't be told apart by it: then nothing is said. How
 * often the caller gave up is known; that the callee waited each time is not. Names come from outside.
 */
#ifndef SOCKFUSE_VIEW_INVERSIONS_H
#define SOCKFUSE_VIEW_INVERSIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "view/json.h"
#include "view/select.h"
#include "segment/event.h"
#include "segment/learnt.h"

struct inversion {
    char caller[PROGRAM_NAME_MAX], callee[PROGRAM_NAME_MAX];
    char between[DESTINATION_MAX]; /* whom the caller calls: the callee listens there */
    char beyond[DESTINATION_MAX];  /* whom the callee calls */
    uint64_t caller_after_ns, callee_after_ns;
    bool callee_gives_up;      /* else it was never seen to, and `callee_after_ns` is the longest that it waited */
    struct patience_view seen; /* of the caller: how often it gave up, and when */
};

struct inversions {
    struct inversion *at;
    size_t count;
};

/* The worst first. Free it with inversions_free. Asks /proc and the kernel's sockets, if any caller gives up at all. */
void inversions_find(struct inversions *inversions, const struct selection *selection);
void inversions_free(struct inversions *inversions);

/* Leaves those that have to do with a destination. */
void inversions_keep(struct inversions *inversions, const char *destination);

/* A line for each, below a heading; nothing of none. */
void inversions_print(const struct inversions *inversions, FILE *out);
/* Those of a destination, behind what was told of it on standard output. */
void inversions_tell(const struct selection *selection, const char *destination);
/* An array of that key. */
void inversions_json(struct json *json, const char *key, const struct inversions *inversions);

#endif
