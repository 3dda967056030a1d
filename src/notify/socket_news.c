/*
 * socket_news.c - inotify and sock_diag. See socket_news.h.
 */
#define _GNU_SOURCE
#include "notify/socket_news.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <stddef.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/text.h"

#define PART_BYTES 32768u
/* A loaded host's deaths may come faster than they are read; what is lost is asked for instead. */
#define DEATHS_BYTES (4 << 20)
/* Connecting, connected, and on the way to an end. */
#define STATES_STANDING (1u << 1 | 1u << 2 | 1u << 4 | 1u << 5 | 1u << 8 | 1u << 9 | 1u << 11)
#define NO_COOKIE UINT64_MAX
/* A listing of more messages than this is left. */
#define LIST_PARTS 256u

static char part[PART_BYTES] __attribute__((aligned(8)));

static int open_diag(int flags)
{
    return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | flags, NETLINK_SOCK_DIAG);
}

static bool join_deaths(int fd)
{
    static const int groups[] = {SKNLGRP_INET_TCP_DESTROY, SKNLGRP_INET6_TCP_DESTROY};
    const int size = DEATHS_BYTES;
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) != 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    const struct sockaddr_nl self = {.nl_family = AF_NETLINK};
    if (bind(fd, (const struct sockaddr *)&self, sizeof self) != 0)
        return false;
    return setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &groups[0], sizeof groups[0]) == 0 &&
           setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &groups[1], sizeof groups[1]) == 0;
}

/* Whether TCP's sockets can be asked about at all: a question that none can answer is refused otherwise than unknown. */
static bool has_tcp(const struct socket_news *news)
{
    const struct socket_tuple nobody = {.family = AF_INET, .port = htons(1), .peer = htons(1)};
    struct socket_facts facts;
    errno = 0;
    return socket_news_ask(news, &nobody, 0, &facts) || errno == ENOENT;
}

bool socket_news_open(struct socket_news *news, const char **what)
{
    *news = (struct socket_news){.closes = inotify_init1(IN_NONBLOCK | IN_CLOEXEC), .deaths = -1, .question = -1};
    *what = "inotify";
    if (news->closes < 0)
        return false;
    *what = "sock_diag";
    news->deaths = open_diag(SOCK_NONBLOCK);
    news->question = open_diag(0);
    if (news->deaths < 0 || news->question < 0 || !join_deaths(news->deaths))
        return false;
    *what = "tcp_diag";
    return has_tcp(news);
}

int socket_news_watch(const struct socket_news *news, int fd)
{
    char path[40];
    struct text text;
    text_start(&text, path, sizeof path);
    text_add(&text, "/proc/self/fd/");
    text_add_unsigned(&text, (uint64_t)fd);
    return inotify_add_watch(news->closes, path, IN_CLOSE | IN_ONESHOT);
}

void socket_news_unwatch(const struct socket_news *news, int watch)
{
    (void)inotify_rm_watch(news->closes, watch);
}

/* --- reading -------------------------------------------------------------------------------------------------------*/

static void read_info(const void *bytes, size_t size, struct socket_facts *facts)
{
    struct tcp_info info = {0};
    memcpy(&info, bytes, size < sizeof info ? size : sizeof info);
    facts->bytes_acked = info.tcpi_bytes_acked;
    facts->bytes_sent = info.tcpi_bytes_sent;
    facts->bytes_retrans = info.tcpi_bytes_retrans;
    facts->bytes_received = info.tcpi_bytes_received;
    facts->segs_in = info.tcpi_segs_in;
    facts->data_segs_in = info.tcpi_data_segs_in;
    facts->retransmits = info.tcpi_total_retrans;
    facts->send_window = info.tcpi_snd_wnd;
    facts->min_rtt_us = info.tcpi_min_rtt;
    facts->rtt_us = info.tcpi_rtt;
    facts->last_sent_ms = info.tcpi_last_data_sent;
    facts->last_received_ms = info.tcpi_last_data_recv;
}

