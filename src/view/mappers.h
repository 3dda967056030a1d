/*
 * mappers.h - which processes have a file mapped, by /proc/PID/maps.
 *
 * For files of another build, whose table of processes can't be read. A user can look into his own processes, root into
 * all; those in other pid name spaces are seen only from above.
 */
#ifndef SOCKFUSE_VIEW_MAPPERS_H
#define SOCKFUSE_VIEW_MAPPERS_H

#include <stddef.h>
#include <stdint.h>

struct mapper {
    uint32_t pid;
    char program[32];
};

struct mappers {
    struct mapper *at;
    size_t count;
    size_t unseen; /* processes that might, and can't be looked into */
};

/* `owner`: whose the file is. `name`: how its path ends. Free them with mappers_free. */
void mappers_find(struct mappers *mappers, uint64_t device, uint64_t inode, uint32_t owner, const char *name);
void mappers_free(struct mappers *mappers);

#endif
