/*
 * evidence_model.h - how a circuit's evidence lies in its entry: see circuit_evidence.h. Sizes and offsets are the
 * segment's format.
 */
#ifndef SOCKFUSE_SEGMENT_EVIDENCE_MODEL_H
#define SOCKFUSE_SEGMENT_EVIDENCE_MODEL_H

#include <stdatomic.h>
#include <stdint.h>

#include "breaker/circuit.h"
#include "segment/event.h"

/* Values are bits of what is stored. */
enum evidence_mark {
    EVIDENCE_INJECTED = 1, /* the call was given a fault in rehearsal */
    EVIDENCE_SLOW = 2      /* a success that took longer than slow_call */
};

/* A failure that counted, or a slow call. */
struct evidence {
    uint64_t time_ns;    /* wall clock: when it was noted */
    uint64_t mono_ns;    /* the same on the circuits' clock */
    uint64_t counted_ns; /* circuits' clock: as of when it counted; of an overdue call, its limit */
    uint64_t elapsed_ns; /* how long the call had taken */
    uint32_t pid;        /* 0: unknown */
    uint32_t number;     /* which of its connection's calls it was */
    uint32_t address;    /* the lower half of its address's key; 0: unknown */
    uint32_t generation; /* the lower half of the one that the call was admitted in */
    int16_t error;       /* errno, or 0 */
    uint16_t http_status;
    uint8_t kind;    /* enum failure_kind */
    uint8_t overran; /* enum overran */
    uint8_t phase;   /* enum phase: how far the call had come */
    uint8_t marks;   /* enum evidence_mark */
    char program[PROGRAM_NAME_MAX];
};
_Static_assert(sizeof(struct evidence) == 88, "the same in 32 and 64 bit");

enum evidence_ring { EVIDENCE_CLOSED, EVIDENCE_PROBES, EVIDENCE_OBSERVED, EVIDENCE_RINGS };
#define EVIDENCE_CLOSED_SIZE 12u
#define EVIDENCE_PROBES_SIZE 4u
#define EVIDENCE_OBSERVED_SIZE 2u
#define EVIDENCE_SLOTS (EVIDENCE_CLOSED_SIZE + EVIDENCE_PROBES_SIZE + EVIDENCE_OBSERVED_SIZE)

/* An opening from closed, and by which settings. */
struct opening {
    uint64_t time_ns, mono_ns; /* when it was noted: wall clock, circuits' clock */
    uint64_t counted_ns;       /* circuits' clock: as of when it opened */
    uint64_t pause_ns;
    uint64_t window, slow_call_ns; /* struct settings has these six */
    uint32_t failure_threshold, minimum_calls, failure_rate_permille, slow_call_rate_permille;
    uint32_t failures; /* consecutive ones */
    uint32_t window_calls, window_failed, window_slow;
    uint32_t pid, generation; /* the lower half of the one that ended by it */
    uint8_t reason;           /* enum transition_reason */
    uint8_t injected;
    uint8_t reserved[6];
    char program[PROGRAM_NAME_MAX];
};
_Static_assert(sizeof(struct opening) == 128, "the same in 32 and 64 bit");

/* Stamp: 0 while it is written, else a serial number of the circuit's; the checksum tells a torn one. */
struct evidence_slot {
    _Atomic uint32_t stamp, checksum;
    struct evidence evidence;
};
struct opening_slot {
    _Atomic uint32_t stamp, checksum;
    struct opening opening;
};

/* An address by its key, which is the hash of all the rest: what does not fit it is not believed. */
struct address_text {
    _Atomic uint64_t key;
    _Atomic uint64_t halves[2];
    _Atomic uint32_t port; /* family:8 | port:16 */
    _Atomic uint32_t scope;
};

struct circuit_evidence {
    _Atomic uint32_t begun[EVIDENCE_RINGS]; /* how many slots of each ring were begun */
    _Atomic uint32_t openings_begun;
    struct evidence_slot slots[EVIDENCE_SLOTS];
    struct opening_slot openings[2];
    struct address_text addresses[CIRCUIT_ADDRESSES];
    uint64_t reserved[4];
};
_Static_assert(sizeof(struct circuit_evidence) == 2304, "pinned");

#endif
