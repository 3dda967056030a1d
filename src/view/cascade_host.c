/*
 * cascade_host.c - this host as cascade_build.c asks it. See cascade_host.h.
 */
#define _GNU_SOURCE
#include "view/cascade_host.h"

#include <stdlib.h>

#include "view/output.h"

#define FIRST_PROCESS 1u /* it may hold sockets for all others (systemd's socket activation) */

/* --- nodes -------------------------------------------------------------------------------------------------------- */

size_t cascade_leader(struct cascade_host *host, size_t node)
{
    while (host->leaders[node] != node) {
        host->leaders[node] = host->leaders[host->leaders[node]];
        node = host->leaders[node];
    }
    return node;
}

void cascade_join(struct cascade_host *host, size_t node, size_t other)
{
    const size_t left = cascade_leader(host, node), right = cascade_leader(host, other);
    if (left < right)
        host->leaders[right] = left;
    else
        host->leaders[left] = right;
}

const struct host_process *cascade_process(const struct cascade_host *host, size_t node)
{
    return node < host->processes.count ? &host->processes.at[node] : NULL;
}

size_t cascade_node_of(const struct cascade_host *host, uint32_t pid)
{
    const struct host_process *process = host_process_of(&host->processes, pid);
    return process != NULL ? (size_t)(process - host->processes.at) : CASCADE_NONE;
}

bool cascade_descends(const struct cascade_host *host, size_t node, size_t ancestor, bool in_session)
{
    const struct host_process *process = cascade_process(host, node);
    const uint32_t session = process != NULL ? process->session : 0;
    /* Parents that are read one after the other could seem to go in a circle. */
    for (size_t steps = 0; process != NULL && process->pid != FIRST_PROCESS && steps < host->processes.count; steps++) {
        process = host_process_of(&host->processes, process->parent);
        if (process == NULL || (in_session && process->session != session))
            return false;
        if (process == cascade_process(host, ancestor))
            return true;
    }
    return false;
}

/* --- networks ----------------------------------------------------------------------------------------------------- */

static int compare_keys(const void *a, const void *b)
{
    const struct socket_key *left = a, *right = b;
    return left->key < right->key ? -1 : left->key > right->key;
}

