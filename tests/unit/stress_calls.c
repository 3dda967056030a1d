/*
 * stress_calls.c - the guard under many threads of many processes, which are killed at random instants.
 *
 * All share one segment and one fake clock, which each of them pushes on. Checked at any time: no two living processes
 * hold the one permit of a half-open circuit. Checked at the end: every admitted call has exactly one outcome, but for
 * at most one for each thread that was killed; no record is left behind.
 *
 * Where the one permit is checked the clock is the real one. A thread that waits for a processor while the others push
 * the fake one on by minutes comes back with a time so old that it takes a lease of the others' for one of a strange
 * clock (time_can_be_ahead in breaker/word.h).
 */
#include "support_guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "segment/layout.h"
#include "guard/overdue.h"
#include "segment/processes.h"

enum { PROCESSES = 6, THREADS = 2, HELD_MAX = 8 };
/* A run lasts this long, and on a busy machine up to so many times as long, until enough has happened. */
#define RUN_NS (1200 * NS_PER_MS)
#define RUNS_MAX 20

/* What all processes see beside the segment. */
struct arena {
    _Atomic uint64_t now_ns;
    _Atomic bool over;
    _Atomic uint32_t violations;
    _Atomic uint64_t probes, refusals, passes, by_short_way;
    struct {
        _Atomic uint32_t holder; /* who holds a probe; 0: nobody */
    } probing[PROCESSES][THREADS];
};

static struct arena *arena;

struct worker {
    struct guard_bench *bench;
    unsigned int process, thread;
    uint64_t random;
    uint32_t held[HELD_MAX]; /* calls that hang */
    unsigned int held_count;
    bool leases_last; /* no lease runs out: then the permit is exclusive */
};

static uint32_t draw(struct worker *worker, uint32_t below)
{
    /* xorshift64* */
    worker->random ^= worker->random >> 12;
    worker->random ^= worker->random << 25;
    worker->random ^= worker->random >> 27;
    return (uint32_t)((worker->random * UINT64_C(2685821657736338717)) >> 32) % below;
}

static uint64_t now_of(const struct worker *worker)
{
    return worker->leases_last ? clock_real_ns() : atomic_load(&arena->now_ns);
}

/* A probe was admitted: nobody else who lives may hold one. */
static void check_permit(struct worker *worker)
{
    const struct guard *guard = &worker->bench->guard;

    for (unsigned int process = 0; process < PROCESSES; process++) {
        for (unsigned int thread = 0; thread < THREADS; thread++) {
            uint32_t holder = atomic_load(&arena->probing[process][thread].holder);

            if (holder != 0 && process_alive(guard->segment, holder) &&
                atomic_load(&arena->probing[process][thread].holder) == holder)
                atomic_fetch_add(&arena->violations, 1);
        }
    }
    atomic_store(&arena->probing[worker->process][worker->thread].holder, guard->holder);
}

static void note_probe(struct worker *worker)
{
    atomic_fetch_add(&arena->probes, 1);
    if (worker->leases_last)
        check_permit(worker);
}

/* Before it is settled, for then the next one may hold the permit. */
static void end_probe(struct worker *worker)
{
    if (worker->leases_last)
        atomic_store(&arena->probing[worker->process][worker->thread].holder, 0);
}

static struct observation draw_end(struct worker *worker, bool good)
{
    static const enum seen ends[] = {SEEN_ERROR, SEEN_END, SEEN_GAVE_UP, SEEN_WAIT_ENDED};

    return (struct observation){.seen = good ? SEEN_BYTES : ends[draw(worker, 4)],
                                .error = ECONNREFUSED,
                                .waited_ns = draw(worker, 2) * NS_PER_S};
}

/* Further requests on a connection that has answered, by the short way where that is open. */
static void go_on(struct worker *worker, const struct attempt *attempt, uint32_t call)
{
    struct guard_bench *bench = worker->bench;
    struct call_place place;
    bool good = guard_call_place(&bench->guard, bench->circuit, call, &place);

    for (uint32_t turns = draw(worker, 6); good && turns > 0; turns--) {
        uint64_t now_ns = now_of(worker);
        enum admission admission = ADMIT_PASS;

        if (guard_begin_short(&place, &bench->target, attempt->address_key, now_ns))
            atomic_fetch_add(&arena->by_short_way, 1);
        else
            admission = guard_begin(&bench->guard, attempt, call, now_ns);
        if (admission_refuses(admission)) {
            atomic_fetch_add(&arena->refusals, 1);
            return;
        }
        atomic_fetch_add(&arena->passes, 1);
        if (admission == ADMIT_PROBE)
            note_probe(worker);
        good = draw(worker, 4) != 0;
        struct observation end = draw_end(worker, good);
        end_probe(worker);
        if (!good || !guard_settle_short(&place, &bench->target, end.waited_ns, now_ns))
            guard_settle(&bench->guard, call, &bench->target, worker->thread, &end, now_ns);
    }
}

