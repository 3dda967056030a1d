/*
 * station_places.h - the places for stations: few, and used again when no connection follows what is in them.
 *
 * Private to attaching.c, whose header has the design. One thread at a time; nothing waits.
 */
#ifndef SOCKFUSE_PRELOAD_STATION_PLACES_H
#define SOCKFUSE_PRELOAD_STATION_PLACES_H

#include <stdbool.h>
#include <stdint.h>

#include "connection/station.h"

/*
 * A place for the segment, in the making; the segment is put there (its addresses may be others then). NULL: there is
 * none before the next look.
 */
struct station *station_places_for(struct segment *segment, uint64_t now_ns);

/* The station is not the present one any more. */
void station_places_retire(struct station *station, uint64_t now_ns);

/* Gives the memory of retired stations back that nobody follows; whether it is time to ask for that. */
void station_places_clear(uint64_t now_ns);
bool station_places_are_due(uint64_t now_ns);

/* In a fork's child: what a thread of the parent was about to make is nobody's. */
void station_places_mend(uint64_t now_ns);

#endif