static bool read_message(const struct nlmsghdr *header, uint64_t *cookie, struct socket_tuple *tuple,
                         struct socket_facts *facts)
{
    const struct inet_diag_msg *message = NLMSG_DATA(header);
    if (header->nlmsg_type != SOCK_DIAG_BY_FAMILY || header->nlmsg_len < NLMSG_LENGTH(sizeof *message))
        return false;
    *cookie = (uint64_t)message->id.idiag_cookie[1] << 32 | message->id.idiag_cookie[0];
    *tuple = (struct socket_tuple){
        .family = message->idiag_family, .port = message->id.idiag_sport, .peer = message->id.idiag_dport};
    memcpy(tuple->from, message->id.idiag_src, sizeof tuple->from);
    memcpy(tuple->to, message->id.idiag_dst, sizeof tuple->to);
    *facts = (struct socket_facts){.state = message->idiag_state,
                                   .port = ntohs(message->id.idiag_sport),
                                   .peer = ntohs(message->id.idiag_dport),
                                   .min_rtt_us = UINT32_MAX};
    unsigned int length = (unsigned int)(header->nlmsg_len - NLMSG_LENGTH(sizeof *message));
    for (const struct rtattr *at = (const void *)(message + 1); RTA_OK(at, length); at = RTA_NEXT(at, length))
        if (at->rta_type == INET_DIAG_INFO)
            read_info(RTA_DATA(at), RTA_PAYLOAD(at), facts);
    return true;
}

static bool take_closes(const struct socket_news *news, const struct socket_listener *listener)
{
    const ssize_t length = read(news->closes, part, sizeof part);
    for (ssize_t at = 0; at + (ssize_t)sizeof(struct inotify_event) <= length;) {
        const struct inotify_event *event = (const void *)(part + at);
        if (event->mask & IN_CLOSE)
            listener->closed(event->wd, listener->context);
        at += (ssize_t)(sizeof *event + event->len);
    }
    return length > (ssize_t)(sizeof part / 2);
}

static bool take_deaths(const struct socket_news *news, const struct socket_listener *listener)
{
    for (unsigned int messages = 0; messages < 64; messages++) {
        const ssize_t length = recv(news->deaths, part, sizeof part, 0);
        if (length < 0 && errno == ENOBUFS)
            continue; /* some are lost, whose sockets are judged without */
        if (length <= 0)
            return false;
        unsigned int left = (unsigned int)length;
        for (const struct nlmsghdr *at = (const void *)part; NLMSG_OK(at, left); at = NLMSG_NEXT(at, left)) {
            uint64_t cookie;
            struct socket_tuple tuple;
            struct socket_facts facts;
            if (read_message(at, &cookie, &tuple, &facts))
                listener->died(cookie, &tuple, &facts, listener->context);
        }
    }
    return true;
}

bool socket_news_take(const struct socket_news *news, const struct socket_listener *listener)
{
    const bool more = take_closes(news, listener);
    return take_deaths(news, listener) || more;
}

/* --- asking ------------------------------------------------------------------------------------------------------- */

struct question {
    struct nlmsghdr header;
    struct inet_diag_req_v2 wanted;
    struct rtattr attribute;
    struct inet_diag_bc_op test;
    struct inet_diag_hostcond peer;
};

static bool send_question(const struct socket_news *news, struct question *question, size_t length)
{
    const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    question->header.nlmsg_len = (uint32_t)length;
    question->header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
    question->wanted.sdiag_protocol = IPPROTO_TCP;
    question->wanted.idiag_ext = 1u << (INET_DIAG_INFO - 1);
    return sendto(news->question, question, length, 0, (const struct sockaddr *)&kernel, sizeof kernel) ==
           (ssize_t)length;
}

