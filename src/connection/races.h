/*
 * races.h - attempts of this program to several addresses of one destination,
 * side by side (Happy Eyeballs, RFC 8305).
 *
 * The losers of such a race are closed while they are pending: that says nothing about their addresses. For each
 * circuit the two addresses that were connected last are remembered, so that a loser can be told. Async-signal-safe; no
 * system call.
 */
#ifndef SOCKFUSE_CONNECTION_RACES_H
#define SOCKFUSE_CONNECTION_RACES_H

#include <stdbool.h>
#include <stdint.h>

/* Where the race stands now: kept with an attempt from its beginning. */
uint32_t races_now(void);
/* An attempt to the address was connected. `circuit` is any number that tells circuits apart. */
void races_connected(uint32_t circuit, uint64_t address_key);
/* Whether another address of the circuit was connected since `since`. */
bool races_won(uint32_t circuit, uint64_t address_key, uint32_t since);

/*
 * An attempt began; `attempt` is any word that names it. Of each address, and of the circuit, the latest
 * few are remembered: races_recent gives them, 0 where there is none. They may be long over, and another address's.
 */
#define SIBLINGS_RECENT 4u
#define SIBLINGS_OF_ALL 0 /* as an address's key: of the circuit, to whatever address */
void races_began(uint32_t circuit, uint64_t address_key, uint64_t attempt);
void races_recent(uint32_t circuit, uint64_t address_key, uint64_t attempts[SIBLINGS_RECENT]);

#endif
