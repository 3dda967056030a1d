/*
 * window.c - the two kinds of window: buckets of time in shards, and the last outcomes in chunks.
 *
 * Numbers that only grow make a reset free of charge: a bucket bears its tick, a chunk its number, and both jump by
 * more than a whole ring when a generation begins, so whatever stands in the ring from before is out of every window.
 * Who is late, with a time or a generation that is over, sees a word that is ahead of his own, and leaves it.
 *
 * The jump is made by the first outcome of the generation. One that is still on its way from an earlier generation
 * must not make another: he looks at the circuit after he has read the word that he wants to replace. If the circuit
 * is still in his generation then, the word can't be a later one's.
 */
#include "breaker/window.h"

#include <stdatomic.h>

#include "breaker/word.h"

/* A CAS loses only to somebody else's, so this is met only if hostile memory never comes to rest. */
#define TRIES_MAX 65536u

/* Pinned: processes of another word size share it. */
_Static_assert(offsetof(struct window, head) == 64 && offsetof(struct window, chunks) == 128, "pinned");
_Static_assert(offsetof(struct window, buckets) == 640 && sizeof(struct window) == 6784, "pinned");

static uint32_t upper(uint64_t word)
{
    return (uint32_t)(word >> 32);
}

static uint32_t lower(uint64_t word)
{
    return (uint32_t)word;
}

static uint64_t joined(uint32_t high, uint32_t low)
{
    return (uint64_t)high << 32 | low;
}

/* Sequentially consistent, as all that counts or sums: of two that fail at once, one sees the other's failure. */
static uint64_t load(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_seq_cst);
}

static bool swap(_Atomic uint64_t *word, uint64_t expected, uint64_t desired)
{
    return atomic_compare_exchange_strong_explicit(word, &expected, desired, memory_order_seq_cst,
                                                   memory_order_relaxed);
}

/* Asked after a word was read that is to be replaced, see the top of this file. Acquire: not before that. */
static bool is_current(const struct circuit *circuit, uint64_t generation)
{
    struct word word = word_unpack(atomic_load_explicit(&circuit->word, memory_order_acquire));

    return word.state == CIRCUIT_CLOSED && word.generation == generation;
}

/* --- a duration --- */

/* Buckets are 2^shift ns wide, so that no call divides; 2^20 ns is a millisecond. */
#define SHIFT_MIN 20u
#define SHIFT_MAX 50u
/* In the epoch; 0 stands for none. */
#define SHIFT_FIELD(shift) ((shift)-SHIFT_MIN + 1)
#define SHIFT_FIELD_MASK 31u
#define EPOCH_GENERATION_SHIFT 37
/* Of another epoch's last tick and this one's first: a ring, and as much again for those who are late. */
#define EPOCH_GAP (2 * WINDOW_BUCKETS)
/* A tick further ahead than this (six days with the shortest window) is an ancient one: the circle came round to it. */
#define AHEAD_MAX (1 << 24)

_Static_assert(SHIFT_FIELD(SHIFT_MAX) == SHIFT_FIELD_MASK, "the widest bucket fits the field");

struct epoch {
    unsigned int shift;
    uint32_t offset; /* tick = time >> shift, + offset, modulo 2^32 */
};

static uint64_t generation_mark(uint64_t generation)
{
    return generation & WORD_LOW_BITS(64 - EPOCH_GENERATION_SHIFT);
}

/* False: it is another generation's, or nobody's. */
static bool epoch_read(uint64_t raw, uint64_t generation, struct epoch *epoch)
{
    unsigned int field = (unsigned int)(raw >> 32) & SHIFT_FIELD_MASK;

    *epoch = (struct epoch){field + SHIFT_MIN - 1, lower(raw)};
    return field != 0 && raw >> EPOCH_GENERATION_SHIFT == generation_mark(generation);
}

static uint32_t tick_at(const struct epoch *epoch, uint64_t time_ns)
{
    return (uint32_t)(time_ns >> epoch->shift) + epoch->offset;
}

