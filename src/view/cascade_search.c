/*
 * cascade_search.c - which programs serve a destination. See cascade_host.h.
 *
 * The address of a call is known by its hash alone (inflight.h), which a socket of the host that is connected there
 * gives its face back. A connection's other end is a socket of the same host, whose owner is the process that really
 * accepted it; one that nobody has accepted yet has no owner, so beside it stand those that hold the listening socket.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "view/cascade_host.h"
#include "view/output.h"

/* What was seen of one of its addresses does not take back what was seen of another. */
static void see(struct place_search *search, enum cascade_view view)
{
    if (view > search->place->view)
        search->place->view = view;
}

static void add_server(struct place_search *search, size_t node)
{
    for (size_t i = 0; i < search->node_count; i++)
        if (search->nodes[i] == node)
            return;
    search->nodes = grow(search->nodes, search->node_count, sizeof *search->nodes);
    search->nodes[search->node_count++] = node;
}

/* Who has a socket serves by it; who has none that is seen is hidden. Who holds it for a descendant does not. */
static void add_holders(struct cascade_host *host, struct place_search *search, const struct host_socket *socket)
{
    size_t count;
    const struct host_holding *holders = host_holders_of(&host->processes, socket->inode, &count);
    if (count == 0) {
        search->place->listener_uid = socket->uid;
        see(search, VIEW_HIDDEN);
    }
    for (size_t i = 0; i < count; i++) {
        const size_t node = cascade_node_of(host, holders[i].pid);
        bool holds_for_others = node == CASCADE_NONE;
        for (size_t j = 0; j < count && !holds_for_others; j++) {
            const size_t other = cascade_node_of(host, holders[j].pid);
            holds_for_others = j != i && other != CASCADE_NONE && cascade_descends(host, other, node, false) &&
                               !cascade_descends(host, other, node, true);
        }
        if (holds_for_others && node != CASCADE_NONE)
            continue;
        if (node != CASCADE_NONE)
            add_server(search, node);
        see(search, node != CASCADE_NONE ? VIEW_SERVED : VIEW_HIDDEN);
    }
}

/* The file by which a process knows a UNIX socket, in its own root; inode 0: none. */
struct socket_file {
    uint32_t inode, device; /* as the kernel has them */
};

/* Another user's path can lead to where whoever asks must wait: it is left alone. */
static struct socket_file file_of(const struct endpoint *endpoint, const struct inflight_call *call)
{
    struct socket_file file = {.inode = 0};
    struct stat status;
    if (endpoint->family != ENDPOINT_UNIX || endpoint->abstract || endpoint->path[0] != '/' || call->of->is_foreign)
        return file;
    char *path = format_text("/proc/%u/root%s", call->owner->process.pid, endpoint->path);
    if (stat(path, &status) == 0)
        file = (struct socket_file){(uint32_t)status.st_ino,
                                    (uint32_t)(major(status.st_dev) << 20 | minor(status.st_dev))};
    free(path);
    return file;
}

static bool is_listener(const struct host_socket *socket, const struct endpoint *endpoint,
                        const struct socket_file *file)
{
    if (endpoint->family != ENDPOINT_UNIX)
        return host_socket_takes(socket, endpoint);
    if (!socket->is_listening || socket->local == NULL || socket->local->family != ENDPOINT_UNIX)
        return false;
    return endpoint_equal(socket->local, endpoint) ||
           (file->inode != 0 && socket->file_inode == file->inode && socket->file_device == file->device);
}

static void find_listeners(struct cascade_host *host, struct place_search *search, const struct known_network *known,
                           const struct endpoint *endpoint, const struct inflight_call *call)
{
    const struct socket_file file = file_of(endpoint, call);
    bool any = false;
    if (!host_network_has(&known->network, endpoint)) {
        see(search, VIEW_ELSEWHERE);
        return;
    }
    /* One that listens on the very address goes before one that listens on all. */
    for (int wildcard = 0; wildcard <= 1 && !any; wildcard++)
        for (size_t i = 0; i < known->count; i++) {
            const struct host_socket *socket = &known->network.sockets[i];
            if (socket->is_wildcard != wildcard || !is_listener(socket, endpoint, &file))
                continue;
            any = true;
            add_holders(host, search, socket);
        }
    if (!any)
        see(search, VIEW_UNSERVED);
}

