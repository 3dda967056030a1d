/*
 * support_engine.c - what stands around the room, and a program. See support_engine.h.
 */
#define _GNU_SOURCE
#include "support_engine.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "connection/deferred.h"
#include "connection/engine.h"
#include "connection/left_behind.h"
#include "connection/lineage.h"
#include "connection/still_hangs.h"
#include "segment/layout.h"
#include "segment/processes.h"
#include "segment/segment.h"
#include "support_policy.h"

#define FIRST_PORT 5000
#define POLICIES_MAX 8u

struct engine engine;
struct station bench_station;
uint16_t bench_port = FIRST_PORT;
const struct capacity *bench_capacity;

static struct policy *policies[POLICIES_MAX]; /* of this test; connections may go by a former one */
static unsigned int policy_count;
static char folder[64];
static uint32_t joined_epoch; /* in which process's memory the holder is ours */
static pid_t own_pid;         /* of the test's process, and not of a child */

/* --- engine.h and station.h --- */

void engine_take_policy(const struct policy *policy)
{
    engine_put_policy(policy);
}

struct station *engine_station_now(enum target_scope scope)
{
    (void)scope;
    return &bench_station;
}

struct station *engine_station(enum target_scope scope)
{
    if (joined_epoch != lineage_epoch()) { /* a fork's child */
        bench_station.guard.holder = process_join(&bench_station.segment, engine.program, 1);
        bench_station.guard.pid = lineage_pid();
        joined_epoch = lineage_epoch();
    }
    return engine_station_now(scope);
}

void engine_note_no_place(enum target_scope scope)
{
    (void)scope;
}

void station_look(uint64_t real_ns)
{
    atomic_store_explicit(&engine.checked_ns, real_ns, memory_order_relaxed);
}

void engine_leave(void)
{
}

/* --- the bench --- */

static const struct target *target_named(const char *name, void *context)
{
    (void)context;
    return policy_target_named(engine_policy(), name);
}

void bench_policy(const char *keys)
{
    char text[1024];
    int length =
        snprintf(text, sizeof text,
                 "[defaults]\nfailure_threshold = 3\nreset_timeout = 10s\njitter = 0%%\nabandon_after = 300ms\n"
                 "connect_timeout = 10s\nresponse_timeout = off\n[%s]\n",
                 keys ? "db" : "other");
    if (keys)
        snprintf(text + length, sizeof text - (size_t)length,
                 "match = db%u.internal:%u 10.0.0.0/24:%u [fd00::]/64:%u\n%s\n[local]\nmatch = unix:/run/%u\n",
                 bench_port, bench_port, bench_port, bench_port, keys, bench_port);
    else
        snprintf(text + length, sizeof text - (size_t)length, "match = 192.0.2.1:%u\n", bench_port);
    assert_true(policy_count < POLICIES_MAX);
    policies[policy_count] = good_policy(text);
    engine_take_policy(policies[policy_count++]);
}

int engine_bench_setup(void **state)
{
    struct segment_error error;
    (void)state;
    kernel_start();
    if (own_pid == 0)
        lineage_start();
    own_pid = getpid();
    bench_port++;
    bench_takes_short_way = true;
    bench_short_first = bench_short_begins = bench_short_answers = 0;
    memset(&bench_station, 0, sizeof bench_station);
    snprintf(folder, sizeof folder, "/tmp/sockfuse-test-XXXXXX");
    if (!mkdtemp(folder) || !segment_attach(&bench_station.segment, folder, "bench", bench_capacity, &error))
        return -1;
    snprintf(engine.program, sizeof engine.program, "bench");
    struct guard *guard = &bench_station.guard;
    guard->segment = &bench_station.segment;
    guard->pid = lineage_pid();
    guard->still_hangs = still_hangs;
    guard->keeps = left_behind_keeps;
    guard->target_named = target_named;
    guard->context = &bench_station;
    guard->takes_short_way = true;
    snprintf(guard->program, sizeof guard->program, "bench");
    guard->holder = process_join(&bench_station.segment, engine.program, 1);
    joined_epoch = lineage_epoch();
    atomic_store(&bench_station.state, STATION_PRESENT);
    atomic_store(&engine.host, &bench_station);
    atomic_store(&engine.process, &bench_station);
    atomic_store(&engine.tends_waits, false);
    atomic_store(&engine.ready, true);
    return guard->holder ? 0 : -1;
}

int engine_bench_setup_long(void **state)
{
    int failed = engine_bench_setup(state);
    bench_takes_short_way = bench_station.guard.takes_short_way = false;
    return failed;
}

static void remove_folder(void)
{
    DIR *entries = opendir(folder);
    for (struct dirent *entry; entries && (entry = readdir(entries));)
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(entries), entry->d_name, 0);
    if (entries)
        closedir(entries);
    rmdir(folder);
}

/* Of a program that has ended nothing is given back: with it goes what it knew. */
static void check_record(uint32_t number)
{
    struct connection *connection = pool_at(number);
    assert_non_null(connection);
    if (!atomic_load(&engine.ready)) {
        atomic_store(&connection->aliases, 0);
        pool_give(number);
    }
    assert_int_equal(atomic_load(&connection->keeping), POOL_FREE);
}

int engine_bench_teardown(void **state)
{
    (void)state;
    if (getpid() != own_pid)
        _exit(9); /* an assertion failed in a child */
    for (int fd = 0; fd < KERNEL_NUMBERS; fd++)
        if (kernel.numbers[fd] && atomic_load(&engine.ready))
            program_close(fd);
    deferred_resolve_all(0); /* what waits for another address, or for the program's end: this is the end */
    for (uint32_t number = 0; number < pool_high(); number++)
        check_record(number);
    assert_int_equal(counted(COUNT_ADMITTED), bench_outcomes());
    for (uint32_t call = 0; call < bench_station.segment.capacity.calls; call++)
        assert_int_equal(atomic_load(&bench_station.segment.call_owner[call]), 0);
    segment_detach(&bench_station.segment);
    while (policy_count > 0)
        policy_free(policies[--policy_count]);
    atomic_store(&engine.ready, false);
    atomic_store(&engine.policy, NULL);
    remove_folder();
    return 0;
}

uint64_t counted(unsigned int counter)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < bench_station.segment.capacity.circuits; i++) {
        const struct circuit *circuit = circuits_at(&bench_station.segment, i);
        sum += circuit ? counters_sum(&circuit->counters, counter) : 0;
    }
    return sum;
}

uint64_t bench_outcomes(void)
{
    return counted(COUNT_SUCCEEDED) + counted(COUNT_FAILED) + counted(COUNT_NEUTRAL) + counted(COUNT_BUSINESS) +
           counted(COUNT_LATE);
}

struct connection *bench_connection(int fd)
{
    uint32_t number = descriptor_connection(descriptor_get(fd));
    return number ? pool_at(number - 1) : NULL;
}