size_t cascade_first_with(const struct socket_key *list, size_t count, uint64_t key)
{
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (list[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct host_socket *cascade_socket_of(const struct known_network *known, uint64_t inode)
{
    const size_t at = cascade_first_with(known->by_inode, known->count, inode);
    return inode != 0 && at < known->count && known->by_inode[at].key == inode ? known->by_inode[at].socket : NULL;
}

const struct endpoint *cascade_remote_of(const struct known_network *known, const struct host_socket *socket)
{
    if (socket->remote != NULL || socket->is_listening || socket->peer == 0)
        return socket->remote;
    const struct host_socket *peer = cascade_socket_of(known, socket->peer);
    return peer != NULL ? peer->local : NULL;
}

uint64_t cascade_ends_of(const struct endpoint *local, const struct endpoint *remote)
{
    return endpoint_hash(local) * 31 ^ endpoint_hash(remote);
}

static struct socket_key *new_list(const struct known_network *known)
{
    return allocate(known->count, sizeof(struct socket_key));
}

static void put_in_order(const struct known_network *known, struct socket_key *list)
{
    if (known->count > 1)
        qsort(list, known->count, sizeof *list, compare_keys);
}

static void index_network(struct known_network *known)
{
    known->count = known->network.socket_count;
    known->by_inode = new_list(known);
    known->by_remote = new_list(known);
    known->by_ends = new_list(known);
    for (size_t i = 0; i < known->count; i++)
        known->by_inode[i] = (struct socket_key){known->network.sockets[i].inode, &known->network.sockets[i]};
    put_in_order(known, known->by_inode);
    for (size_t i = 0; i < known->count; i++) {
        const struct host_socket *socket = &known->network.sockets[i];
        const struct endpoint *remote = cascade_remote_of(known, socket);
        known->by_remote[i] = (struct socket_key){remote != NULL ? endpoint_hash(remote) : 0, socket};
        known->by_ends[i] = (struct socket_key){
            socket->local != NULL && socket->remote != NULL ? cascade_ends_of(socket->local, socket->remote) : 0,
            socket};
    }
    put_in_order(known, known->by_remote);
    put_in_order(known, known->by_ends);
}

struct known_network *cascade_network_of(struct cascade_host *host, uint64_t space)
{
    for (size_t i = 0; i < host->network_count; i++)
        if (host->networks[i].network.space == space)
            return &host->networks[i];
    return NULL;
}

static struct known_network *add_network(struct cascade_host *host)
{
    host->networks = grow(host->networks, host->network_count, sizeof *host->networks);
    struct known_network *known = &host->networks[host->network_count++];
    *known = (struct known_network){.is_seen = true};
    return known;
}

/* The caller's own, and those in which a call's process is, as far as they can be entered. */
static void read_networks(struct cascade_host *host, const struct inflight *inflight)
{
    host_network_read(&add_network(host)->network);
    for (size_t i = 0; i < inflight->owner_count; i++) {
        const struct inflight_owner *owner = inflight->owners[i];
        const uint64_t space = owner->is_alive && owner->process.is_near ? host_network_space(owner->process.pid) : 0;
        if (space == 0 || cascade_network_of(host, space) != NULL)
            continue;
        struct known_network *known = add_network(host);
        known->is_seen = host_network_read_of(&known->network, owner->process.pid);
        known->network.space = space;
    }
    for (size_t i = 0; i < host->network_count; i++)
        index_network(&host->networks[i]);
}

/* --- who belongs together ----------------------------------------------------------------------------------------- */

/* Those who hold one listening socket are one program, but for who holds it for others in sessions of their own. */
static void join_holders(struct cascade_host *host, uint64_t inode)
{
    size_t count;
    const struct host_holding *holders = host_holders_of(&host->processes, inode, &count);
    for (size_t i = 0; i < count; i++) {
        const size_t node = cascade_node_of(host, holders[i].pid);
        const struct host_process *process = node != CASCADE_NONE ? cascade_process(host, node) : NULL;
        if (process == NULL)
            continue;
        host->listens[node] = true;
        for (size_t j = 0; j < i; j++) {
            const struct host_process *other = host_process_of(&host->processes, holders[j].pid);
            if (other == NULL || other->session != process->session)
                continue;
            cascade_join(host, node, (size_t)(other - host->processes.at));
            break;
        }
    }
}

void cascade_host_read(struct cascade_host *host, const struct inflight *inflight)
{
    *host = (struct cascade_host){0};
    read_networks(host, inflight);
    host_processes_read(&host->processes);
    host->node_count = host->processes.count + inflight->owner_count;
    host->leaders = allocate(host->node_count, sizeof *host->leaders);
    host->listens = allocate(host->node_count, sizeof *host->listens);
    for (size_t i = 0; i < host->node_count; i++)
        host->leaders[i] = i;
    for (size_t i = 0; i < inflight->owner_count; i++) {
        struct inflight_owner *owner = inflight->owners[i];
        const size_t node = owner->process.is_near ? cascade_node_of(host, owner->process.pid) : CASCADE_NONE;
        owner->mark = node != CASCADE_NONE ? node : host->processes.count + i;
    }
    for (size_t i = 0; i < host->network_count; i++)
        for (size_t j = 0; j < host->networks[i].network.socket_count; j++)
            if (host->networks[i].network.sockets[j].is_listening)
                join_holders(host, host->networks[i].network.sockets[j].inode);
}

void cascade_host_free(struct cascade_host *host)
{
    for (size_t i = 0; i < host->network_count; i++) {
        host_network_free(&host->networks[i].network);
        free(host->networks[i].by_inode);
        free(host->networks[i].by_remote);
        free(host->networks[i].by_ends);
    }
    free(host->networks);
    free(host->leaders);
    free(host->listens);
    host_processes_free(&host->processes);
    *host = (struct cascade_host){0};
}