/* How far `tick` lies ahead of another one; negative: behind. */
static int32_t ticks_ahead(uint32_t tick, uint32_t other)
{
    return (int32_t)(tick - other);
}

static bool is_ahead(uint32_t tick, uint32_t other)
{
    int32_t ahead = ticks_ahead(tick, other);

    return ahead > 0 && ahead < AHEAD_MAX;
}

/* The largest power of two that is at most a sixteenth of the window. */
static unsigned int shift_of(uint64_t window_ns)
{
    unsigned int shift = 63u - (unsigned int)__builtin_clzll(window_ns / (WINDOW_BUCKETS / 2) | 1);

    return shift < SHIFT_MIN ? SHIFT_MIN : shift > SHIFT_MAX ? SHIFT_MAX : shift;
}

/* The generation's epoch, which the first one begins. False: the generation is over. */
static bool epoch_enter(struct circuit *circuit, uint64_t generation, uint64_t window_ns, uint64_t now_ns,
                        struct epoch *epoch)
{
    _Atomic uint64_t *word = &circuit->window.epoch;
    const unsigned int shift = shift_of(window_ns);

    for (unsigned int try = 0; try < TRIES_MAX; try++) {
        uint64_t raw = load(word);

        /* A longer window than those before begins anew, with its wider buckets. */
        if (epoch_read(raw, generation, epoch) && epoch->shift >= shift)
            return true;
        if (!is_current(circuit, generation))
            return false;
        struct epoch next = {shift, 0};
        next.offset = tick_at(epoch, now_ns) + EPOCH_GAP - tick_at(&next, now_ns);
        uint64_t field = generation_mark(generation) << 5 | SHIFT_FIELD(shift);
        if (swap(word, raw, field << 32 | next.offset)) {
            *epoch = next;
            return true;
        }
    }
    return false;
}

static void bucket_add(_Atomic uint64_t ring[WINDOW_BUCKETS], uint32_t tick)
{
    _Atomic uint64_t *word = &ring[tick % WINDOW_BUCKETS];

    for (unsigned int try = 0; try < TRIES_MAX; try++) {
        uint64_t raw = load(word), next = raw + 1;

        if (upper(raw) != tick) {
            /* This bucket has gone round already, so what belonged into it is out of every window. */
            if (lower(raw) != 0 && is_ahead(upper(raw), tick))
                return;
            next = joined(tick, 1);
        } else if (lower(raw) == UINT32_MAX) {
            return;
        }
        if (swap(word, raw, next))
            return;
    }
}

/* How many buckets, the one of `latest` among them, begin less than a window before now. */
static uint32_t buckets_within(const struct epoch *epoch, uint64_t window_ns, uint64_t now_ns, uint32_t later)
{
    uint64_t last = (now_ns >> epoch->shift) + later;
    uint64_t end_ns = later == 0 ? now_ns : last << epoch->shift;
    /* Of those that begin at or before end - window, which are out. */
    uint64_t within = end_ns >= window_ns ? last - ((end_ns - window_ns) >> epoch->shift) : last + 1;

    return within < WINDOW_BUCKETS ? (uint32_t)within : WINDOW_BUCKETS;
}

/* Adds up the buckets of `latest` and before. Returns the latest tick that anybody has counted in, or that one. */
static uint32_t buckets_add_up(const struct window *window, uint32_t latest, uint32_t within,
                               uint64_t sums[WINDOW_CLASSES])
{
    uint32_t seen = latest;

    for (unsigned int shard = 0; shard < COUNTER_SHARDS; shard++) {
        for (unsigned int class = 0; class < WINDOW_CLASSES; class ++) {
            for (unsigned int i = 0; i < WINDOW_BUCKETS; i++) {
                uint64_t raw = load(&window->buckets[shard][class][i]);

                if (lower(raw) == 0)
                    continue;
                if (latest - upper(raw) < within)
                    sums[class] += lower(raw);
                else if (is_ahead(upper(raw), seen))
                    seen = upper(raw);
            }
        }
    }
    return seen;
}

