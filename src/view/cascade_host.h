/*
 * cascade_host.h - this host as cascade_build.c asks it: whose process is a call's, and which processes serve a
 * destination.
 *
 * Private to cascade_build.c, cascade_host.c and cascade_search.c. A node stands for a process; nodes that are one
 * program are joined.
 */
#ifndef SOCKFUSE_VIEW_CASCADE_HOST_H
#define SOCKFUSE_VIEW_CASCADE_HOST_H

#include "view/cascade.h"
#include "view/host_processes.h"
#include "view/host_sockets.h"

struct socket_key {
    uint64_t key;
    const struct host_socket *socket;
};

/* One network name space, with what its sockets are looked up by. */
struct known_network {
    struct host_network network;
    bool is_seen;
    struct socket_key *by_inode, *by_remote, *by_ends; /* by what they are connected to, and by both ends */
    size_t count;
};

struct cascade_host {
    struct host_processes processes;
    struct known_network *networks;
    size_t network_count;
    size_t *leaders; /* of each node the one it was joined to; nodes: the processes, then owners without one here */
    size_t node_count;
    bool *listens; /* of each process: it has a listening socket */
};

/* NULL: it was not asked for. */
struct known_network *cascade_network_of(struct cascade_host *host, uint64_t space);
const struct host_socket *cascade_socket_of(const struct known_network *known, uint64_t inode);
/* What a socket is connected to; NULL: nothing that is known. A UNIX client's is the name of its other end. */
const struct endpoint *cascade_remote_of(const struct known_network *known, const struct host_socket *socket);
/* The key of both ends, and the first of a list with a key, whom the others follow. */
uint64_t cascade_ends_of(const struct endpoint *local, const struct endpoint *remote);
size_t cascade_first_with(const struct socket_key *list, size_t count, uint64_t key);

void cascade_host_read(struct cascade_host *host, const struct inflight *inflight);
void cascade_host_free(struct cascade_host *host);

/* The node that stands for all that are joined to this one. */
size_t cascade_leader(struct cascade_host *host, size_t node);
void cascade_join(struct cascade_host *host, size_t node, size_t other);

/* The process of a node; NULL: it is none of those in /proc. */
const struct host_process *cascade_process(const struct cascade_host *host, size_t node);
/* The node of a pid; CASCADE_NONE. */
size_t cascade_node_of(const struct cascade_host *host, uint32_t pid);

/* Whether the one is an ancestor of the other, as long as they are of one session; or of any. */
bool cascade_descends(const struct cascade_host *host, size_t node, size_t ancestor, bool in_session);

/* What is found out about a place, call by call. */
struct place_search {
    struct cascade_place *place;
    struct endpoint literal; /* family NONE: the destination's text is no address */
    struct endpoint *known;  /* endpoints that were looked at */
    size_t known_count;
    size_t *nodes; /* who serves it */
    size_t node_count;
    uint64_t *connections; /* inodes that were counted as not accepted */
    size_t connection_count;
};
void cascade_search(struct cascade_host *host, struct place_search *search, const struct inflight_call *call);

#endif
