/*
 * circuit_places.c - places in the table of circuits: an open hash table that is never locked and never moves anything.
 *
 * A place is claimed by one CAS of its hash. Whoever finds a key whose texts are not there yet writes them: every
 * process that has the key writes the same bytes, so that nobody waits for a claimer that was killed. A place that
 * changes hands carries a tombstone meanwhile. Two processes may give one key two places at the same moment, when
 * recycling; the first one in probing order wins, and the other soon stands idle.
 */
#include "segment/circuits.h"

#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/hot.h"
#include "base/hash.h"
#include "base/shared.h"
#include "segment/bulkhead.h"
#include "segment/calls.h"
#include "segment/circuit_evidence.h"
#include "segment/forced.h"
#include "segment/held.h"
#include "segment/journal.h"
#include "segment/layout.h"
#include "segment/local_faults.h"
#include "segment/outage.h"
#include "segment/processes.h"

#define PROBE_LENGTH 32u
#define FIND_TRIES 4u
/* `last_used_ns` is written no more often than this, so that a busy circuit's line stays with all cores. */
#define USE_GRAIN_NS NS_PER_S
/*
 * A circuit that nobody asked for during this time may give its place away: closed, it knows of some failures at the
 * most; open with its pause over, that the next call is a probe.
 */
#define IDLE_NS (60 * NS_PER_S)
#define IDLE_OPEN_NS (10 * IDLE_NS)
/* Who has not finished handing over a place after this time was killed while doing it. */
#define HANDOVER_NS (60 * NS_PER_S)
/* So long nobody looks again where a place was sought in vain, and of so many it is looked up who refers to them. */
#define SEEK_NS NS_PER_S
#define REFERENCES_LOOKED_UP 4u

struct key {
    uint64_t hash;
    const char *target, *destination;
};

static uint64_t hash_add(uint64_t hash, const char *text, size_t size)
{
    size_t length = strnlen(text, size);

    /* Its end (a zero byte) is hashed too, so that "a" "bc" is not "ab" "c". */
    return hash_bytes(hash, text, length < size ? length + 1 : size);
}

static struct key key_make(const char *target, const char *destination)
{
    uint64_t hash = hash_add(HASH_BEGIN, target, TARGET_NAME_MAX);

    hash = hash_add(hash, destination, DESTINATION_MAX);
    /* FNV's low bits mix badly. */
    return (struct key){hash_spread(hash) | CIRCUIT_KEY_BIT, target, destination};
}

static uint32_t place_of(const struct segment *segment, const struct key *key, uint32_t step)
{
    return (uint32_t)((key->hash + step) % segment->capacity.circuits);
}

/* So many places a key has: some of a large table, all of a small one. */
static uint32_t steps_of(const struct segment *segment)
{
    return segment->capacity.circuits < PROBE_LENGTH ? segment->capacity.circuits : PROBE_LENGTH;
}

/* Another process may be writing the same bytes. */
static void write_texts(struct circuit_entry *entry, const struct key *key)
{
    shared_store_text(entry->target, key->target, sizeof entry->target);
    shared_store_text(entry->destination, key->destination, sizeof entry->destination);
    /* Release: who sees it reads whole texts. */
    atomic_store_explicit(&entry->ready, 1, memory_order_release);
}

/*
 * Whether somebody who is not known to be dead has a record on that circuit; gives back those of the dead, uncounted.
 * For who gives an idle circuit's place away: a walk, but over little memory. No system call.
 */
static bool somebody_refers_to(struct segment *segment, uint32_t circuit)
{
    for (uint32_t call = 0; call < calls_limit(segment); call++) {
        struct call_view view;

        if (atomic_load_explicit(&segment->call_owner[call], memory_order_relaxed) == 0 ||
            atomic_load_explicit(&segment->call_circuit[call], memory_order_relaxed) != circuit ||
            !calls_read(segment, call, &view) || view.circuit != circuit)
            continue;
        if (process_asked(segment, view.owner) != NULL)
            return true;
        /* Uncounted, for the circuit's counts go too. */
        if (view.in_flight && !calls_settle(segment, call, &view, CALL_SETTLED))
            continue;
        bulkhead_give(segment, call, view.owner, 0);
        calls_release(segment, call, view.owner);
    }
    return false;
}