static void end_call(struct worker *worker, const struct attempt *attempt, uint32_t call, bool good)
{
    struct guard_bench *bench = worker->bench;
    struct guard *guard = &bench->guard;
    uint64_t now_ns = now_of(worker);
    struct observation observation = draw_end(worker, good);

    guard_settle(guard, call, &bench->target, worker->thread, &observation, now_ns);
    if (draw(worker, 8) == 0)
        guard_settle(guard, call, &bench->target, worker->thread, &observation, now_ns);
    if (good && attempt != NULL)
        go_on(worker, attempt, call);
    struct call_place place;
    if (guard->takes_short_way && guard_call_place(guard, bench->circuit, call, &place) && guard_forget_short(&place))
        return;
    guard_forget(guard, call, &bench->target, worker->thread, now_ns);
}

static void connected(struct guard *guard, struct guard_bench *bench, uint32_t call, uint64_t now_ns)
{
    struct call_place place;

    if (!guard->takes_short_way || !guard_call_place(guard, bench->circuit, call, &place) ||
        !guard_connected_short(&place, &bench->target, now_ns))
        guard_connected(guard, call, &bench->target, now_ns);
}

static void one_step(struct worker *worker)
{
    static const uint64_t addresses[] = {ADDRESS_A, ADDRESS_B};
    struct guard_bench *bench = worker->bench;
    struct guard *guard = &bench->guard;
    struct attempt attempt = {.target = &bench->target,
                              .circuit = bench->circuit,
                              .address_key = addresses[worker->leases_last ? 0 : draw(worker, 2)],
                              .siblings = addresses,
                              .sibling_count = worker->leases_last ? 1 : 2,
                              .shard = worker->thread};
    atomic_fetch_add(&arena->now_ns, draw(worker, 200) * NS_PER_MS);
    uint64_t now_ns = now_of(worker);
    uint32_t call;
    enum admission admission = guard_admit(guard, &attempt, now_ns, &call);

    if (admission == ADMIT_REFUSED_OPEN || admission == ADMIT_REFUSED_HALF_OPEN) {
        atomic_fetch_add(&arena->refusals, 1);
        return;
    }
    atomic_fetch_add(&arena->passes, 1);
    if (admission == ADMIT_PROBE)
        note_probe(worker);
    if (draw(worker, 2) == 0)
        connected(guard, bench, call, now_ns);
    if (draw(worker, 2) == 0)
        guard_requested(guard, call, &bench->target, now_ns);
    if (admission == ADMIT_PASS && draw(worker, 4) == 0 && worker->held_count < HELD_MAX) {
        worker->held[worker->held_count++] = call;
        return;
    }
    end_probe(worker);
    end_call(worker, &attempt, call, draw(worker, 3) != 0);
    if (worker->held_count > 0 && draw(worker, 3) == 0)
        end_call(worker, NULL, worker->held[--worker->held_count], draw(worker, 2) != 0);
}

static void *work(void *context)
{
    struct worker *worker = context;

    while (!atomic_load(&arena->over))
        one_step(worker);
    while (worker->held_count > 0)
        end_call(worker, NULL, worker->held[--worker->held_count], true);
    return NULL;
}

static pid_t start_process(struct guard_bench *bench, unsigned int process, uint64_t seed, bool leases_last)
{
    pid_t child = bench_fork_worker(bench);
    struct worker workers[THREADS];
    pthread_t threads[THREADS];

    if (child > 0)
        return child;
    bench->guard.takes_short_way = process % 2;
    for (unsigned int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.bench = bench,
                                     .process = process,
                                     .thread = i,
                                     .leases_last = leases_last,
                                     .random = (seed * THREADS + i + 1) * UINT64_C(0x9e3779b97f4a7c15)};
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
            _exit(3);
    }
    for (unsigned int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    process_leave(&bench->segment, bench->guard.holder);
    _exit(0);
}

