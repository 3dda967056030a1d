/*
 * watched.h - the segments that the agent watches: found anew when a folder has changed, opened once, dropped when
 * gone; and who is told of what happens in them.
 *
 * A part of the agent registers a `struct watcher`. It is told of each segment when it is found and when it is gone, of
 * each event of its journal in order, and once in each look (`look_every`) of the segment as it is. Nobody wakes the
 * agent: a look reads the journal's head and a few words from memory, and costs no system call where nothing has
 * happened. To root's agent another user's segment is hostile input (view/homes.h): what it holds is bounded, and each
 * user has so much time in a look, and the rest of his segments wait for the next one.
 *
 * Of several agents one looks after a segment, the first that came (segment/agent_lock.h). The others stand by: their
 * watchers do not know of it until the first is gone, which they see within a second or two.
 */
#ifndef SOCKFUSE_AGENT_WATCHED_H
#define SOCKFUSE_AGENT_WATCHED_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/in_force.h"
#include "policy/agent_section.h"
#include "segment/event.h"
#include "view/select.h"

#define WATCHERS_MAX 16u

/* One segment. What is here holds during a call of a watcher; `data` is the watcher's own. */
struct watched {
    const struct selected *selected; /* who, whose, and mapped to read */
    struct segment *writable;        /* the same mapped to write; NULL: it can't be, which was said */
    uint64_t found_ns;               /* wall clock: what happened before is not told */
    uint64_t next;                   /* number of the next event */
    struct in_force in_force;        /* for watched_policy alone */
    uint64_t missed;                 /* events that were overwritten before they could be read */
    void *data[WATCHERS_MAX];        /* by the watcher's number; free it in `end` */
};

/* The policy that is in force there as it is now (in_force.h); it stands until the next call. NULL: it is not known. */
const struct policy *watched_policy(struct watched *watched);

struct watcher {
    const char *name;
    void (*begin)(struct watched *watched);
    void (*event)(struct watched *watched, const struct event *event);
    void (*look)(struct watched *watched, uint64_t now_ns); /* circuits' clock */
    void (*end)(struct watched *watched);                   /* the last call for it */
    unsigned int number;                                    /* filled by watched_register */
};

/* Before watched_start. Each of the functions may be NULL. */
void watched_register(struct watcher *watcher);

/* What to watch: a selection for each of the choices (one without -p: all that there are). */
struct watching {
    const struct whose *choices;
    size_t count;
    const struct agent_settings *settings;
};

/* Finds the segments and begins to look. Messages say what can't be watched. */
void watched_start(struct ev_loop *loop, const struct watching *watching);
/* Takes other settings from now on. */
void watched_set(const struct agent_settings *settings);
/* Looks once more, tells all watchers that all segments are gone, and ends. */
void watched_stop(void);

/* Calls `visit` for each segment that is this agent's to look after. */
void watched_each(void (*visit)(struct watched *watched, void *context), void *context);
size_t watched_count(void);
/* Those that another agent looks after, while this one stands by. */
size_t watched_aside(void);

/* Looks now, and not only when it is time: for who has made something happen; at all, or at that one alone. */
void watched_look_soon(void);
void watched_look_at_soon(struct watched *watched);

#endif
