/*
 * circuit_model.h - a circuit's memory, and who asks it.
 *
 * What lies in shared memory for one destination: the word that decides, the leases of its probes, its addresses, its
 * counters and its window. The rules that go by it are in circuit.h, window.h and, for src/breaker alone, word.h,
 * lease.h and backoff.h. Sizes and offsets are the segment's format.
 */
#ifndef SOCKFUSE_BREAKER_CIRCUIT_MODEL_H
#define SOCKFUSE_BREAKER_CIRCUIT_MODEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "breaker/counters.h"
#include "breaker/settings.h"

enum circuit_state { CIRCUIT_CLOSED = 0, CIRCUIT_OPEN = 1, CIRCUIT_HALF_OPEN = 2 };

/* Addresses of one destination that are remembered; a bit each in an address mask. */
#define CIRCUIT_ADDRESSES 8u
#define ADDRESS_NONE (-1)

/*
 * A probe's lease. `token` is holder:32 | serial:32 and zero when free: one CAS claims the slot and says for whom. The
 * other fields count only while the slot's bit stands in the circuit's word. `attempts` carries the token's serial, so
 * that a straggler of an earlier lease can't write into a later one.
 */
struct lease {
    _Atomic uint64_t token;
    _Atomic uint64_t deadline_ns;
    _Atomic uint64_t attempts;   /* serial:32 | decided:1, unused:7 | failed:8 | tried:8 | expected:8 */
    _Atomic uint64_t timeout_ns; /* how far ahead the deadline lay when it was set */
};

/* One address of a destination: `key` is a hash of it, zero when free; the sequences order failures and answers. */
struct circuit_address {
    _Atomic uint64_t key;
    _Atomic uint64_t failed_sequence;
    _Atomic uint64_t answered_sequence;
    uint64_t reserved;
};

/* What an outcome is to the rates. */
enum window_class { WINDOW_SUCCEEDED, WINDOW_FAILED, WINDOW_SLOW /* and succeeded */, WINDOW_CLASSES };

/* A window's buckets are 1/32 to 1/16 of it, so this many are never too few. */
#define WINDOW_BUCKETS 32u
/* 16 outcomes each: enough for WINDOW_CALLS_MAX behind one that has just begun. */
#define WINDOW_CHUNKS 64u

/* See window.h. */
struct window {
    /* Of a duration. Read by every call, written once in a generation. generation:27 | shift:5 | offset:32 */
    _Alignas(64) _Atomic uint64_t epoch;
    /* Of `N calls`: generation:32 | number of the present chunk:32 */
    _Alignas(64) _Atomic uint64_t head;
    _Alignas(64) _Atomic uint64_t chunks[WINDOW_CHUNKS]; /* number:32 | 16 outcomes of 2 bits, the oldest lowest */
    /* tick:32 | count:32. Whoever counts chooses a shard of his own, and leaves the other classes' words alone. */
    _Alignas(64) _Atomic uint64_t buckets[COUNTER_SHARDS][WINDOW_CLASSES][WINDOW_BUCKETS];
};

/* What a window holds. */
struct window_counts {
    uint64_t calls; /* completed */
    uint64_t failed, slow;
};

struct circuit {
    _Alignas(64) _Atomic uint64_t word;
    _Alignas(64) _Atomic uint64_t serial; /* source of generations, tokens and sequences; decides nothing */
    _Atomic uint64_t state_since_ns;      /* when the last transition was; for observers */
    _Atomic uint64_t pause_ns;            /* the present pause with its jitter */
    _Atomic uint64_t not_before_ns;       /* no opening ends before: see circuit_hold_open */
    _Atomic uint64_t overrun_generation;  /* of the probes whose deadline opened it last; 0: something else did */
    _Atomic uint64_t recent_kinds;        /* of the last failures that counted while it was closed (recent_kinds.h) */
    _Alignas(64) struct lease leases[CIRCUIT_LEASES];
    _Alignas(64) struct circuit_address addresses[CIRCUIT_ADDRESSES];
    struct counters counters;
    struct window window;
};

/* Processes of another word size share it. */
_Static_assert(sizeof(struct lease) == 32 && sizeof(struct circuit_address) == 32, "pinned");
_Static_assert(offsetof(struct lease, deadline_ns) == 8 && offsetof(struct lease, attempts) == 16, "pinned");
_Static_assert(offsetof(struct circuit, word) == 0 && offsetof(struct circuit, serial) == 64, "pinned");
_Static_assert(offsetof(struct circuit, pause_ns) == 80 && offsetof(struct circuit, not_before_ns) == 88, "pinned");
_Static_assert(offsetof(struct circuit, recent_kinds) == 104, "pinned");
_Static_assert(offsetof(struct circuit, leases) == 128 && offsetof(struct circuit, addresses) == 384, "pinned");
_Static_assert(offsetof(struct circuit, counters) == 640 && sizeof(struct counters) == 4096, "pinned");
_Static_assert(offsetof(struct circuit, window) == 4736, "pinned");

/*
 * Whether the process that `holder` names still lives. May make system calls: it is asked only about the leases of a
 * half-open circuit that other processes hold (and, when all slots are taken, about who left one behind).
 */
typedef bool holder_alive_fn(uint32_t holder, void *context);

/* Who asks. */
struct caller {
    uint32_t holder;        /* the process's identity, never 0 */
    unsigned int shard;     /* which shard of the counters: the CPU's number, say */
    int address;            /* index of the address to be tried (circuit_address_index), or ADDRESS_NONE */
    uint32_t addresses;     /* mask of the addresses that the destination has, as far as the caller knows; may be 0 */
    holder_alive_fn *alive; /* NULL: everybody lives */
    void *context;
    /*
     * Where a probe's token is written before its lease can stand, so that whoever finds what the caller left, jumping
     * out of circuit_admit, gives the permit back by it. NULL: nowhere.
     */
    _Atomic uint64_t *token;
    bool unprobed;      /* it must not begin a probe: an open circuit stays so, whatever its pause says */
    bool never_probes;  /* a circuit that is not closed refuses it, whatever is due */
    bool counts_itself; /* it counts COUNT_ADMITTED, beside the step that makes the call known */
};

#endif
