/*
 * stress_circuit.c - many threads of many processes on one circuit in shared memory, some of them killed at any
 * instant.
 *
 * What must hold: never more probes in flight than permits; each transition is reported once, and they follow from
 * one another; every admitted call has one outcome; and whatever was killed, the circuit comes back by itself. Time
 * is a shared fake clock that every call pushes on; the real clock only ends a run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support_breaker.h"

/* A run lasts this long, and on a busy machine up to so many times as long, until enough has happened. */
#define RUN_NS (400 * MILLISECOND)
#define RUNS_MAX 50
#define ENOUGH 50u
#define PROCESSES 4u
#define THREADS_EACH 2u
#define WORKERS (PROCESSES * THREADS_EACH)
#define HOLDERS_MAX 256u
#define GENERATIONS 65536u
#define PERMITS 3u
/* Makes a generation's count useless for the check of permits: its worker was killed while it changed it. */
#define TAINTED (-1000000)

/* Where a worker is; what was torn off by a kill can be told from it. */
enum place { BETWEEN_CALLS, IN_ADMIT, COUNTING_UP, PROBING, COUNTING_DOWN, IN_SETTLE };

/* A worker's account, in shared memory: it outlives the process. */
struct worker {
    _Alignas(64) _Atomic uint32_t place;
    _Atomic uint64_t generation;        /* of the probe that it counts in */
    _Atomic uint64_t admitted, settled; /* as it was told */
    _Atomic uint64_t abandoned;         /* admitted, and left without an outcome on purpose */
};

struct arena {
    struct circuit circuit;
    struct settings settings;
    _Atomic uint64_t now_ns;
    _Atomic uint32_t healthy, stop, joins, abandons, ends_pauses, ended_pauses;
    _Atomic uint32_t too_many_probes, wrong_views, answers[4];
    _Atomic uint64_t made[3][3];
    _Atomic uint32_t dead[HOLDERS_MAX];
    _Atomic int32_t probing[GENERATIONS];
    struct worker workers[WORKERS];
};

struct task {
    struct arena *arena;
    struct worker *worker;
    uint32_t holder;
    uint64_t random;
    pthread_t thread;
};

static uint64_t real_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

