/*
 * inflight.h - the calls in flight as an observer sees them now: who waits for whom, since when, and until when.
 *
 * For all commands that show calls. What is read is what the guarded programs have written for their own needs, so
 * looking costs them nothing. A call that was charged at its limit and goes on is in the list, and overdue. Calls under
 * `scope = process` are in the processes' own memory, and can't be read. Names come from outside: print them safely.
 */
#ifndef SOCKFUSE_VIEW_INFLIGHT_H
#define SOCKFUSE_VIEW_INFLIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "breaker/outcome.h"
#include "view/select.h"
#include "segment/circuits.h"
#include "segment/processes.h"

struct inflight_owner {
    struct process_view process; /* its pid is of use here if it is near */
    uint32_t uid;                /* of the process now; of one that is not near, or can't be asked: of its circuits */
    bool is_alive;
    size_t mark;                 /* for whoever works on the list */
    struct inflight_owner *next; /* for inflight.c alone: another one that had the same place */
};

struct inflight_call {
    const struct selected *of;             /* as it was given to inflight_add */
    const struct inflight_owner *owner;    /* the living process whose call it is */
    const struct circuit_texts *circuit;   /* its target and destination */
    uint32_t circuit_index, place, number; /* in its segment; the call's number tells it from others at its place */
    enum phase phase;
    uint64_t waited_ns; /* in this phase: by the circuits' clock */
    uint64_t limit_ns;  /* of this wait; 0: it has none */
    bool is_overdue;
    bool is_charged; /* and was counted as a failure already */
    bool is_probe;
    uint64_t address_key; /* endpoint_hash of where it goes; 0: not known any more */
    uint32_t thread;      /* by waiting_thread.h; 0: not known, or not asked for */
};

struct inflight {
    struct inflight_call *at;
    size_t count;
    struct inflight_owner **owners; /* that the calls point to */
    size_t owner_count;
    struct circuit_texts **circuits;
    size_t circuit_count;
};

/*
 * Adds the calls of one segment to a list that began as zeros; `of` may be NULL. `now_ns` is the circuits' clock. Free
 * it with inflight_free.
 */
void inflight_add(struct inflight *inflight, const struct segment *segment, const struct selected *of, uint64_t now_ns);
void inflight_free(struct inflight *inflight);

/* Asks the kernel as whom each owner runs; else `uid` is that of its circuits, or the caller's. */
void inflight_find_users(struct inflight *inflight);

/* Puts those that have waited longest first. */
void inflight_sort(struct inflight *inflight);

/* Keeps those of one destination or target, and those that have waited at least so long. */
struct inflight_wish {
    const char *text, *destination; /* as it was given, and as circuits are called; NULL: any */
    uint64_t older_ns;
};
void inflight_keep(struct inflight *inflight, const struct inflight_wish *wish);
/* Of a list that has one segment's alone: the calls of one of its circuits. */
void inflight_keep_circuit(struct inflight *inflight, uint32_t circuit);

/* What waits in one circuit. */
struct waiting {
    uint32_t calls, charged, overdue;
    uint64_t oldest_ns;
};
/* Adds up the calls of a list that has one segment's alone; `circuits` has a place for each circuit of it. */
void inflight_count(const struct inflight *inflight, struct waiting *circuits);

/* What a call waits for: "connect", "greeting" (connected, nothing was sent), "answer". */
const char *inflight_phase(enum phase phase);

#endif
