/*
 * judge.c - from a socket's counters to what was seen. See judge.h.
 *
 * tcp_info's bytes_acked counts SYN and FIN, bytes_received the peer's FIN, and bytes_sent what was sent again.
 */
#include "notify/judge.h"

#include <errno.h>
#include <netinet/tcp.h>

#include "base/units.h"

#define MIN_RTT_NONE UINT32_MAX /* no answer was ever timed */
/* A connect that failed says no more why: a refusal comes at once, an ICMP message within a neighbour's patience. */
#define REFUSAL_NS (900 * NS_PER_MS)
#define UNREACHABLE_NS (20 * NS_PER_S)

static bool is_connected_state(uint8_t state)
{
    return state != TCP_SYN_SENT && state != TCP_CLOSE && state != TCP_LISTEN && state != 0;
}

/* The kernel has cleared the socket: a blocking connect failed, or it was closed with SO_LINGER 0. */
static bool is_cleared(const struct socket_facts *facts)
{
    return facts->peer == 0 && facts->bytes_acked == 0 && facts->bytes_sent == 0;
}

static bool was_connected(const struct socket_facts *facts, const struct story *story)
{
    if (story->was_connected || is_connected_state(facts->state) || facts->bytes_acked > 0)
        return true;
    return is_cleared(facts) && (facts->send_window > 0 || facts->min_rtt_us != MIN_RTT_NONE);
}

bool judge_has_asked(const struct socket_facts *facts, const struct story *story)
{
    return facts_sent(facts) > story->asked;
}

/* A FIN is a byte and no data; a segment that came twice is data and no byte. */
bool judge_has_answer(const struct socket_facts *facts, const struct story *story)
{
    return facts->data_segs_in > story->data_segs && facts->bytes_received > story->received;
}

static struct judged ended(enum phase phase, enum seen seen, int error)
{
    return (struct judged){.phase = phase, .ended = true, .seen = seen, .error = error};
}

static int error_by_age(uint64_t age_ns)
{
    return age_ns < REFUSAL_NS ? ECONNREFUSED : age_ns < UNREACHABLE_NS ? EHOSTUNREACH : ETIMEDOUT;
}

struct judged judge_standing(const struct socket_facts *facts, const struct story *story)
{
    if (!was_connected(facts, story))
        return (struct judged){.phase = PHASE_CONNECTING};
    if (judge_has_answer(facts, story))
        return ended(PHASE_ANSWERED, SEEN_BYTES, 0);
    return (struct judged){.phase = judge_has_asked(facts, story) ? PHASE_REQUESTED : PHASE_CONNECTED};
}

/* The times are left: they are as old as the machine where nothing was sent, or came. */
static struct judged judge_cleared(const struct socket_facts *facts, const struct story *story)
{
    const uint64_t age_ms = story->age_ns / NS_PER_MS + 4; /* a tick */
    if (!was_connected(facts, story))
        return ended(PHASE_CONNECTING, SEEN_ERROR, error_by_age(story->age_ns));
    if (facts->last_received_ms <= age_ms)
        return ended(PHASE_ANSWERED, SEEN_BYTES, 0);
    return ended(facts->last_sent_ms <= age_ms ? PHASE_REQUESTED : PHASE_CONNECTED, SEEN_GAVE_UP, 0);
}

/* Connected, and no answer came: by whom was it ended? */
static struct judged judge_unanswered(const struct socket_facts *facts, const struct story *story)
{
    const enum phase phase = judge_has_asked(facts, story) ? PHASE_REQUESTED : PHASE_CONNECTED;
    if (story->peer_ended_first)
        return ended(phase, SEEN_END, 0);
    if (story->program_ended_first || story->pauses)
        return ended(phase, SEEN_GAVE_UP, 0);
    /* Our own end was taken and nothing pauses: the peer's end had come before. */
    if (facts->bytes_acked >= facts_sent(facts) + 2)
        return ended(phase, SEEN_END, 0);
    return ended(phase, SEEN_ERROR, ECONNRESET);
}

struct judged judge_gone(const struct socket_facts *facts, const struct story *story)
{
    if (!story->has_facts)
        return (struct judged){
            .phase = story->was_connected ? PHASE_CONNECTED : PHASE_CONNECTING, .ended = true, .unknown = true};
    if (facts->port == 0 && facts->peer == 0 && !story->was_connected && !was_connected(facts, story))
        return ended(PHASE_CONNECTING, SEEN_ERROR, EADDRNOTAVAIL); /* it never left this host */
    if (is_cleared(facts))
        return judge_cleared(facts, story);
    if (!was_connected(facts, story))
        return facts->segs_in > 0 ? ended(PHASE_CONNECTING, SEEN_ERROR, ECONNREFUSED)
                                  : ended(PHASE_CONNECTING, SEEN_GAVE_UP, 0);
    if (judge_has_answer(facts, story))
        return ended(PHASE_ANSWERED, SEEN_BYTES, 0);
    return judge_unanswered(facts, story);
}

int judge_connect_error(const struct socket_facts *facts, uint64_t age_ns)
{
    if (facts->state != TCP_CLOSE)
        return 0;
    if (facts->bytes_acked > 0) /* reset right after the handshake */
        return ECONNRESET;
    if (facts->segs_in > 0)
        return ECONNREFUSED;
    return age_ns < UNREACHABLE_NS ? EHOSTUNREACH : ETIMEDOUT;
}
