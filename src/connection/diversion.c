/*
 * diversion.c - finding the addresses. See diversion.h.
 */
#define _GNU_SOURCE
#include "connection/diversion.h"

#include <linux/filter.h>
#include <stddef.h>
#include <string.h>

#include "connection/socket_state.h"
#include "connection/system.h"

/* A name in the abstract name space that nobody has: it bears the socket's own number. */
static const char nobody[] = "\0sockfuse: nobody ";

#define OWN_HANDSHAKE_MS 1000 /* of a socket with itself; it takes microseconds */

/* --- fallback --- */

static void set_in(struct elsewhere *elsewhere, const struct endpoint *at)
{
    elsewhere->length = sizeof elsewhere->address.in;
    elsewhere->address.in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(at->port)};
    memcpy(&elsewhere->address.in.sin_addr, at->address, sizeof elsewhere->address.in.sin_addr);
}

/* IPv4 as IPv4-mapped. */
static void set_in6(struct elsewhere *elsewhere, const struct endpoint *at)
{
    struct sockaddr_in6 *in6 = &elsewhere->address.in6;
    elsewhere->length = sizeof *in6;
    *in6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(at->port), .sin6_scope_id = at->scope_id};
    if (at->family == ENDPOINT_IPV6) {
        memcpy(&in6->sin6_addr, at->address, sizeof in6->sin6_addr);
        return;
    }
    in6->sin6_addr.s6_addr[10] = in6->sin6_addr.s6_addr[11] = 0xff;
    memcpy(&in6->sin6_addr.s6_addr[12], at->address, 4);
}

static void set_un(struct elsewhere *elsewhere, const struct endpoint *at)
{
    struct sockaddr_un *un = &elsewhere->address.un;
    size_t length = strnlen(at->path, sizeof un->sun_path - (at->abstract ? 1 : 0));
    memset(un, 0, sizeof *un);
    un->sun_family = AF_UNIX;
    memcpy(un->sun_path + (at->abstract ? 1 : 0), at->path, length);
    elsewhere->length =
        at->abstract ? (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length) : (socklen_t)sizeof *un;
}

static bool takes_mapped(int fd)
{
    int only = 1;
    socklen_t length = sizeof only;
    return sys.getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, &length) == 0 && !only;
}

bool diversion_fallback(struct elsewhere *elsewhere, int fd, const struct fallback *fallback)
{
    const struct endpoint *first = &fallback->at[0], *second = &fallback->at[1];
    int family = 0;
    socklen_t length = sizeof family;
    if ((first->family == ENDPOINT_NONE && second->family == ENDPOINT_NONE) ||
        sys.getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &length) != 0)
        return false;
    switch (family) {
    case AF_INET:
        if (first->family != ENDPOINT_IPV4)
            return false;
        set_in(elsewhere, first);
        return true;
    case AF_INET6:
        if (first->family == ENDPOINT_IPV6 || (first->family == ENDPOINT_IPV4 && takes_mapped(fd)))
            set_in6(elsewhere, first);
        else if (second->family == ENDPOINT_IPV6)
            set_in6(elsewhere, second);
        else
            return false;
        return true;
    case AF_UNIX:
        if (first->family != ENDPOINT_UNIX)
            return false;
        set_un(elsewhere, first);
        return true;
    default:
        return false;
    }
}

/* --- rehearsal --- */

static in_port_t *port_of(struct elsewhere *elsewhere)
{
    return elsewhere->address.any.sa_family == AF_INET ? &elsewhere->address.in.sin_port
                                                       : &elsewhere->address.in6.sin6_port;
}

/* The address that the socket is bound to, or will be when it is connected within this host.
 * False: of another family than `wanted`. */
static bool own_address(struct elsewhere *elsewhere, int fd, const struct sockaddr *wanted)
{
    struct in6_addr *in6 = &elsewhere->address.in6.sin6_addr;
    elsewhere->length = sizeof elsewhere->address;
    if (sys.getsockname(fd, &elsewhere->address.any, &elsewhere->length) != 0 ||
        elsewhere->address.any.sa_family != wanted->sa_family)
        return false;
    if (wanted->sa_family == AF_INET) {
        if (elsewhere->address.in.sin_addr.s_addr == htonl(INADDR_ANY))
            elsewhere->address.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return true;
    }
    if (wanted->sa_family != AF_INET6)
        return false;
    if (IN6_IS_ADDR_UNSPECIFIED(in6)) {
        struct sockaddr_in6 to; /* the caller's need not be aligned */
        memcpy(&to, wanted, sizeof to);
        *in6 = in6addr_loopback;
        if (IN6_IS_ADDR_V4MAPPED(&to.sin6_addr)) {
            *in6 = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}};
        }
    }
    return true;
}

