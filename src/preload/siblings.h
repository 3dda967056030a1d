/*
 * siblings.h - attempts of this program to several addresses of one destination,
 * side by side (Happy Eyeballs, RFC 8305).
 *
 * The losers of such a race are closed while they are pending: that says nothing about their addresses. For each
 * circuit the two addresses that were connected last are remembered, so that a loser can be told. Async-signal-safe; no
 * system call.
 */
#ifndef SOCKFUSE_PRELOAD_SIBLINGS_H
#define SOCKFUSE_PRELOAD_SIBLINGS_H

#include <stdbool.h>
#include <stdint.h>

/* Where the race stands now: kept with an attempt from its beginning. */
uint32_t siblings_now(void);
/* An attempt to the address was connected. `circuit` is any number that tells circuits apart. */
void siblings_connected(uint32_t circuit, uint64_t address_key);
/* Whether another address of the circuit was connected since `since`. */
bool siblings_won(uint32_t circuit, uint64_t address_key, uint32_t since);

#endif
