/*
 * station.h - a guard with the segment that it uses; and what becomes of it when the segment's file goes away.
 *
 * The design, in one place:
 *
 * - Once a second at most, whatever becomes of its calls, a process looks whether the path still leads to the file that
 *   it has mapped (one system call). If it was deleted or replaced, the process attaches anew where new processes do,
 *   to the first place that can be used: its next calls go there, and a request on a kept connection moves over.
 * - It does so only from where it stood at its start: with the same root, mounts and user. From anywhere else a path
 *   may lead to another file, and what is made would be in the wrong place or belong to the wrong user. Such a process
 *   stays in what it has mapped, which commands still reach (forces and edited policies travel in the segment), until
 *   it knows for certain that the file was deleted: somebody who can see it says so in the header (segment_give_up), or
 *   the kernel does (segment_is_deleted, asked once a minute).
 * - Who can't or may not attach goes on in a segment of its own memory, under no force, says so once, tries again each
 *   second, and adds what it guarded apart to the present segment's count as soon as there is one.
 * - Stations are few and are used again. One that is not the present one any more is retired; when no connection
 *   follows it, its memory goes back, and the next segment of the same capacity is put at its addresses. A thread may
 *   have been late in it all the time, since before it was told to sleep: so the addresses stay mapped for ever and
 *   mean tables of the same size for ever (segment/vanished.h), what is read there is range-checked anyway, and an
 *        attempt
 *   that was admitted across such a change sees another serial and is forgotten. Where long-lived connections follow
 *   all of them, those of the station that was retired first are let go: they pass unguarded from then on.
 * - One thread at a time does any of this, undisturbed by signals and cancellation; the others go on with what there
 *   is, and nobody waits.
 */
#ifndef SOCKFUSE_CONNECTION_STATION_H
#define SOCKFUSE_CONNECTION_STATION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "guard/guard.h"
#include "policy/policy.h"

struct station {
    _Alignas(64) struct segment segment;
    /* What each call looks at, beside the end of `segment` and the beginning of `guard`: one cache line. */
    const _Atomic uint32_t *reloads; /* in the segment: how many policies were handed over; NULL: none is taken */
    _Atomic uint32_t reloads_seen;   /* the last one that this process has looked at */
    struct guard guard;
    _Atomic uint64_t identity;        /* epoch:32 | holder:32: the lineage in which the holder joined the segment */
    _Atomic uint64_t tried_ns;        /* real clock: when it was last tried to join a segment that is full */
    _Atomic uint64_t reload_claim;    /* lineage's epoch:32 | number of the one that a thread has taken on */
    _Atomic uint64_t reload_after_ns; /* real clock: not before, since there was no memory for it */
    _Atomic uint64_t reload_answer;   /* number of the last that was looked at:32 | what came of it:32 (processes.h) */
    _Atomic uint32_t state;           /* enum station_state */
    _Atomic uint32_t serial;          /* another one whenever its segment may be another one */
    bool apart;                       /* its segment is a private one because the file could not be had */
    bool is_clear;                    /* retired, and its memory has gone back */
    uint64_t retired_ns;              /* real clock */
    uint64_t clear_after_ns;          /* real clock: when it is asked again whether anybody follows it */
};

enum station_state { STATION_UNUSED, STATION_MADE, STATION_PRESENT, STATION_RETIRED };

struct segment_error;

/*
 * At start-up: attaches to the policy's segment, or makes a private one, and puts it in force. False: `error` says why.
 */
bool station_start(enum target_scope scope, const char *(*environment)(const char *name), struct segment_error *error);

/* A private one for a policy that was taken later and needs it; if there is none for want of memory, calls pass. */
void station_start_later(enum target_scope scope);

/* The slow half of engine_look. */
void station_look(uint64_t real_ns);

/* Whether new calls go elsewhere by now. */
static inline bool station_is_retired(const struct station *station)
{
    return atomic_load_explicit(&station->state, memory_order_relaxed) == STATION_RETIRED;
}

/* To be asked before an admission, and again when the connection follows the station. */
static inline uint32_t station_serial(const struct station *station)
{
    /* seq_cst: against the look at what follows it, in attaching.c. */
    return atomic_load_explicit(&station->serial, memory_order_seq_cst);
}

#endif
