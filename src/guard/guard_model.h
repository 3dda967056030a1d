/*
 * guard_model.h - what the parts of the guard go by: one process's side of a segment, and an attempt.
 *
 * What an engine calls is in guard.h.
 */
#ifndef SOCKFUSE_GUARD_GUARD_MODEL_H
#define SOCKFUSE_GUARD_GUARD_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "breaker/circuit.h"
#include "breaker/outcome.h"
#include "policy/policy.h"
#include "segment/calls.h"
#include "segment/event.h"
#include "segment/segment.h"

/* One process's side of a segment. */
struct guard {
    struct segment *segment;
    uint32_t holder; /* from process_join */
    uint32_t pid;
    _Atomic bool is_brief; /* joined by process_join_briefly: the rest is said before the first call */
    char program[PROGRAM_NAME_MAX];
    const char *log; /* SOCKFUSE_LOG: a file to append transitions to, "stderr"; NULL or "": none */
    /*
     * Asked before an overdue call of this very process is charged: does it still hang? (The kernel knows of a
     * connection that the program has not asked about, and of an answer that it has not read.) False: it does not, and
     * guard_connected or guard_excuse was told. NULL: it hangs. May make system calls.
     */
    bool (*still_hangs)(uint32_t call, enum phase phase, void *context);
    /*
     * The target of that name in the present policy, under which an overdue call of another circuit is charged; NULL:
     * it has none. NULL: only calls of the circuit that is asked for are charged.
     */
    const struct target *(*target_named)(const char *name, void *context);
    /*
     * Whether a record of this very process's has a connection: `number` is what guard_name gave it. False: its call
     * was jumped out of. NULL: all have. No system call.
     */
    bool (*keeps)(uint32_t call, uint32_t number, void *context);
    void *context;
    bool takes_short_way; /* of an admission, where there is nothing to look to; guard_admit comes to the same by it */
    /* Private, to start with 0. */
    _Atomic uint64_t ask_after_ns;   /* real clock: when one call of this process may ask about the living again */
    _Atomic uint64_t need_after_ns;  /* the same, when there is no room */
    _Atomic uint64_t lost_after_ns;  /* real clock: when what was jumped out of is looked for again */
    _Atomic uint64_t lost_round;     /* number of the present look:32 | how far it has come:32 (lost_calls.c) */
    _Atomic uint32_t sharers_cursor; /* whose share is asked about next */
};

/*
 * Of the ticket of a call that passes against its circuit's word: no circuit ever knew it (generations have 46 bits at
 * the most). Its outcome is counted as what it is, and changes nothing else.
 */
#define SHADOW_GENERATION UINT64_MAX

/* An attempt, as the engine sees it. */
struct attempt {
    const struct target *target;
    uint32_t circuit;                /* from circuits_find */
    uint64_t address_key;            /* endpoint_hash of where it goes */
    const struct endpoint *endpoint; /* the same in full, or NULL: it is known by now, or to nobody */
    const uint64_t *siblings;        /* the same of all addresses that the destination's name has here; may be NULL */
    size_t sibling_count;
    unsigned int shard;
    bool is_retry; /* of one that failed: it is no probe, whatever is due */
    /*
     * Of a request, asked once what is overdue was charged: whether a refusal would take others with it that are under
     * way. Then it passes against the circuit's word. NULL: it would not.
     */
    bool (*must_pass)(const void *context);
    const void *context;
};

/* Of a request: whether a circuit that is open refuses it. */
static inline bool attempt_may_be_refused(const struct attempt *attempt)
{
    return !attempt->target->existing_allowed && !(attempt->must_pass != NULL && attempt->must_pass(attempt->context));
}

#endif
