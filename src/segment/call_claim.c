/*
 * call_claim.c - finding a free record, and giving one back, without a walk over the table.
 *
 * call_owner alone says whose a record is: one CAS takes it, another gives it back. Each group has a bit for each of
 * its records that is taken, and the table has a bit for each group of which all are: hints, written after what they
 * tell of. One that says free and is wrong is put right by the next who tries that record. One that says taken would
 * stay wrong: so whoever has set one looks again at what it tells of, and takes it back if that has changed meanwhile.
 * Who is killed, or jumped out of, between the two leaves it to who looks through the table for the dead
 * (dead_owners.c) or for what the process itself has lost (lost_calls.c), which both call claim_hint.
 *
 * A claimed record's state is CLAIMED with a number of its own until its call begins: who claimed it goes on only from
 * that very word, so that a claimer that was held up for so long that the record was taken from it finds out.
 */
#include <stdatomic.h>

#include "base/hot.h"
#include "segment/call_record.h"
#include "segment/calls.h"

/* Free records that others take from under our eyes; each of those got one. */
#define TRIES_MAX 64u
#define WORD_BITS 64u
_Static_assert(CALL_GROUP == WORD_BITS, "a word has a bit for each");

static uint32_t groups_of(const struct segment *segment)
{
    return (segment->capacity.calls + CALL_GROUP - 1) / CALL_GROUP;
}

/* The bits of a group that stand for no record: the last one may be short. */
static uint64_t beyond(const struct segment *segment, uint32_t group)
{
    uint32_t count = segment->capacity.calls - group * CALL_GROUP;

    return count < CALL_GROUP ? ~UINT64_C(0) << count : 0;
}

static bool is_full(const struct segment *segment, uint32_t group)
{
    uint64_t taken = atomic_load_explicit(&segment->call_group[group].taken, memory_order_seq_cst);

    return (taken | beyond(segment, group)) == ~UINT64_C(0);
}

/*
 * All seq_cst: of one who sets a bit and then looks at what it tells of, and another who changes that and then looks at
 * the bit, or clears it, one sees the other.
 */
HOT static void hint_free(struct segment *segment, uint32_t call)
{
    uint32_t group = call / CALL_GROUP;
    uint64_t full = UINT64_C(1) << group % WORD_BITS;

    atomic_fetch_and_explicit(&segment->call_group[group].taken, ~(UINT64_C(1) << call % CALL_GROUP),
                              memory_order_seq_cst);
    if ((atomic_load_explicit(&segment->call_full[group / WORD_BITS], memory_order_seq_cst) & full) != 0)
        atomic_fetch_and_explicit(&segment->call_full[group / WORD_BITS], ~full, memory_order_seq_cst);
}

HOT static void hint_taken(struct segment *segment, uint32_t call)
{
    uint32_t group = call / CALL_GROUP;
    uint64_t full = UINT64_C(1) << group % WORD_BITS;

    atomic_fetch_or_explicit(&segment->call_group[group].taken, UINT64_C(1) << call % CALL_GROUP, memory_order_seq_cst);
    if (is_full(segment, group)) {
        atomic_fetch_or_explicit(&segment->call_full[group / WORD_BITS], full, memory_order_seq_cst);
        if (!is_full(segment, group))
            atomic_fetch_and_explicit(&segment->call_full[group / WORD_BITS], ~full, memory_order_seq_cst);
    }
    if (atomic_load_explicit(&segment->call_owner[call], memory_order_seq_cst) == 0)
        hint_free(segment, call);
}

void claim_hint(struct segment *segment, uint32_t call)
{
    uint64_t bit = UINT64_C(1) << call % CALL_GROUP;
    bool is_taken = atomic_load_explicit(&segment->call_owner[call], memory_order_relaxed) != 0;
    bool is_hinted =
        (atomic_load_explicit(&segment->call_group[call / CALL_GROUP].taken, memory_order_relaxed) & bit) != 0;

    if (!is_taken && is_hinted)
        hint_free(segment, call);
}

/* Before a place is claimed, so that every claimed one lies below, whoever is killed. */
static void raise_high(struct segment *segment, uint32_t call)
{
    uint32_t high = atomic_load_explicit(&segment->map->calls_high, memory_order_relaxed);

    /* seq_cst as in calls_begin: a look that is not told of the call that begins here sees the place. */
    for (uint32_t rises = 0; high <= call && rises <= segment->capacity.calls; rises++)
        if (atomic_compare_exchange_strong_explicit(&segment->map->calls_high, &high, call + 1, memory_order_seq_cst,
                                                    memory_order_relaxed))
            return;
}