static int set_up(void **state)
{
    struct arena *arena = mmap(NULL, sizeof *arena, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (arena == MAP_FAILED)
        return -1;
    arena->now_ns = BREAKER_START_NS;
    arena->settings = (struct settings){.failure_threshold = 3,
                                        .success_threshold = 4,
                                        .half_open_max_calls = PERMITS,
                                        .backoff_permille = 1500,
                                        .jitter_permille = 100,
                                        .reset_timeout_ns = 5000,
                                        .reset_timeout_max_ns = 20000,
                                        .probe_timeout_ns = 100000,
                                        .window = WINDOW_CALLS | 50,
                                        .minimum_calls = 10,
                                        .failure_rate_permille = 300};
    *state = arena;
    return 0;
}

static int tear_down(void **state)
{
    return munmap(*state, sizeof(struct arena));
}

static bool is_alive(uint32_t holder, void *context)
{
    struct arena *arena = context;

    return holder < HOLDERS_MAX && arena->dead[holder] == 0;
}

/* --- a worker --- */

static void note_transitions(struct arena *arena, const struct transitions *transitions)
{
    for (unsigned int i = 0; i < transitions->count; i++)
        atomic_fetch_add(&arena->made[transitions->at[i].from][transitions->at[i].to], 1);
}

/*
 * Counts this probe among those of its generation, after its admission; it is counted out before its outcome is
 * reported. So at any moment at least as many leases stand as are counted, and the count must never exceed the
 * permits.
 */
static void count_up(struct arena *arena, struct worker *worker, uint64_t generation)
{
    worker->generation = generation;
    worker->place = COUNTING_UP;
    if (atomic_fetch_add(&arena->probing[generation % GENERATIONS], 1) >= (int32_t)PERMITS)
        arena->too_many_probes++;
    worker->place = PROBING;
}

static void count_down(struct arena *arena, struct worker *worker)
{
    worker->place = COUNTING_DOWN;
    atomic_fetch_sub(&arena->probing[worker->generation % GENERATIONS], 1);
}

static struct outcome draw_outcome(struct task *task)
{
    uint64_t draw = breaker_random(&task->random) % 100;

    if (draw < 15)
        return breaker_neutral;
    if (draw < 18)
        return breaker_business;
    return (draw < 95) == (task->arena->healthy != 0) ? breaker_success : breaker_failure;
}

static void call(struct task *task)
{
    struct arena *arena = task->arena;
    struct worker *worker = task->worker;
    struct caller caller = {.holder = task->holder,
                            .shard = task->holder,
                            .address = arena->joins != 0 ? (int)(breaker_random(&task->random) % 3) : ADDRESS_NONE,
                            .addresses = arena->joins != 0 ? 7 : 0,
                            .alive = is_alive,
                            .context = arena};
    struct transitions transitions;
    struct ticket ticket;

    worker->place = IN_ADMIT;
    enum admission answer =
        circuit_admit(&arena->circuit, &arena->settings, &caller,
                      atomic_fetch_add(&arena->now_ns, breaker_random(&task->random) % 500), &ticket, &transitions);
    note_transitions(arena, &transitions);
    arena->answers[answer]++;
    if (answer == ADMIT_REFUSED_OPEN && arena->ends_pauses != 0 && breaker_random(&task->random) % 8 == 0)
        arena->ended_pauses += circuit_end_pause(&arena->circuit, &arena->settings, arena->now_ns);
    if (answer != ADMIT_PASS && answer != ADMIT_PROBE)
        return;
    worker->admitted++;
    if (answer == ADMIT_PROBE && arena->joins == 0)
        count_up(arena, worker, ticket.generation);
    else
        worker->place = PROBING;

    if (breaker_random(&task->random) % 64 == 0)
        sched_yield(); /* there are more threads than cores: let others come by, or a kill */
    struct outcome outcome = draw_outcome(task);
    if (answer == ADMIT_PROBE && arena->joins == 0)
        count_down(arena, worker);
    if (arena->abandons != 0 && breaker_random(&task->random) % 50 == 0) {
        worker->abandoned++;
        return;
    }
    worker->place = IN_SETTLE;
    circuit_settle(&arena->circuit, &arena->settings, &caller, &ticket, outcome,
                   atomic_fetch_add(&arena->now_ns, breaker_random(&task->random) % 500), &transitions);
    note_transitions(arena, &transitions);
    worker->settled++;
}

static void *work(void *argument)
{
    struct task *task = argument;
    struct arena *arena = task->arena;

    while (arena->stop == 0) {
        struct circuit_view view;

        call(task);
        task->worker->place = BETWEEN_CALLS;
        if (breaker_random(&task->random) % 500 == 0)
            arena->healthy = (uint32_t)(breaker_random(&task->random) & 1);
        circuit_observe(&arena->circuit, &arena->settings, arena->now_ns, &view);
        if (view.state > CIRCUIT_HALF_OPEN || view.probes > PERMITS || view.failures >= 3 || view.successes >= 4)
            arena->wrong_views++;
    }
    return NULL;
}

/* The threads of one process, on the workers' accounts from `first` on; `count` of them. */
static void run_threads(struct arena *arena, unsigned int first, unsigned int count, uint32_t holder, bool own_holders)
{
    struct task tasks[WORKERS];
    unsigned int started = 0;

    for (; started < count; started++) {
        tasks[started] = (struct task){.arena = arena,
                                       .worker = &arena->workers[first + started],
                                       .holder = holder + (own_holders ? started : 0),
                                       .random = (holder + 1) * UINT64_C(77777) + started + 1};
        if (pthread_create(&tasks[started].thread, NULL, work, &tasks[started]) != 0)
            break;
    }
    for (unsigned int i = 0; i < started; i++)
        pthread_join(tasks[i].thread, NULL);
    if (started < count)
        arena->wrong_views++;
}

/* --- what must hold --- */

static uint64_t sum(const struct arena *arena, unsigned int counter)
{
    return counters_sum(&arena->circuit.counters, counter);
}

/* Or nothing of it was tested. */
static bool has_seen_enough(const struct arena *arena)
{
    return arena->made[CIRCUIT_CLOSED][CIRCUIT_OPEN] >= ENOUGH &&
           arena->made[CIRCUIT_HALF_OPEN][CIRCUIT_OPEN] >= ENOUGH &&
           arena->made[CIRCUIT_HALF_OPEN][CIRCUIT_CLOSED] >= ENOUGH && sum(arena, COUNT_LATE) >= ENOUGH;
}

static void *ring_the_bell(void *argument)
{
    struct arena *arena = argument;
    const struct timespec run = {.tv_nsec = RUN_NS};

    for (int times = 0; times < RUNS_MAX && (times == 0 || !has_seen_enough(arena)); times++)
        nanosleep(&run, NULL);
    arena->stop = 1;
    return NULL;
}

static uint64_t outcomes(const struct arena *arena)
{
    return sum(arena, COUNT_SUCCEEDED) + sum(arena, COUNT_FAILED) + sum(arena, COUNT_NEUTRAL) +
           sum(arena, COUNT_BUSINESS) + sum(arena, COUNT_LATE);
}

static void assert_within(uint64_t one, uint64_t two, uint64_t difference)
{
    assert_in_range(one, two > difference ? two - difference : 0, two + difference);
}

/*
 * What kills cut off: calls into the circuit, of which each may have lost its reports and counts, and calls in
 * flight.
 */
struct losses {
    uint64_t torn, in_flight;
};

static void assert_invariants(const struct arena *arena, struct losses losses)
{
    const uint64_t torn = losses.torn;
    uint64_t admitted = 0, settled = 0, abandoned = 0;
    struct circuit_view view;

    /* Then no lease has run out: the word as it is. */
    circuit_observe(&arena->circuit, &arena->settings, BREAKER_START_NS, &view);
    for (unsigned int i = 0; i < WORKERS; i++) {
        admitted += arena->workers[i].admitted;
        settled += arena->workers[i].settled;
        abandoned += arena->workers[i].abandoned;
    }
    assert_int_equal(arena->too_many_probes, 0);
    assert_int_equal(arena->wrong_views, 0);

    /* every admitted call has one outcome, was abandoned, or was cut off */
    assert_within(sum(arena, COUNT_ADMITTED), admitted, torn);
    assert_within(outcomes(arena), settled, torn);
    assert_within(sum(arena, COUNT_ADMITTED), outcomes(arena) + abandoned + losses.in_flight, torn);
    assert_within(sum(arena, COUNT_REFUSED),
                  (uint64_t)arena->answers[ADMIT_REFUSED_OPEN] + arena->answers[ADMIT_REFUSED_HALF_OPEN], torn);

    /* from closed to the present state, each state is left as often as it is entered, but for the last */
    uint64_t opened = arena->made[CIRCUIT_CLOSED][CIRCUIT_OPEN], probed = arena->made[CIRCUIT_OPEN][CIRCUIT_HALF_OPEN];
    uint64_t reopened = arena->made[CIRCUIT_HALF_OPEN][CIRCUIT_OPEN];
    uint64_t closed = arena->made[CIRCUIT_HALF_OPEN][CIRCUIT_CLOSED];
    uint64_t overran = arena->made[CIRCUIT_OPEN][CIRCUIT_CLOSED]; /* a probe whose success came after its deadline */
    assert_within(opened, closed + overran + (view.state != CIRCUIT_CLOSED), 2 * torn);
    assert_within(opened + reopened, probed + overran + (view.state == CIRCUIT_OPEN), 2 * torn);
    assert_within(sum(arena, COUNT_OPENED), opened + reopened, 2 * torn);
    assert_within(sum(arena, COUNT_PROBES_FAILED), reopened, 2 * torn);
    assert_int_equal(arena->made[CIRCUIT_CLOSED][CIRCUIT_HALF_OPEN] + arena->made[CIRCUIT_CLOSED][CIRCUIT_CLOSED] +
                         arena->made[CIRCUIT_OPEN][CIRCUIT_OPEN] + arena->made[CIRCUIT_HALF_OPEN][CIRCUIT_HALF_OPEN],
                     0);
    assert_true(has_seen_enough(arena));
}

/* Whatever is left of the others, one process can bring the circuit round: it takes all permits, and closes it. */
static void assert_it_comes_back(struct arena *arena, uint32_t holder)
{
    struct caller caller = {.holder = holder, .address = ADDRESS_NONE, .alive = is_alive, .context = arena};
    struct transitions transitions;
    struct ticket tickets[CIRCUIT_LEASES];
    uint64_t now = arena->now_ns + SECOND;

    arena->settings.half_open_max_calls = CIRCUIT_LEASES;
    arena->settings.success_threshold = CIRCUIT_LEASES;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++) { /* at most three of these pass */
            if (circuit_admit(&arena->circuit, &arena->settings, &caller, now, &tickets[0], &transitions) == ADMIT_PASS)
                circuit_settle(&arena->circuit, &arena->settings, &caller, &tickets[0], breaker_failure, now,
                               &transitions);
        }
        now += SECOND; /* past any pause, and past any lease */
        for (unsigned int i = 0; i < CIRCUIT_LEASES; i++)
            assert_int_equal(circuit_admit(&arena->circuit, &arena->settings, &caller, now, &tickets[i], &transitions),
                             ADMIT_PROBE);
        for (unsigned int i = 0; i < CIRCUIT_LEASES; i++)
            assert_int_equal(circuit_settle(&arena->circuit, &arena->settings, &caller, &tickets[i], breaker_success,
                                            now, &transitions),
                             SETTLED_COUNTED);
        assert_int_equal(transitions.count, 1);
        assert_int_equal(transitions.at[0].to, CIRCUIT_CLOSED);
    }
}