bool diversion_refusing(struct elsewhere *elsewhere, int fd, const struct sockaddr *wanted)
{
    if (wanted->sa_family == AF_UNIX) {
        struct sockaddr_un *un = &elsewhere->address.un;
        uint64_t cookie = socket_cookie(fd);
        memset(un, 0, sizeof *un);
        un->sun_family = AF_UNIX;
        memcpy(un->sun_path, nobody, sizeof nobody);
        memcpy(un->sun_path + sizeof nobody, &cookie, sizeof cookie);
        elsewhere->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof nobody + sizeof cookie);
        return true;
    }
    if (!own_address(elsewhere, fd, wanted))
        return false;
    *port_of(elsewhere) = 0;
    return true;
}

/* To no address: then the kernel takes the binding back when the attempt is over, and the socket is fresh again. */
static bool bind_to_any(int fd, sa_family_t family)
{
    struct elsewhere any = {.address.any.sa_family = family};
    return sys.bind(fd, &any.address.any, family == AF_INET ? sizeof any.address.in : sizeof any.address.in6) == 0;
}

bool diversion_self(struct elsewhere *elsewhere, int fd, const struct sockaddr *wanted)
{
    if (!own_address(elsewhere, fd, wanted))
        return false;
    if (*port_of(elsewhere) == 0 && (!bind_to_any(fd, wanted->sa_family) || !own_address(elsewhere, fd, wanted)))
        return false;
    return *port_of(elsewhere) != 0;
}

bool diversion_leave(int fd)
{
    const struct sockaddr no_peer = {.sa_family = AF_UNSPEC};
    /* Some kernels do not let go of it (EBUSY) while another thread waits in it. */
    return sys.connect(fd, &no_peer, sizeof no_peer) == 0;
}

bool diversion_leave_for_self(int fd)
{
    struct elsewhere peer, self;
    peer.length = sizeof peer.address;
    if (sys.getpeername(fd, &peer.address.any, &peer.length) != 0)
        return false;
    /*
     * The end of the stream goes first, so that the peer reads that and no error: it sees a client that closes a
     * connection which it has kept. What follows is a reset, to which nobody listens any more. (Before a reset that is
     * to be met it can't go: of a connection that both sides have closed there would be none.)
     */
    sys.shutdown(fd, SHUT_WR);
    if (!diversion_leave(fd))
        return false;
    /* Its name stays what it was, though the port is given back; but for one that the program has asked for. */
    bind_to_any(fd, peer.address.any.sa_family);
    if (!diversion_self(&self, fd, &peer.address.any))
        return false;
    return sys.connect(fd, &self.address.any, self.length) == 0 || socket_becomes_writable(fd, OWN_HANDSHAKE_MS);
}

/* A program's own filter, which is left alone. (The kernel tells how long it is, or that it is no classic one.) */
static bool has_filter(int fd)
{
    socklen_t length = 0;
    return sys.getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, NULL, &length) != 0 || length > 0;
}

bool diversion_deafen(int fd, enum deafness deafness)
{
    /* The packet begins with its TCP header, whose length in words is in the upper half of byte 12. */
    static const struct sock_filter drop_all[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
    static const struct sock_filter drop_data[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 12), BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf0),
        BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 2), BPF_STMT(BPF_MISC | BPF_TAX, 0),
        BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_X, 0, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),  BPF_STMT(BPF_RET | BPF_K, 0),
    };
    /* And its flags are byte 13: FIN is 1, RST 4. */
    static const struct sock_filter drop_peer[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 13), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 1 | 4, 7, 0),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 12), BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf0),
        BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 2), BPF_STMT(BPF_MISC | BPF_TAX, 0),
        BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_X, 0, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),  BPF_STMT(BPF_RET | BPF_K, 0),
    };
#define PROGRAM(rules)                                                                                                 \
    {                                                                                                                  \
        .len = sizeof(rules) / sizeof *(rules), .filter = (struct sock_filter *)(uintptr_t)(rules)                     \
    }
    const struct sock_fprog programs[] = {
        [DEAF_TO_ALL] = PROGRAM(drop_all), [DEAF_TO_DATA] = PROGRAM(drop_data), [DEAF_TO_PEER] = PROGRAM(drop_peer)};
    const struct sock_fprog program = programs[deafness];
    return !has_filter(fd) && sys.setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

void diversion_undeafen(int fd)
{
    int none = 0;
    sys.setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &none, sizeof none);
}
