/*
 * latency.h - for how long a circuit's calls have waited: since it was made, and over the last minute.
 *
 * Lies in memory that processes share, apart from the circuit, which decides nothing by it (but retries are a share of
 * its calls: retry.h). Who settles a call, or finds
 * an attempt connected, notes the wait; a busy connection measures some of its calls only, each of which then stands
 * for several. Time is an argument: the circuits' clock for when, and whatever clock the caller has for how long.
 * Wait-free, async-signal-safe, no system call. A death between two steps leaves a wait in a part of the sums alone.
 */
#ifndef SOCKFUSE_BREAKER_LATENCY_H
#define SOCKFUSE_BREAKER_LATENCY_H

#include <stdbool.h>
#include <stdint.h>

#include "breaker/histogram.h"

#define LATENCY_SAMPLES 1024u
#define LATENCY_SLOTS 8u
/* So long the circuits' clock is in one of them. */
#define LATENCY_SLOT_NS UINT64_C(10000000000)

/* What ended a wait. */
enum wait_kind {
    WAIT_IN_VAIN, /* no answer came: it failed, was given up, or nobody can say */
    WAIT_CONNECT, /* the connection */
    WAIT_ANSWER,  /* the first byte of the answer */
    WAIT_KINDS
};

/* Ten seconds of the circuits' clock; `period` makes a slot another one's when its time comes round again. */
struct latency_slot {
    _Atomic uint64_t calls;   /* period:32 | calls that ended:32 */
    _Atomic uint64_t longest; /* period:32 | longest wait in microseconds:32 */
};

struct latency {
    _Alignas(64) _Atomic uint64_t waited_us; /* of all calls together */
    _Atomic uint64_t longest_ns;
    _Atomic uint64_t looked_ns; /* circuits' clock: when the calls in flight were counted last */
    _Atomic uint32_t most;      /* calls in flight at once, of what was seen by those who counted */
    _Atomic uint32_t next;      /* the number of the next sample */
    uint64_t reserved[4];
    struct latency_slot slots[LATENCY_SLOTS];
    uint64_t reserved2[8];
    _Atomic uint32_t samples[LATENCY_SAMPLES]; /* second:18 | 1 + log2 of what it stands for:4 | bucket:10; 0: none */
    struct histogram connects, answers;
};

/* A wait that is over. */
struct wait {
    enum wait_kind kind;
    bool ends_call;      /* it was the last one of its call */
    uint32_t stands_for; /* so many calls, 0 to 2^14; 0: it was not measured */
    uint64_t waited_ns;
    uint64_t noted_ns; /* of this, what the sum has already */
};

/*
 * From this length on a wait stands for itself alone: who measures some calls only still times these well enough, and
 * none that is so long may be missed.
 */
#define LATENCY_LONG_NS UINT64_C(1000000000)

/* Notes a wait that ended at `now_ns`. Four relaxed adds at the most. */
void latency_note(struct latency *latency, const struct wait *wait, uint64_t now_ns);
/*
 * Whether it is time to count the calls in flight (every 10 ms, by one of all who settle), and what that came to. Before
 * a call is settled, for then they are most.
 */
bool latency_is_look_due(struct latency *latency, uint64_t now_ns);
void latency_note_in_flight(struct latency *latency, uint32_t calls);
/* Empties it, as histogram_reset. */
void latency_reset(struct latency *latency);

/* What a reader sees. */
struct latency_view {
    struct distribution connects, answers; /* since the circuit was made */
    uint64_t waited_us, longest_ns;
    uint32_t most_in_flight;
    /*
     * The last minute. Its waits are of calls that got what they waited for: an answer, or a connection where that is
     * enough; of many the last 1,024. Its longest one is of all calls.
     */
    struct distribution recent;
    uint64_t recent_longest_ns, recent_calls;
    uint64_t recent_span_ns; /* the time that recent_calls were counted in: 50 to 60 seconds */
};
void latency_read(const struct latency *latency, uint64_t now_ns, struct latency_view *view);

/*
 * The period of a moment, of LATENCY_SLOT_NS, as the slots bear it; never 0. And how many calls have ended in so many
 * periods, LATENCY_SLOTS - 1 at the most, with the present one.
 */
static inline uint32_t latency_period_at(uint64_t now_ns)
{
    return (uint32_t)(now_ns / LATENCY_SLOT_NS) + 1;
}
uint64_t latency_calls(const struct latency *latency, uint32_t periods, uint64_t now_ns);

/*
 * So many seconds ago the last wait ended that was measured and not in vain; up to three days are told apart. False:
 * none did. Of a busy connection's calls not all are measured.
 */
bool latency_last_seconds(const struct latency *latency, uint64_t now_ns, uint32_t *seconds);

#endif
