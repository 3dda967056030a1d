/*
 * cascade.h - who waits for whom on this host: the calls in flight, joined to the programs that they wait for.
 *
 * A destination on this host is joined to who listens there, whose own calls follow: so a cascade has an end, the
 * destination for which others wait and whose program waits for nobody. What is not seen (another user's processes,
 * another network name space, a program that is not under sockfuse) is marked as not seen. Data alone; for `sockfuse
 * calls --tree` and whatever else tells of cascades. Names come from outside.
 */
#ifndef SOCKFUSE_VIEW_CASCADE_H
#define SOCKFUSE_VIEW_CASCADE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "view/inflight.h"

#define CASCADE_NONE SIZE_MAX
#define CASCADE_PHASES 3u /* PHASE_CONNECTING to PHASE_REQUESTED */

/* A program: the processes that listen on the same sockets, with their workers; or those of one name. */
struct cascade_group {
    char *program;
    uint32_t *pids; /* ascending; of those in another pid name space, that of their container */
    size_t pid_count;
    size_t workers, waiting; /* those that are nobody's parent here; and of all, how many wait */
    bool is_guarded;         /* one of them is attached, so that its calls are seen */
    bool is_waited_for;      /* some destination is theirs */
};

enum cascade_view {
    VIEW_UNKNOWN,   /* which address it is, is not known */
    VIEW_ELSEWHERE, /* not on this host, as far as its own addresses tell */
    VIEW_NETWORK,   /* in a network name space that can't be looked into */
    VIEW_UNSERVED,  /* on this host, and nobody listens there */
    VIEW_HIDDEN,    /* somebody listens whose processes can't be looked into: `listener_uid`'s */
    VIEW_SERVED,    /* `group` listens there */
};

/* What waits on some edge, or in all. */
struct cascade_sum {
    size_t calls, overdue, phases[CASCADE_PHASES];
    uint64_t oldest_ns;
};

struct cascade_place {
    const char *destination;
    const char **targets; /* by which the circuits of it are called; two policies may have two names for it */
    size_t target_count;
    uint64_t space; /* the network name space from which it is called; 0: unknown */
    enum cascade_view view;
    size_t group; /* CASCADE_NONE: not seen */
    uint32_t listener_uid;
    size_t not_accepted; /* TCP connections of those who wait, which no program has accepted */
    struct cascade_sum sum;
};

/* A group waits at a place. */
struct cascade_wait {
    size_t group, place;
    size_t processes; /* that wait */
    struct cascade_sum sum;
};

struct cascade {
    struct cascade_group *groups;
    struct cascade_place *places;
    struct cascade_wait *waits; /* the oldest first */
    size_t group_count, place_count, wait_count;
    /*
     * The place at the end of the chain for which most calls wait, straight or through others; CASCADE_NONE: none
     * waits, or all wait for each other.
     */
    size_t root;
    struct cascade_sum root_sum; /* of all that wait for it */
    size_t root_programs;        /* whose these are */
    size_t other_roots;
    int error;   /* sockets could not be asked for: errno */
    bool is_cut; /* there were more sockets than are looked at */
};

struct cascade_wish {
    const char *text, *destination; /* only what has to do with it; NULL: all */
};

/* From a list of calls, which must outlast it, and the segments that it was made of. Free it with cascade_free. */
void cascade_build(struct cascade *cascade, const struct inflight *inflight, const struct selection *selection);
void cascade_free(struct cascade *cascade);

/* Finds `root` and what is told of it: after the waits have changed. */
void cascade_find_root(struct cascade *cascade);

/* Leaves who waits for these places, and for whom these wait. */
void cascade_narrow(struct cascade *cascade, const struct cascade_wish *wish);

/* The groups that wait for each other in a circle, the first one again at the end; to be freed. NULL: there is none. */
size_t *cascade_circle(const struct cascade *cascade, size_t *count);

/* Whether a group waits for some place; whether some group waits for the place. */
bool cascade_waits(const struct cascade *cascade, size_t group);
bool cascade_is_waited_for(const struct cascade *cascade, size_t place);

/* One more name of a place, if it is not known as one; which must live as long. */
void cascade_add_target(struct cascade_place *place, const char *target);

void cascade_add(struct cascade_sum *sum, const struct cascade_sum *more);

#endif
