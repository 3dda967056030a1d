/*
 * test_circuit_threads.c - many threads at one moment: one probe, one opening, one transition each.
 *
 * All threads of a round begin at a barrier and see the same time. Each test counts what all of them were told.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "breaker/circuit.h"

#define THREADS 200u
#define ROUNDS 20u
#define SECOND UINT64_C(1000000000)

struct arena {
    struct circuit *circuit;
    struct settings settings;
    pthread_barrier_t barrier;
    atomic_ullong now_ns;
    atomic_uint probes, passes, refused, counted, late;
    atomic_uint made[3][3]; /* transitions reported, from and to */
    struct ticket tickets[THREADS];
    enum admission answers[THREADS];
};

struct worker {
    struct arena *arena;
    unsigned int index;
    void (*round)(struct arena *arena, unsigned int index);
    pthread_t thread;
};

static int set_up(void **state)
{
    struct arena *arena = calloc(1, sizeof *arena);
    struct circuit *circuit = aligned_alloc(64, sizeof *circuit);

    if (arena == NULL || circuit == NULL || pthread_barrier_init(&arena->barrier, NULL, THREADS) != 0)
        return -1;
    memset(circuit, 0, sizeof *circuit);
    arena->circuit = circuit;
    arena->now_ns = 1000 * SECOND;
    arena->settings = (struct settings){.failure_threshold = 5,
                                        .success_threshold = 1,
                                        .half_open_max_calls = 1,
                                        .backoff_permille = 1000,
                                        .reset_timeout_ns = 30 * SECOND,
                                        .reset_timeout_max_ns = 30 * SECOND,
                                        .probe_timeout_ns = 10 * SECOND};
    *state = arena;
    return 0;
}

static int tear_down(void **state)
{
    struct arena *arena = *state;

    pthread_barrier_destroy(&arena->barrier);
    free(arena->circuit);
    free(arena);
    return 0;
}

static void note_transitions(struct arena *arena, const struct transitions *transitions)
{
    for (unsigned int i = 0; i < transitions->count; i++)
        atomic_fetch_add(&arena->made[transitions->at[i].from][transitions->at[i].to], 1);
}

/* Each thread is a process of its own, but for those that share a holder. */
static enum admission admit(struct arena *arena, unsigned int index, uint32_t holder, int address)
{
    struct caller caller = {.holder = holder, .shard = index, .address = address, .addresses = 0xff};
    struct transitions transitions;
    enum admission answer =
        circuit_admit(arena->circuit, &arena->settings, &caller, arena->now_ns, &arena->tickets[index], &transitions);

    note_transitions(arena, &transitions);
    atomic_fetch_add(answer == ADMIT_PROBE  ? &arena->probes
                     : answer == ADMIT_PASS ? &arena->passes
                                            : &arena->refused,
                     1);
    arena->answers[index] = answer;
    return answer;
}

static void settle(struct arena *arena, unsigned int index, enum verdict verdict)
{
    struct caller caller = {.holder = index + 1, .shard = index, .address = ADDRESS_NONE};
    struct outcome outcome = {.verdict = verdict, .kind = verdict == VERDICT_FAILURE ? FAILURE_REFUSED : FAILURE_NONE};
    struct transitions transitions;
    enum settlement settlement = circuit_settle(arena->circuit, &arena->settings, &caller, &arena->tickets[index],
                                                outcome, arena->now_ns, &transitions);

    note_transitions(arena, &transitions);
    atomic_fetch_add(settlement == SETTLED_COUNTED ? &arena->counted : &arena->late, 1);
}

static void *work(void *argument)
{
    struct worker *worker = argument;

    for (unsigned int round = 0; round < ROUNDS; round++)
        worker->round(worker->arena, worker->index);
    return NULL;
}

