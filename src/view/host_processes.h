/*
 * host_processes.h - the processes of this host, and which socket is whose, by /proc.
 *
 * For commands. Another user's process is there too, but whose sockets it has is for root alone to see; a process that
 * has changed its user keeps them to itself.
 */
#ifndef SOCKFUSE_VIEW_HOST_PROCESSES_H
#define SOCKFUSE_VIEW_HOST_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct host_process {
    uint32_t pid, parent, session;
    char program[64];    /* what the kernel calls it; from outside */
    bool is_looked_into; /* its sockets are known */
};

/* That a process has a socket. */
struct host_holding {
    uint64_t inode;
    uint32_t pid;
};

struct host_processes {
    struct host_process *at; /* by pid */
    size_t count;
    struct host_holding *by_inode, *by_pid; /* the same, in two orders */
    size_t holding_count;
    bool is_cut; /* there were more sockets than are looked at */
};

/* All at this moment. Free it with host_processes_free. */
void host_processes_read(struct host_processes *processes);
void host_processes_free(struct host_processes *processes);

/* NULL: there is none, or it came later. */
const struct host_process *host_process_of(const struct host_processes *processes, uint32_t pid);

/* The first of `*count` holdings of a socket, or of a process; NULL where there are none. */
const struct host_holding *host_holders_of(const struct host_processes *processes, uint64_t inode, size_t *count);
const struct host_holding *host_sockets_of(const struct host_processes *processes, uint32_t pid, size_t *count);

#endif
