/*
 * followed.h - the connections that are guarded from outside, from the connect that was let go to the last close.
 *
 * Each is known by its socket's cookie, which the kernel gives no other socket of this network. A fixed table; where it
 * has no place, a connection passes unguarded. Private to src/notify.
 */
#ifndef SOCKFUSE_NOTIFY_FOLLOWED_H
#define SOCKFUSE_NOTIFY_FOLLOWED_H

#include <stdbool.h>
#include <stdint.h>

#include "guard/guard.h"
#include "notify/followed_model.h"

/* A socket whose connect is asked about: its descriptor here, and the address that it is to go to. */
struct asked_socket {
    int fd;
    uint8_t family;
    uint16_t peer; /* network order */
    uint64_t cookie, now_ns;
};

void followers_start(struct followers *followers);
struct followed *followed_find(struct followers *followers, uint64_t cookie);

/* A connection whose attempt was admitted, from its descriptor here. NULL: there is no place, or it can't be watched. */
struct followed *followed_begin(struct followers *followers, struct asker *asker, const struct attempt *attempt,
                                uint32_t call, const struct asked_socket *socket);
/* It can be seen how its connect went: the descriptor is the program's that asks for SO_ERROR. */
void followed_asked(struct followers *followers, struct followed *followed, int fd);
/* A pending or failed attempt ends as nobody can say how, for another begins on its socket. */
void followed_abandon(struct followers *followers, struct followed *followed);

/* Tells what the kernel has told meanwhile. A bounded part; true: there may be more. */
bool followers_hear(struct followers *followers);
/* Looks at those whose time has come; returns in how many milliseconds to come again, -1: nothing is followed. */
int followers_look(struct followers *followers);

/* For struct guard: its context is `followers`. */
bool followed_still_hangs(uint32_t call, enum phase phase, void *context);

#endif
