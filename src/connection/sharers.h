/*
 * sharers.h - which numbers stand for one socket, so that nobody looks for them among all descriptors.
 *
 * A socket has a group from its first dup on. Before it is connected, the entries of its numbers name the group by its
 * tag, and it goes with the last of them; a connection keeps its group itself. A group lists eight numbers: of a socket
 * that has more, the others are not found from its numbers, and one that is found is to be held against its entry and
 * the socket's cookie. Lock-free, async-signal-safe; a system call now and then, for memory.
 */
#ifndef SOCKFUSE_CONNECTION_SHARERS_H
#define SOCKFUSE_CONNECTION_SHARERS_H

#include <stdbool.h>
#include <stdint.h>

#define SHARERS_LISTED 8u
/* A tag has 24 bits, the room of a serial number in an entry: which group, and which use of it. 0: no group. */
#define SHARERS_INDEX_BITS 14
#define SHARERS_USE_BITS 10

/* A group of one number, which the tag of one entry stands for; 0: there is no room. `forks`: see lineage.h. */
uint32_t sharers_new(int fd, uint32_t forks);
/* One more entry, or holder, has the tag; false: the group is another one by now. A number (not -1) is listed. */
bool sharers_join(uint32_t tag, int fd);
/* One entry or holder less; with the last one the group is free. */
void sharers_leave(uint32_t tag, int fd);
/* The group under a new tag, of one holder: entries that still have the old one count no more. 0: it is gone. */
uint32_t sharers_take(uint32_t tag);

/* For a connection, whose entries have no tags. */
void sharers_list(uint32_t tag, int fd);
void sharers_unlist(uint32_t tag, int fd);

/* lineage_forks() when the socket was made; of a group that is gone: a number that no fork had. */
uint32_t sharers_forks(uint32_t tag);
/* The number in that place of the list, below SHARERS_LISTED; -1: none. */
int sharers_at(uint32_t tag, unsigned int place);

#endif
