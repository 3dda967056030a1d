/*
 * test_window_model.c - random outcomes, times and generations against a slow, obvious model of a window.
 *
 * The model is a list of all outcomes that ever were, and the rules of window.h in plain words. After each step the
 * window must hold what the model says, at that time, earlier and later. Seeds are fixed; a failure names its own.
 */
#include "support_breaker.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "breaker/window.h"
#include "breaker/word.h"

#define SEQUENCES 400u
#define STEPS 500u

struct noted {
    uint64_t time_ns;
    uint64_t generation;
    enum window_class class;
};

struct trial {
    struct circuit *circuit;
    struct settings settings;
    struct noted noted[STEPS];
    unsigned int count;
    uint64_t now, generation, begun, random, seed;
    uint64_t width; /* of the buckets */
};

#define check(trial, condition)                                                                                        \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            fail_msg("seed %" PRIu64 ", outcome %u: not %s", (trial)->seed, (trial)->count, #condition);               \
    } while (0)

static uint64_t draw(struct trial *trial, uint64_t below)
{
    return breaker_random(&trial->random) % below;
}

/* --- the model --- */

static uint64_t bucket_start(const struct trial *trial, uint64_t time_ns)
{
    return time_ns - time_ns % trial->width;
}

static void model_count(struct window_counts *counts, enum window_class class)
{
    counts->calls++;
    counts->failed += class == WINDOW_FAILED;
    counts->slow += class == WINDOW_SLOW;
}

/* All of the generation whose bucket began less than a window ago. The latest bucket known is no later than now. */
static struct window_counts model_duration(const struct trial *trial, uint64_t generation, uint64_t now_ns)
{
    struct window_counts counts = {0};

    for (unsigned int i = 0; i < trial->count; i++) {
        const struct noted *noted = &trial->noted[i];

        if (noted->generation == generation && bucket_start(trial, noted->time_ns) > now_ns)
            now_ns = bucket_start(trial, noted->time_ns);
    }
    for (unsigned int i = 0; i < trial->count; i++) {
        const struct noted *noted = &trial->noted[i];

        if (noted->generation == generation && bucket_start(trial, noted->time_ns) + trial->settings.window > now_ns)
            model_count(&counts, noted->class);
    }
    return counts;
}

static struct window_counts model_calls(const struct trial *trial, uint64_t generation)
{
    struct window_counts counts = {0};
    uint64_t wanted = trial->settings.window - WINDOW_CALLS;

    for (unsigned int i = trial->count; i-- > 0 && counts.calls < wanted;) {
        if (trial->noted[i].generation == generation)
            model_count(&counts, trial->noted[i].class);
    }
    return counts;
}

static struct window_counts model_sum(const struct trial *trial, uint64_t generation, uint64_t now_ns)
{
    if (trial->settings.window >= WINDOW_CALLS)
        return model_calls(trial, generation);
    return model_duration(trial, generation, now_ns);
}

/* --- one step of both --- */

/* Nobody of a generation is earlier than it: nobody was admitted before. */
static uint64_t not_before_it_began(const struct trial *trial, uint64_t time_ns)
{
    return time_ns < trial->begun ? trial->begun : time_ns;
}

static void compare_at(struct trial *trial, uint64_t now_ns)
{
    now_ns = not_before_it_began(trial, now_ns);
    struct window_counts real = window_sum(trial->circuit, &trial->settings, trial->generation, now_ns);
    struct window_counts expected = model_sum(trial, trial->generation, now_ns);

    check(trial, real.calls == expected.calls);
    check(trial, real.failed == expected.failed);
    check(trial, real.slow == expected.slow);
}

static void compare(struct trial *trial)
{
    compare_at(trial, trial->now);
    if (trial->settings.window >= WINDOW_CALLS || trial->count == 0)
        return;
    /* Where something changes: one window after a bucket's start, and a nanosecond before. */
    const struct noted *noted = &trial->noted[draw(trial, trial->count)];
    uint64_t end = bucket_start(trial, noted->time_ns) + trial->settings.window;
    compare_at(trial, end);
    compare_at(trial, end - 1);
    compare_at(trial, noted->time_ns + trial->settings.window);
    compare_at(trial, trial->now + draw(trial, trial->settings.window));
}

static void add(struct trial *trial, uint64_t generation, uint64_t time_ns)
{
    enum window_class class = (enum window_class)draw(trial, WINDOW_CLASSES);

    window_add(trial->circuit, &trial->settings, (unsigned int)draw(trial, 2 * COUNTER_SHARDS), generation, class,
               time_ns);
    if (generation == trial->generation)
        trial->noted[trial->count++] = (struct noted){time_ns, generation, class};
}

static void begin_generation(struct trial *trial)
{
    trial->generation += 1 + draw(trial, 100);
    trial->begun = trial->now;
    atomic_store(&trial->circuit->word,
                 word_pack((struct word){.state = CIRCUIT_CLOSED, .generation = trial->generation}));
}

static uint64_t window_or_step(const struct trial *trial)
{
    return trial->settings.window < WINDOW_CALLS ? trial->settings.window : SECOND;
}

static void step(struct trial *trial)
{
    uint64_t window = window_or_step(trial);

    switch (draw(trial, 16)) {
    case 0:
        begin_generation(trial);
        break;
    case 1: /* of a generation that is over */
        if (trial->generation > 0)
            add(trial, draw(trial, trial->generation), trial->now - draw(trial, window));
        break;
    case 2: /* it failed earlier, and is found now; perhaps it is out already */
        add(trial, trial->generation, not_before_it_began(trial, trial->now - draw(trial, 3 * window)));
        break;
    case 3:
        trial->now += draw(trial, 3) == 0 ? draw(trial, 3 * window) : draw(trial, window / 4);
        break;
    case 4: /* to the very edge of a bucket, or of the window */
        trial->now = bucket_start(trial, trial->now) + trial->width * (1 + draw(trial, 40)) + draw(trial, 3) - 1;
        break;
    default:
        trial->now += draw(trial, window / 32);
        add(trial, trial->generation, trial->now);
        break;
    }
}

static void run_trial(struct circuit *circuit, uint64_t seed)
{
    struct trial trial = {.circuit = circuit, .random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1, .seed = seed};

    memset(circuit, 0, sizeof *circuit);
    trial.now = 4 * 3600 * SECOND + draw(&trial, UINT64_C(1) << 58);
    trial.begun = trial.now;
    trial.settings.window = draw(&trial, 3) == 0 ? WINDOW_CALLS + 1 + draw(&trial, 200) : SECOND << draw(&trial, 12);
    if (trial.settings.window < WINDOW_CALLS)
        trial.settings.window += draw(&trial, trial.settings.window);
    for (trial.width = 1; 32 * trial.width <= window_or_step(&trial);)
        trial.width *= 2;
    while (trial.count < STEPS) {
        step(&trial);
        compare(&trial);
    }
}

static void random_outcomes_are_counted_as_the_model_counts_them(void **state)
{
    struct circuit *circuit = aligned_alloc(64, sizeof *circuit);

    (void)state;
    assert_non_null(circuit);
    for (uint64_t seed = 1; seed <= SEQUENCES; seed++)
        run_trial(circuit, seed);
    free(circuit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_outcomes_are_counted_as_the_model_counts_them),
    };

    return cmocka_run_group_tests_name("window model", tests, NULL, NULL);
}
