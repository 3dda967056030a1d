/*
 * web_flow.c - those who follow the journals over HTTP. See web_flow.h.
 */
#ifdef SOCKFUSE_HTTPD
#define _GNU_SOURCE
#include "agent/web_flow.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/web_library.h"
#include "agent/web_stream.h"
#include "view/output.h"

#define FLOWS_MAX 64u
#define FLOW_PIECE 4096u

/* Who asks: a user, or the network of an address. */
struct peer {
    sa_family_t family;
    uint64_t number;
};

struct flow {
    struct MHD_Connection *connection;
    struct web_reader reader;
    struct peer peer;
    bool is_aside, is_dropped;
    struct flow *next;
};

static struct {
    struct flow *first; /* the youngest */
    unsigned int count; /* without those that were dropped */
    bool is_ending;
} flows;

/* --- whose -------------------------------------------------------------------------------------------------------- */

static int descriptor_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = httpd.MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info != NULL ? info->connect_fd : -1;
}

static struct peer peer_of(struct MHD_Connection *connection)
{
    const int fd = descriptor_of(connection);
    union {
        struct sockaddr any;
        struct sockaddr_in ipv4;
        struct sockaddr_in6 ipv6;
        struct sockaddr_storage room;
    } address = {.any.sa_family = AF_UNSPEC};
    socklen_t length = sizeof address;
    struct peer peer = {.family = AF_UNSPEC};
    if (getpeername(fd, &address.any, &length) != 0)
        return peer;
    peer.family = address.any.sa_family;
    if (peer.family == AF_UNIX) {
        struct ucred user = {.uid = (uid_t)-1};
        length = sizeof user;
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &length);
        peer.number = user.uid;
    } else if (peer.family == AF_INET) {
        peer.number = address.ipv4.sin_addr.s_addr;
    } else if (peer.family == AF_INET6) {
        memcpy(&peer.number, &address.ipv6.sin6_addr, sizeof peer.number); /* whoever has one address has a /64 */
    }
    return peer;
}

static bool is_same(const struct peer *a, const struct peer *b)
{
    return a->family == b->family && a->number == b->number;
}

static unsigned int places_of(const struct peer *peer)
{
    unsigned int places = 0;
    for (const struct flow *flow = flows.first; flow != NULL; flow = flow->next)
        places += !flow->is_dropped && is_same(&flow->peer, peer);
    return places;
}

/* --- one that comes, takes and goes ------------------------------------------------------------------------------- */

static void go_on(struct flow *flow)
{
    if (!flow->is_aside)
        return;
    flow->is_aside = false;
    httpd.MHD_resume_connection(flow->connection);
}

/* Shut down, not closed: the descriptor is libmicrohttpd's, which sees an end, also of who takes nothing. */
static void drop(struct flow *flow)
{
    flow->is_dropped = true;
    flows.count--;
    shutdown(descriptor_of(flow->connection), SHUT_RDWR);
    go_on(flow);
}

/* The oldest of who has most. */
static void make_place(void)
{
    struct flow *which = NULL;
    unsigned int most = 0;
    for (struct flow *flow = flows.first; flow != NULL; flow = flow->next) {
        const unsigned int places = flow->is_dropped ? 0 : places_of(&flow->peer);
        if (places != 0 && places >= most) {
            most = places;
            which = flow;
        }
    }
    if (which != NULL)
        drop(which);
}

static ssize_t flow_read(void *context, uint64_t position, char *bytes, size_t size)
{
    struct flow *flow = context;
    (void)position;
    if (flows.is_ending || flow->is_dropped)
        return MHD_CONTENT_READER_END_OF_STREAM;
    const size_t taken = web_reader_take(&flow->reader, bytes, size);
    if (taken > 0)
        return (ssize_t)taken;
    flow->is_aside = true;
    httpd.MHD_suspend_connection(flow->connection);
    return 0;
}

static void flow_free(void *context)
{
    struct flow *flow = context, **at = &flows.first;
    while (*at != flow)
        at = &(*at)->next;
    *at = flow->next;
    flows.count -= !flow->is_dropped;
    web_reader_end(&flow->reader);
    free(flow);
}

struct MHD_Response *web_flow_begin(struct MHD_Connection *connection, const char *last_id)
{
    if (flows.count >= FLOWS_MAX)
        make_place();
    struct flow *flow = allocate(1, sizeof *flow);
    *flow = (struct flow){.connection = connection, .peer = peer_of(connection), .next = flows.first};
    web_reader_start(&flow->reader, last_id);
    flows.first = flow;
    flows.count++;
    struct MHD_Response *response =
        httpd.MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, FLOW_PIECE, flow_read, flow, flow_free);
    if (response == NULL)
        flow_free(flow);
    return response;
}

bool web_flow_go_on(bool is_beat)
{
    bool any = false;
    for (struct flow *flow = flows.first; flow != NULL; flow = flow->next) {
        flow->reader.is_to_be_kept = is_beat || flow->reader.is_to_be_kept;
        any = any || flow->is_aside;
        go_on(flow);
    }
    return any;
}

void web_flow_set_ending(bool is_ending)
{
    flows.is_ending = is_ending;
}

#else
typedef int no_flow_without_libmicrohttpd;
#endif
