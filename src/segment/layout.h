/*
 * layout.h - what stands where in a segment's file.
 *
 * Fixed-width fields and pinned offsets, so that 32- and 64-bit programs share it; everything that can change under a
 * reader is atomic, or is copied by shared.h. Private to src/segment and src/guard; others go through segment.h,
 * circuits.h, calls.h, journal.h and processes.h.
 */
#ifndef SOCKFUSE_SEGMENT_LAYOUT_H
#define SOCKFUSE_SEGMENT_LAYOUT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "breaker/circuit.h"
#include "breaker/latency.h"
#include "breaker/retry.h"
#include "policy/capacity.h"
#include "segment/circuit_kept.h"
#include "segment/event.h"
#include "segment/evidence_model.h"
#include "segment/fleet_order_model.h"
#include "segment/fleet_shown.h"
#include "segment/learnt.h"
#include "segment/process_alive.h"
#include "segment/segment_model.h"

#define SEGMENT_MAGIC UINT64_C(0x31657375666b6373) /* "sckfuse1", little endian */
#define SEGMENT_VERSION 5u
#define SEGMENT_IDENTITY_MAX 4096u
#define SEGMENT_BASE_GRAIN 65536u /* the base's size is a multiple: what lies behind it can be mapped by itself */
#define BOOT_ID_SIZE 40u
#define REHEARSALS 4u  /* runs whose attempts are numbered at a time */
#define EDITIONS 8u    /* policies in force whose texts are kept at a time */
#define CALL_GROUP 64u /* records that have one due word together */

/* An event by its number in the journal. */
struct event_slot {
    struct stamp stamp;
    struct event event;
};
_Static_assert(sizeof(struct event_slot) == 576, "pinned");

/* Who refuses has a note of his own: of a crowd at the bulkhead one hears also while the circuit is open. */
enum refusal_note { REFUSAL_NOTE_OPEN = 1, REFUSAL_NOTE_CROWD = 2, REFUSAL_NOTE_FORCED = 4, REFUSAL_NOTE_FLEET = 8 };

/* A place in the circuits' table. `hash` claims it; `ready` says that the texts stand. */
struct circuit_entry {
    _Atomic uint64_t hash; /* of target and destination; 0: free */
    _Atomic uint32_t ready;
    _Atomic uint32_t refusal_noted; /* which first refusals are in the journal (report.c) */
    _Atomic uint64_t forced; /* an operator's word: until when on the circuits' clock:62 | enum forced:2 (operator.c) */
    _Atomic uint64_t held;   /* the agent's: until when on the circuits' clock:62 | enum hold:2 (holding.c) */
    _Atomic uint64_t last_used_ns;      /* circuits' clock, coarse */
    _Atomic uint32_t failure_writes;    /* serial of the last piece of evidence */
    _Atomic uint32_t transition_writes; /* which of the two slots is next */
    char target[TARGET_NAME_MAX];
    char destination[DESTINATION_MAX];
    struct circuit circuit;
    struct circuit_evidence evidence;        /* the failures of interest, and the last opening */
    struct event_slot transitions[2];        /* the last transition, frozen here when the journal has gone on */
    _Atomic uint64_t rehearsals[REHEARSALS]; /* run:32 | number of its next attempt:32; 0: free (fault_numbers.c) */
    _Atomic uint64_t connections;            /* that have a share, and the last step that was counted (bulkhead.c) */
    _Atomic uint64_t recounted_ns;           /* real clock: when they were counted anew */
    _Atomic uint64_t sought_ns; /* real clock: when a place was last sought in vain from here on (circuits.c) */
    struct outage outage;       /* how the present one began */
    struct local_fault local_faults[LOCAL_FAULTS];
    struct retry_budget retry_budget; /* what was taken of it in the last while */
};

/* Keys have the top bit set; a tombstone is the time of its making, at least 1, without that bit. */
#define CIRCUIT_KEY_BIT (UINT64_C(1) << 63)

static inline uint64_t circuit_entry_hash(const struct circuit_entry *entry)
{
    /* Acquire: with the key comes all that was written before the place was handed over. */
    return atomic_load_explicit(&entry->hash, memory_order_acquire);
}

/*
 * What CALL_GROUP records have together: when a call of theirs may be overdue (due.h), and which of them are taken. The
 * bits are hints, so that a free one is found without a walk: call_owner decides.
 */
struct call_group {
    _Atomic uint64_t due;
    _Atomic uint64_t taken;
};
_Static_assert(sizeof(struct call_group) == 16, "the same in 32 and 64 bit");

