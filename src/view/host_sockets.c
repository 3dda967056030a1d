/*
 * host_sockets.c - the stream sockets of one network name space. See host_sockets.h.
 *
 * Three dumps: TCP over IPv4, TCP over IPv6, UNIX. What comes is the kernel's own, but every length is checked.
 */
#define _GNU_SOURCE
#include "view/host_sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "view/output.h"

#define ANSWER_BYTES 65536u
#define ANSWER_SECONDS 5 /* the kernel answers at once */
#define STATES (1u << TCP_ESTABLISHED | 1u << TCP_SYN_SENT | 1u << TCP_CLOSE_WAIT | 1u << TCP_LISTEN)
#define UNIX_UID 7 /* UNIX_DIAG_UID, which older headers lack */
#define SHOW_UNIX_UID 0x40u
#define ATTRIBUTE_HEAD sizeof(struct nlattr)
#define ATTRIBUTE_ALIGNED(length) (((size_t)(length) + 3) & ~(size_t)3)

/* --- one socket --------------------------------------------------------------------------------------------------- */

static struct host_socket *add_socket(struct host_network *network)
{
    network->sockets = grow(network->sockets, network->socket_count, sizeof *network->sockets);
    struct host_socket *added = &network->sockets[network->socket_count++];
    *added = (struct host_socket){.inode = 0};
    return added;
}

static struct endpoint *keep(const struct sockaddr *address, socklen_t length)
{
    struct endpoint *endpoint = allocate(1, sizeof *endpoint);
    if (endpoint_from_sockaddr(endpoint, address, length))
        return endpoint;
    free(endpoint);
    return NULL;
}

static struct endpoint *keep_inet(unsigned int family, const __be32 address[4], __be16 port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = address[0]};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = port};
    memcpy(&in6.sin6_addr, address, sizeof in6.sin6_addr);
    return family == AF_INET ? keep((const struct sockaddr *)&in, sizeof in)
                             : keep((const struct sockaddr *)&in6, sizeof in6);
}

static bool is_zero(const struct endpoint *endpoint)
{
    static const uint8_t zero[sizeof endpoint->address];
    return endpoint != NULL && memcmp(endpoint->address, zero, sizeof zero) == 0;
}

static const struct nlattr *next_attribute(const struct nlattr *attribute, size_t *left)
{
    const size_t step = ATTRIBUTE_ALIGNED(attribute->nla_len);
    if (attribute->nla_len < ATTRIBUTE_HEAD || step > *left)
        return NULL;
    *left -= step;
    return (const struct nlattr *)(const void *)((const char *)attribute + step);
}

/* The attribute of that type among those behind a message's body; NULL: none of at least that size. */
static const void *attribute_of(const struct nlmsghdr *message, size_t body, unsigned int type, size_t size,
                                size_t *found)
{
    if (message->nlmsg_len < NLMSG_LENGTH(NLMSG_ALIGN(body)))
        return NULL;
    size_t left = message->nlmsg_len - NLMSG_LENGTH(NLMSG_ALIGN(body));
    const char *first = (const char *)NLMSG_DATA(message) + NLMSG_ALIGN(body);
    const struct nlattr *attribute = (const struct nlattr *)(const void *)first;
    while (attribute != NULL && left >= ATTRIBUTE_HEAD && attribute->nla_len >= ATTRIBUTE_HEAD &&
           attribute->nla_len <= left) {
        *found = attribute->nla_len - ATTRIBUTE_HEAD;
        if ((attribute->nla_type & NLA_TYPE_MASK) == type && *found >= size)
            return (const char *)attribute + ATTRIBUTE_HEAD;
        attribute = next_attribute(attribute, &left);
    }
    return NULL;
}