/* `raw`: the state word that it has then. */
HOT static bool claim_at(struct segment *segment, uint32_t call, uint32_t holder, uint64_t *raw)
{
    struct call *record = &segment->calls[call];
    uint32_t owner = atomic_load_explicit(&segment->call_owner[call], memory_order_relaxed);

    raise_high(segment, call);
    /* Acquire: the former owner's settling is seen, so that the number goes on from it. */
    if (owner == 0 && !atomic_compare_exchange_strong_explicit(&segment->call_owner[call], &owner, holder,
                                                               memory_order_acquire, memory_order_relaxed))
        owner = UINT32_MAX;
    hint_taken(segment, call);
    if (owner != 0)
        return false;
    if (atomic_load_explicit(&record->injected, memory_order_relaxed) != 0)
        atomic_store_explicit(&record->injected, 0, memory_order_relaxed);
    atomic_store_explicit(&record->number, 0, memory_order_relaxed);
    atomic_store_explicit(&record->token, 0, memory_order_relaxed);
    uint64_t state = atomic_load_explicit(&record->state, memory_order_relaxed);
    *raw = state_pack(state_next_number(state), PHASE_ANSWERED, CALL_CLAIMED);
    /* Release: with CLAIMED comes what stands above. */
    atomic_store_explicit(&record->state, *raw, memory_order_release);
    return true;
}

/* A group that has a free record, for all that the hints say, from `first` on and round; or the number of groups. */
static uint32_t find_group(const struct segment *segment, uint32_t first)
{
    const uint32_t groups = groups_of(segment), words = (groups + WORD_BITS - 1) / WORD_BITS;

    for (uint32_t i = 0; i <= words; i++) {
        uint32_t word = (first / WORD_BITS + i) % words;
        uint64_t free = ~atomic_load_explicit(&segment->call_full[word], memory_order_relaxed);

        if (i == 0)
            free &= ~UINT64_C(0) << first % WORD_BITS;
        if (free == 0)
            continue;
        uint32_t group = word * WORD_BITS + (uint32_t)__builtin_ctzll(free);
        if (group < groups)
            return group;
    }
    return groups;
}

HOT uint32_t calls_claim_raw(struct segment *segment, uint32_t holder, uint64_t *raw)
{
    if (segment->map == NULL || holder == 0)
        return CALL_NONE;

    const uint32_t groups = groups_of(segment);
    uint32_t hint = atomic_load_explicit(&segment->map->calls_hint, memory_order_relaxed);
    if (hint >= segment->capacity.calls)
        hint = 0;
    if (atomic_load_explicit(&segment->call_owner[hint], memory_order_relaxed) == 0 &&
        claim_at(segment, hint, holder, raw))
        return hint;
    uint32_t group = hint / CALL_GROUP;
    for (unsigned int tries = 0; tries < TRIES_MAX; tries++) {
        if ((group = find_group(segment, group)) == groups)
            return CALL_NONE;
        uint64_t taken =
            atomic_load_explicit(&segment->call_group[group].taken, memory_order_relaxed) | beyond(segment, group);
        if (taken == ~UINT64_C(0)) { /* its bit in call_full was lost, or is on its way */
            hint_taken(segment, group * CALL_GROUP);
            continue;
        }
        uint32_t call = group * CALL_GROUP + (uint32_t)__builtin_ctzll(~taken);
        if (claim_at(segment, call, holder, raw)) {
            atomic_store_explicit(&segment->map->calls_hint, call, memory_order_relaxed);
            return call;
        }
    }
    return CALL_NONE;
}

uint32_t calls_claim(struct segment *segment, uint32_t holder)
{
    uint64_t raw;

    return calls_claim_raw(segment, holder, &raw);
}

/*
 * The mark of a look for what was lost (lost_calls.c) goes before the owner: the record's next owner may be the same
 * process, whose other threads would take the mark for one on the new claim. A number is left alone.
 */
static void unmark(struct segment *segment, uint32_t call, uint32_t owner)
{
    _Atomic uint32_t *at = &segment->calls[call].number;
    uint32_t number = atomic_load_explicit(at, memory_order_relaxed);

    if (number >= CALL_NUMBER_MAX && atomic_load_explicit(&segment->call_owner[call], memory_order_relaxed) == owner)
        atomic_compare_exchange_strong_explicit(at, &number, 0, memory_order_relaxed, memory_order_relaxed);
}

HOT bool calls_release(struct segment *segment, uint32_t call, uint32_t owner)
{
    struct call *record = record_at(segment, call);

    if (record == NULL || owner == 0 || state_in_flight(atomic_load_explicit(&record->state, memory_order_relaxed)))
        return false;
    unmark(segment, call, owner);
    /* Release: the next owner sees the settled state. seq_cst: see hint_free. */
    if (!atomic_compare_exchange_strong_explicit(&segment->call_owner[call], &owner, 0, memory_order_seq_cst,
                                                 memory_order_relaxed))
        return false;
    hint_free(segment, call);
    atomic_store_explicit(&segment->map->calls_hint, call, memory_order_relaxed);
    return true;
}
