/*
 * host_sockets.h - the stream sockets of one network name space, as the kernel tells them (sock_diag(7)).
 *
 * For commands that join a destination on this host to who listens there. The kernel tells everybody of all sockets of
 * the name space; whose they are is in /proc (host_processes.h). UNIX sockets are told of all name spaces of the host
 * that share a kernel's view with the asked one; their paths are as their servers bound them.
 */
#ifndef SOCKFUSE_VIEW_HOST_SOCKETS_H
#define SOCKFUSE_VIEW_HOST_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/endpoint.h"

struct host_socket {
    uint64_t inode; /* 0: nobody's: a connection that the kernel has made, and no program has accepted */
    uint32_t uid;
    bool is_listening;
    bool is_wildcard, takes_ipv4;     /* a listener of all addresses; one of IPv6 that takes IPv4 too */
    uint32_t queued;                  /* a TCP listener's: connections that wait to be accepted */
    uint32_t peer;                    /* UNIX: the other end's inode, or 0 */
    uint32_t file_inode, file_device; /* UNIX: of the file that it is bound to; device as the kernel has it */
    uint16_t port, remote_port;       /* TCP: both ends, for quick looks */
    struct endpoint *local, *remote;  /* NULL: none, as a UNIX socket without a name */
};

struct host_network {
    uint64_t space; /* the name space, by the inode of /proc/PID/ns/net */
    struct host_socket *sockets;
    size_t socket_count;
    struct endpoint *addresses; /* its own, without ports */
    size_t address_count;
    int error; /* not all of it could be asked for: errno; 0: it is whole */
};

/* Asks in the network name space in which the caller is. Free it with host_network_free. */
void host_network_read(struct host_network *network);
/* The same in that of another process: for root alone, as a rule. False: it can't be entered. */
bool host_network_read_of(struct host_network *network, uint32_t pid);
void host_network_free(struct host_network *network);

/* The inode of a process's network name space; 0: it can't be looked into. `pid` 0: the caller's own. */
uint64_t host_network_space(uint32_t pid);

/* Whether the address is one of this name space's own, so that who listens there is in it. UNIX: always. */
bool host_network_has(const struct host_network *network, const struct endpoint *endpoint);

/* Whether a connect to that TCP endpoint, which is one of the name space's own, comes to this listener. */
bool host_socket_takes(const struct host_socket *socket, const struct endpoint *endpoint);

#endif
