/*
 * circuit_kept.h - what a circuit's entry keeps for people, as it lies in shared memory. No function here.
 *
 * Written and read through outage.h and local_faults.h.
 */
#ifndef SOCKFUSE_SEGMENT_CIRCUIT_KEPT_H
#define SOCKFUSE_SEGMENT_CIRCUIT_KEPT_H

#include <stdatomic.h>
#include <stdint.h>

#include "segment/event.h"
#include "segment/stamped.h"

/* --- an outage ---------------------------------------------------------------------------------------------------- */

/* How the present one began. */
struct outage_start {
    uint64_t at_ns;                 /* circuits' clock */
    uint64_t time_ns;               /* wall clock */
    uint64_t refused;               /* calls refused before */
    uint64_t recent_kinds;          /* of the failures that led to it (breaker/recent_kinds.h) */
    uint32_t probes, probes_failed; /* before */
    uint32_t failures;              /* consecutive ones */
    uint32_t window_calls, window_failed, window_slow;
    uint32_t reason;   /* enum transition_reason */
    uint32_t injected; /* by a call that was given a fault in rehearsal */
};
_Static_assert(sizeof(struct outage_start) == 64, "the same in 32 and 64 bit");

/* The number of its stamp is the generation of the closed circuit that opened. */
struct outage_slot {
    struct stamp stamp;
    struct outage_start start;
};

/* How one attempt of a probe failed. Both words bear the serial of its lease's token: what differs is torn. */
struct probe_attempt {
    _Atomic uint64_t how;  /* serial:32 | HTTP status:16 | enum failure_kind:8 | errno:8 */
    _Atomic uint64_t took; /* serial:32 | milliseconds:32 */
};

struct outage {
    struct outage_slot slot;
    _Atomic uint32_t attempts_begun; /* which attempt's place is next */
    uint32_t reserved;
    struct probe_attempt attempts[EVENT_ATTEMPTS];
    uint64_t reserved2;
};
_Static_assert(sizeof(struct outage) == 216, "the same in 32 and 64 bit");

/* --- faults on this side ------------------------------------------------------------------------------------------ */

#define LOCAL_FAULTS 8u

struct local_fault {
    _Atomic uint64_t count;   /* taken:1 | errno:31 | how many:32; the last place also has what finds none */
    _Atomic uint64_t time_ns; /* wall clock: of the last one */
    _Atomic uint64_t mono_ns; /* circuits' clock: the same */
    _Atomic uint64_t who;     /* pid:32 | checksum of its program:32 */
    char program[PROGRAM_NAME_MAX];
};
_Static_assert(sizeof(struct local_fault) == 64, "one line each");

#endif