static uint32_t look_up(const struct segment *segment, const struct key *key)
{
    for (uint32_t step = 0; step < steps_of(segment); step++) {
        uint32_t index = place_of(segment, key, step);

        if (circuit_entry_hash(&segment->circuits[index]) == key->hash)
            return index;
    }
    return CIRCUIT_INDEX_NONE;
}

static uint32_t claim_free(struct segment *segment, const struct key *key)
{
    for (uint32_t step = 0; step < steps_of(segment); step++) {
        uint32_t index = place_of(segment, key, step);
        uint64_t expected = 0;

        /*
         * Acquire on success: nothing of ours is published by the key alone. On failure: the winner may have our key.
         */
        if (atomic_compare_exchange_strong_explicit(&segment->circuits[index].hash, &expected, key->hash,
                                                    memory_order_acq_rel, memory_order_acquire) ||
            expected == key->hash)
            return index;
    }
    return CIRCUIT_INDEX_NONE;
}

/* Whether its state may be forgotten once nobody has asked for it during `idle_ns`. */
static bool is_forgettable(const struct circuit_entry *entry, uint64_t idle_ns, uint64_t now_ns)
{
    /* Its own are not known here. Nobody has asked for it for so long that a later deadline is another clock's. */
    static const struct settings unknown = {.reset_timeout_max_ns = IDLE_OPEN_NS, .probe_timeout_ns = IDLE_OPEN_NS};
    struct circuit_view view;

    if (circuit_is_closed(&entry->circuit))
        return idle_ns >= IDLE_NS;
    if (idle_ns < IDLE_OPEN_NS)
        return false;
    circuit_observe(&entry->circuit, &unknown, now_ns, &view);
    return view.state == CIRCUIT_OPEN && view.probe_due;
}

static bool is_idle(struct circuit_entry *entry, uint64_t now_ns)
{
    /* seq_cst: see mark_used. */
    uint64_t used = atomic_load_explicit(&entry->last_used_ns, memory_order_seq_cst);

    if (used > now_ns) {
        /* By another clock, or corrupt: whoever uses it notes that again; else it is idle in its time. */
        atomic_compare_exchange_strong_explicit(&entry->last_used_ns, &used, now_ns, memory_order_seq_cst,
                                                memory_order_relaxed);
        return false;
    }
    return is_forgettable(entry, now_ns - used, now_ns) &&
           !force_holds(atomic_load_explicit(&entry->forced, memory_order_relaxed), now_ns) &&
           held_unpack(atomic_load_explicit(&entry->held, memory_order_relaxed), now_ns).hold == HOLD_NONE;
}

/* What the circuit has learned goes. What its calls in flight hold stays theirs. */
static void clear_history(const struct segment *segment, struct circuit_entry *entry)
{
    latency_reset(&segment->latency[entry - segment->circuits]);
    learnt_reset(&segment->learnt[entry - segment->circuits]);
    circuit_reset(&entry->circuit);
    evidence_clear(&entry->evidence);
    for (unsigned int i = 0; i < 2; i++)
        atomic_store_explicit(&entry->transitions[i].stamp.stamp, 0, memory_order_relaxed);
    outage_clear(entry);
    local_faults_clear(entry);
    retry_budget_clear(&entry->retry_budget);
    atomic_store_explicit(&entry->refusal_noted, 0, memory_order_relaxed);
}

/* Empties a place that carries our tombstone. The former destination's callers, if any, find their generation gone. */
static void clear(const struct segment *segment, struct circuit_entry *entry, uint64_t now_ns)
{
    clear_history(segment, entry);
    for (unsigned int i = 0; i < REHEARSALS; i++)
        atomic_store_explicit(&entry->rehearsals[i], 0, memory_order_relaxed);
    atomic_store_explicit(&entry->forced, 0, memory_order_relaxed);
    atomic_store_explicit(&entry->held, 0, memory_order_relaxed);
    bulkhead_clear(entry);
    atomic_store_explicit(&entry->ready, 0, memory_order_relaxed);
    /* Release: who finds this note finds the tombstone too, see mark_used. */
    atomic_store_explicit(&entry->last_used_ns, now_ns, memory_order_release);
}

/* Whether a handover that began at that time may still go on. One from far ahead was begun by another clock. */
static bool is_under_way(uint64_t tombstone, uint64_t now_ns)
{
    return tombstone > now_ns ? tombstone - now_ns < HANDOVER_NS : now_ns - tombstone < HANDOVER_NS;
}

