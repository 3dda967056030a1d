/*
 * stress_bulkhead.c - a limit over processes that are killed at any instant: never exceeded, and no place is lost.
 *
 * Who is within holds the lock on one of as many bytes of a file as there are places. The kernel takes the locks back
 * when a process dies, before anybody can see that it is dead: so whoever is admitted must find a byte.
 */
#define _GNU_SOURCE
#include "support_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "segment/bulkhead.h"
#include "segment/layout.h"
#include "segment/processes.h"

enum { PROCESSES = 4, THREADS = 2, LIMIT = 3 };
#define RUN_NS (3 * NS_PER_S)
#define KILL_EVERY_US 2000

struct arena {
    _Atomic bool over;
    _Atomic uint64_t passes, refusals, violations;
};
static struct arena *arena;

struct worker {
    struct guard_bench *bench;
    uint64_t random;
    int file;
};

static unsigned int draw(struct worker *worker, unsigned int limit)
{
    worker->random ^= worker->random << 13;
    worker->random ^= worker->random >> 7;
    worker->random ^= worker->random << 17;
    return (unsigned int)(worker->random % limit);
}

static bool lock_byte(const struct worker *worker, off_t byte, short kind)
{
    struct flock lock = {.l_type = kind, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};

    return fcntl(worker->file, F_OFD_SETLK, &lock) == 0;
}

/* The byte that was free; LIMIT: none, so there are more within than may be. */
static off_t take_byte(const struct worker *worker)
{
    off_t byte = 0;

    while (byte < LIMIT && !lock_byte(worker, byte, F_WRLCK))
        byte++;
    return byte;
}

static void *work(void *context)
{
    struct worker *worker = context;
    struct guard_bench *bench = worker->bench;

    while (!atomic_load(&arena->over)) {
        struct attempt attempt = {.target = &bench->target, .circuit = bench->circuit, .address_key = ADDRESS_A};
        uint32_t call;

        if (guard_admit(&bench->guard, &attempt, bench->now_ns, &call) == ADMIT_REFUSED_BULKHEAD) {
            atomic_fetch_add(&arena->refusals, 1);
            bench_let_ask(bench); /* so that the dead are found at once */
            continue;
        }
        atomic_fetch_add(&arena->passes, 1);
        off_t byte = take_byte(worker);
        if (byte == LIMIT)
            atomic_fetch_add(&arena->violations, 1);
        for (unsigned int i = draw(worker, 4); i > 0; i--)
            sched_yield();
        if (byte < LIMIT)
            lock_byte(worker, byte, F_UNLCK);
        guard_forget(&bench->guard, call, &bench->target, 0, bench->now_ns);
    }
    return NULL;
}

static pid_t start_process(struct guard_bench *bench, uint64_t seed)
{
    pid_t child = bench_fork_worker(bench);
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    char path[128];

    if (child > 0)
        return child;
    snprintf(path, sizeof path, "%s/places", bench->folder);
    for (unsigned int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){
            .bench = bench,
            .random = (seed * THREADS + i + 1) * UINT64_C(0x9e3779b97f4a7c15),
            .file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600), /* a lock of its own for each thread */
        };
        if (bench->guard.holder == 0 || workers[i].file < 0 ||
            pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
            _exit(2);
    }
    for (unsigned int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    process_leave(&bench->segment, bench->guard.holder);
    _exit(0);
}

static void await(pid_t child)
{
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
}

static void the_limit_holds_and_no_place_is_lost_whoever_is_killed(void **state)
{
    struct guard_bench *bench = *state;
    struct worker chance = {.random = 88172645463325252};
    pid_t children[PROCESSES];
    uint32_t calls[LIMIT], more;
    unsigned int killed = 0;

    bench->target.max_connections = LIMIT;
    arena = mmap(NULL, sizeof *arena, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(arena, MAP_FAILED);
    for (unsigned int i = 0; i < PROCESSES; i++)
        children[i] = start_process(bench, i);
    for (uint64_t end_ns = clock_real_ns() + RUN_NS; clock_real_ns() < end_ns; killed++) {
        unsigned int victim = draw(&chance, PROCESSES);

        usleep(1 + draw(&chance, 2 * KILL_EVERY_US));
        kill(children[victim], SIGKILL);
        await(children[victim]);
        children[victim] = start_process(bench, PROCESSES + killed);
    }
    atomic_store(&arena->over, true);
    for (unsigned int i = 0; i < PROCESSES; i++)
        await(children[i]);
    print_message("%llu passed, %llu refused, %u killed\n", (unsigned long long)arena->passes,
                  (unsigned long long)arena->refusals, killed);
    assert_int_equal(atomic_load(&arena->violations), 0);
    assert_true(killed > 3 && atomic_load(&arena->passes) > 10 && atomic_load(&arena->refusals) > 10);

    assert_int_equal(bulkhead_count(&bench->segment, bench->circuit), 0);
    bench_bury(bench);
    assert_int_equal(bench_connections(bench), 0);
    for (unsigned int i = 0; i < LIMIT; i++)
        calls[i] = bench_call(bench);
    assert_int_equal(bench_admit(bench, &more), ADMIT_REFUSED_BULKHEAD);
    for (unsigned int i = 0; i < LIMIT; i++)
        bench_forget(bench, calls[i]);
    munmap(arena, sizeof *arena);
    circuit_reset(circuits_at(&bench->segment, bench->circuit)); /* for the bench's own check of the sums */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GUARD_TEST(the_limit_holds_and_no_place_is_lost_whoever_is_killed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