bool socket_news_ask(const struct socket_news *news, const struct socket_tuple *tuple, uint64_t cookie,
                     struct socket_facts *facts)
{
    static char answer[4096] __attribute__((aligned(8)));
    const uint64_t wanted = cookie ? cookie : NO_COOKIE;
    struct socket_tuple its;
    struct question question = {
        .header.nlmsg_flags = NLM_F_REQUEST,
        .wanted = {.sdiag_family = tuple->family,
                   .idiag_states = UINT32_MAX,
                   .id = {.idiag_sport = tuple->port,
                          .idiag_dport = tuple->peer,
                          .idiag_cookie = {(uint32_t)wanted, (uint32_t)(wanted >> 32)}}},
    };
    memcpy(question.wanted.id.idiag_src, tuple->from, sizeof tuple->from);
    memcpy(question.wanted.id.idiag_dst, tuple->to, sizeof tuple->to);
    if (!send_question(news, &question, offsetof(struct question, attribute)))
        return false;
    /* The kernel answers while it is asked: there is nothing to wait for. */
    const ssize_t length = recv(news->question, answer, sizeof answer, MSG_DONTWAIT);
    const struct nlmsghdr *header = (const void *)answer;
    if (length < (ssize_t)sizeof *header || header->nlmsg_len > (size_t)length)
        return false;
    if (header->nlmsg_type == NLMSG_ERROR && length >= (ssize_t)NLMSG_LENGTH(sizeof(struct nlmsgerr)))
        errno = -((const struct nlmsgerr *)NLMSG_DATA(header))->error;
    return read_message(header, &cookie, &its, facts);
}

/* One end: its port, and its address into `address`. */
static uint16_t read_end(const struct sockaddr_storage *end, uint8_t address[16])
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    if (end->ss_family == AF_INET) {
        memcpy(&v4, end, sizeof v4);
        memcpy(address, &v4.sin_addr, sizeof v4.sin_addr);
        return v4.sin_port;
    }
    memcpy(&v6, end, sizeof v6);
    memcpy(address, &v6.sin6_addr, sizeof v6.sin6_addr);
    return v6.sin6_port;
}

bool socket_news_read(int fd, struct socket_tuple *tuple, struct socket_facts *facts)
{
    struct tcp_info info = {0};
    struct sockaddr_storage here = {0}, there = {0};
    socklen_t size = sizeof info, here_size = sizeof here, there_size = sizeof there;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
        getsockname(fd, (struct sockaddr *)&here, &here_size) != 0)
        return false;
    const bool has_peer = getpeername(fd, (struct sockaddr *)&there, &there_size) == 0;
    *tuple = (struct socket_tuple){.family = (uint8_t)here.ss_family};
    tuple->port = read_end(&here, tuple->from);
    if (has_peer)
        tuple->peer = read_end(&there, tuple->to);
    *facts = (struct socket_facts){.state = info.tcpi_state, .port = ntohs(tuple->port), .peer = ntohs(tuple->peer)};
    read_info(&info, size, facts);
    return true;
}

/* One part of a listing. False: it was the last. */
static bool read_part(const struct socket_news *news, socket_found_fn *found, void *context)
{
    const ssize_t length = recv(news->question, part, sizeof part, MSG_DONTWAIT);
    if (length <= 0)
        return false;
    unsigned int left = (unsigned int)length;
    for (const struct nlmsghdr *at = (const void *)part; NLMSG_OK(at, left); at = NLMSG_NEXT(at, left)) {
        uint64_t cookie;
        struct socket_tuple tuple;
        struct socket_facts facts;
        if (at->nlmsg_type == NLMSG_DONE || at->nlmsg_type == NLMSG_ERROR)
            return false;
        if (read_message(at, &cookie, &tuple, &facts))
            found(cookie, &tuple, &facts, context);
    }
    return true;
}

void socket_news_list(const struct socket_news *news, uint8_t family, uint16_t peer, socket_found_fn *found,
                      void *context)
{
    const uint16_t size = sizeof(struct inet_diag_bc_op) + sizeof(struct inet_diag_hostcond);
    struct question question = {
        .header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
        .wanted = {.sdiag_family = family, .idiag_states = STATES_STANDING},
        .attribute = {.rta_len = RTA_LENGTH(size), .rta_type = INET_DIAG_REQ_BYTECODE},
        .test = {.code = INET_DIAG_BC_D_COND, .yes = (uint8_t)size, .no = (uint16_t)(size + 4)},
        .peer = {.family = AF_UNSPEC, .port = ntohs(peer)},
    };
    if (!send_question(news, &question, offsetof(struct question, peer) + sizeof question.peer))
        return;
    for (unsigned int parts = 0; parts < LIST_PARTS && read_part(news, found, context); parts++) {
    }
    /* What was left of it is not to be taken for the answer to the next question. */
    while (recv(news->question, part, sizeof part, MSG_DONTWAIT) > 0) {
    }
}
