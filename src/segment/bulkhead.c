/*
 * bulkhead.c - shares of a circuit, and their number.
 *
 * A share goes none, pending, held, giving, none. Its word has a tag that counts its takings; the circuit's word has
 * the number of shares and the last step that was counted: whose record, whether it took or gave, and its tag.
 *
 *   taking   1 mark pending   2 count it, as the circuit's last step    3 mark held
 *   giving   1 mark giving    2 count it off, as the last step          3 mark none
 *
 * Before anybody counts a step of his own he does step 3 of the last one for its owner, if that has not done it. So a
 * pending share is counted if and only if it is the circuit's last step, and likewise a giving one is counted off.
 * Whoever finds a share between two steps, left by somebody who was killed or jumped away, knows how far it came and
 * goes on from there (bulkhead_give): no count is ever too high or too low for long, and nobody counts anew. Of many
 * who do so one wins each CAS, for no word has the same value twice: tags count on.
 *
 * A pending share that is not counted is made void, when its owner is dead or has lost the record. Should the owner
 * only have slept, for seconds, right before he counts it: then a step that takes a void share counts for nothing, and
 * whoever counts the next one leaves it out.
 *
 * A count that is higher than all marks is corrupt, and is put right by a look through the table, once a second at the
 * most and only where it would refuse.
 */
#include "segment/bulkhead.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "segment/calls.h"
#include "segment/circuits.h"
#include "segment/layout.h"
#include "segment/processes.h"

#define RECOUNT_NS NS_PER_S
/* A CAS loses only to another connection's step; then the place may be free again, and a new look is due. */
#define LOOKS_MAX 256u

/* A record's share: tag:32 | how far it is:2 | the circuit's index + 1:30. */
enum { SHARE_NONE, SHARE_PENDING, SHARE_HELD, SHARE_GIVING };
#define SHARE_CIRCUIT_BITS 30
#define SHARE_CIRCUIT ((UINT32_C(1) << SHARE_CIRCUIT_BITS) - 1)
_Static_assert(CAPACITY_CIRCUITS_MAX < SHARE_CIRCUIT, "a circuit's index fits");

/* A circuit's word: its last step's tag:23, whether it gave:1, its record + 1:20 (0: none) | shares:20. */
#define COUNT_BITS 20
#define COUNT_MASK ((UINT64_C(1) << COUNT_BITS) - 1)
#define STEP_GAVE (UINT64_C(1) << 2 * COUNT_BITS)
#define STEP_TAG_SHIFT (2 * COUNT_BITS + 1)
#define STEP_TAG_MASK ((UINT64_C(1) << (64 - STEP_TAG_SHIFT)) - 1)
_Static_assert(CAPACITY_CALLS_MAX < COUNT_MASK, "a record's index fits, and all their shares");

static uint64_t share_pack(uint32_t tag, uint32_t stage, uint32_t circuit)
{
    return (uint64_t)tag << 32 | (uint32_t)(stage << SHARE_CIRCUIT_BITS) | ((circuit + 1) & SHARE_CIRCUIT);
}

static uint32_t share_tag(uint64_t share)
{
    return (uint32_t)(share >> 32);
}

static uint32_t share_stage(uint64_t share)
{
    return (uint32_t)share >> SHARE_CIRCUIT_BITS;
}

static uint32_t share_circuit(uint64_t share)
{
    return ((uint32_t)share & SHARE_CIRCUIT) - 1;
}

/* The share at another stage of the same taking. */
static uint64_t share_at(uint64_t share, uint32_t stage)
{
    return stage == SHARE_NONE ? (uint64_t)share_tag(share) << 32
                               : share_pack(share_tag(share), stage, share_circuit(share));
}

/* None, but it knows of which circuit it would have been. */
static uint64_t share_void(uint64_t share)
{
    return share_pack(share_tag(share), SHARE_NONE, share_circuit(share));
}

static uint64_t load(const _Atomic uint64_t *word)
{
    /* Acquire: with a circuit's word come the marks of all steps but the last. */
    return atomic_load_explicit(word, memory_order_acquire);
}

static bool replace(_Atomic uint64_t *word, uint64_t expected, uint64_t desired)
{
    /* Release: the marks before the count. Acquire: what follows a step stays behind it. */
    return atomic_compare_exchange_strong_explicit(word, &expected, desired, memory_order_acq_rel,
                                                   memory_order_relaxed);
}

static uint64_t step_of(uint32_t call, uint64_t share, bool gives)
{
    return ((uint64_t)share_tag(share) & STEP_TAG_MASK) << STEP_TAG_SHIFT | (gives ? STEP_GAVE : 0) |
           (uint64_t)(call + 1) << COUNT_BITS;
}

