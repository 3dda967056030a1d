/*
 * circuit_evidence.c - writing and reading the rings of a circuit's evidence.
 *
 * A slot is written as one of the journal: stamp 0, checksum, words, stamp, each store a release. The stamp is a serial
 * number that all rings draw from, so that of two failures the later one is known, whichever rings they are in.
 */
#include "segment/circuit_evidence.h"

#include <stdatomic.h>
#include <string.h>

#include "base/hash.h"
#include "base/shared.h"
#include "policy/endpoint.h"
#include "segment/circuits.h"
#include "segment/layout.h"

/* By how many a writer can have been overtaken; a stamp from further ahead is rubbish, and is written over. */
#define OVERTAKEN_MAX (UINT32_C(1) << 20)
#define FAMILY_SHIFT 16

static const struct {
    unsigned int first, size;
} rings[EVIDENCE_RINGS] = {
    [EVIDENCE_CLOSED] = {0, EVIDENCE_CLOSED_SIZE},
    [EVIDENCE_PROBES] = {EVIDENCE_CLOSED_SIZE, EVIDENCE_PROBES_SIZE},
    [EVIDENCE_OBSERVED] = {EVIDENCE_CLOSED_SIZE + EVIDENCE_PROBES_SIZE, EVIDENCE_OBSERVED_SIZE},
};

static struct circuit_evidence *evidence_of(const struct segment *segment, uint32_t circuit)
{
    struct circuit_entry *entry = circuits_entry(segment, circuit);

    return entry != NULL ? &entry->evidence : NULL;
}

/* --- slots -------------------------------------------------------------------------------------------------------- */

static uint32_t checksum_of(const void *words, size_t bytes, uint32_t stamp)
{
    const uint64_t hash = hash_bytes(hash_bytes(HASH_BEGIN, &stamp, sizeof stamp), words, bytes);

    return (uint32_t)(hash ^ hash >> 32);
}

static void slot_write(_Atomic uint32_t *stamp, _Atomic uint32_t *checksum, void *slot, const void *words, size_t bytes,
                       uint32_t serial)
{
    const uint32_t present = atomic_load_explicit(stamp, memory_order_relaxed);

    /* Who was overtaken leaves what is newer alone. (The difference is right over the wrap of 32 bits.) */
    if (present != 0 && present != serial && present - serial < OVERTAKEN_MAX)
        return;
    atomic_store_explicit(stamp, 0, memory_order_relaxed);
    atomic_store_explicit(checksum, checksum_of(words, bytes, serial), memory_order_release);
    shared_store(slot, words, bytes);
    atomic_store_explicit(stamp, serial, memory_order_release);
}

static bool slot_read(const _Atomic uint32_t *stamp, const _Atomic uint32_t *checksum, const void *slot, void *words,
                      size_t bytes, uint32_t *serial)
{
    *serial = atomic_load_explicit(stamp, memory_order_acquire);
    if (*serial == 0)
        return false;
    const uint32_t sum = atomic_load_explicit(checksum, memory_order_acquire);
    shared_load(words, slot, bytes);
    /* The words were acquired, so this load is not done before them. */
    return atomic_load_explicit(stamp, memory_order_relaxed) == *serial && checksum_of(words, bytes, *serial) == sum;
}