/*
 * One guarded connection and the call that is in flight on it. Whose it is stands apart, in call_owner, and its circuit
 * a second time in call_circuit: close together, so that who looks for some touches few lines.
 */
struct call {
    _Atomic uint32_t number;     /* for its owner's eyes alone: what it knows it by (lost_calls.c) */
    _Atomic uint32_t circuit;    /* index of its circuit */
    _Atomic uint64_t state;      /* phase:8 | settled:8 | number of the call on this connection:32 */
    _Atomic uint64_t due_ns;     /* circuits' clock: overdue from then on; UINT64_MAX: never */
    _Atomic uint64_t started_ns; /* circuits' clock: when the present wait began */
    _Atomic uint64_t generation; /* of its ticket */
    _Atomic uint64_t token;      /* of its ticket */
    _Atomic uint32_t address;    /* of its ticket, + 1 */
    _Atomic uint16_t injected;   /* it was given a fault in rehearsal */
    _Atomic uint16_t grace_s;    /* so much later others may charge it: it is sending, and they can't see how */
    _Atomic uint64_t share;      /* of its circuit's max_connections (bulkhead.c) */
};
_Static_assert(sizeof(struct call) == 64, "one line each");

/*
 * A process's place. `claim` changes in one step, so whoever changes it owns the place; what else tells processes apart
 * bears the claim's epoch in its upper 20 bits and counts only while that is the present one.
 */
struct process_slot {
    _Atomic uint64_t claim;       /* epoch:32 | pid:32; pid 0: free; the epoch changes whenever the place is taken */
    _Atomic uint64_t start;       /* epoch:20 | field 22 of /proc/PID/stat:44; 0 ticks: unknown */
    _Atomic uint64_t space;       /* epoch:20 | inode of its pid name space:44; 0: unknown */
    _Atomic uint64_t image;       /* epoch:20 | chance:44, another after each exec */
    _Atomic uint64_t attached_ns; /* wall clock */
    _Atomic uint64_t revision;    /* of the policy that it runs */
    char program[PROGRAM_NAME_MAX];
    _Atomic uint32_t keeps_policy; /* not 0: it takes no reload */
    _Atomic uint32_t proof;        /* epoch:20 | 1: it has the lock of its identity (proof.h) */
    _Atomic uint64_t asked_ns;     /* real clock: when somebody last asked whether it lives */
    _Atomic uint64_t reload;       /* number of the last edited policy looked at:32 | RELOAD_…:32 (processes.h) */
    _Atomic uint64_t spare[3];
};
_Static_assert(sizeof(struct process_slot) == 128, "two lines each");

/* What never changes once the file has its name: read once, checked, and never looked at again. */
struct segment_stamp {
    uint64_t magic;
    uint32_t version;
    uint32_t reserved;
    uint64_t size; /* of the base: the header and all tables. The file may be longer: edited policies lie behind it */
    char boot_id[BOOT_ID_SIZE];
    uint64_t created_ns; /* wall clock */
    struct capacity capacity;
    uint64_t reserved2[5];
};
_Static_assert(sizeof(struct segment_stamp) == 128, "two lines");

/*
 * The beginning of the file. Behind it lie the tables, each on a line of its own, at offsets that follow from the
 * capacities: processes, owners and circuits of calls, their groups, which groups are full, calls, events, circuits,
 * what each circuit's calls have waited, what they have taught, and what an agent tells of a fleet (layout_measure). They are reached through the pointers of struct segment
 * alone.
 */
