/*
 * support_breaker.h - a circuit on the bench: settings, a fake clock, a caller, and a strict account of what happens.
 *
 * Every test of the breaker that runs in one thread works through this: each call's transitions are checked to follow
 * from the state before and are counted, and breaker_teardown checks that the circuit's own counters say the same.
 */
#ifndef SOCKFUSE_TESTS_SUPPORT_BREAKER_H
#define SOCKFUSE_TESTS_SUPPORT_BREAKER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "breaker/circuit.h"

#define MILLISECOND UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)
/* Where the bench's clock begins. */
#define BREAKER_START_NS (1000 * SECOND)
#define BREAKER_HOLDER 7u

struct breaker_bench {
    struct circuit *circuit;
    struct settings settings; /* threshold 3, pause 10 s to 60 s, doubling, no jitter, one probe of 5 s */
    struct caller caller;     /* BREAKER_HOLDER, no address, everybody alive */
    uint64_t now_ns;
    struct ticket ticket;     /* of the last admitted call */
    struct transitions last;  /* of the last call */
    enum circuit_state state; /* after all transitions so far */
    unsigned int transitions; /* reported so far */
    unsigned int made[3];     /* of them, to each state */
    unsigned int admitted, settled, refused;
    uint32_t dead_holder;  /* the one that is dead; 0: none */
    unsigned int asked;    /* how often somebody's life was asked for */
    uint32_t asked_holder; /* the last one that was */
};

int breaker_setup(void **state);
int breaker_teardown(void **state);

/* A call at the bench's time, by its caller. */
enum admission breaker_admit(struct breaker_bench *bench);
enum admission breaker_admit_as(struct breaker_bench *bench, uint32_t holder, int address, uint32_t addresses);
enum settlement breaker_settle(struct breaker_bench *bench, struct ticket ticket, struct outcome outcome);

/* Outcomes. */
extern const struct outcome breaker_success, breaker_failure, breaker_neutral, breaker_business;

/* Admits (it must pass, or probe) and settles at once. */
void breaker_call(struct breaker_bench *bench, struct outcome outcome);
/* From closed: failing calls until it is open. */
void breaker_open(struct breaker_bench *bench);
/* From open: to the end of the pause and one call, which must be the probe; its ticket is the bench's. */
void breaker_probe(struct breaker_bench *bench);

struct circuit_view breaker_view(const struct breaker_bench *bench);
uint64_t breaker_sum(const struct breaker_bench *bench, unsigned int counter);
/* The last call made exactly this transition. */
void breaker_assert_transition(const struct breaker_bench *bench, enum circuit_state from, enum circuit_state to,
                               enum transition_reason reason);

/* A repeatable pseudo-random sequence (xorshift64*); `state` must not be 0. */
uint64_t breaker_random(uint64_t *state);

#define breaker_test(name) cmocka_unit_test_setup_teardown(name, breaker_setup, breaker_teardown)

#endif
