/*
 * support_guard.c - a guard on the bench.
 */
#include "support_guard.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "segment/bulkhead.h"
#include "guard/dead_owners.h"
#include "segment/journal.h"
#include "segment/layout.h"
#include "guard/owners.h"
#include "segment/processes.h"

#define CHILD_SECONDS_MAX 60

/* In a child, a failed assertion would go on with the remaining tests there; it ends, and its parent finds it gone. */
static bool in_child;

static void require(bool holds)
{
    if (in_child && !holds)
        _exit(9);
    assert_true(holds);
}

static void set_target(struct target *target)
{
    snprintf(target->name, sizeof target->name, "%s", BENCH_TARGET);
    target->mode = MODE_ENFORCE;
    target->on_open = ECONNREFUSED;
    target->connect_timeout_ns = 10 * NS_PER_S;
    target->response_timeout_ns = 0;
    target->breaker = (struct settings){
        .failure_threshold = 3,
        .success_threshold = 1,
        .half_open_max_calls = 1,
        .backoff_permille = 2000,
        .reset_timeout_ns = 10 * NS_PER_S,
        .reset_timeout_max_ns = 60 * NS_PER_S,
        .probe_timeout_ns = 10 * NS_PER_S,
    };
    target->rules = (struct outcome_rules){.abandon_after_ns = 300 * NS_PER_MS, .failure_mask = 0xffffffff};
}

static const struct target *target_named(const char *name, void *context)
{
    const struct guard_bench *bench = context;

    return strcmp(name, bench->target.name) == 0 ? &bench->target : NULL;
}

static bool join(struct guard_bench *bench)
{
    bench->guard.segment = &bench->segment;
    bench->guard.target_named = target_named;
    bench->guard.context = bench;
    bench->guard.holder = process_join(&bench->segment, bench->guard.program, 1);
    bench->guard.pid = (uint32_t)getpid();
    return bench->guard.holder != 0;
}

int guard_bench_setup(void **state)
{
    struct guard_bench *bench = calloc(1, sizeof *bench);
    struct segment_error error;

    if (bench == NULL)
        return -1;
    *state = bench;
    snprintf(bench->folder, sizeof bench->folder, "/tmp/sockfuse-test-XXXXXX");
    if (mkdtemp(bench->folder) == NULL || !segment_attach(&bench->segment, bench->folder, "bench", NULL, &error))
        return -1;
    set_target(&bench->target);
    snprintf(bench->guard.program, sizeof bench->guard.program, "bench");
    bench->guard.log = bench->log;
    bench->now_ns = BENCH_START_NS;
    bench->circuit = circuits_find(&bench->segment, BENCH_TARGET, BENCH_DESTINATION, bench->now_ns);
    return join(bench) && bench->circuit != CIRCUIT_INDEX_NONE ? 0 : -1;
}

static void remove_folder(const char *folder)
{
    DIR *entries = opendir(folder);

    for (struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;) {
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(entries), entry->d_name, 0);
    }
    if (entries != NULL)
        closedir(entries);
    rmdir(folder);
}

int guard_bench_teardown(void **state)
{
    struct guard_bench *bench = *state;

    while (bench->child_count > 0)
        bench_kill(bench, bench->children[0]);
    assert_int_equal(bench_sum(bench, COUNT_ADMITTED),
                     bench_late_or_counted(bench) + calls_in_flight(&bench->segment, bench->circuit));
    segment_detach(&bench->segment);
    remove_folder(bench->folder);
    free(bench);
    return 0;
}