struct segment_header {
    struct segment_stamp stamp;
    _Alignas(64) _Atomic uint64_t no_room[NO_ROOM_KINDS]; /* calls that passed because there was no room */
    _Atomic uint32_t calls_high;                          /* no record at or above was ever used */
    _Atomic uint32_t calls_hint;                          /* where a free one is likely */
    _Atomic uint32_t processes_high;
    uint32_t reserved;
    _Atomic uint64_t log_lost;                 /* lines of SOCKFUSE_LOG that could not be written */
    _Atomic uint64_t swept_ns;                 /* wall clock: when a start last swept the folder */
    _Alignas(64) _Atomic uint64_t events_head; /* number of the next event */
    _Atomic uint64_t events_alerted;           /* which an agent has not yet taken for its alerts (journal_take) */
    _Alignas(64) _Atomic uint64_t calls_due;   /* no call is overdue before (due.h) */
    _Atomic uint32_t calls_cursor;             /* the group where the next look at others' calls begins */
    _Atomic uint32_t owners_cursor;            /* the process that is asked next whether it lives */
    _Atomic uint64_t burial; /* deaths:32 | how far the table was looked through since:32 (dead_owners.c) */
    _Atomic uint32_t deaths; /* identities that ended with records of theirs left, perhaps */
    uint32_t calls_reserved;
    _Atomic uint64_t calls_spare[4];
    _Alignas(64) _Atomic uint32_t reloads; /* how many edited policies were handed over (handover.c) */
    uint32_t reserved3;
    _Atomic uint64_t reloaded_ns;    /* real clock: the last time; its last bit is the number's */
    _Atomic uint64_t handover_at[2]; /* where in the file the last of the even and of the odd ones lies */
    /* What one starter has asked /proc for, so that the next ones need not (process_alive.c, base/clock.c). 0: nothing */
    _Atomic uint64_t proc_spaces[PROC_SPACES];
    struct clock_note clock_note;
    _Alignas(64) _Atomic uint32_t join_cursor; /* whom the next process asks that looks for a place (process_join.c) */
    _Atomic uint32_t given_up;                 /* not 0: its file was deleted, or is about to be */
    _Atomic uint64_t apart;                    /* calls that were guarded apart, while this file could not be opened */
    _Atomic uint64_t edition_revision[EDITIONS]; /* of the policies whose texts are kept (editions.h); 0: none */
    _Atomic uint32_t edition_at[EDITIONS];       /* where: so many grains behind the tables */
    _Atomic uint32_t edition_last;               /* which came into force last, + 1; 0: none */
    uint32_t reserved4;
    _Atomic uint64_t left_ns; /* wall clock: when a process last left */
    _Alignas(64) char identity[SEGMENT_IDENTITY_MAX];
};

/* What the agent tells of a fleet (fleet_board.h). */
struct fleet_head_slot {
    struct stamp stamp;
    struct fleet_head head;
};
struct fleet_board_slot {
    struct stamp stamp;
    struct fleet_shown shown;
};
/* What is asked of the fleet by who is on this host, and what is obeyed of it (fleet_order.h). */
struct fleet_order_slot {
    struct stamp stamp;
    struct fleet_order order;
};
struct fleet_answer_slot {
    struct stamp stamp;
    struct fleet_answer answer;
};
struct fleet_obeyed_slot {
    struct stamp stamp;
    struct fleet_obeyed obeyed;
};
struct fleet_board {
    _Atomic uint32_t written; /* how often, by agents */
    _Atomic uint32_t ordered; /* by commands */
    struct fleet_head_slot head;
    struct fleet_board_slot circuits[FLEET_SHOWN];
    struct fleet_order_slot orders[FLEET_ORDERS];
    struct fleet_answer_slot answers[FLEET_ORDERS];
    struct fleet_obeyed_slot obeyed[FLEET_OBEYED];
};

/* Where the tables begin, and the size of the base. */
struct segment_places {
    size_t processes, call_owner, call_circuit, call_group, call_full, calls, events, circuits, latency, learnt, fleet,
        size;
};

/* For sane capacities (policy/capacity.h). The same in 32 and 64 bit. */
struct segment_places layout_measure(const struct capacity *capacity);

/*
 * Whether nobody has anything to say of the circuit: no operator's word, no agent's hold, not even one that is over. One
 * line; relaxed, for nothing else is read by it.
 */
static inline bool layout_is_unspoken(const struct circuit_entry *entry)
{
    return (atomic_load_explicit(&entry->forced, memory_order_relaxed) |
            atomic_load_explicit(&entry->held, memory_order_relaxed)) == 0;
}

/* Whether its file was deleted, or is about to be. */
static inline bool layout_is_given_up(const struct segment *segment)
{
    return atomic_load_explicit(&segment->map->given_up, memory_order_relaxed) != 0;
}

/* Points the segment at a mapped base of these capacities. */
void layout_point(struct segment *segment, void *base, const struct capacity *capacity);

