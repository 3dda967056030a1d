/*
 * lineage.h - am I still the process that the tables were written by?
 *
 * After fork the child has copies of the parent's tables: its closes settle nothing of the parent's. A vfork child runs
 * our code in the parent's own memory (CPython's subprocess: vfork, close_range, exec) and must not touch the tables at
 * all. A page with MADV_WIPEONFORK tells a fork's child for the price of a load; a vfork's child only differs by
 * getpid, which is asked where a table would be changed. Async-signal-safe.
 */
#ifndef SOCKFUSE_PRELOAD_LINEAGE_H
#define SOCKFUSE_PRELOAD_LINEAGE_H

#include <stdbool.h>
#include <stdint.h>

/* Start-up only. */
void lineage_start(void);

/* A number for this process's memory, never 0: another one after each fork.
 * What carries a different one is an ancestor's. */
uint32_t lineage_epoch(void);

/* Whether this is a vfork child that runs in its parent's memory. One system call. */
bool lineage_is_borrowed(void);

/* How often this process has forked: a socket that is older than its last fork may be shared with a child. */
uint32_t lineage_forks(void);

/* The process's id as it was found at start or after the fork; no system call. */
uint32_t lineage_pid(void);

#endif