static struct window_counts buckets_sum(const struct circuit *circuit, const struct settings *settings,
                                        uint64_t generation, uint64_t now_ns)
{
    const struct window *window = &circuit->window;
    uint64_t sums[WINDOW_CLASSES] = {0};
    struct epoch epoch;

    if (!epoch_read(load(&window->epoch), generation, &epoch))
        return (struct window_counts){0};
    uint32_t tick = tick_at(&epoch, now_ns);
    uint32_t latest = buckets_add_up(window, tick, buckets_within(&epoch, settings->window, now_ns, 0), sums);
    if (latest != tick) { /* our time is not the latest: the window is later */
        for (unsigned int class = 0; class < WINDOW_CLASSES; class ++)
            sums[class] = 0;
        buckets_add_up(window, latest, buckets_within(&epoch, settings->window, now_ns, latest - tick), sums);
    }
    return (struct window_counts){
        .calls = sums[WINDOW_SUCCEEDED] + sums[WINDOW_FAILED] + sums[WINDOW_SLOW],
        .failed = sums[WINDOW_FAILED],
        .slow = sums[WINDOW_SLOW],
    };
}

/* --- N calls --- */

#define OUTCOMES 16u
#define OUTCOME_BITS 2u
/* The lower bit of each outcome. */
#define OUTCOME_LOW UINT32_C(0x55555555)
/* Between the last chunk of a generation and the first of the next. */
#define CHUNK_GAP (2 * WINDOW_CHUNKS)

_Static_assert((WINDOW_CHUNKS - 1) * OUTCOMES + 1 >= WINDOW_CALLS_MAX, "the longest window fits");

/* 0 stands for a place that is free. */
static uint32_t outcome_code(enum window_class class)
{
    return (uint32_t) class + 1;
}

/* A bit for each outcome of that class. */
static uint32_t outcomes_of(uint32_t outcomes, enum window_class class)
{
    uint32_t code = outcome_code(class);
    uint32_t low = (code & 1) != 0 ? outcomes : ~outcomes, high = (code & 2) != 0 ? outcomes : ~outcomes;

    return low & high >> 1 & OUTCOME_LOW;
}

static unsigned int outcomes_count(uint32_t outcomes)
{
    return (unsigned int)__builtin_popcount((outcomes | outcomes >> 1) & OUTCOME_LOW);
}

/* Puts an outcome behind those of the present chunk. False: look again. */
static bool chunk_add(struct window *window, uint64_t head, uint32_t code)
{
    uint32_t number = lower(head);
    _Atomic uint64_t *chunk = &window->chunks[number % WINDOW_CHUNKS];
    uint64_t raw = load(chunk);
    unsigned int count = outcomes_count(lower(raw));

    if (upper(raw) != number) {
        /* A later round's, so the head has gone on; or an earlier one's, so nobody has begun this one. */
        if (ticks_ahead(upper(raw), number) > 0 && load(&window->head) != head)
            return false;
        return swap(chunk, raw, joined(number, code));
    }
    if (count < OUTCOMES)
        return swap(chunk, raw, raw | (uint64_t)code << (OUTCOME_BITS * count));
    swap(&window->head, head, joined(upper(head), number + 1));
    return false;
}

static void chunks_add(struct circuit *circuit, uint64_t generation, enum window_class class)
{
    struct window *window = &circuit->window;

    for (unsigned int try = 0; try < TRIES_MAX; try++) {
        uint64_t head = load(&window->head);

        if (upper(head) == lower(generation)) {
            if (chunk_add(window, head, outcome_code(class)))
                return;
        } else if (is_current(circuit, generation)) {
            swap(&window->head, head, joined(lower(generation), lower(head) + CHUNK_GAP));
        } else {
            return;
        }
    }
}

