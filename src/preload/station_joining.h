/*
 * station_joining.h - a process's own part in the segment of a station: its place among the attached processes, under
 * which it holds calls and leases.
 *
 * Private to attaching.c and station_joining.c. Who joins is in force for all threads at once (station.identity): after
 * a fork, or when the place was lost, the first of them that comes by joins anew (engine_station).
 */
#ifndef SOCKFUSE_PRELOAD_STATION_JOINING_H
#define SOCKFUSE_PRELOAD_STATION_JOINING_H

#include <stdbool.h>

#include "connection/station.h"

/*
 * Makes a station of a segment that is mapped at its place, and joins it. `apart`: in place of a file that can't be
 * had. Undisturbed, or before there is another thread.
 */
void station_equip(struct station *station, bool is_private, bool apart);

/*
 * Whose place in the table of processes was given away, or wiped out with the file, joins again with its next call.
 * Only the one thread comes here that looks in this second.
 */
void station_give_up_lost_place(struct station *station);

#endif