static void run(struct arena *arena, void (*round)(struct arena *arena, unsigned int index))
{
    static struct worker workers[THREADS];

    for (unsigned int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.arena = arena, .index = i, .round = round};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (unsigned int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
}

/* True for one of the threads; all the others wait until it has done what `true` is for. */
static bool wait_for_all(struct arena *arena)
{
    /* NOLINTNEXTLINE(bugprone-posix-return): in glibc this value is a negative one */
    return pthread_barrier_wait(&arena->barrier) == PTHREAD_BARRIER_SERIAL_THREAD;
}

/* One thread opens the circuit, which must be closed, and goes to the end of the pause. */
static void open_alone(struct arena *arena)
{
    for (unsigned int i = 0; i < arena->settings.failure_threshold; i++) {
        admit(arena, 0, 1, ADDRESS_NONE);
        settle(arena, 0, VERDICT_FAILURE);
    }
    arena->now_ns += 30 * SECOND;
}

static void race_for_the_probe(struct arena *arena, unsigned int index)
{
    if (wait_for_all(arena))
        arena->now_ns += 30 * SECOND;
    wait_for_all(arena);
    bool probes = admit(arena, index, index + 1, ADDRESS_NONE) == ADMIT_PROBE;
    wait_for_all(arena);
    if (probes)
        settle(arena, index, VERDICT_FAILURE);
}

static void of_200_threads_at_the_end_of_the_pause_one_probes(void **state)
{
    struct arena *arena = *state;

    open_alone(arena);
    run(arena, race_for_the_probe);
    assert_int_equal(arena->probes, ROUNDS);
    assert_int_equal(arena->refused, ROUNDS * (THREADS - 1));
    assert_int_equal(arena->made[CIRCUIT_OPEN][CIRCUIT_HALF_OPEN], ROUNDS);
    assert_int_equal(arena->made[CIRCUIT_HALF_OPEN][CIRCUIT_OPEN], ROUNDS);
    assert_int_equal(counters_sum(&arena->circuit->counters, COUNT_PROBES_FAILED), ROUNDS);
    assert_int_equal(counters_sum(&arena->circuit->counters, COUNT_OPENED), ROUNDS + 1);
}

static void of_200_threads_with_three_permits_three_probe(void **state)
{
    struct arena *arena = *state;

    arena->settings.half_open_max_calls = 3;
    open_alone(arena);
    run(arena, race_for_the_probe);
    assert_int_equal(arena->probes, 3 * ROUNDS);
    assert_int_equal(arena->made[CIRCUIT_OPEN][CIRCUIT_HALF_OPEN], ROUNDS);
    assert_int_equal(arena->made[CIRCUIT_HALF_OPEN][CIRCUIT_OPEN], ROUNDS);
    assert_int_equal(arena->late, 2 * ROUNDS);
}

static void race_to_open(struct arena *arena, unsigned int index)
{
    if (wait_for_all(arena) && arena->passes > 0) {
        /* close it again for the next round */
        arena->now_ns += 30 * SECOND;
        admit(arena, 0, 1, ADDRESS_NONE);
        settle(arena, 0, VERDICT_SUCCESS);
    }
    wait_for_all(arena);
    admit(arena, index, index + 1, ADDRESS_NONE);
    wait_for_all(arena);
    settle(arena, index, VERDICT_FAILURE);
}

static void of_200_failures_at_once_one_opens_and_the_rest_are_late(void **state)
{
    struct arena *arena = *state;

    run(arena, race_to_open);
    assert_int_equal(arena->made[CIRCUIT_CLOSED][CIRCUIT_OPEN], ROUNDS);
    assert_int_equal(arena->passes, ROUNDS * THREADS);
    assert_int_equal(counters_sum(&arena->circuit->counters, COUNT_FAILED), 5 * ROUNDS);
    assert_int_equal(counters_sum(&arena->circuit->counters, COUNT_LATE), (THREADS - 5) * ROUNDS);
}

static void race_of_verdicts(struct arena *arena, unsigned int index)
{
    if (wait_for_all(arena)) {
        struct circuit_view view;
        circuit_observe(arena->circuit, &arena->settings, arena->now_ns, &view);
        if (view.state == CIRCUIT_CLOSED)
            open_alone(arena);
        else
            arena->now_ns += 30 * SECOND;
    }
    wait_for_all(arena);
    bool probes = admit(arena, index, index + 1, ADDRESS_NONE) == ADMIT_PROBE;
    wait_for_all(arena);
    if (probes)
        settle(arena, index, (arena->tickets[index].token & 1) != 0 ? VERDICT_SUCCESS : VERDICT_FAILURE);
}

static void of_eight_probes_that_end_at_once_one_decides(void **state)
{
    struct arena *arena = *state;

    arena->settings.half_open_max_calls = 8;
    run(arena, race_of_verdicts);
    assert_int_equal(arena->probes, 8 * ROUNDS);
    assert_int_equal(arena->made[CIRCUIT_OPEN][CIRCUIT_HALF_OPEN], ROUNDS);
    assert_int_equal(arena->made[CIRCUIT_HALF_OPEN][CIRCUIT_OPEN] + arena->made[CIRCUIT_HALF_OPEN][CIRCUIT_CLOSED],
                     ROUNDS);
    assert_int_equal(arena->late, 7 * ROUNDS);
}

static void race_to_join(struct arena *arena, unsigned int index)
{
    if (wait_for_all(arena))
        arena->now_ns += 30 * SECOND;
    wait_for_all(arena);
    /* one process: 25 threads for each of its eight addresses */
    bool probes = admit(arena, index, 1, (int)(index % CIRCUIT_ADDRESSES)) == ADMIT_PROBE;
    wait_for_all(arena);
    if (probes)
        settle(arena, index, VERDICT_FAILURE);
}

static void of_200_threads_of_one_process_one_tries_each_address_and_the_last_failure_reopens(void **state)
{
    struct arena *arena = *state;

    open_alone(arena);
    run(arena, race_to_join);
    assert_int_equal(arena->probes, CIRCUIT_ADDRESSES * ROUNDS);
    assert_int_equal(arena->late, 0);
    assert_int_equal(arena->made[CIRCUIT_OPEN][CIRCUIT_HALF_OPEN], ROUNDS);
    assert_int_equal(arena->made[CIRCUIT_HALF_OPEN][CIRCUIT_OPEN], ROUNDS);
    assert_int_equal(counters_sum(&arena->circuit->counters, COUNT_PROBES_FAILED), ROUNDS);
}

static void race_to_name(struct arena *arena, unsigned int index)
{
    if (wait_for_all(arena))
        circuit_reset(arena->circuit);
    wait_for_all(arena);
    arena->tickets[index].address = circuit_address_index(arena->circuit, 1 + index % CIRCUIT_ADDRESSES);
    wait_for_all(arena);
    if (arena->tickets[index].address != arena->tickets[index % CIRCUIT_ADDRESSES].address)
        atomic_fetch_add(&arena->late, 1);
}

static void two_hundred_threads_agree_on_the_place_of_each_address(void **state)
{
    struct arena *arena = *state;

    run(arena, race_to_name);
    assert_int_equal(arena->late, 0);
}

#define arena_test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        arena_test(of_200_threads_at_the_end_of_the_pause_one_probes),
        arena_test(of_200_threads_with_three_permits_three_probe),
        arena_test(of_200_failures_at_once_one_opens_and_the_rest_are_late),
        arena_test(of_eight_probes_that_end_at_once_one_decides),
        arena_test(of_200_threads_of_one_process_one_tries_each_address_and_the_last_failure_reopens),
        arena_test(two_hundred_threads_agree_on_the_place_of_each_address),
    };

    return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