/*
 * Takes the place of an idle circuit, or of one whose handover was begun by somebody who was killed. One that a
 * connection refers to is in use.
 */
static bool take_over(struct segment *segment, uint32_t index, const struct key *key, uint64_t now_ns)
{
    struct circuit_entry *entry = &segment->circuits[index];
    uint64_t former = circuit_entry_hash(entry);
    uint64_t tombstone = (now_ns & ~CIRCUIT_KEY_BIT) | 1;
    bool is_key = (former & CIRCUIT_KEY_BIT) != 0;

    if (is_key ? !is_idle(entry, now_ns) : is_under_way(former, tombstone))
        return false;
    /* seq_cst: see mark_used. */
    if (!atomic_compare_exchange_strong_explicit(&entry->hash, &former, tombstone, memory_order_seq_cst,
                                                 memory_order_relaxed))
        return false;
    const bool is_referred_to = somebody_refers_to(segment, index);
    /* Of one whose taker was killed nobody knows the key any more: it is theirs who refer to it, till they are gone. */
    if (!is_key && is_referred_to)
        return false;
    if (is_key && (is_referred_to || !is_idle(entry, now_ns))) {
        /* Somebody came for it: give it back. (Should even this have been taken for a killed one's: leave it.) */
        atomic_store_explicit(&entry->last_used_ns, now_ns, memory_order_seq_cst);
        atomic_compare_exchange_strong_explicit(&entry->hash, &tombstone, former, memory_order_release,
                                                memory_order_relaxed);
        return false;
    }
    if (circuit_entry_hash(entry) != tombstone)
        return false;
    clear(segment, entry, now_ns);
    write_texts(entry, key);
    /* Release: the key is seen after all of the above. */
    if (atomic_compare_exchange_strong_explicit(&entry->hash, &tombstone, key->hash, memory_order_release,
                                                memory_order_relaxed))
        return true;
    /* Taken from us, who were thought dead: see label. */
    atomic_store_explicit(&entry->ready, 0, memory_order_release);
    return false;
}

/* Of all who find no place, one looks for one that may be had. A time that lies ahead is long ago as well. */
static bool takes_turn(struct circuit_entry *home, uint64_t real_ns)
{
    uint64_t sought_ns = atomic_load_explicit(&home->sought_ns, memory_order_relaxed);

    return real_ns - sought_ns >= SEEK_NS &&
           atomic_compare_exchange_strong_explicit(&home->sought_ns, &sought_ns, real_ns, memory_order_relaxed,
                                                   memory_order_relaxed);
}

/* The key's place that was used the longest time ago, of those that may be had; CIRCUIT_INDEX_NONE: there is none. */
static uint32_t oldest_place(struct segment *segment, const struct key *key, uint64_t now_ns)
{
    uint32_t oldest = CIRCUIT_INDEX_NONE;
    uint64_t oldest_ns = UINT64_MAX;

    for (uint32_t step = 0; step < steps_of(segment); step++) {
        uint32_t index = place_of(segment, key, step);
        struct circuit_entry *entry = &segment->circuits[index];
        bool is_key = (circuit_entry_hash(entry) & CIRCUIT_KEY_BIT) != 0;
        uint64_t used_ns = is_key ? atomic_load_explicit(&entry->last_used_ns, memory_order_relaxed) : 0;

        if (used_ns < oldest_ns &&
            (is_key ? is_idle(entry, now_ns) : !is_under_way(circuit_entry_hash(entry), now_ns | 1))) {
            oldest = index;
            oldest_ns = used_ns;
        }
    }
    return oldest;
}

static uint32_t recycle(struct segment *segment, const struct key *key, uint64_t now_ns)
{
    struct circuit_entry *home = &segment->circuits[place_of(segment, key, 0)];

    if (!takes_turn(home, clock_real_ns()))
        return CIRCUIT_INDEX_NONE;
    for (unsigned int i = 0; i < REFERENCES_LOOKED_UP; i++) {
        uint32_t index = oldest_place(segment, key, now_ns);

        if (index == CIRCUIT_INDEX_NONE)
            break;
        if (!take_over(segment, index, key, now_ns))
            continue;
        atomic_store_explicit(&home->sought_ns, 0, memory_order_relaxed);
        /* Another process may have made a place for the same key meanwhile: the first one counts. */
        return look_up(segment, key);
    }
    return CIRCUIT_INDEX_NONE;
}

