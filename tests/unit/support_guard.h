/*
 * support_guard.h - a segment, a target and an engine's guard on the bench, with a fake clock.
 *
 * The segment is a real file in a folder of its own, so that children of a fork share it. Each bench checks at its end
 * that every admitted call has exactly one outcome, or is in flight.
 */
#ifndef SOCKFUSE_TESTS_SUPPORT_GUARD_H
#define SOCKFUSE_TESTS_SUPPORT_GUARD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/types.h>

#include "segment/circuits.h"
#include "base/clock.h"
#include "guard/guard.h"

#define BENCH_START_NS (1000 * NS_PER_S)
#define BENCH_TARGET "payments"
#define BENCH_DESTINATION "payments.internal:443"
#define ADDRESS_A UINT64_C(0xaaaa)
#define ADDRESS_B UINT64_C(0xbbbb)
#define CHILDREN_MAX 64u

struct guard_bench {
    struct segment segment;
    char folder[64];
    char log[128]; /* of the guard */
    struct target
        target; /* threshold 3, pause 10 s doubling to 60 s, no jitter, one probe; all timeouts 10 s, no response's */
    struct guard guard;
    uint32_t circuit;
    uint64_t now_ns;
    pid_t children[CHILDREN_MAX];
    unsigned int child_count;
};

int guard_bench_setup(void **state);
int guard_bench_teardown(void **state);
#define GUARD_TEST(name) cmocka_unit_test_setup_teardown(name, guard_bench_setup, guard_bench_teardown)

/* An attempt to ADDRESS_A, which is all that is known of the destination. */
enum admission bench_admit(struct guard_bench *bench, uint32_t *call);
/* The same to one of several addresses. */
enum admission bench_admit_to(struct guard_bench *bench, uint64_t address, const uint64_t *siblings, size_t count,
                              uint32_t *call);
/* Admits: it must pass. */
uint32_t bench_call(struct guard_bench *bench);
struct outcome bench_settle(struct guard_bench *bench, uint32_t call, enum seen seen, int error, uint64_t waited_ns);
void bench_forget(struct guard_bench *bench, uint32_t call);
void bench_connected(struct guard_bench *bench, uint32_t call);
void bench_requested(struct guard_bench *bench, uint32_t call);
/* A whole call that is refused by the peer, or answered. */
void bench_fail(struct guard_bench *bench);
void bench_succeed(struct guard_bench *bench);
/* From closed: failing calls until it is open. */
void bench_open(struct guard_bench *bench);

/* The circuit of another destination of the bench's target, made if need be; and whether observers see one. */
uint32_t bench_find(struct guard_bench *bench, const char *destination);
bool bench_stands(const struct guard_bench *bench, const char *destination);

uint64_t bench_sum(const struct guard_bench *bench, unsigned int counter);
uint64_t bench_late_or_counted(const struct guard_bench *bench); /* outcomes so far */
enum circuit_state bench_state(const struct guard_bench *bench);
uint32_t bench_failures(const struct guard_bench *bench);

/* The circuit's place in the table, and how many connections have a share of max_connections there. */
struct circuit_entry *bench_entry(const struct guard_bench *bench);
uint32_t bench_connections(const struct guard_bench *bench);
/* As if a second had passed by the real clock: whoever needs it next asks who lives, or counts shares anew. */
void bench_let_ask(struct guard_bench *bench);
/* Finds all who are dead and gives back what they left, of all circuits. */
void bench_bury(struct guard_bench *bench);

/* A segment of this process's own, without a guard and its target: `*state` is a struct segment. */
int private_segment_setup(void **state);
int private_segment_teardown(void **state);

/* Events of a type in the journal, and the last of them (may be NULL). */
unsigned int bench_events(const struct guard_bench *bench, enum event_type type, struct event *last);

/*
 * A child that shares the segment under an identity of its own, runs `live` and then hangs until it is killed. Returns
 * when `live` is done.
 */
pid_t bench_child(struct guard_bench *bench, void (*live)(struct guard_bench *bench));
/*
 * A child for a stress test, which joins the segment under an identity of its own and ends with its parent. Returns as
 * fork does.
 */
pid_t bench_fork_worker(struct guard_bench *bench);
/* What a child may live: a call that got so far, or a probe 10 s after the bench's time. */
void live_connecting(struct guard_bench *bench);
void live_connected(struct guard_bench *bench);
void live_requested(struct guard_bench *bench);
void live_answered(struct guard_bench *bench);
void live_probing(struct guard_bench *bench);
/* kill -9, and waits for its end. */
void bench_kill(struct guard_bench *bench, pid_t child);

#endif
