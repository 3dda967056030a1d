/*
 * circuit_evidence.h - what a circuit keeps of the outcomes that its transitions are made of, for `sockfuse explain`.
 *
 * Three small rings of failures in each circuit's entry: of calls that were admitted while it was closed (and of these
 * the slow ones, where slow calls count), of probes, and of calls that passed against its word. What comes late is in
 * none of them, so nothing is written to the first ring while the circuit is not closed: what opened it stays, through
 * however many probes, until it has closed and fails anew. That is the freezing; nobody copies anything. Beside them
 * stand the last opening, with the settings that it was judged by, and the addresses of the destination as text.
 *
 * A success that is not slow writes nothing. Writers never wait; who is killed in between leaves a slot that readers
 * count as unreadable. Written by src/guard alone. Async-signal-safe; no system call.
 */
#ifndef SOCKFUSE_SEGMENT_CIRCUIT_EVIDENCE_H
#define SOCKFUSE_SEGMENT_CIRCUIT_EVIDENCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "segment/evidence_model.h"
#include "segment/segment_model.h"

void evidence_note(const struct segment *segment, uint32_t circuit, enum evidence_ring ring,
                   const struct evidence *evidence);
void evidence_note_opening(const struct segment *segment, uint32_t circuit, const struct opening *opening);

/*
 * Makes an address known by its text; `place` among the circuit's addresses, `key` its hash. One load when it is known
 * already. The path of a UNIX socket is not kept: it is the destination's name.
 */
struct endpoint;
void evidence_write_address(struct circuit_evidence *evidence, unsigned int place, uint64_t key,
                            const struct endpoint *endpoint);
static inline void evidence_note_address(struct circuit_evidence *evidence, int place, uint64_t key,
                                         const struct endpoint *endpoint)
{
    if (endpoint != NULL && place >= 0 && (unsigned int)place < CIRCUIT_ADDRESSES &&
        atomic_load_explicit(&evidence->addresses[place].key, memory_order_relaxed) != key)
        evidence_write_address(evidence, (unsigned int)place, key, endpoint);
}

/* The circuit begins anew. */
void evidence_clear(struct circuit_evidence *evidence);

/* --- what a reader sees: all of it checked ------------------------------------------------------------------------ */

struct evidence_seen {
    struct evidence evidence;
    enum evidence_ring ring;
    uint32_t serial;
};
struct evidence_view {
    struct evidence_seen at[EVIDENCE_SLOTS]; /* oldest first */
    unsigned int count;
    unsigned int unreadable; /* begun, and not there: who wrote it was killed, or writes just now */
    bool has_opening;
    struct opening opening; /* the last one */
};
/* False: there is no such circuit. */
bool evidence_read(const struct segment *segment, uint32_t circuit, struct evidence_view *view);
/* "192.0.2.1:80"; false: not known. */
bool evidence_address(const struct segment *segment, uint32_t circuit, uint32_t address, char text[DESTINATION_MAX]);

#endif
