/*
 * word.h - the one word that decides: how a circuit's state lies in 64 bits.
 *
 * Private to src/breaker. Packs and unpacks, and compares the deadlines that are cut to 57 bits; nothing else. Any
 * bit pattern can be unpacked (the memory is shared and may be corrupt): every field then lies within its width, but
 * `state` may be WORD_BROKEN and the numbers may be absurd.
 */
#ifndef SOCKFUSE_BREAKER_WORD_H
#define SOCKFUSE_BREAKER_WORD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "breaker/circuit_model.h"

/* The fourth pattern of the two state bits. Nobody writes it. */
#define WORD_BROKEN 3u

#define WORD_STATE_SHIFT 62
/* closed */
#define WORD_FAILURES_SHIFT 46
#define WORD_FAILURES_MASK UINT64_C(0xffff)
#define WORD_CLOSED_GENERATION_BITS 46
/* open and half-open */
#define WORD_STEP_SHIFT 57
#define WORD_STEP_MAX 31u
/* open */
#define WORD_DEADLINE_BITS 57
/* half-open */
#define WORD_LEASES_SHIFT 49
#define WORD_LEASES_MASK 0xffu
#define WORD_SUCCESSES_SHIFT 42
#define WORD_SUCCESSES_MASK 0x7fu
#define WORD_STAMP_SHIFT 34
#define WORD_STAMP_MASK 0xffu
#define WORD_GENERATION_BITS 34

#define WORD_LOW_BITS(bits) ((UINT64_C(1) << (bits)) - 1)

_Static_assert(CIRCUIT_FAILURES_MAX == WORD_FAILURES_MASK, "failures fill their field");
_Static_assert(CIRCUIT_SUCCESSES_MAX == WORD_SUCCESSES_MASK, "successes fill their field");
_Static_assert((1u << CIRCUIT_LEASES) - 1 == WORD_LEASES_MASK, "a bit for each lease");

/* A word taken apart. Fields that its state does not have are 0. */
struct word {
    unsigned int state;  /* enum circuit_state, or WORD_BROKEN */
    uint32_t failures;   /* closed */
    uint32_t step;       /* open, half-open */
    uint32_t leases;     /* half-open */
    uint32_t successes;  /* half-open */
    uint32_t stamp;      /* half-open */
    uint64_t generation; /* closed, half-open */
    uint64_t deadline;   /* open: low bits of a time in nanoseconds */
};

static inline struct word word_unpack(uint64_t raw)
{
    struct word word = {.state = (unsigned int)(raw >> WORD_STATE_SHIFT)};

    switch (word.state) {
    case CIRCUIT_CLOSED:
        word.failures = (uint32_t)(raw >> WORD_FAILURES_SHIFT & WORD_FAILURES_MASK);
        word.generation = raw & WORD_LOW_BITS(WORD_CLOSED_GENERATION_BITS);
        break;
    case CIRCUIT_OPEN:
        word.step = (uint32_t)(raw >> WORD_STEP_SHIFT) & WORD_STEP_MAX;
        word.deadline = raw & WORD_LOW_BITS(WORD_DEADLINE_BITS);
        break;
    case CIRCUIT_HALF_OPEN:
        word.step = (uint32_t)(raw >> WORD_STEP_SHIFT) & WORD_STEP_MAX;
        word.leases = (uint32_t)(raw >> WORD_LEASES_SHIFT) & WORD_LEASES_MASK;
        word.successes = (uint32_t)(raw >> WORD_SUCCESSES_SHIFT) & WORD_SUCCESSES_MASK;
        word.stamp = (uint32_t)(raw >> WORD_STAMP_SHIFT) & WORD_STAMP_MASK;
        word.generation = raw & WORD_LOW_BITS(WORD_GENERATION_BITS);
        break;
    default:
        break;
    }
    return word;
}

static inline uint64_t word_pack(struct word word)
{
    uint64_t raw = (uint64_t)word.state << WORD_STATE_SHIFT;

    switch (word.state) {
    case CIRCUIT_CLOSED:
        raw |= (word.failures & WORD_FAILURES_MASK) << WORD_FAILURES_SHIFT;
        raw |= word.generation & WORD_LOW_BITS(WORD_CLOSED_GENERATION_BITS);
        break;
    case CIRCUIT_OPEN:
        raw |= (uint64_t)(word.step & WORD_STEP_MAX) << WORD_STEP_SHIFT;
        raw |= word.deadline & WORD_LOW_BITS(WORD_DEADLINE_BITS);
        break;
    case CIRCUIT_HALF_OPEN:
        raw |= (uint64_t)(word.step & WORD_STEP_MAX) << WORD_STEP_SHIFT;
        raw |= (uint64_t)(word.leases & WORD_LEASES_MASK) << WORD_LEASES_SHIFT;
        raw |= (uint64_t)(word.successes & WORD_SUCCESSES_MASK) << WORD_SUCCESSES_SHIFT;
        raw |= (uint64_t)(word.stamp & WORD_STAMP_MASK) << WORD_STAMP_SHIFT;
        raw |= word.generation & WORD_LOW_BITS(WORD_GENERATION_BITS);
        break;
    default:
        break;
    }
    return raw;
}

/*
 * How old the time of who asks may be: it was read before the word was, and its thread may have waited for a processor
 * since. What another has set meanwhile lies further ahead by so much, and is believed all the same.
 */
#define TIME_READ_AGO_MAX_NS UINT64_C(60000000000)

/* Whether a time that lies so far ahead of who asks can be that of a duration which began on the same clock. */
static inline bool time_can_be_ahead(uint64_t ahead_ns, uint64_t duration_ns)
{
    return ahead_ns <= duration_ns || ahead_ns - duration_ns <= TIME_READ_AGO_MAX_NS;
}

/*
 * Nanoseconds from `now_ns` until a word's deadline; 0 when it is reached or passed. Both are taken modulo 2^57: what
 * lies in the half circle ahead is still to come, the rest has been.
 */
static inline uint64_t word_until(uint64_t deadline, uint64_t now_ns)
{
    uint64_t ahead = (deadline - now_ns) & WORD_LOW_BITS(WORD_DEADLINE_BITS);

    return ahead < UINT64_C(1) << (WORD_DEADLINE_BITS - 1) ? ahead : 0;
}

/* The numbers in a word saturate: they stay at what their field can hold. */
static inline uint32_t word_one_more(uint32_t number, uint32_t limit)
{
    return number < limit ? number + 1 : limit;
}

/* Whether a clock has reached `deadline_ns`: AT the deadline it has. For whole 64-bit times. */
static inline bool time_reached(uint64_t now_ns, uint64_t deadline_ns)
{
    return now_ns >= deadline_ns;
}

static inline uint64_t time_after(uint64_t now_ns, uint64_t duration_ns)
{
    return duration_ns < UINT64_MAX - now_ns ? now_ns + duration_ns : UINT64_MAX;
}

/*
 * A fresh serial number, of which the low `bits` bits are not 0. Relaxed: a serial only has to differ from the others
 * and to grow; whatever it marks is published by its own release.
 */
static inline uint64_t serial_draw(struct circuit *circuit, unsigned int bits)
{
    uint64_t serial = atomic_fetch_add_explicit(&circuit->serial, 1, memory_order_relaxed) + 1;

    if ((serial & WORD_LOW_BITS(bits)) == 0)
        serial = atomic_fetch_add_explicit(&circuit->serial, 1, memory_order_relaxed) + 1;
    return serial & WORD_LOW_BITS(bits);
}

#endif