/* --- the tests --- */

static void run_in_threads(struct arena *arena, bool own_holders)
{
    pthread_t bell;

    assert_int_equal(pthread_create(&bell, NULL, ring_the_bell, arena), 0);
    run_threads(arena, 0, WORKERS, 1, own_holders);
    pthread_join(bell, NULL);
}

static void threads_keep_the_invariants(void **state)
{
    struct arena *arena = *state;

    run_in_threads(arena, true);
    assert_invariants(arena, (struct losses){0, 0});
    assert_it_comes_back(arena, 100);
}

static void threads_that_join_each_others_probes_and_abandon_calls_keep_the_invariants(void **state)
{
    struct arena *arena = *state;

    arena->joins = arena->abandons = 1;
    run_in_threads(arena, false);
    assert_invariants(arena, (struct losses){0, 0});
    assert_it_comes_back(arena, 100);
}

static void pauses_that_others_end_keep_the_invariants(void **state)
{
    struct arena *arena = *state;

    arena->ends_pauses = 1;
    run_in_threads(arena, true);
    assert_invariants(arena, (struct losses){0, 0});
    assert_true(arena->ended_pauses >= ENOUGH);
    assert_it_comes_back(arena, 100);
}

static pid_t start_process(struct arena *arena, unsigned int index, uint32_t holder)
{
    pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves nobody behind */
        run_threads(arena, index * THREADS_EACH, THREADS_EACH, holder, false);
        _exit(0);
    }
    return pid;
}