static struct window_counts chunks_sum(const struct circuit *circuit, const struct settings *settings,
                                       uint64_t generation)
{
    const struct window *window = &circuit->window;
    uint64_t head = load(&window->head), wanted = settings->window & ~WINDOW_CALLS;
    struct window_counts counts = {0};

    if (upper(head) != lower(generation))
        return counts;
    for (uint32_t back = 0; back < WINDOW_CHUNKS && counts.calls < wanted; back++) {
        uint32_t number = lower(head) - back;
        uint64_t raw = load(&window->chunks[number % WINDOW_CHUNKS]);
        uint32_t outcomes = lower(raw);
        unsigned int count = outcomes_count(outcomes);

        if (upper(raw) != number) {
            if (back == 0) /* begun by nobody yet */
                continue;
            break; /* the generation began behind it */
        }
        if (count > wanted - counts.calls) {
            /* Of the last chunk, the later ones. */
            outcomes >>= OUTCOME_BITS * (count - (unsigned int)(wanted - counts.calls));
            count = (unsigned int)(wanted - counts.calls);
        }
        counts.calls += count;
        counts.failed += (unsigned int)__builtin_popcount(outcomes_of(outcomes, WINDOW_FAILED));
        counts.slow += (unsigned int)__builtin_popcount(outcomes_of(outcomes, WINDOW_SLOW));
    }
    return counts;
}

/* --- both --- */

static bool is_of_calls(const struct settings *settings)
{
    return (settings->window & WINDOW_CALLS) != 0;
}

void window_add(struct circuit *circuit, const struct settings *settings, unsigned int shard, uint64_t generation,
                enum window_class class, uint64_t now_ns)
{
    struct epoch epoch;

    if (is_of_calls(settings))
        chunks_add(circuit, generation, class);
    else if (epoch_enter(circuit, generation, settings->window, now_ns, &epoch))
        bucket_add(circuit->window.buckets[shard % COUNTER_SHARDS][class], tick_at(&epoch, now_ns));
}

void window_add_success(struct circuit *circuit, const struct settings *settings, unsigned int shard,
                        uint64_t generation, uint64_t now_ns)
{
    struct epoch epoch;

    if (__builtin_expect(!is_of_calls(settings) && epoch_read(load(&circuit->window.epoch), generation, &epoch) &&
                             epoch.shift >= shift_of(settings->window),
                         1)) {
        uint32_t tick = tick_at(&epoch, now_ns);
        _Atomic uint64_t *word =
            &circuit->window.buckets[shard % COUNTER_SHARDS][WINDOW_SUCCEEDED][tick % WINDOW_BUCKETS];
        uint64_t raw = load(word);

        if (__builtin_expect(upper(raw) == tick && lower(raw) != UINT32_MAX && swap(word, raw, raw + 1), 1))
            return;
    }
    window_add(circuit, settings, shard, generation, WINDOW_SUCCEEDED, now_ns);
}

struct window_counts window_sum(const struct circuit *circuit, const struct settings *settings, uint64_t generation,
                                uint64_t now_ns)
{
    return is_of_calls(settings) ? chunks_sum(circuit, settings, generation)
                                 : buckets_sum(circuit, settings, generation, now_ns);
}

/* part / calls >= permille / 1000, once there are enough calls. */
static bool rate_reached(const struct settings *settings, const struct window_counts *counts, uint64_t part,
                         uint32_t permille)
{
    return permille != 0 && part != 0 && counts->calls >= settings->minimum_calls &&
           part * PERMILLE >= counts->calls * permille;
}

bool window_fails(const struct settings *settings, const struct window_counts *counts)
{
    return rate_reached(settings, counts, counts->failed, settings->failure_rate_permille);
}

bool window_is_slow(const struct settings *settings, const struct window_counts *counts)
{
    return settings->slow_call_ns != 0 &&
           rate_reached(settings, counts, counts->slow, settings->slow_call_rate_permille);
}
