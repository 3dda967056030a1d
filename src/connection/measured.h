/*
 * measured.h - which attempts of a busy process are measured, and for how many of them each stands.
 *
 * As of a busy connection's requests (place_measures, guard.h): to read the time well, and to note it, costs more than
 * what else there is to do. The first few in 17 ms are measured, which are all where there are fewer than 2,000 in a
 * second, and of the rest one of 64, by chance: so no order in which a program connects is mistaken for all of it.
 * Threads that come at one moment may draw the same. No system call; async-signal-safe.
 */
#ifndef SOCKFUSE_CONNECTION_MEASURED_H
#define SOCKFUSE_CONNECTION_MEASURED_H

#include <stdint.h>

/* What the waits of an attempt that begins now stand for: 1, MEASURED_OF_MANY, or 0: they are not measured. */
uint32_t measured_attempt(uint64_t real_ns);

#endif