static void take_inet(struct host_network *network, const struct nlmsghdr *message)
{
    const struct inet_diag_msg *told = NLMSG_DATA(message);
    size_t size;
    if (message->nlmsg_len < NLMSG_LENGTH(sizeof *told))
        return;
    struct host_socket *added = add_socket(network);
    const uint8_t *only_ipv6 = attribute_of(message, sizeof *told, INET_DIAG_SKV6ONLY, 1, &size);
    added->inode = told->idiag_inode;
    added->uid = told->idiag_uid;
    added->is_listening = told->idiag_state == TCP_LISTEN;
    added->queued = added->is_listening ? told->idiag_rqueue : 0;
    added->port = ntohs(told->id.idiag_sport);
    added->remote_port = ntohs(told->id.idiag_dport);
    added->local = keep_inet(told->idiag_family, told->id.idiag_src, told->id.idiag_sport);
    if (!added->is_listening)
        added->remote = keep_inet(told->idiag_family, told->id.idiag_dst, told->id.idiag_dport);
    added->is_wildcard = added->is_listening && is_zero(added->local);
    added->takes_ipv4 = told->idiag_family == AF_INET6 && (only_ipv6 == NULL || *only_ipv6 == 0);
}

static void take_unix(struct host_network *network, const struct nlmsghdr *message)
{
    const struct unix_diag_msg *told = NLMSG_DATA(message);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t size;
    if (message->nlmsg_len < NLMSG_LENGTH(sizeof *told) || told->udiag_type != SOCK_STREAM)
        return;
    struct host_socket *added = add_socket(network);
    added->inode = told->udiag_ino;
    added->is_listening = told->udiag_state == TCP_LISTEN;
    const char *name = attribute_of(message, sizeof *told, UNIX_DIAG_NAME, 1, &size);
    if (name != NULL && size <= sizeof address.sun_path) {
        memcpy(address.sun_path, name, size);
        added->local =
            keep((const struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size));
    }
    const struct unix_diag_vfs *file = attribute_of(message, sizeof *told, UNIX_DIAG_VFS, sizeof *file, &size);
    if (file != NULL) {
        added->file_inode = file->udiag_vfs_ino;
        added->file_device = file->udiag_vfs_dev;
    }
    const uint32_t *peer = attribute_of(message, sizeof *told, UNIX_DIAG_PEER, sizeof *peer, &size);
    const uint32_t *uid = attribute_of(message, sizeof *told, UNIX_UID, sizeof *uid, &size);
    added->peer = peer != NULL ? *peer : 0;
    added->uid = uid != NULL ? *uid : UINT32_MAX;
}

/* --- asking ------------------------------------------------------------------------------------------------------- */

struct request {
    struct nlmsghdr head;
    union {
        struct inet_diag_req_v2 inet;
        struct unix_diag_req local;
    } body;
};

/* One message of the answer. True: it was the last one. */
static bool take(struct host_network *network, const struct nlmsghdr *message, unsigned int family)
{
    if (message->nlmsg_type == NLMSG_DONE)
        return true;
    if (message->nlmsg_type == NLMSG_ERROR) {
        const struct nlmsgerr *error = NLMSG_DATA(message);
        network->error =
            message->nlmsg_len >= NLMSG_LENGTH(sizeof *error) && error->error != 0 ? -error->error : EPROTO;
        return true;
    }
    if (message->nlmsg_type == SOCK_DIAG_BY_FAMILY && family == AF_UNIX)
        take_unix(network, message);
    else if (message->nlmsg_type == SOCK_DIAG_BY_FAMILY)
        take_inet(network, message);
    return false;
}

static void receive(struct host_network *network, int link, unsigned int family)
{
    char *answer = allocate(1, ANSWER_BYTES);
    for (bool done = false; !done;) {
        ssize_t length = recv(link, answer, ANSWER_BYTES, 0);
        if (length <= 0) {
            network->error = length == 0 ? EPROTO : errno;
            break;
        }
        unsigned int left = (unsigned int)length;
        const struct nlmsghdr *message = (const struct nlmsghdr *)(const void *)answer;
        for (; NLMSG_OK(message, left) && !done; message = NLMSG_NEXT(message, left))
            done = take(network, message, family);
    }
    free(answer);
}

