/*
 * peers.c - operations of a play: what the other side does, past the library. See player.h.
 */
#define _GNU_SOURCE
#include <sys/ioctl.h>
#include <unistd.h>

#include "player.h"

#define PEER_SENDS 48000u /* less than any socket's buffer, for the calling side may not read */

static int any_peer(void)
{
    player.by_number = false;
    player.fd = ONE_OF(player.peers);
    return player.fd;
}

static void peer_sends(void)
{
    unsigned int at = chance(PEERS);
    size_t count = any_bytes();
    player.fd = player.peers[at];
    int flags = once_in(15) && !is_local(player.fd) ? MSG_OOB : 0;
    player.by_number = false;
    if (player.fd < 0 || player.peer_sent[at] + count > PEER_SENDS)
        return;
    long result = CALL(bare.send(player.fd, player.bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT | flags));
    player.peer_sent[at] += (unsigned int)count;
    told("peer sends", result, "%zu, %x", count, (unsigned int)flags);
}

static void peer_receives(void)
{
    int fd = any_peer();
    long result = CALL(bare.recv(fd, player.bytes, once_in(3) ? 10 : ROOM, MSG_DONTWAIT));
    told("peer receives", result, "%s", digest(player.bytes, sizeof player.bytes));
}

/* An echo, if it is not too long. */
static void peer_answers(void)
{
    unsigned int at = chance(PEERS);
    player.fd = player.peers[at];
    player.by_number = false;
    long got = CALL(bare.recv(player.fd, player.bytes, ROOM, MSG_DONTWAIT)), sent = 0;
    if (got > 0 && player.peer_sent[at] + (size_t)got <= PEER_SENDS) {
        sent = CALL(bare.send(player.fd, player.bytes, (size_t)got, MSG_NOSIGNAL | MSG_DONTWAIT));
        player.peer_sent[at] += (unsigned int)got;
    }
    told("peer answers", got, "sent %ld", sent);
}

static void datagrams_answer(void)
{
    struct sockaddr_storage from;
    socklen_t length = sizeof from;
    long got, sent = -1;
    player.fd = player.places[PLACE_DATAGRAM].fd;
    player.by_number = false;
    while ((got = CALL(recvfrom(player.fd, player.bytes, ROOM, MSG_DONTWAIT, (struct sockaddr *)&from, &length))) >=
           0) {
        if (once_in(2))
            sent = CALL(sendto(player.fd, player.bytes, (size_t)got, MSG_DONTWAIT, (struct sockaddr *)&from, length));
        told("datagram", got, "from %s, sent %ld", address_text(&from, length), sent);
        length = sizeof from;
    }
}

static void peer_shuts(void)
{
    int fd = any_peer(), how = once_in(3) ? SHUT_RDWR : once_in(4) ? SHUT_RD : SHUT_WR;
    long result = CALL(shutdown(fd, how));
    told("peer shuts", result, "%d", how);
}

static void peer_closes(void)
{
    unsigned int at = chance(PEERS);
    struct linger linger = {.l_onoff = 1};
    player.fd = player.peers[at];
    player.by_number = false;
    bool resets = once_in(3);
    if (player.fd < 0)
        return;
    player.peers[at] = -1;
    if (resets)
        setsockopt(player.fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    long result = CALL(bare.close(player.fd));
    told(resets ? "peer resets" : "peer closes", result, "%s", "");
}

const struct operation peers[] = {
    {"peer sends", 16, peer_sends},
    {"peer receives", 3, peer_receives},
    {"peer answers", 8, peer_answers},
    {"datagrams answer", 3, datagrams_answer},
    {"peer shuts", 2, peer_shuts},
    {"peer closes", 3, peer_closes},
    {NULL, 0, NULL},
};
