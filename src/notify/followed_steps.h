/*
 * followed_steps.h - what the two halves of following a connection share. Private to followed.c and followed_look.c.
 */
#ifndef SOCKFUSE_NOTIFY_FOLLOWED_STEPS_H
#define SOCKFUSE_NOTIFY_FOLLOWED_STEPS_H

#include "base/units.h"
#include "notify/followed_model.h"

#define FIRST_LOOK_NS (2 * NS_PER_MS)

static inline struct guard *guard_of(const struct followed *followed)
{
    return &followed->asker->guard;
}

struct followed *followed_of_watch(struct followers *followers, int watch);
/* How it stands, or stood: its call is told. */
void followed_apply(struct followed *followed, const struct socket_facts *facts);
/* Its present call ends so. Times of the real clock. */
void followed_settle(struct followed *followed, enum seen seen, int error, uint64_t came_ns, uint64_t since_ns);
/* It is gone: its call is judged by `story` and the last that was seen of it, and its place is free. */
void followed_end(struct followers *followers, struct followed *followed, const struct socket_facts *facts);

#endif