static void ask(struct host_network *network, unsigned int family)
{
    const struct timeval patience = {.tv_sec = ANSWER_SECONDS};
    struct request request = {.head = {.nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP}};
    size_t size;
    if (family == AF_UNIX) {
        size = sizeof request.body.local;
        request.body.local =
            (struct unix_diag_req){.sdiag_family = AF_UNIX,
                                   .udiag_states = STATES,
                                   .udiag_show = UDIAG_SHOW_NAME | UDIAG_SHOW_VFS | UDIAG_SHOW_PEER | SHOW_UNIX_UID};
    } else {
        size = sizeof request.body.inet;
        request.body.inet = (struct inet_diag_req_v2){
            .sdiag_family = (uint8_t)family, .sdiag_protocol = IPPROTO_TCP, .idiag_states = STATES};
    }
    request.head.nlmsg_len = (uint32_t)NLMSG_LENGTH(size);
    int link = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (link < 0 || setsockopt(link, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0 ||
        send(link, &request, request.head.nlmsg_len, 0) < 0)
        network->error = errno;
    else
        receive(network, link, family);
    if (link >= 0)
        close(link);
}

static void read_addresses(struct host_network *network)
{
    struct ifaddrs *list = NULL;
    if (getifaddrs(&list) != 0) {
        network->error = errno;
        return;
    }
    for (const struct ifaddrs *entry = list; entry != NULL; entry = entry->ifa_next) {
        struct endpoint endpoint;
        const int family = entry->ifa_addr != NULL ? entry->ifa_addr->sa_family : AF_UNSPEC;
        const socklen_t length = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
        if ((family != AF_INET && family != AF_INET6) || !endpoint_from_sockaddr(&endpoint, entry->ifa_addr, length))
            continue;
        network->addresses = grow(network->addresses, network->address_count, sizeof endpoint);
        network->addresses[network->address_count++] = endpoint;
    }
    freeifaddrs(list);
}

void host_network_read(struct host_network *network)
{
    *network = (struct host_network){.space = host_network_space(0)};
    ask(network, AF_INET);
    ask(network, AF_INET6);
    ask(network, AF_UNIX);
    read_addresses(network);
}

bool host_network_read_of(struct host_network *network, uint32_t pid)
{
    char *path = format_text("/proc/%u/ns/net", pid);
    int there = open(path, O_RDONLY | O_CLOEXEC), here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    const bool entered = there >= 0 && here >= 0 && setns(there, CLONE_NEWNET) == 0;
    free(path);
    if (entered) {
        host_network_read(network);
        if (setns(here, CLONE_NEWNET) != 0)
            err(EXIT_FAILURE, "the own network name space can't be entered again");
    }
    if (there >= 0)
        close(there);
    if (here >= 0)
        close(here);
    return entered;
}

void host_network_free(struct host_network *network)
{
    for (size_t i = 0; i < network->socket_count; i++) {
        free(network->sockets[i].local);
        free(network->sockets[i].remote);
    }
    free(network->sockets);
    free(network->addresses);
    *network = (struct host_network){0};
}

/* --- questions ---------------------------------------------------------------------------------------------------- */

uint64_t host_network_space(uint32_t pid)
{
    char *path = pid == 0 ? copy_text("/proc/self/ns/net") : format_text("/proc/%u/ns/net", pid);
    struct stat status;
    const uint64_t space = stat(path, &status) == 0 ? (uint64_t)status.st_ino : 0;
    free(path);
    return space;
}

static bool is_loopback(const struct endpoint *endpoint)
{
    static const uint8_t last[16] = {[15] = 1};
    return endpoint->family == ENDPOINT_IPV4 ? endpoint->address[0] == 127
                                             : memcmp(endpoint->address, last, sizeof last) == 0;
}

bool host_network_has(const struct host_network *network, const struct endpoint *endpoint)
{
    /* The address of zeros means this host to connect. */
    if (endpoint->family == ENDPOINT_UNIX || is_loopback(endpoint) || is_zero(endpoint))
        return true;
    for (size_t i = 0; i < network->address_count; i++)
        if (network->addresses[i].family == endpoint->family &&
            memcmp(network->addresses[i].address, endpoint->address, sizeof endpoint->address) == 0)
            return true;
    return false;
}

bool host_socket_takes(const struct host_socket *socket, const struct endpoint *endpoint)
{
    if (!socket->is_listening || socket->local == NULL || socket->local->family == ENDPOINT_UNIX ||
        socket->port != endpoint->port)
        return false;
    if (!socket->is_wildcard)
        return socket->local->family == endpoint->family &&
               memcmp(socket->local->address, endpoint->address, sizeof endpoint->address) == 0;
    return socket->local->family == endpoint->family || (endpoint->family == ENDPOINT_IPV4 && socket->takes_ipv4);
}
