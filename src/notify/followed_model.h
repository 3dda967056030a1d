/*
 * followed_model.h - what is known of a connection that is followed, and the table of them. Private to src/notify.
 */
#ifndef SOCKFUSE_NOTIFY_FOLLOWED_MODEL_H
#define SOCKFUSE_NOTIFY_FOLLOWED_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "guard/guard_model.h"
#include "notify/askers.h"
#include "notify/socket_news.h"

#define FOLLOWED_MAX 8192u

struct followed {
    uint64_t cookie; /* 0: free */
    struct asker *asker;
    const struct target *target;
    uint64_t address_key, begun_ns, look_ns, closed_ns; /* real clock; closed_ns 0: it is open */
    uint64_t requested_ns;                              /* of the present call; 0: nothing was asked */
    uint32_t circuit, call;
    int watch;
    uint32_t looks;
    uint16_t peer; /* network order */
    uint8_t family;
    bool has_tuple, is_connected, answered_before;
    bool is_let_go;  /* the program was told */
    bool is_settled; /* the present call */
    struct endpoint endpoint;
    struct socket_tuple tuple;
    enum asker_end leaves; /* how its program was ending when it was closed */
    struct story story;
    int32_t next_cookie, next_watch; /* of the same place in the tables below; -1: none */
};

struct followers {
    struct followed at[FOLLOWED_MAX];
    int32_t by_cookie[FOLLOWED_MAX], by_watch[FOLLOWED_MAX];
    int32_t free; /* by next_cookie */
    uint32_t count, high;
    struct socket_news news;
};

#endif