static void await(pid_t child, bool was_killed)
{
    int status;

    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (!was_killed)
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Or nothing of it was tested. */
static bool has_seen_enough(void)
{
    return atomic_load(&arena->probes) > 0 && atomic_load(&arena->refusals) > 0 && atomic_load(&arena->passes) > 100 &&
           atomic_load(&arena->by_short_way) > 10;
}

/*
 * Runs all processes for a while; kills and replaces one each `kill_every_us` (0: none). Returns how many were killed.
 */
static unsigned int run(struct guard_bench *bench, unsigned int kill_every_us, bool leases_last)
{
    struct worker chance = {.random = 88172645463325252};
    pid_t children[PROCESSES];
    unsigned int killed = 0;
    uint64_t end_ns = clock_real_ns() + RUN_NS, latest_ns = end_ns + RUNS_MAX * RUN_NS;

    arena = mmap(NULL, sizeof *arena, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(arena, MAP_FAILED);
    atomic_store(&arena->now_ns, bench->now_ns);
    for (unsigned int i = 0; i < PROCESSES; i++)
        children[i] = start_process(bench, i, i, leases_last);
    while (clock_real_ns() < (has_seen_enough() ? end_ns : latest_ns)) {
        usleep(kill_every_us > 0 ? 1 + draw(&chance, 2 * kill_every_us) : 10000);
        if (kill_every_us > 0) {
            unsigned int victim = draw(&chance, PROCESSES);

            kill(children[victim], SIGKILL);
            await(children[victim], true);
            killed++;
            children[victim] = start_process(bench, victim, PROCESSES + killed, leases_last);
        }
    }
    atomic_store(&arena->over, true);
    for (unsigned int i = 0; i < PROCESSES; i++)
        await(children[i], false);
    bench->now_ns = atomic_load(&arena->now_ns);
    return killed;
}

static void settle_accounts(struct guard_bench *bench, unsigned int most_missing)
{
    bench_bury(bench);
    for (unsigned int call = 0; call < CAPACITY_CALLS; call++)
        assert_int_equal(atomic_load(&bench->segment.call_owner[call]), 0);
    print_message(
        "%llu passed (%llu by the short way), %llu probes, %llu refused, %llu overdue, %llu late, %llu opened\n",
        (unsigned long long)arena->passes, (unsigned long long)arena->by_short_way, (unsigned long long)arena->probes,
        (unsigned long long)arena->refusals, (unsigned long long)bench_sum(bench, COUNT_OVERDUE),
        (unsigned long long)bench_sum(bench, COUNT_LATE), (unsigned long long)bench_sum(bench, COUNT_OPENED));

    uint64_t missing = bench_sum(bench, COUNT_ADMITTED) - bench_late_or_counted(bench);
    assert_in_range(missing, 0, most_missing);
    assert_int_equal(atomic_load(&arena->violations), 0);
    assert_true(has_seen_enough());
    munmap(arena, sizeof *arena);
    /* For the bench's own check. */
    circuit_reset(circuits_at(&bench->segment, bench->circuit));
}

static void calls_of_many_processes_add_up_exactly(void **state)
{
    struct guard_bench *bench = *state;

    bench->target.response_timeout_ns = 5 * NS_PER_S;
    run(bench, 0, false);
    assert_true(bench_sum(bench, COUNT_OVERDUE) > 0);
    assert_int_equal(bench_sum(bench, COUNT_ADMITTED), atomic_load(&arena->passes));
    assert_int_equal(bench_sum(bench, COUNT_REFUSED), atomic_load(&arena->refusals));
    settle_accounts(bench, 0);
}

static void there_is_one_permit_whoever_is_killed(void **state)
{
    struct guard_bench *bench = *state;

    bench->target.breaker.reset_timeout_ns = NS_PER_MS / 10;
    bench->target.breaker.reset_timeout_max_ns = NS_PER_MS;
    bench->target.breaker.probe_timeout_ns = UINT64_MAX / 2;
    bench->target.connect_timeout_ns = 0;
    unsigned int killed = run(bench, 4000, true);
    assert_true(killed > 0);
    settle_accounts(bench, killed * THREADS);
}

static void leases_that_run_out_and_owners_that_are_killed_leave_nothing_behind(void **state)
{
    struct guard_bench *bench = *state;

    bench->target.breaker.half_open_max_calls = 3;
    bench->target.breaker.success_threshold = 2;
    bench->target.breaker.probe_timeout_ns = NS_PER_S;
    bench->target.connect_timeout_ns = 2 * NS_PER_S;
    bench->target.response_timeout_ns = 3 * NS_PER_S;
    unsigned int killed = run(bench, 4000, false);
    assert_true(killed > 0);
    settle_accounts(bench, killed * THREADS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GUARD_TEST(calls_of_many_processes_add_up_exactly),
        GUARD_TEST(there_is_one_permit_whoever_is_killed),
        GUARD_TEST(leases_that_run_out_and_owners_that_are_killed_leave_nothing_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
