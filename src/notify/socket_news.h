/*
 * socket_news.h - what the kernel tells of other processes' sockets: that one was closed for the last time (inotify),
 * that one has died (sock_diag's broadcast), and how one stands (sock_diag, asked for).
 *
 * All without privilege, and nothing that holds a reference: no socket lives longer for it, and no end goes out later.
 * Private to src/notify.
 */
#ifndef SOCKFUSE_NOTIFY_SOCKET_NEWS_H
#define SOCKFUSE_NOTIFY_SOCKET_NEWS_H

#include <stdbool.h>
#include <stdint.h>

#include "notify/judge.h"

/* The two ends of a connection, as sock_diag has them. */
struct socket_tuple {
    uint8_t family;
    uint16_t port, peer; /* network order */
    uint8_t from[16], to[16];
};

struct socket_news {
    int closes;   /* inotify */
    int deaths;   /* the broadcast */
    int question; /* sock_diag */
};

/* Opens all three. False: `*what` is what can't be had, errno why. */
bool socket_news_open(struct socket_news *news, const char **what);

/* Asks to be told of the last close of the socket behind this process's descriptor. -1: it can't be. */
int socket_news_watch(const struct socket_news *news, int fd);
void socket_news_unwatch(const struct socket_news *news, int watch);

/* Tells what has come, a bounded part. `closed` is told watches; `died` cookies. True: there may be more. */
struct socket_listener {
    void (*closed)(int watch, void *context);
    void (*died)(uint64_t cookie, const struct socket_tuple *tuple, const struct socket_facts *facts, void *context);
    void *context;
};
bool socket_news_take(const struct socket_news *news, const struct socket_listener *listener);

/*
 * How the socket of that cookie stands. False: it is none of the tuple's. With cookie 0 whatever has the tuple, which in
 * TIME_WAIT has no cookie: then `facts` has the state alone.
 */
bool socket_news_ask(const struct socket_news *news, const struct socket_tuple *tuple, uint64_t cookie,
                     struct socket_facts *facts);

/* The same of a descriptor of this process. */
bool socket_news_read(int fd, struct socket_tuple *tuple, struct socket_facts *facts);

/* Tells of all sockets to that port (network order) that stand. */
typedef void socket_found_fn(uint64_t cookie, const struct socket_tuple *tuple, const struct socket_facts *facts,
                             void *context);
void socket_news_list(const struct socket_news *news, uint8_t family, uint16_t peer, socket_found_fn *found,
                      void *context);

#endif