pid_t bench_fork_worker(struct guard_bench *bench)
{
    pid_t parent = getpid(), child = fork();

    assert_true(child >= 0);
    if (child > 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(CHILD_SECONDS_MAX);
    if (getppid() != parent)
        _exit(1);
    if (!join(bench))
        _exit(2);
    return 0;
}

/* --- calls --- */

enum admission bench_admit_to(struct guard_bench *bench, uint64_t address, const uint64_t *siblings, size_t count,
                              uint32_t *call)
{
    struct attempt attempt = {
        .target = &bench->target,
        .circuit = bench->circuit,
        .address_key = address,
        .siblings = siblings,
        .sibling_count = count,
        .shard = 3,
    };

    return guard_admit(&bench->guard, &attempt, bench->now_ns, call);
}

enum admission bench_admit(struct guard_bench *bench, uint32_t *call)
{
    return bench_admit_to(bench, ADDRESS_A, NULL, 0, call);
}

uint32_t bench_call(struct guard_bench *bench)
{
    uint32_t call;

    require(bench_admit(bench, &call) == ADMIT_PASS && call != CALL_NONE);
    return call;
}

struct outcome bench_settle(struct guard_bench *bench, uint32_t call, enum seen seen, int error, uint64_t waited_ns)
{
    struct observation observation = {.seen = seen, .error = error, .waited_ns = waited_ns};

    return guard_settle(&bench->guard, call, &bench->target, 5, &observation, bench->now_ns);
}

void bench_forget(struct guard_bench *bench, uint32_t call)
{
    guard_forget(&bench->guard, call, &bench->target, 5, bench->now_ns);
}

void bench_connected(struct guard_bench *bench, uint32_t call)
{
    guard_connected(&bench->guard, call, &bench->target, bench->now_ns);
}

void bench_requested(struct guard_bench *bench, uint32_t call)
{
    guard_requested(&bench->guard, call, &bench->target, bench->now_ns);
}

void bench_fail(struct guard_bench *bench)
{
    uint32_t call;
    enum admission admission = bench_admit(bench, &call);

    require(admission == ADMIT_PASS || admission == ADMIT_PROBE);
    require(bench_settle(bench, call, SEEN_ERROR, ECONNREFUSED, 0).verdict == VERDICT_FAILURE);
    bench_forget(bench, call);
}

void bench_succeed(struct guard_bench *bench)
{
    uint32_t call;
    enum admission admission = bench_admit(bench, &call);

    require(admission == ADMIT_PASS || admission == ADMIT_PROBE);
    bench_connected(bench, call);
    bench_requested(bench, call);
    require(bench_settle(bench, call, SEEN_BYTES, 0, 0).verdict == VERDICT_SUCCESS);
    bench_forget(bench, call);
}

void bench_open(struct guard_bench *bench)
{
    for (uint32_t i = 0; i < bench->target.breaker.failure_threshold; i++)
        bench_fail(bench);
    assert_int_equal(bench_state(bench), CIRCUIT_OPEN);
}

/* --- looking --- */

uint32_t bench_find(struct guard_bench *bench, const char *destination)
{
    uint32_t index = circuits_find(&bench->segment, BENCH_TARGET, destination, bench->now_ns);

    if (index != CIRCUIT_INDEX_NONE)
        return index;
    /* As if it had been sought in vain long ago. */
    for (uint32_t i = 0; i < bench->segment.capacity.circuits; i++)
        atomic_store(&bench->segment.circuits[i].sought_ns, 0);
    return circuits_find(&bench->segment, BENCH_TARGET, destination, bench->now_ns);
}

bool bench_stands(const struct guard_bench *bench, const char *destination)
{
    struct circuit_texts texts;
    uint32_t cursor = 0;

    while (circuits_next(&bench->segment, &cursor, &texts) != CIRCUIT_INDEX_NONE) {
        if (strcmp(texts.destination, destination) == 0 && strcmp(texts.target, BENCH_TARGET) == 0)
            return true;
    }
    return false;
}

uint64_t bench_sum(const struct guard_bench *bench, unsigned int counter)
{
    return counters_sum(&circuits_at(&bench->segment, bench->circuit)->counters, counter);
}

uint64_t bench_late_or_counted(const struct guard_bench *bench)
{
    return bench_sum(bench, COUNT_SUCCEEDED) + bench_sum(bench, COUNT_FAILED) + bench_sum(bench, COUNT_NEUTRAL) +
           bench_sum(bench, COUNT_BUSINESS) + bench_sum(bench, COUNT_LATE);
}

static struct circuit_view view_of(const struct guard_bench *bench)
{
    struct circuit_view view;

    circuit_observe(circuits_at(&bench->segment, bench->circuit), &bench->target.breaker, bench->now_ns, &view);
    return view;
}

enum circuit_state bench_state(const struct guard_bench *bench)
{
    return view_of(bench).state;
}

uint32_t bench_failures(const struct guard_bench *bench)
{
    return view_of(bench).failures;
}

struct circuit_entry *bench_entry(const struct guard_bench *bench)
{
    return circuits_entry(&bench->segment, bench->circuit);
}

uint32_t bench_connections(const struct guard_bench *bench)
{
    return bulkhead_counted(&bench->segment, bench->circuit);
}

void bench_let_ask(struct guard_bench *bench)
{
    if (bench_entry(bench) != NULL)
        atomic_store(&bench_entry(bench)->recounted_ns, 0);
    atomic_store(&bench->guard.ask_after_ns, 0);
    atomic_store(&bench->guard.need_after_ns, 0);
    for (uint32_t i = 0; i < bench->segment.capacity.processes; i++)
        atomic_store(&bench->segment.processes[i].asked_ns, 0);
}

void bench_bury(struct guard_bench *bench)
{
    bench_let_ask(bench);
    for (uint32_t i = 0; i < bench->segment.capacity.processes; i++) {
        struct asking asking = {.left = 1, .real_ns = clock_real_ns()};
        uint32_t holder = process_holder(&bench->segment, i);

        if (holder != 0)
            owner_ask(&bench->segment, holder, &asking);
    }
    atomic_fetch_add(&bench->segment.map->deaths, 1); /* whatever is on its way: one whole round more */
    for (uint32_t i = 0; i < 2 * bench->segment.capacity.calls; i++)
        bury_some(&bench->guard, 0, bench->now_ns);
}

unsigned int bench_events(const struct guard_bench *bench, enum event_type type, struct event *last)
{
    unsigned int count = 0;
    struct event event;

    for (uint64_t number = journal_oldest(&bench->segment); number < journal_head(&bench->segment); number++) {
        if (!journal_read(&bench->segment, number, &event) || event.type != type)
            continue;
        count++;
        if (last != NULL)
            *last = event;
    }
    return count;
}

/* --- children --- */

pid_t bench_child(struct guard_bench *bench, void (*live)(struct guard_bench *bench))
{
    int ready[2];
    char byte = 0;

    assert_true(bench->child_count < CHILDREN_MAX);
    assert_int_equal(pipe(ready), 0);
    pid_t parent = getpid(), child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        /* Nobody may outlive the test, however that ends. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(CHILD_SECONDS_MAX);
        if (getppid() != parent)
            _exit(1);
        in_child = true;
        snprintf(bench->guard.program, sizeof bench->guard.program, "child");
        if (!join(bench))
            _exit(2);
        live(bench);
        if (write(ready[1], "!", 1) != 1)
            _exit(3);
        for (;;)
            pause();
    }
    close(ready[1]);
    bench->children[bench->child_count++] = child;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return child;
}

void bench_kill(struct guard_bench *bench, pid_t child)
{
    kill(child, SIGKILL);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
    bench_let_ask(bench);
    for (unsigned int i = 0; i < bench->child_count; i++) {
        if (bench->children[i] == child)
            bench->children[i--] = bench->children[--bench->child_count];
    }
}

void live_connecting(struct guard_bench *bench)
{
    bench_call(bench);
}

void live_connected(struct guard_bench *bench)
{
    bench_connected(bench, bench_call(bench));
}

void live_requested(struct guard_bench *bench)
{
    uint32_t call = bench_call(bench);

    bench_connected(bench, call);
    bench_requested(bench, call);
}

void live_answered(struct guard_bench *bench)
{
    uint32_t call = bench_call(bench);

    bench_connected(bench, call);
    bench_settle(bench, call, SEEN_BYTES, 0, 0);
}

void live_probing(struct guard_bench *bench)
{
    uint32_t call;

    bench->now_ns += 10 * NS_PER_S;
    bench_admit(bench, &call);
}

int private_segment_setup(void **state)
{
    struct segment *segment = calloc(1, sizeof *segment);

    *state = segment;
    return segment != NULL && segment_private(segment, "calls", NULL) ? 0 : -1;
}

int private_segment_teardown(void **state)
{
    segment_detach(*state);
    free(*state);
    return 0;
}
