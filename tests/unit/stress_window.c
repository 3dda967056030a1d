/*
 * stress_window.c - many processes and threads count into one window in shared memory; some are killed at any instant.
 *
 * What must hold: the sums are exact to the call, also where buckets and chunks change hands under everybody's feet;
 * a process that was killed leaves at most the one call uncertain that it was counting; and of failures at the same
 * moment the one that reaches the rate opens the circuit, never one too late.
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
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support_breaker.h"

#include "breaker/window.h"
#include "breaker/word.h"

#define PROCESSES 4u
#define THREADS_EACH 2u
#define WORKERS (PROCESSES * THREADS_EACH)
#define ROUNDS 40u
#define CALLS_EACH 3000u
#define OPENINGS 400u
#define KILLS 25u
/* No child outlives this, whatever hangs. */
#define CHILD_SECONDS_MAX 120u

/* A worker's own account of a round, in shared memory: it outlives the process. */
struct worker {
    _Alignas(64) _Atomic uint64_t made[WINDOW_CLASSES];
    _Atomic uint32_t opened;
};

struct arena {
    struct circuit circuit;
    struct settings settings;
    _Atomic uint32_t ready, go, done; /* how many are; which round may run; how many ended it */
    _Atomic uint32_t stop;
    uint64_t generation, now_ns;
    struct worker workers[WORKERS];
};

struct task {
    struct arena *arena;
    struct worker *worker;
    void (*live)(struct task *task, uint32_t round);
    unsigned int number;
    uint32_t rounds;
    uint64_t random;
    pthread_t thread;
};

