/*
 * judge.h - what the kernel's counters of a TCP socket say of its call, seen from outside.
 *
 * Nothing is intercepted between connect and close: what was asked and answered is read off struct tcp_info, of a
 * socket that stands or of one that has just died. Pure; knows no socket and no clock. Private to src/notify.
 */
#ifndef SOCKFUSE_NOTIFY_JUDGE_H
#define SOCKFUSE_NOTIFY_JUDGE_H

#include <stdbool.h>
#include <stdint.h>

#include "breaker/outcome.h"

/* What sock_diag says of a socket. Times are ages: how long ago, in milliseconds, by ticks of the kernel. */
struct socket_facts {
    uint8_t state;        /* TCP_ESTABLISHED... */
    uint16_t port, peer;  /* 0: there is none (any more) */
    uint64_t bytes_acked; /* of ours, SYN and FIN too */
    uint64_t bytes_sent, bytes_retrans;
    uint64_t bytes_received; /* the peer's FIN too */
    uint32_t segs_in, data_segs_in, retransmits;
    uint32_t send_window, min_rtt_us, rtt_us;
    uint32_t last_sent_ms, last_received_ms;
};

/* What was asked: what was sent, once. */
static inline uint64_t facts_sent(const struct socket_facts *facts)
{
    return facts->bytes_sent > facts->bytes_retrans ? facts->bytes_sent - facts->bytes_retrans : 0;
}

/* What is known of the call beside. */
struct story {
    bool was_connected;
    bool has_facts;
    bool program_ended_first; /* at the program's last close its peer had not ended */
    bool peer_ended_first;
    bool pauses;              /* TIME_WAIT was found: the program's end went first */
    uint64_t age_ns;          /* since connect began, to its end as far as known */
    uint64_t asked, received; /* the socket's counters when its last call was settled */
    uint32_t data_segs;
};

struct judged {
    enum phase phase; /* how far it came; PHASE_ANSWERED: bytes of an answer came, whatever ended it */
    bool ended;       /* `seen` and `error` say how, as struct observation has them */
    enum seen seen;
    int error;
    bool unknown; /* it ended, and nobody can say how */
};

/* Whether more was asked, or came, than its last call had. */
bool judge_has_asked(const struct socket_facts *facts, const struct story *story);
bool judge_has_answer(const struct socket_facts *facts, const struct story *story);
/* Of a socket that stands. */
struct judged judge_standing(const struct socket_facts *facts, const struct story *story);
/* Of one that the program has closed, and that is gone. */
struct judged judge_gone(const struct socket_facts *facts, const struct story *story);
/* Why a pending connect failed whose SO_ERROR is being asked for; 0: it has not failed. */
int judge_connect_error(const struct socket_facts *facts, uint64_t age_ns);

#endif
