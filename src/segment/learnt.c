/*
 * learnt.c - noting what a circuit's calls have taught, and reading it. See learnt.h.
 *
 * All is relaxed: nothing is decided by it, and nothing else is read by what is found here. A place is claimed by its
 * name's key; whoever finds the key writes the name again if it is not there yet, and all write the same bytes. A reader
 * holds the name against the key, so that one which is half written, or damaged, is not shown.
 */
#include "segment/learnt.h"

#include <stdatomic.h>
#include <string.h>

#include "base/hash.h"
#include "base/shared.h"
#include "base/units.h"

/* A word loses only to others' progress; beyond so many tries a wait is left out of it. */
#define TRIES_MAX 16u
#define RUN_FAILURES_BITS 24u
#define RUN_FAILURES_MAX ((UINT64_C(1) << RUN_FAILURES_BITS) - 1)
#define RUN_MS_MAX ((UINT64_C(1) << 40) - 1)
#define HOUR_NS (3600 * NS_PER_S)
#define HOUR_COUNT_BITS 16u
#define HOUR_COUNT_MAX ((1u << HOUR_COUNT_BITS) - 1)

static uint64_t load(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static uint32_t load32(const _Atomic uint32_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static uint32_t in_ms(uint64_t span_ns)
{
    const uint64_t span_ms = span_ns / NS_PER_MS;

    return span_ms < UINT32_MAX ? (uint32_t)span_ms : UINT32_MAX;
}

/* Keeps the larger one; or, of two that are not 0, the smaller. */
static void keep(_Atomic uint32_t *word, uint32_t value, bool largest)
{
    uint32_t seen = load32(word);

    for (unsigned int try = 0; try < TRIES_MAX && (largest ? seen < value : seen == 0 || seen > value); try++)
        if (atomic_compare_exchange_weak_explicit(word, &seen, value, memory_order_relaxed, memory_order_relaxed))
            return;
}

/* --- programs ----------------------------------------------------------------------------------------------------- */

/* Never 0. */
static uint64_t key_of(const char *name, size_t length)
{
    return hash_spread(hash_bytes(HASH_BEGIN, name, length)) | 1;
}

static bool has_name(const struct learnt_program *program, uint64_t key, char name[PROGRAM_NAME_MAX])
{
    const size_t length = shared_load_text(name, program->name, PROGRAM_NAME_MAX);

    return length < PROGRAM_NAME_MAX && key_of(name, length) == key;
}

/* The place of that program, claimed if need be; NULL: there is no room. */
static struct learnt_program *place_of(struct learnt *learnt, const char *name)
{
    char present[PROGRAM_NAME_MAX], wanted[PROGRAM_NAME_MAX] = "";
    const size_t length = strnlen(name, PROGRAM_NAME_MAX - 1);

    memcpy(wanted, name, length);
    const uint64_t key = key_of(wanted, length);
    for (unsigned int i = 0; i < LEARNT_PROGRAMS; i++) {
        struct learnt_program *program = &learnt->programs[i];
        uint64_t seen = load(&program->key);

        if (seen == 0 && atomic_compare_exchange_strong_explicit(&program->key, &seen, key, memory_order_relaxed,
                                                                 memory_order_relaxed))
            seen = key;
        if (seen != key)
            continue;
        if (!has_name(program, key, present))
            shared_store_text(program->name, wanted, PROGRAM_NAME_MAX);
        return program;
    }
    return NULL;
}

/* Whether a wait of that length, which ended so, tells anything. */
static bool tells(enum learnt_end end, uint64_t waited_ns)
{
    return waited_ns >= (end == LEARNT_OUTLASTED ? LEARNT_LONG_NS : LEARNT_SHORTEST_NS);
}

/* An hour and no count; other hours that come to the same word are years away. */
static uint32_t hour_word(uint64_t hour)
{
    return (uint32_t)hour << HOUR_COUNT_BITS;
}

static void note_hour(struct learnt_patience *patience, uint64_t wall_ns)
{
    const uint64_t hour = wall_ns / HOUR_NS;
    _Atomic uint32_t *word = &patience->hours[hour % LEARNT_HOURS];
    uint32_t seen = load32(word);

    for (unsigned int try = 0; try < TRIES_MAX; try++) {
        const bool is_this = (seen & ~HOUR_COUNT_MAX) == hour_word(hour);
        if (is_this && (seen & HOUR_COUNT_MAX) == HOUR_COUNT_MAX)
            return;
        if (atomic_compare_exchange_weak_explicit(word, &seen, is_this ? seen + 1 : hour_word(hour) + 1,
                                                  memory_order_relaxed, memory_order_relaxed))
            return;
    }
}

void learnt_note_wait(struct learnt *learnt, const char *name, enum learnt_wait waits, enum learnt_end end,
                      uint64_t waited_ns, uint64_t wall_ns)
{
    if (!tells(end, waited_ns))
        return;
    struct learnt_program *program = place_of(learnt, name);
    if (program == NULL) {
        atomic_fetch_add_explicit(&learnt->without_room, 1, memory_order_relaxed);
        return;
    }
    struct learnt_patience *patience = &program->waits[waits];
    const uint32_t waited_ms = in_ms(waited_ns);
    keep(&patience->longest_ms[end], waited_ms, true);
    if (end == LEARNT_GIVEN_UP) {
        uint64_t first = 0;

        atomic_compare_exchange_strong_explicit(&patience->since_ns, &first, wall_ns, memory_order_relaxed,
                                                memory_order_relaxed);
        atomic_store_explicit(&patience->last_ns, wall_ns, memory_order_relaxed);
        keep(&patience->shortest_ms, waited_ms, false);
        const uint32_t at = atomic_fetch_add_explicit(&patience->next, 1, memory_order_relaxed) % LEARNT_SAMPLES;
        atomic_store_explicit(&patience->samples_ms[at], waited_ms, memory_order_relaxed);
        note_hour(patience, wall_ns);
    }
    atomic_fetch_add_explicit(&patience->counts[end], 1, memory_order_relaxed);
}

/* --- runs of failures --------------------------------------------------------------------------------------------- */

static uint64_t pack_run(uint64_t ms, uint64_t failures)
{
    return (ms < RUN_MS_MAX ? ms : RUN_MS_MAX) << RUN_FAILURES_BITS |
           (failures < RUN_FAILURES_MAX ? failures : RUN_FAILURES_MAX);
}

static uint64_t run_ms(uint64_t run)
{
    return run >> RUN_FAILURES_BITS;
}

static uint32_t run_failures(uint64_t run)
{
    return (uint32_t)(run & RUN_FAILURES_MAX);
}

static void note_healed(struct learnt *learnt, uint64_t run, uint64_t at_ms)
{
    const uint64_t lasted_ms = at_ms > run_ms(run) ? at_ms - run_ms(run) : 0;
    const uint64_t number = atomic_fetch_add_explicit(&learnt->healed, 1, memory_order_relaxed);

    atomic_store_explicit(&learnt->runs[number % LEARNT_RUNS], pack_run(lasted_ms, run_failures(run)),
                          memory_order_relaxed);
    keep(&learnt->most_failures, run_failures(run), true);
    keep(&learnt->longest_ms, lasted_ms < UINT32_MAX ? (uint32_t)lasted_ms : UINT32_MAX, true);
}

void learnt_note_outcome(struct learnt *learnt, enum verdict verdict, uint64_t at_ns)
{
    const uint64_t at_ms = at_ns / NS_PER_MS;
    uint64_t run = load(&learnt->run);

    for (unsigned int try = 0; try < TRIES_MAX; try++) {
        const bool fails = verdict == VERDICT_FAILURE;
        if (!fails && (verdict != VERDICT_SUCCESS || run == 0))
            return;
        const uint64_t next = !fails     ? 0
                              : run == 0 ? pack_run(at_ms, 1)
                                         : pack_run(run_ms(run), run_failures(run) + 1u);
        if (!atomic_compare_exchange_weak_explicit(&learnt->run, &run, next, memory_order_relaxed,
                                                   memory_order_relaxed))
            continue;
        if (!fails)
            note_healed(learnt, run, at_ms);
        return;
    }
}

/* --- calls that passed against their circuit's word ----------------------------------------------------------------- */

void learnt_note_shadow(struct learnt *learnt, enum verdict verdict, unsigned int calls, uint64_t waited_ns)
{
    if ((unsigned int)verdict >= VERDICTS)
        return;
    struct learnt_shadow *shadow = &learnt->shadows[verdict];
    atomic_fetch_add_explicit(&shadow->calls, calls, memory_order_relaxed);
    atomic_fetch_add_explicit(&shadow->waited_us, waited_ns / NS_PER_US, memory_order_relaxed);
}

/* --- the place ---------------------------------------------------------------------------------------------------- */

static void empty(struct learnt_patience *patience)
{
    atomic_store_explicit(&patience->since_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&patience->last_ns, 0, memory_order_relaxed);
    for (unsigned int end = 0; end < LEARNT_ENDS; end++) {
        atomic_store_explicit(&patience->counts[end], 0, memory_order_relaxed);
        atomic_store_explicit(&patience->longest_ms[end], 0, memory_order_relaxed);
    }
    atomic_store_explicit(&patience->shortest_ms, 0, memory_order_relaxed);
    atomic_store_explicit(&patience->next, 0, memory_order_relaxed);
    for (unsigned int i = 0; i < LEARNT_SAMPLES; i++)
        atomic_store_explicit(&patience->samples_ms[i], 0, memory_order_relaxed);
    for (unsigned int i = 0; i < LEARNT_HOURS; i++)
        atomic_store_explicit(&patience->hours[i], 0, memory_order_relaxed);
}

void learnt_reset(struct learnt *learnt)
{
    for (unsigned int i = 0; i < LEARNT_PROGRAMS; i++) {
        struct learnt_program *program = &learnt->programs[i];

        if (load(&program->key) == 0)
            continue;
        for (unsigned int waits = 0; waits < LEARNT_WAITS; waits++)
            empty(&program->waits[waits]);
        atomic_store_explicit(&program->key, 0, memory_order_relaxed);
    }
    atomic_store_explicit(&learnt->without_room, 0, memory_order_relaxed);
    atomic_store_explicit(&learnt->run, 0, memory_order_relaxed);
    atomic_store_explicit(&learnt->healed, 0, memory_order_relaxed);
    atomic_store_explicit(&learnt->most_failures, 0, memory_order_relaxed);
    atomic_store_explicit(&learnt->longest_ms, 0, memory_order_relaxed);
    for (unsigned int i = 0; i < LEARNT_RUNS; i++)
        atomic_store_explicit(&learnt->runs[i], 0, memory_order_relaxed);
    for (unsigned int i = 0; i < VERDICTS; i++) {
        atomic_store_explicit(&learnt->shadows[i].calls, 0, memory_order_relaxed);
        atomic_store_explicit(&learnt->shadows[i].waited_us, 0, memory_order_relaxed);
    }
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* Of the latest that were given up: the one in the middle, of an even number the lower. */
static uint32_t median_of(const struct learnt_patience *patience)
{
    uint32_t sorted[LEARNT_SAMPLES];
    unsigned int count = 0;

    for (unsigned int i = 0; i < LEARNT_SAMPLES; i++) {
        const uint32_t sample = load32(&patience->samples_ms[i]);
        unsigned int at = count;

        if (sample == 0)
            continue;
        for (; at > 0 && sorted[at - 1] > sample; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = sample;
        count++;
    }
    return count > 0 ? sorted[(count - 1) / 2] : 0;
}

static void read_patience(const struct learnt_patience *patience, struct patience_view *view)
{
    *view = (struct patience_view){.since_ns = load(&patience->since_ns),
                                   .last_ns = load(&patience->last_ns),
                                   .shortest_ns = load32(&patience->shortest_ms) * NS_PER_MS,
                                   .median_ns = median_of(patience) * NS_PER_MS};
    for (unsigned int end = 0; end < LEARNT_ENDS; end++) {
        view->counts[end] = load32(&patience->counts[end]);
        view->longest_ns[end] = load32(&patience->longest_ms[end]) * NS_PER_MS;
    }
    for (unsigned int i = 0; i < LEARNT_HOURS; i++)
        view->hours[i] = load32(&patience->hours[i]);
    /* Torn or damaged words may contradict each other. */
    const uint64_t longest_ns = view->longest_ns[LEARNT_GIVEN_UP];
    if (view->shortest_ns == 0 || view->shortest_ns > longest_ns)
        view->shortest_ns = longest_ns;
    if (view->median_ns < view->shortest_ns || view->median_ns > longest_ns)
        view->median_ns = view->shortest_ns;
}

static void read_runs(const struct learnt *learnt, uint64_t now_ns, struct learnt_view *view)
{
    const uint64_t run = load(&learnt->run), now_ms = now_ns / NS_PER_MS;

    view->healed = load(&learnt->healed);
    view->most_failures = load32(&learnt->most_failures);
    view->longest_ns = load32(&learnt->longest_ms) * NS_PER_MS;
    view->present.failures = run_failures(run);
    if (view->present.failures > 0 && now_ms > run_ms(run))
        view->present.lasted_ns = (now_ms - run_ms(run)) * NS_PER_MS;
    for (unsigned int i = 0; i < LEARNT_RUNS && i < view->healed; i++) {
        const uint64_t healed = load(&learnt->runs[i]);

        if (run_failures(healed) > 0)
            view->latest[view->latest_count++] = (struct run_view){run_failures(healed), run_ms(healed) * NS_PER_MS};
    }
}

void learnt_read(const struct learnt *learnt, uint64_t now_ns, struct learnt_view *view)
{
    memset(view, 0, sizeof *view);
    if (learnt == NULL)
        return;
    for (unsigned int i = 0; i < LEARNT_PROGRAMS; i++) {
        struct learnt_program_view *program = &view->programs[view->program_count];
        const uint64_t key = load(&learnt->programs[i].key);

        if (key == 0 || !has_name(&learnt->programs[i], key, program->name))
            continue;
        for (unsigned int waits = 0; waits < LEARNT_WAITS; waits++)
            read_patience(&learnt->programs[i].waits[waits], &program->waits[waits]);
        view->program_count++;
    }
    view->without_room = load(&learnt->without_room);
    read_runs(learnt, now_ns, view);
    for (unsigned int verdict = 0; verdict < VERDICTS; verdict++) {
        const uint64_t waited_us = load(&learnt->shadows[verdict].waited_us);

        view->shadow_calls[verdict] = load(&learnt->shadows[verdict].calls);
        view->shadow_waited_ns[verdict] = waited_us < UINT64_MAX / NS_PER_US ? waited_us * NS_PER_US : UINT64_MAX;
    }
}

uint32_t learnt_given_up_since(const struct patience_view *seen, uint64_t *from_ns, uint64_t now_ns)
{
    const uint64_t last = now_ns / HOUR_NS, earliest = last >= LEARNT_HOURS ? last - LEARNT_HOURS + 1 : 0;
    uint64_t hour = *from_ns / HOUR_NS + (*from_ns % HOUR_NS != 0), count = 0;

    if (hour < earliest)
        hour = earliest;
    *from_ns = hour * HOUR_NS;
    for (; hour <= last; hour++) {
        const uint32_t word = seen->hours[hour % LEARNT_HOURS];
        if ((word & ~HOUR_COUNT_MAX) == hour_word(hour))
            count += word & HOUR_COUNT_MAX;
    }
    /* Damaged words may contradict each other. */
    return count < seen->counts[LEARNT_GIVEN_UP] ? (uint32_t)count : seen->counts[LEARNT_GIVEN_UP];
}

const char *learnt_wait_name(enum learnt_wait waits)
{
    return waits == LEARNT_CONNECT ? "connect" : "answer";
}