/* The offsets are the file's format: a change of any needs another SEGMENT_VERSION. The same in 32 and 64 bit. */
#define LAYOUT_PIN(type, member, offset) _Static_assert(offsetof(struct type, member) == (offset), "pinned: " #member)
LAYOUT_PIN(event_slot, event, 8);
LAYOUT_PIN(circuit_entry, hash, 0);
LAYOUT_PIN(circuit_entry, ready, 8);
LAYOUT_PIN(circuit_entry, refusal_noted, 12);
LAYOUT_PIN(circuit_entry, forced, 16);
LAYOUT_PIN(circuit_entry, held, 24);
LAYOUT_PIN(circuit_entry, last_used_ns, 32);
LAYOUT_PIN(circuit_entry, failure_writes, 40);
LAYOUT_PIN(circuit_entry, transition_writes, 44);
LAYOUT_PIN(circuit_entry, target, 48);
LAYOUT_PIN(circuit_entry, destination, 176);
LAYOUT_PIN(circuit_entry, circuit, 448);
LAYOUT_PIN(circuit_entry, evidence, 11968);
LAYOUT_PIN(circuit_entry, transitions, 14272);
LAYOUT_PIN(circuit_entry, rehearsals, 15424);
LAYOUT_PIN(circuit_entry, connections, 15456);
LAYOUT_PIN(circuit_entry, recounted_ns, 15464);
LAYOUT_PIN(circuit_entry, sought_ns, 15472);
LAYOUT_PIN(circuit_entry, outage, 15480);
LAYOUT_PIN(circuit_entry, local_faults, 15696);
LAYOUT_PIN(circuit_entry, retry_budget, 16208);
_Static_assert(sizeof(struct circuit_entry) == 16320, "pinned");
LAYOUT_PIN(circuit_evidence, slots, 16);
LAYOUT_PIN(circuit_evidence, openings, 1744);
LAYOUT_PIN(circuit_evidence, addresses, 2016);
LAYOUT_PIN(evidence_slot, evidence, 8);
LAYOUT_PIN(opening_slot, opening, 8);
LAYOUT_PIN(call, circuit, 4);
LAYOUT_PIN(call, state, 8);
LAYOUT_PIN(call, injected, 52);
LAYOUT_PIN(call, share, 56);
LAYOUT_PIN(call_group, taken, 8);
LAYOUT_PIN(process_slot, claim, 0);
LAYOUT_PIN(process_slot, start, 8);
LAYOUT_PIN(process_slot, space, 16);
LAYOUT_PIN(process_slot, image, 24);
LAYOUT_PIN(process_slot, attached_ns, 32);
LAYOUT_PIN(process_slot, revision, 40);
LAYOUT_PIN(process_slot, program, 48);
LAYOUT_PIN(process_slot, keeps_policy, 80);
LAYOUT_PIN(process_slot, proof, 84);
LAYOUT_PIN(process_slot, reload, 96);
LAYOUT_PIN(segment_stamp, version, 8);
LAYOUT_PIN(segment_stamp, size, 16);
LAYOUT_PIN(segment_stamp, boot_id, 24);
LAYOUT_PIN(segment_stamp, created_ns, 64);
LAYOUT_PIN(segment_stamp, capacity, 72);
LAYOUT_PIN(segment_header, stamp, 0);
LAYOUT_PIN(segment_header, no_room, 128);
LAYOUT_PIN(segment_header, calls_high, 152);
LAYOUT_PIN(segment_header, calls_hint, 156);
LAYOUT_PIN(segment_header, processes_high, 160);
LAYOUT_PIN(segment_header, swept_ns, 176);
LAYOUT_PIN(segment_header, events_head, 192);
LAYOUT_PIN(segment_header, calls_due, 256);
LAYOUT_PIN(segment_header, burial, 272);
LAYOUT_PIN(segment_header, deaths, 280);
LAYOUT_PIN(segment_header, reloads, 320);
LAYOUT_PIN(segment_header, reloaded_ns, 328);
LAYOUT_PIN(segment_header, handover_at, 336);
LAYOUT_PIN(segment_header, proc_spaces, 352);
LAYOUT_PIN(segment_header, clock_note, 368);
LAYOUT_PIN(segment_header, join_cursor, 384);
LAYOUT_PIN(segment_header, given_up, 388);
LAYOUT_PIN(segment_header, apart, 392);
LAYOUT_PIN(segment_header, edition_revision, 400);
LAYOUT_PIN(segment_header, edition_at, 464);
LAYOUT_PIN(segment_header, edition_last, 496);
LAYOUT_PIN(segment_header, left_ns, 504);
LAYOUT_PIN(segment_header, identity, 512);
_Static_assert(sizeof(struct segment_header) == 4608, "pinned");
LAYOUT_PIN(fleet_board, head, 8);
LAYOUT_PIN(fleet_board, circuits, 296);
LAYOUT_PIN(fleet_board, orders, 18472);
_Static_assert(sizeof(struct fleet_board_slot) == 568, "pinned");
#undef LAYOUT_PIN

#endif
