/*
 * lineage.h - am I still the process that the tables were written by?
 *
 * After fork the child has copies of the parent's tables: its closes settle nothing of the parent's. A vfork child runs
 * our code in the parent's own memory (CPython's subprocess: vfork, close_range, exec) and must not touch the tables at
 * all. A page with MADV_WIPEONFORK tells a fork's child for the price of a load; a vfork's child only differs by
 * getpid. What each connection does asks that only while such a child may be about: the wrappers of vfork and clone,
 * and of their numbers, say so (lineage_lend). Async-signal-safe.
 *
 * A program that makes the system call by itself, past libc, tells nobody. Most of them go on past libc in the child
 * too (Go, the sanitizers), and so does libc's own child of posix_spawn, system and popen: no wrapper is ever entered
 * there. Whose child does come by a wrapper is still kept from what can't be mended: an end that would be charged asks
 * in any case, as does all that is done seldom. What is left: a connection whose last call is answered, and that such a
 * child closes, is unknown to its parent from then on. It passes, unguarded, and nothing is charged.
 */
#ifndef SOCKFUSE_CONNECTION_LINEAGE_H
#define SOCKFUSE_CONNECTION_LINEAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Start-up only. */
void lineage_start(void);

/* What lies in a page that the kernel clears in a fork's child. A root, written in lineage.c alone. */
struct lineage_page {
    _Atomic uint32_t epoch;
    _Atomic uint32_t pid;
};
extern struct lineage_page *lineage_page;

/* The first look after a fork: gives this memory its own epoch. */
uint32_t lineage_new_epoch(void);

/* A number for this process's memory, never 0: another one after each fork.
 * What carries a different one is an ancestor's. */
static inline uint32_t lineage_epoch(void)
{
    /* Acquire: whoever sees the epoch sees the pid. */
    uint32_t epoch = atomic_load_explicit(&lineage_page->epoch, memory_order_acquire);
    return __builtin_expect(epoch != 0, 1) ? epoch : lineage_new_epoch();
}

/* Whether this is a vfork child that runs in its parent's memory. One system call. */
bool lineage_is_borrowed(void);
/* The same, for what is done often: without the system call when no child that somebody told of can be about. */
bool lineage_is_lent(void);

/* Before a child is made by vfork, or by clone or clone3 with these flags: it may be going to run in this memory. */
void lineage_lend_to_vfork(void);
void lineage_lend(uint64_t clone_flags);

/* This process has a connection: its children are to be able to tell of it. One system call, for the first one. (A
 * child that another thread makes in this very moment tells nothing, as where there is no memory.) */
void lineage_connects(void);

/* A child is made, or was, by whatever means. */
void lineage_note_child(void);
/*
 * How many children this process and its ancestors have made, in 24 bits: a socket that is older than the last one may
 * be another process's too. Nobody counts those of a program that makes the system call by itself, unless they use a
 * wrapper in this memory.
 */
uint32_t lineage_forks(void);

/*
 * Whether the last child was made just now, and after that time (real clock): a descriptor that is closed right behind
 * a fork is the child's from now on, which may not have come to do anything with it. No system call.
 */
bool lineage_has_just_made_child(uint64_t since_ns, uint64_t now_ns);

/*
 * In a fork's child: it goes on with an ancestor's connection (reads, writes, or makes another number for it, as before
 * the exec of a program whose standard input it is to be); or it is just about to read from it, which may take a while.
 * The ancestor learns it by a page that both have.
 */
void lineage_take_over(uint64_t entry);
void lineage_wait_on(uint64_t entry);
/*
 * For the ancestor: whether a child has done so since that time (real clock), or waits at this moment. One that is
 * killed while it waits, waits for ever. No system call.
 */
bool lineage_is_taken_over(uint64_t entry, uint64_t since_ns);
bool lineage_is_waited_on(uint64_t entry);

/* The process's id as it was found at start or after the fork; no system call. */
uint32_t lineage_pid(void);

#endif