/* What the killed process's threads were at: repairs the count of probes, then lets the circuit know. */
static void bury(struct arena *arena, unsigned int index, uint32_t holder, struct losses *losses)
{
    for (unsigned int i = 0; i < THREADS_EACH; i++) {
        struct worker *worker = &arena->workers[index * THREADS_EACH + i];
        _Atomic int32_t *probing = &arena->probing[worker->generation % GENERATIONS];

        if (worker->place == COUNTING_UP || worker->place == COUNTING_DOWN)
            atomic_fetch_add(probing, TAINTED);
        else if (worker->place == PROBING && worker->generation != 0)
            atomic_fetch_sub(probing, 1);
        losses->torn += worker->place == IN_ADMIT || worker->place == IN_SETTLE;
        losses->in_flight += worker->place == COUNTING_UP || worker->place == PROBING || worker->place == COUNTING_DOWN;
        worker->generation = 0;
        worker->place = BETWEEN_CALLS;
    }
    arena->dead[holder] = 1;
}

static void processes_killed_at_any_instant_leave_a_circuit_that_comes_back(void **state)
{
    struct arena *arena = *state;
    pid_t pids[PROCESSES];
    uint32_t holders[PROCESSES], next_holder = 1;
    uint64_t random = 4711, end = real_ns() + RUNS_MAX * RUN_NS;
    struct losses losses = {0, 0};
    unsigned int kills = 0;

    arena->ends_pauses = 1;
    for (unsigned int i = 0; i < PROCESSES; i++) {
        holders[i] = next_holder++;
        pids[i] = start_process(arena, i, holders[i]);
        assert_true(pids[i] > 0);
    }
    while ((kills < ENOUGH || !has_seen_enough(arena)) && kills < HOLDERS_MAX / 2 && real_ns() < end) {
        unsigned int victim = (unsigned int)(breaker_random(&random) % PROCESSES);
        struct timespec instant = {.tv_nsec = (long)(breaker_random(&random) % 3000000)};

        nanosleep(&instant, NULL);
        assert_int_equal(kill(pids[victim], SIGKILL), 0);
        assert_int_equal(waitpid(pids[victim], NULL, 0), pids[victim]);
        bury(arena, victim, holders[victim], &losses);
        kills++;
        holders[victim] = next_holder++;
        pids[victim] = start_process(arena, victim, holders[victim]);
        assert_true(pids[victim] > 0);
    }
    arena->stop = 1;
    for (unsigned int i = 0; i < PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    assert_true(kills >= 5);
    assert_invariants(arena, losses);

    /* everybody is dead; without a look at the clock, their leases and slots are free */
    for (uint32_t holder = 1; holder < next_holder; holder++)
        arena->dead[holder] = 1;
    assert_it_comes_back(arena, next_holder);
}

#define arena_test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        arena_test(threads_keep_the_invariants),
        arena_test(threads_that_join_each_others_probes_and_abandon_calls_keep_the_invariants),
        arena_test(pauses_that_others_end_keep_the_invariants),
        arena_test(processes_killed_at_any_instant_leave_a_circuit_that_comes_back),
    };

    return cmocka_run_group_tests_name("circuit under stress", tests, NULL, NULL);
}
