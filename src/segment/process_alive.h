/*
 * process_alive.h - whether a process lives, by its pid, its start time and its pid name space.
 *
 * kill(pid, 0) alone will not do: it answers for zombies, and for whoever has the number now. So the kernel is asked
 * through /proc, where that can be read. Private to src/segment, but for process_is_stopped. Async-signal-safe; system
 * calls as said.
 */
#ifndef SOCKFUSE_SEGMENT_PROCESS_ALIVE_H
#define SOCKFUSE_SEGMENT_PROCESS_ALIVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What tells a program image in a process from all others. 0: unknown. A value has PROCESS_LIFE_BITS bits at most. */
#define PROCESS_LIFE_BITS 44u
#define PROCESS_LIFE_MASK ((UINT64_C(1) << PROCESS_LIFE_BITS) - 1)
struct process_life {
    uint32_t pid;
    uint64_t start; /* field 22 of /proc/PID/stat: ticks after boot */
    uint64_t space; /* inode of the pid name space */
    uint64_t image; /* drawn anew by the kernel at each exec; for this process itself only */
};

/* This process's own: some eight system calls. Asked again in a fork's child. */
void process_life_know_self(struct process_life *self);

/* Another's, of this process's name space, for who speaks for it: as far as it is told. Some eight system calls. */
void process_life_know_other(struct process_life *other, uint32_t pid);

/*
 * The same of this process without `start`, for which /proc would have to make what it has of this process: to look that up is what
 * costs a start most. The name space is known by the /proc that this process sees, if one that sees the same has noted
 * so. Start-up only: readlink(2) is not among the calls that a confined program allows.
 */
#define PROC_SPACES 2u
void process_life_know_briefly(struct process_life *self, _Atomic uint64_t noted[PROC_SPACES]);

/*
 * Whether this process can ask the kernel about one of that name space. An unknown one is taken for its own. No
 * system call.
 */
bool process_life_can_ask(uint64_t space);

/*
 * Whether that process lives; `image` does not matter. One that can't be asked counts as living. Five system calls,
 * or six; some more when this process has never asked for itself (an observer).
 */
bool process_life_goes_on(const struct process_life *life);

/* Whether a process of this name space is stopped, by a signal or a debugger; false if that can't be told. */
bool process_is_stopped(uint32_t pid);

#endif