static int set_up(void **state)
{
    struct arena *arena = mmap(NULL, sizeof *arena, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (arena == MAP_FAILED)
        return -1;
    arena->now_ns = 1000 * BREAKER_START_NS; /* half of the longest window has room before it */
    arena->settings = (struct settings){.success_threshold = 1,
                                        .half_open_max_calls = 1,
                                        .backoff_permille = 1000,
                                        .reset_timeout_ns = SECOND,
                                        .reset_timeout_max_ns = SECOND,
                                        .probe_timeout_ns = SECOND,
                                        .minimum_calls = 1000000,
                                        .failure_rate_permille = 1000,
                                        .window = 3600 * SECOND};
    *state = arena;
    return 0;
}

static int tear_down(void **state)
{
    return munmap(*state, sizeof(struct arena));
}

/* --- workers --- */

static void *work(void *argument)
{
    struct task *task = argument;
    struct arena *arena = task->arena;

    for (uint32_t round = 1; round <= task->rounds; round++) {
        atomic_fetch_add(&arena->ready, 1);
        while (atomic_load(&arena->go) < round)
            sched_yield();
        task->live(task, round);
        atomic_fetch_add(&arena->done, 1);
    }
    return NULL;
}

static pid_t start_process(struct arena *arena, unsigned int process, uint32_t rounds,
                           void (*live)(struct task *task, uint32_t round))
{
    struct task tasks[THREADS_EACH];
    pid_t child = fork();

    if (child != 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(CHILD_SECONDS_MAX);
    for (unsigned int i = 0; i < THREADS_EACH; i++) {
        unsigned int number = process * THREADS_EACH + i;

        tasks[i] = (struct task){.arena = arena,
                                 .worker = &arena->workers[number],
                                 .live = live,
                                 .number = number,
                                 .rounds = rounds,
                                 .random = (number + 1) * UINT64_C(0x9e3779b97f4a7c15)};
        if (pthread_create(&tasks[i].thread, NULL, work, &tasks[i]) != 0)
            _exit(1);
    }
    for (unsigned int i = 0; i < THREADS_EACH; i++)
        pthread_join(tasks[i].thread, NULL);
    _exit(0);
}

static void await(const _Atomic uint32_t *count, uint32_t wanted)
{
    while (atomic_load(count) < wanted)
        sched_yield();
}

static void await_exit(pid_t child)
{
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Closed, under another generation. */
static void begin_generation(struct arena *arena)
{
    arena->generation++;
    atomic_store(&arena->circuit.word,
                 word_pack((struct word){.state = CIRCUIT_CLOSED, .generation = arena->generation}));
}

static struct window_counts sum(const struct arena *arena)
{
    return window_sum(&arena->circuit, &arena->settings, arena->generation, arena->now_ns);
}

/* Runs all processes through the rounds; `before` and `after` are called while nobody works. */
static void run_rounds(struct arena *arena, uint32_t rounds, void (*live)(struct task *task, uint32_t round),
                       void (*before)(struct arena *arena, uint32_t round),
                       void (*after)(struct arena *arena, uint32_t round))
{
    pid_t children[PROCESSES];

    for (unsigned int i = 0; i < PROCESSES; i++)
        assert_true((children[i] = start_process(arena, i, rounds, live)) > 0);
    for (uint32_t round = 1; round <= rounds; round++) {
        await(&arena->ready, round * WORKERS);
        before(arena, round);
        atomic_store(&arena->go, round);
        await(&arena->done, round * WORKERS);
        after(arena, round);
    }
    for (unsigned int i = 0; i < PROCESSES; i++)
        await_exit(children[i]);
}

static struct window_counts made_by_all(const struct arena *arena)
{
    struct window_counts made = {0};

    for (unsigned int i = 0; i < WORKERS; i++) {
        for (unsigned int kind = 0; kind < WINDOW_CLASSES; kind++)
            made.calls += atomic_load(&arena->workers[i].made[kind]);
        made.failed += atomic_load(&arena->workers[i].made[WINDOW_FAILED]);
        made.slow += atomic_load(&arena->workers[i].made[WINDOW_SLOW]);
    }
    return made;
}

static void forget_what_was_made(struct arena *arena)
{
    for (unsigned int i = 0; i < WORKERS; i++) {
        for (unsigned int kind = 0; kind < WINDOW_CLASSES; kind++)
            atomic_store(&arena->workers[i].made[kind], 0);
    }
}

/* --- exact sums --- */

/* Two workers share a shard. Times are anywhere in half a window, so all buckets are in, and each is begun by many. */
static void count_one(struct task *task)
{
    struct arena *arena = task->arena;
    uint64_t random = breaker_random(&task->random);
    enum window_class class = (enum window_class)((random >> 40) % WINDOW_CLASSES);
    uint64_t within = arena->settings.window < WINDOW_CALLS ? arena->settings.window / 2 : 1;

    window_add(&arena->circuit, &arena->settings, task->number / 2, arena->generation, class,
               arena->now_ns - random % within);
    atomic_fetch_add(&task->worker->made[class], 1);
}

static void count_many(struct task *task, uint32_t round)
{
    (void)round;
    for (unsigned int i = 0; i < CALLS_EACH; i++)
        count_one(task);
}

static void start_anew(struct arena *arena, uint32_t round)
{
    begin_generation(arena);
    forget_what_was_made(arena);
    arena->now_ns += (round % 5) * 600 * SECOND;
}

static void all_must_be_there(struct arena *arena, uint32_t round)
{
    struct window_counts made = made_by_all(arena), counts = sum(arena);

    (void)round;
    assert_int_equal(made.calls, WORKERS * CALLS_EACH);
    assert_int_equal(counts.calls, made.calls);
    assert_int_equal(counts.failed, made.failed);
    assert_int_equal(counts.slow, made.slow);
}

static void many_processes_add_up_exactly_over_a_duration(void **state)
{
    run_rounds(*state, ROUNDS, count_many, start_anew, all_must_be_there);
}

/* So many that all of them just fit. */
static void count_a_window_full(struct task *task, uint32_t round)
{
    (void)round;
    for (unsigned int i = 0; i < WINDOW_CALLS_MAX / WORKERS; i++)
        count_one(task);
}

static void a_window_full_must_be_there(struct arena *arena, uint32_t round)
{
    struct window_counts made = made_by_all(arena), counts = sum(arena);

    (void)round;
    assert_int_equal(made.calls, WINDOW_CALLS_MAX);
    assert_int_equal(counts.calls, WINDOW_CALLS_MAX);
    assert_int_equal(counts.failed, made.failed);
    assert_int_equal(counts.slow, made.slow);
}

static void many_processes_add_up_exactly_to_n_calls(void **state)
{
    struct arena *arena = *state;

    arena->settings.window = WINDOW_CALLS | WINDOW_CALLS_MAX;
    run_rounds(arena, 10 * ROUNDS, count_a_window_full, start_anew, a_window_full_must_be_there);
}

/* The chunks' numbers tell how many outcomes there ever were: none is lost when many more than N go through. */
static void every_chunk_must_be_full(struct arena *arena, uint32_t round)
{
    uint32_t first = (uint32_t)(round * 2 * WINDOW_CHUNKS), full = WORKERS * CALLS_EACH / 16;

    (void)round;
    assert_int_equal(sum(arena).calls, WINDOW_CALLS_MAX);
    assert_int_equal((uint32_t)atomic_load(&arena->circuit.window.head), first + full - 1);
    atomic_store(&arena->circuit.window.head, arena->generation << 32 | first); /* as if only a few had been made */
    for (unsigned int i = 0; i < WINDOW_CHUNKS; i++)
        atomic_store(&arena->circuit.window.chunks[i], 0);
}

static void no_outcome_is_lost_where_many_times_n_go_through(void **state)
{
    struct arena *arena = *state;

    arena->settings.window = WINDOW_CALLS | WINDOW_CALLS_MAX;
    run_rounds(arena, 10, count_many, start_anew, every_chunk_must_be_full);
}

/* --- kills --- */

static void count_until_stopped(struct task *task, uint32_t round)
{
    (void)round;
    while (atomic_load(&task->arena->stop) == 0)
        count_one(task);
}

static void count_and_be_killed(struct arena *arena, uint64_t at_most)
{
    uint64_t random = 4711;
    uint32_t killed = 0;
    pid_t children[PROCESSES];

    begin_generation(arena);
    atomic_store(&arena->go, 1);
    for (unsigned int i = 0; i < PROCESSES; i++)
        assert_true((children[i] = start_process(arena, i, 1, count_until_stopped)) > 0);
    for (; killed < KILLS; killed++) {
        unsigned int victim = killed % PROCESSES;
        struct timespec pause = {.tv_nsec = (long)(MILLISECOND + breaker_random(&random) % (5 * MILLISECOND))};

        nanosleep(&pause, NULL);
        assert_int_equal(kill(children[victim], SIGKILL), 0);
        assert_int_equal(waitpid(children[victim], NULL, 0), children[victim]);
        assert_true((children[victim] = start_process(arena, victim, 1, count_until_stopped)) > 0);
    }
    atomic_store(&arena->stop, 1);
    for (unsigned int i = 0; i < PROCESSES; i++)
        await_exit(children[i]);

    struct window_counts made = made_by_all(arena), counts = sum(arena);
    assert_true(made.calls > KILLS * THREADS_EACH);
    if (made.calls > at_most) { /* the rest has fallen out */
        assert_int_equal(counts.calls, at_most);
        return;
    }
    /* Each thread that was killed may have counted one more than it had time to say. */
    assert_in_range(counts.calls, made.calls, made.calls + killed * THREADS_EACH);
    assert_in_range(counts.failed, made.failed, made.failed + killed * THREADS_EACH);
    assert_in_range(counts.slow, made.slow, made.slow + killed * THREADS_EACH);
}

static void the_killed_leave_at_most_one_call_each_uncertain(void **state)
{
    count_and_be_killed(*state, UINT64_MAX);
}

static void the_killed_leave_n_calls_that_go_on(void **state)
{
    struct arena *arena = *state;

    arena->settings.window = WINDOW_CALLS | WINDOW_CALLS_MAX;
    count_and_be_killed(arena, WINDOW_CALLS_MAX);
}

/* --- opening --- */

static void fail_once(struct task *task, uint32_t round)
{
    struct arena *arena = task->arena;
    struct caller caller = {.holder = task->number + 1, .shard = task->number, .address = ADDRESS_NONE};
    struct ticket ticket = {.generation = arena->generation, .address = ADDRESS_NONE};
    struct transitions transitions;

    (void)round;
    circuit_settle(&arena->circuit, &arena->settings, &caller, &ticket, breaker_failure, arena->now_ns, &transitions);
    if (transitions.count == 1 && transitions.at[0].reason == REASON_FAILURE_RATE)
        atomic_fetch_add(&task->worker->opened, 1);
}

static void close_it(struct arena *arena, uint32_t round)
{
    begin_generation(arena);
    arena->settings.window = round % 2 == 0 ? 3600 * SECOND : (WINDOW_CALLS | 100);
    /* Every third round wants one more than there are. */
    arena->settings.minimum_calls = round % 3 == 0 ? WORKERS + 1 : round % 3 == 1 ? WORKERS : WORKERS / 2;
    for (unsigned int i = 0; i < WORKERS; i++)
        atomic_store(&arena->workers[i].opened, 0);
}

static void one_must_have_opened_it(struct arena *arena, uint32_t round)
{
    uint32_t opened = 0;
    struct circuit_view view;

    for (unsigned int i = 0; i < WORKERS; i++)
        opened += atomic_load(&arena->workers[i].opened);
    circuit_observe(&arena->circuit, &arena->settings, arena->now_ns, &view);
    assert_int_equal(opened, round % 3 != 0);
    assert_int_equal(view.state, round % 3 != 0 ? CIRCUIT_OPEN : CIRCUIT_CLOSED);
    if (round % 3 == 0)
        assert_int_equal(view.window.failed, WORKERS);
}

static void of_failures_at_the_same_moment_the_one_that_reaches_the_rate_opens(void **state)
{
    run_rounds(*state, OPENINGS, fail_once, close_it, one_must_have_opened_it);
}

#define arena_test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        arena_test(many_processes_add_up_exactly_over_a_duration),
        arena_test(many_processes_add_up_exactly_to_n_calls),
        arena_test(no_outcome_is_lost_where_many_times_n_go_through),
        arena_test(the_killed_leave_at_most_one_call_each_uncertain),
        arena_test(the_killed_leave_n_calls_that_go_on),
        arena_test(of_failures_at_the_same_moment_the_one_that_reaches_the_rate_opens),
    };

    return cmocka_run_group_tests_name("stress of the window", tests, NULL, NULL);
}