/*
 * Notes the use. False: the place was handed over meanwhile. Here the note is written and then the key read again; who
 * wants the place writes the key and then reads the note (take_over): with all four sequentially consistent, one sees
 * the other. A note that is fresh enough to be left alone keeps everybody from wanting the place; but it may be the
 * new owner's, whose key is then seen with it.
 */
HOT static bool mark_used(struct circuit_entry *entry, const struct key *key, uint64_t now_ns)
{
    uint64_t used = atomic_load_explicit(&entry->last_used_ns, memory_order_acquire);

    if (used > now_ns || now_ns - used >= USE_GRAIN_NS || used == 0)
        atomic_store_explicit(&entry->last_used_ns, now_ns, memory_order_seq_cst);
    return atomic_load_explicit(&entry->hash, memory_order_seq_cst) == key->hash;
}

/*
 * Writes the texts of a place that has the key. False: it has changed hands; who was stopped here for so long has
 * written over another's texts: who has the place now finds that there are none, and writes its own.
 */
static bool label(struct circuit_entry *entry, const struct key *key)
{
    if (circuit_entry_hash(entry) != key->hash)
        return false;
    write_texts(entry, key);
    /* Both sequentially consistent: who takes the place away meanwhile finds the texts, or is seen here. */
    atomic_exchange_explicit(&entry->ready, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&entry->hash, memory_order_seq_cst) == key->hash)
        return true;
    atomic_store_explicit(&entry->ready, 0, memory_order_release);
    return false;
}

uint32_t circuits_find(struct segment *segment, const char *target, const char *destination, uint64_t now_ns)
{
    struct key key = key_make(target, destination);

    if (segment->map == NULL)
        return CIRCUIT_INDEX_NONE;
    for (unsigned int try = 0; try < FIND_TRIES; try++) {
        uint32_t index = look_up(segment, &key);

        if (index == CIRCUIT_INDEX_NONE)
            index = claim_free(segment, &key);
        if (index == CIRCUIT_INDEX_NONE)
            index = recycle(segment, &key, now_ns);
        if (index == CIRCUIT_INDEX_NONE)
            return CIRCUIT_INDEX_NONE;

        struct circuit_entry *entry = &segment->circuits[index];
        if (!mark_used(entry, &key, now_ns))
            continue;
        if (atomic_load_explicit(&entry->ready, memory_order_acquire) == 0 && !label(entry, &key))
            continue;
        return index;
    }
    return CIRCUIT_INDEX_NONE;
}

uint64_t circuits_key(const char *target, const char *destination)
{
    return key_make(target, destination).hash;
}

HOT uint32_t circuits_in_use(struct segment *segment, uint64_t key, uint64_t now_ns)
{
    const struct key known = {.hash = key};
    const uint32_t index = segment->map != NULL ? look_up(segment, &known) : CIRCUIT_INDEX_NONE;
    struct circuit_entry *entry = circuits_entry(segment, index);

    return entry != NULL && mark_used(entry, &known, now_ns) &&
                   atomic_load_explicit(&entry->ready, memory_order_acquire) != 0
               ? index
               : CIRCUIT_INDEX_NONE;
}

uint32_t circuits_stand(const struct segment *segment, const char *target, const char *destination)
{
    struct key key = key_make(target, destination);

    return segment->map != NULL ? look_up(segment, &key) : CIRCUIT_INDEX_NONE;
}

bool circuits_forget(struct segment *segment, uint32_t index, bool in_use, uint64_t now_ns)
{
    struct circuit_entry *entry = circuits_entry(segment, index);
    uint64_t former = entry != NULL ? circuit_entry_hash(entry) : 0, tombstone = (now_ns & ~CIRCUIT_KEY_BIT) | 1;

    if ((former & CIRCUIT_KEY_BIT) == 0)
        return false;
    if (in_use) {
        clear_history(segment, entry);
        return true;
    }
    /* As in take_over: whoever comes for it meanwhile finds its key gone, and makes it anew. */
    if (!atomic_compare_exchange_strong_explicit(&entry->hash, &former, tombstone, memory_order_seq_cst,
                                                 memory_order_relaxed))
        return false;
    clear(segment, entry, now_ns);
    /* Release: that it is free is seen after all of the above. */
    return atomic_compare_exchange_strong_explicit(&entry->hash, &tombstone, 0, memory_order_release,
                                                   memory_order_relaxed);
}