/* A serial number is never 0. */
static uint32_t draw(_Atomic uint32_t *last)
{
    uint32_t serial = atomic_fetch_add_explicit(last, 1, memory_order_relaxed) + 1;

    return serial != 0 ? serial : atomic_fetch_add_explicit(last, 1, memory_order_relaxed) + 1;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

void evidence_note(const struct segment *segment, uint32_t circuit, enum evidence_ring ring,
                   const struct evidence *evidence)
{
    struct circuit_entry *entry = circuits_entry(segment, circuit);

    if (entry == NULL)
        return;
    const uint32_t begun = atomic_fetch_add_explicit(&entry->evidence.begun[ring], 1, memory_order_relaxed);
    struct evidence_slot *slot = &entry->evidence.slots[rings[ring].first + begun % rings[ring].size];
    slot_write(&slot->stamp, &slot->checksum, &slot->evidence, evidence, sizeof *evidence,
               draw(&entry->failure_writes));
}

void evidence_note_opening(const struct segment *segment, uint32_t circuit, const struct opening *opening)
{
    struct circuit_evidence *evidence = evidence_of(segment, circuit);

    if (evidence == NULL)
        return;
    const uint32_t serial = draw(&evidence->openings_begun);
    struct opening_slot *slot = &evidence->openings[serial % 2];
    slot_write(&slot->stamp, &slot->checksum, &slot->opening, opening, sizeof *opening, serial);
}

/* Two that write at once, or one that is killed in between, leave what does not fit its key. */
__attribute__((cold)) void evidence_write_address(struct circuit_evidence *evidence, unsigned int place, uint64_t key,
                                                  const struct endpoint *endpoint)
{
    struct address_text *text = &evidence->addresses[place];
    uint64_t halves[2];

    if (endpoint->family == ENDPOINT_UNIX)
        return;
    memcpy(halves, endpoint->address, sizeof halves);
    atomic_store_explicit(&text->key, 0, memory_order_relaxed);
    atomic_store_explicit(&text->halves[0], halves[0], memory_order_relaxed);
    atomic_store_explicit(&text->halves[1], halves[1], memory_order_relaxed);
    atomic_store_explicit(&text->port, (uint32_t)endpoint->family << FAMILY_SHIFT | endpoint->port,
                          memory_order_relaxed);
    atomic_store_explicit(&text->scope, endpoint->scope_id, memory_order_relaxed);
    /* Release: with the key comes the rest. */
    atomic_store_explicit(&text->key, key, memory_order_release);
}

void evidence_clear(struct circuit_evidence *evidence)
{
    for (unsigned int i = 0; i < EVIDENCE_SLOTS; i++)
        atomic_store_explicit(&evidence->slots[i].stamp, 0, memory_order_relaxed);
    for (unsigned int i = 0; i < EVIDENCE_RINGS; i++)
        atomic_store_explicit(&evidence->begun[i], 0, memory_order_relaxed);
    for (unsigned int i = 0; i < 2; i++)
        atomic_store_explicit(&evidence->openings[i].stamp, 0, memory_order_relaxed);
    for (unsigned int i = 0; i < CIRCUIT_ADDRESSES; i++)
        atomic_store_explicit(&evidence->addresses[i].key, 0, memory_order_relaxed);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* The file may hold anything: what leaves here has an ended text and known values. */
static void make_sane(struct evidence *evidence)
{
    evidence->program[sizeof evidence->program - 1] = '\0';
    if (evidence->kind >= FAILURE_KINDS)
        evidence->kind = FAILURE_NONE;
    if (evidence->http_status > ANSWER_STATUS_MAX)
        evidence->http_status = 0;
    if (evidence->overran > OVERRAN_CAME)
        evidence->overran = OVERRAN_HANGS;
    if (evidence->phase > PHASE_ANSWERED)
        evidence->phase = PHASE_ANSWERED;
    if (evidence->error < 0)
        evidence->error = 0;
    evidence->marks &= EVIDENCE_INJECTED | EVIDENCE_SLOW;
}

/* Serial numbers wrap: whichever is less than half the way ahead is the later one. */
static bool is_later(uint32_t serial, uint32_t other)
{
    return (int32_t)(serial - other) > 0;
}

static void add_in_order(struct evidence_view *view, const struct evidence_seen *seen)
{
    unsigned int at = view->count++;

    for (; at > 0 && is_later(view->at[at - 1].serial, seen->serial); at--)
        view->at[at] = view->at[at - 1];
    view->at[at] = *seen;
}

static void read_ring(const struct circuit_evidence *evidence, enum evidence_ring ring, struct evidence_view *view)
{
    const uint32_t begun = atomic_load_explicit(&evidence->begun[ring], memory_order_relaxed);

    for (unsigned int i = 0; i < rings[ring].size; i++) {
        const struct evidence_slot *slot = &evidence->slots[rings[ring].first + i];
        struct evidence_seen seen = {.ring = ring};

        if (slot_read(&slot->stamp, &slot->checksum, &slot->evidence, &seen.evidence, sizeof seen.evidence,
                      &seen.serial)) {
            make_sane(&seen.evidence);
            add_in_order(view, &seen);
        } else if (begun > i) {
            view->unreadable++;
        }
    }
}

static bool read_opening(const struct opening_slot *slot, struct opening *opening, uint32_t *serial)
{
    if (!slot_read(&slot->stamp, &slot->checksum, &slot->opening, opening, sizeof *opening, serial))
        return false;
    opening->program[sizeof opening->program - 1] = '\0';
    if (opening->reason >= TRANSITION_REASONS)
        opening->reason = REASON_NONE;
    opening->injected = opening->injected != 0;
    return true;
}

bool evidence_read(const struct segment *segment, uint32_t circuit, struct evidence_view *view)
{
    const struct circuit_evidence *evidence = evidence_of(segment, circuit);
    struct opening second;
    uint32_t serials[2];

    view->count = view->unreadable = 0;
    view->has_opening = false;
    if (evidence == NULL)
        return false;
    for (unsigned int ring = 0; ring < EVIDENCE_RINGS; ring++)
        read_ring(evidence, (enum evidence_ring)ring, view);
    view->has_opening = read_opening(&evidence->openings[0], &view->opening, &serials[0]);
    if (read_opening(&evidence->openings[1], &second, &serials[1]) &&
        (!view->has_opening || is_later(serials[1], serials[0]))) {
        view->opening = second;
        view->has_opening = true;
    }
    return true;
}

/* The last failure in any ring. */
static bool last_failure(const struct circuit_evidence *evidence, struct evidence *last)
{
    struct evidence found;
    uint32_t serial, last_serial = 0;
    bool any = false;

    for (unsigned int i = 0; i < EVIDENCE_SLOTS; i++) {
        const struct evidence_slot *slot = &evidence->slots[i];

        if (!slot_read(&slot->stamp, &slot->checksum, &slot->evidence, &found, sizeof found, &serial) ||
            (found.marks & EVIDENCE_SLOW) != 0 || (any && !is_later(serial, last_serial)))
            continue;
        *last = found;
        last_serial = serial;
        any = true;
    }
    return any;
}

bool circuits_last_failure(const struct segment *segment, uint32_t circuit, struct event *event)
{
    const struct circuit_evidence *evidence = evidence_of(segment, circuit);
    struct evidence last = {0};

    if (evidence == NULL || !last_failure(evidence, &last))
        return false;
    make_sane(&last);
    const uint64_t elapsed_ms = last.elapsed_ns / NS_PER_MS;
    memset(event, 0, sizeof *event);
    event->type = EVENT_FAILURE;
    event->time_ns = last.time_ns;
    event->mono_ns = last.mono_ns;
    event->pid = last.pid;
    event->error = last.error;
    event->elapsed_ms = elapsed_ms < UINT32_MAX ? (uint32_t)elapsed_ms : UINT32_MAX;
    event->kind = last.kind;
    event->overran = last.overran;
    event->injected = (last.marks & EVIDENCE_INJECTED) != 0;
    event->http_status = last.kind == FAILURE_HTTP ? last.http_status : 0;
    memcpy(event->program, last.program, sizeof event->program);
    circuits_copy_texts(segment, circuit, event->target, event->destination);
    return true;
}

bool evidence_address(const struct segment *segment, uint32_t circuit, uint32_t address, char text[DESTINATION_MAX])
{
    const struct circuit_evidence *evidence = evidence_of(segment, circuit);

    for (unsigned int i = 0; evidence != NULL && address != 0 && i < CIRCUIT_ADDRESSES; i++) {
        const struct address_text *at = &evidence->addresses[i];
        /* Acquire: what was written before it. */
        const uint64_t key = atomic_load_explicit(&at->key, memory_order_acquire);
        struct endpoint endpoint = {.family = ENDPOINT_NONE};
        uint64_t halves[2];

        if ((uint32_t)key != address)
            continue;
        const uint32_t port = atomic_load_explicit(&at->port, memory_order_relaxed);
        if (port >> FAMILY_SHIFT != ENDPOINT_IPV4 && port >> FAMILY_SHIFT != ENDPOINT_IPV6)
            continue;
        halves[0] = atomic_load_explicit(&at->halves[0], memory_order_relaxed);
        halves[1] = atomic_load_explicit(&at->halves[1], memory_order_relaxed);
        endpoint.family = (enum endpoint_family)(port >> FAMILY_SHIFT);
        endpoint.port = (uint16_t)port;
        endpoint.scope_id = atomic_load_explicit(&at->scope, memory_order_relaxed);
        memcpy(endpoint.address, halves, sizeof halves);
        if (endpoint_hash(&endpoint) == key)
            return endpoint_format(&endpoint, text, DESTINATION_MAX) > 0;
    }
    return false;
}