/* The other end of a connection that a process has; NULL: it is not on this host. */
static const struct host_socket *other_end(const struct known_network *known, const struct host_socket *socket)
{
    if (socket->peer != 0)
        return cascade_socket_of(known, socket->peer);
    if (socket->local == NULL || socket->remote == NULL)
        return NULL;
    const uint64_t key = cascade_ends_of(socket->remote, socket->local);
    for (size_t i = cascade_first_with(known->by_ends, known->count, key);
         i < known->count && known->by_ends[i].key == key; i++)
        if (endpoint_equal(known->by_ends[i].socket->local, socket->remote) &&
            endpoint_equal(known->by_ends[i].socket->remote, socket->local))
            return known->by_ends[i].socket;
    return NULL;
}

static void count_not_accepted(struct place_search *search, uint64_t inode)
{
    for (size_t i = 0; i < search->connection_count; i++)
        if (search->connections[i] == inode)
            return;
    search->connections = grow(search->connections, search->connection_count, sizeof *search->connections);
    search->connections[search->connection_count++] = inode;
    search->place->not_accepted++;
}

/* Who has accepted the connections that the process has to that endpoint. */
static void find_peers(struct cascade_host *host, struct place_search *search, const struct known_network *known,
                       const struct endpoint *endpoint, uint32_t pid)
{
    size_t count;
    const struct host_holding *held = host_sockets_of(&host->processes, pid, &count);
    for (size_t i = 0; i < count; i++) {
        const struct host_socket *socket = cascade_socket_of(known, held[i].inode);
        const struct endpoint *remote = socket != NULL ? cascade_remote_of(known, socket) : NULL;
        const struct host_socket *peer =
            remote != NULL && endpoint_equal(remote, endpoint) ? other_end(known, socket) : NULL;
        if (peer == NULL)
            continue;
        if (peer->inode == 0)
            count_not_accepted(search, held[i].inode);
        else
            add_holders(host, search, peer);
    }
}

/* The endpoint of that hash: what the destination's text says, or some socket of the host shows. */
static const struct endpoint *find_endpoint(const struct known_network *known, const struct place_search *search,
                                            uint64_t key)
{
    if (search->literal.family != ENDPOINT_NONE)
        return &search->literal;
    const size_t at = cascade_first_with(known->by_remote, known->count, key);
    if (key != 0 && at < known->count && known->by_remote[at].key == key)
        return cascade_remote_of(known, known->by_remote[at].socket);
    for (size_t i = 0; i < known->count && key != 0; i++) {
        const struct host_socket *socket = &known->network.sockets[i];
        if (socket->is_listening && socket->local != NULL && endpoint_hash(socket->local) == key)
            return socket->local;
    }
    return NULL;
}

static bool is_known(struct place_search *search, const struct endpoint *endpoint)
{
    for (size_t i = 0; i < search->known_count; i++)
        if (endpoint_equal(&search->known[i], endpoint))
            return true;
    search->known = grow(search->known, search->known_count, sizeof *search->known);
    search->known[search->known_count++] = *endpoint;
    return false;
}

void cascade_search(struct cascade_host *host, struct place_search *search, const struct inflight_call *call)
{
    const struct known_network *known = cascade_network_of(host, search->place->space);
    if (search->place->space == 0 || known == NULL || !known->is_seen) {
        see(search, VIEW_NETWORK);
        return;
    }
    const struct endpoint *endpoint = find_endpoint(known, search, call->address_key);
    if (endpoint == NULL)
        return;
    if (!is_known(search, endpoint))
        find_listeners(host, search, known, endpoint, call);
    find_peers(host, search, known, endpoint, call->owner->process.pid);
}