/* The shares as of that word. */
static uint32_t count_in(const struct segment *segment, uint32_t circuit, uint64_t word)
{
    uint32_t count = (uint32_t)(word & COUNT_MASK), call = (uint32_t)((word >> COUNT_BITS) & COUNT_MASK) - 1;

    if (count == 0 || call >= segment->capacity.calls || (word & STEP_GAVE) != 0)
        return count;
    uint64_t share = load(&segment->calls[call].share);
    bool is_void = share_stage(share) == SHARE_NONE && share_circuit(share) == circuit &&
                   step_of(call, share, false) == (word & ~COUNT_MASK);
    return is_void ? count - 1 : count;
}

/* Does step 3 of the last step that was counted, if it is still to do. */
static void finish_last(struct segment *segment, uint32_t circuit, uint64_t word)
{
    uint32_t call = (uint32_t)((word >> COUNT_BITS) & COUNT_MASK) - 1;

    if (call >= segment->capacity.calls)
        return;
    uint32_t from = (word & STEP_GAVE) != 0 ? SHARE_GIVING : SHARE_PENDING;
    uint64_t share = load(&segment->calls[call].share);
    if (share_stage(share) == from && share_circuit(share) == circuit &&
        step_of(call, share, from == SHARE_GIVING) == (word & ~COUNT_MASK))
        replace(&segment->calls[call].share, share, share_at(share, from == SHARE_GIVING ? SHARE_NONE : SHARE_HELD));
}

/* --- for corrupt memory, and observers --- */

/* The shares of the circuit but that of `except`, whoever has them, or those of the living (with system calls). */
static uint32_t count_marks(const struct segment *segment, uint32_t circuit, uint32_t except, bool of_the_living)
{
    struct liveness liveness = {0};
    uint32_t count = 0;

    for (uint32_t call = 0; call < calls_limit(segment); call++) {
        uint32_t owner = atomic_load_explicit(&segment->call_owner[call], memory_order_acquire);

        if (owner == 0 || call == except ||
            atomic_load_explicit(&segment->call_circuit[call], memory_order_relaxed) != circuit)
            continue;
        uint64_t share = load(&segment->calls[call].share);
        if (share_stage(share) != SHARE_NONE && share_circuit(share) == circuit &&
            (!of_the_living || liveness_ask(&liveness, segment, owner)))
            count++;
    }
    return count;
}

uint32_t bulkhead_count(const struct segment *segment, uint32_t circuit)
{
    if (segment->map == NULL || circuit >= segment->capacity.circuits)
        return 0;
    return count_marks(segment, circuit, CALL_NONE, true);
}

uint32_t bulkhead_counted(const struct segment *segment, uint32_t circuit)
{
    const struct circuit_entry *entry = circuits_entry(segment, circuit);

    return entry != NULL ? count_in(segment, circuit, load(&entry->connections)) : 0;
}

void bulkhead_clear(struct circuit_entry *entry)
{
    uint64_t word = load(&entry->connections);

    /* Another tag keeps an old look at it from coming true. */
    atomic_store_explicit(&entry->connections,
                          (word & ~(STEP_GAVE | COUNT_MASK << COUNT_BITS | COUNT_MASK)) +
                              (UINT64_C(1) << STEP_TAG_SHIFT),
                          memory_order_release);
}

/* More shares than there are marks: none of the steps above leaves that. True: there is room now, perhaps. */
static bool correct(struct segment *segment, uint32_t circuit, uint32_t call, uint64_t word)
{
    struct circuit_entry *entry = circuits_entry(segment, circuit);
    uint64_t now_ns = clock_real_ns(), last_ns = atomic_load_explicit(&entry->recounted_ns, memory_order_relaxed);

    /* A time that lies ahead (of another time name space, or corrupt) is long ago as well. */
    if (now_ns - last_ns < RECOUNT_NS ||
        !atomic_compare_exchange_strong_explicit(&entry->recounted_ns, &last_ns, now_ns, memory_order_relaxed,
                                                 memory_order_relaxed))
        return false;
    uint32_t count = count_marks(segment, circuit, call, false);
    return count < count_in(segment, circuit, word) && replace(&entry->connections, word, (word & ~COUNT_MASK) | count);
}

/* --- taking and giving --- */

bool bulkhead_has_share(const struct segment *segment, uint32_t call)
{
    return call < segment->capacity.calls && share_stage(load(&segment->calls[call].share)) != SHARE_NONE;
}

