/*
 * engine.h - what the judging needs of what stands around it: the policy in force, the stations, and how far start-up
 * has come. The preload is one engine; a test can be another.
 *
 * Everything in `engine` is written by startup.c (and once more after a fork, or when the segment's file was deleted)
 * and read by everybody. Each level needs those before it:
 *
 *   loaded     the dynamic linker has mapped us; other libraries' constructors may already call wrappers, which pass
 *              through
 *   resolved   real.NAME leads behind us
 *   policied   there is a policy for this program; without one the library stays here and does nothing
 *   attached   the segment is mapped, and this process has a slot in it
 *   ready      engine_ready() is true: wrappers guard
 *
 * All state that can change, by the file that owns it; what is static is touched by that file alone:
 *
 *   startup.c                engine; said: that one line was written; is_discovered: how the policy was found; patterns,
 *                            options: what the environment holds, while it is read
 *   station_places.c         stations: the segments that are attached, or were
 *   attaching.c              state_folders, standpoint, identity: what was so at start; working: who changes stations;
 *                            asked_deleted_ns, noted_use_ns, said: so that it is seldom
 *   real.c                   real: the functions behind us; sys: those that the judging asks
 *   descriptors.c            descriptor_first, descriptor_near, far_root: what each number is; numbers_end
 *   pool.c                   pool_first, pool_chunks, high, free_list: the records of connections
 *   sharers.c                at_hand, chunks, high, free_list: groups of numbers of one socket
 *   lineage.c                lineage_page, fallback, forks, last_child_ns, last_epoch: which process this is;
 *                            lent_ns, is_shared: whether a child may run in its memory;
 *                            taken_over: what children do with its connections
 *   fallback_connections.c   returned_ns: when connections at a fallback went back for a probe
 *   patience.c               polite: circuits on which the program speaks first
 *   policy_keeping.c         rooms, high, sweeping: where policies that were handed over lie
 *   deferred.c               places, holding: failures that wait for what comes next
 *   stopping.c               stopped_ns, interrupted_ns, woken_ns, alarm_ns, timer_ns, alarm_repeats: signals;
 *                            ran_out_ns: of a thread's waits
 *   left_behind.c            after_ns, present: the look for what was jumped out of
 *   measured.c               present, drawn: which attempts are measured
 *   races.c                  table, recent_table, connections: attempts side by side
 *   destinations.c           table: where the last addresses led
 *   names.c                  table, answers, next_place, used, changes: what names the resolver gave to addresses
 *   fault_drawing.c          own_numbers: calls, where no run counts them
 *   socket_swap.c            swap_is_possible: another preload's connect is behind ours; present: what a thread connects
 *                            there
 *   memory.c                 stack_window, first_stack_top, first_thread: what of a thread's stack can be read;
 *                            data_begin, data_end, data_has_heap, data_pages: the same of the program's data
 *   tls_sessions.c           tls_thread: what a thread's TLS library does; table: sessions and their connections
 *   wrap_tls.c               callers, for each function: which one a caller means
 *   base/                    clock.c: clocks; log.c: standard_error: what it was at the start
 *   segment/                 process_alive.c: own_space, own_pid, own_proc: the pid name space
 */
#ifndef SOCKFUSE_CONNECTION_ENGINE_H
#define SOCKFUSE_CONNECTION_ENGINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "connection/station.h"
#include "policy/policy.h"

struct engine {
    /* What each call looks at. */
    _Alignas(64) _Atomic bool ready;
    _Atomic bool tends_waits;              /* some connection's receives are looked after; it stays so */
    _Atomic bool meets_tls;                /* a wrapper of a TLS library was called once; it stays so */
    _Atomic bool meets_http2;              /* some connection has spoken HTTP/2; it stays so */
    bool keeps_policy;                     /* it has no file that could be edited: it takes no reload */
    _Atomic(const struct policy *) policy; /* the present one; see engine_policy */
    _Atomic(struct station *) host;        /* scope = host */
    _Atomic(struct station *) process;     /* scope = process */
    _Atomic uint64_t checked_ns;           /* when the segment's file was last looked at (real clock) */
    _Atomic uint32_t policies;             /* how many came into force; see engine_policies */
    uint64_t loaded_ns;                    /* real clock: when the policy was read */
    const char *log;                       /* SOCKFUSE_LOG: an absolute path or "stderr"; NULL: none */
    uint32_t run; /* hash of SOCKFUSE_RUN: who shares it numbers calls together (fault_drawing.c); 0: none */
    char program[PROGRAM_NAME_MAX];
};

extern struct engine engine;

static inline bool engine_ready(void)
{
    return atomic_load_explicit(&engine.ready, memory_order_acquire);
}

/* The policy that is in force now. Another thread may publish the next one: who needs it twice asks once. */
static inline const struct policy *engine_policy(void)
{
    return atomic_load_explicit(&engine.policy, memory_order_acquire);
}

/*
 * Puts a policy in the place of the present one. Its number is counted before: who has the policy, and asks for the
 * number then, never finds one from before it, also where a later policy lies at a former one's addresses.
 */
static inline void engine_put_policy(const struct policy *policy)
{
    atomic_fetch_add_explicit(&engine.policies, 1, memory_order_seq_cst);
    /* Whoever finds the policy finds all of it; seq_cst: see policy_keeping_hold. */
    atomic_store_explicit(&engine.policy, policy, memory_order_seq_cst);
}

static inline uint32_t engine_policies(void)
{
    return atomic_load_explicit(&engine.policies, memory_order_acquire);
}

/*
 * Whether a receive may have to be looked after before it is made: with enforce_timeouts, or in rehearsal. One load,
 * for what few policies need.
 */
static inline bool engine_tends_waits(void)
{
    return atomic_load_explicit(&engine.tends_waits, memory_order_relaxed);
}

/* Puts an edited policy into force, and says so in this process's slots. */
void engine_take_policy(const struct policy *policy);

/*
 * The station of that scope, with a holder that belongs to this process: after a fork it joins the segment anew (then
 * there are system calls); so does one that found no place, once a second at the most. NULL: pass through.
 */
struct station *engine_station(enum target_scope scope);
/*
 * To be called before engine_station for a call: looks, once a second at the most, whether the segment's file still
 * stands (one system call); if it was deleted or replaced, the calls go where new processes go (station.h).
 */
#define STATION_LOOK_NS NS_PER_S
/* One that is a little before the last look, by a coarse clock or another thread's, comes not long after it. */
static inline bool station_look_is_due(uint64_t real_ns, uint64_t checked_ns)
{
    return real_ns - checked_ns + STATION_LOOK_NS >= 2 * STATION_LOOK_NS;
}
static inline void engine_look(uint64_t real_ns)
{
    if (__builtin_expect(station_look_is_due(real_ns, atomic_load_explicit(&engine.checked_ns, memory_order_relaxed)),
                         0))
        station_look(real_ns);
}
/* The present station of that scope, without any of this; NULL if there is none. */
struct station *engine_station_now(enum target_scope scope);
/* An attempt passes, for this process has no place in the segment: counted there. */
void engine_note_no_place(enum target_scope scope);

/* At exit: gives the process's slots back. */
void engine_leave(void);

#endif