/* The record's last share was made void and may have been counted all the same: before it is forgotten. */
static void drop_void(struct segment *segment, uint32_t call, uint64_t share)
{
    struct circuit_entry *entry = circuits_entry(segment, share_circuit(share));

    if (share_stage(share) != SHARE_NONE || entry == NULL)
        return;
    uint64_t word = load(&entry->connections), step = step_of(call, share, false);
    uint32_t count = count_in(segment, share_circuit(share), word);
    /* As a step of nobody's, under the next tag. If it fails, somebody else has counted a step and left it out. */
    if ((word & ~COUNT_MASK) == step)
        replace(&entry->connections, word,
                (((word >> STEP_TAG_SHIFT) + 1) << STEP_TAG_SHIFT) | (word & STEP_GAVE) | count);
}

bool bulkhead_take(struct segment *segment, uint32_t circuit, uint32_t call, uint32_t limit)
{
    struct circuit_entry *entry = circuits_entry(segment, circuit);
    bool corrected = false;

    if (entry == NULL || call >= segment->capacity.calls)
        return true;
    _Atomic uint64_t *share = &segment->calls[call].share;
    /* There are no more records. A count beyond them is rubbish. */
    const uint32_t most = limit < segment->capacity.calls ? limit : segment->capacity.calls;
    if (share_stage(load(share)) != SHARE_NONE) /* left by the record's last owner: it is corrupt, or was contended */
        bulkhead_give(segment, call, atomic_load_explicit(&segment->call_owner[call], memory_order_relaxed), limit);
    const uint64_t former = load(share);
    drop_void(segment, call, former);
    const uint64_t pending = share_pack(share_tag(former) + 1, SHARE_PENDING, circuit);
    calls_name_circuit(segment, call, circuit);
    if (!replace(share, former, pending))
        return true;
    for (unsigned int look = 0; look < LOOKS_MAX; look++) {
        uint64_t word = load(&entry->connections);

        finish_last(segment, circuit, word);
        uint32_t count = count_in(segment, circuit, word);
        if (count >= most) {
            if (!corrected && correct(segment, circuit, call, word)) {
                corrected = true;
                continue;
            }
            break;
        }
        /* Void by now: the record was taken from us while we slept. */
        if (load(share) != pending)
            return true;
        if (!replace(&entry->connections, word, step_of(call, pending, false) | (count + 1)))
            continue;
        replace(share, pending, share_at(pending, SHARE_HELD));
        return true;
    }
    replace(share, pending, share_at(pending, SHARE_NONE));
    return false;
}

/* A share that is being given: counts it off, unless somebody has. True: it is over. */
static bool count_off(struct segment *segment, struct circuit_entry *entry, uint32_t call, uint64_t giving,
                      uint32_t limit)
{
    const uint32_t circuit = share_circuit(giving);
    uint64_t word = load(&entry->connections);

    if ((word & ~COUNT_MASK) == step_of(call, giving, true)) {
        finish_last(segment, circuit, word);
        return true;
    }
    /* Looked at behind the word: if it stands there still, it was not counted off by any step up to that word. */
    if (load(&segment->calls[call].share) != giving)
        return true;
    finish_last(segment, circuit, word);
    const uint32_t count = count_in(segment, circuit, word);
    if (!replace(&entry->connections, word, step_of(call, giving, true) | (count != 0 ? count - 1 : 0)))
        return false;
    /* The crowd is over when half of the places are free: the next one that is refused is news again. */
    if (count != 0 && count - 1 == limit / 2)
        atomic_fetch_and_explicit(&entry->refusal_noted, ~(uint32_t)REFUSAL_NOTE_CROWD, memory_order_relaxed);
    replace(&segment->calls[call].share, giving, share_at(giving, SHARE_NONE));
    return true;
}

void bulkhead_give(struct segment *segment, uint32_t call, uint32_t owner, uint32_t limit)
{
    if (segment->map == NULL || call >= segment->capacity.calls)
        return;
    _Atomic uint64_t *mark = &segment->calls[call].share;
    const uint32_t tag = share_tag(load(mark));
    /* Read behind the mark: as long as the record is this owner's, so is a share with that tag. */
    if (atomic_load_explicit(&segment->call_owner[call], memory_order_acquire) != owner)
        return;
    for (unsigned int look = 0; look < LOOKS_MAX; look++) {
        uint64_t share = load(mark), word;
        struct circuit_entry *entry = circuits_entry(segment, share_circuit(share));

        if (share_stage(share) == SHARE_NONE || share_tag(share) != tag)
            return;
        if (entry == NULL) {
            replace(mark, share, share_at(share, SHARE_NONE));
            return;
        }
        switch (share_stage(share)) {
        case SHARE_PENDING:
            word = load(&entry->connections);
            replace(mark, share,
                    (word & ~COUNT_MASK) == step_of(call, share, false) ? share_at(share, SHARE_HELD)
                                                                        : share_void(share));
            break;
        case SHARE_HELD:
            replace(mark, share, share_at(share, SHARE_GIVING));
            break;
        default:
            if (count_off(segment, entry, call, share, limit))
                return;
            break;
        }
    }
}
