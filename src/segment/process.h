/*
 * process.h - the processes that are attached to a segment, and whether they still live.
 *
 * A process's identity (`holder`) is index:12 + 1 | epoch:20 of its slot, never 0; it marks its calls and leases. A slot whose
 * process is dead is taken again. Async-signal-safe; system calls as said.
 */
#ifndef SOCKFUSE_SEGMENT_PROCESS_H
#define SOCKFUSE_SEGMENT_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "segment/event.h"
#include "segment/segment.h"

/*
 * Takes a slot for this process; about ten system calls. A slot of this very process (same pid and start time: it has called exec) is
 * taken over, and the calls and leases of the former program image are given up as neutral. 0: the table is full of living ones.
 */
uint32_t process_join(struct segment *segment, const char *program, uint64_t revision);
/* Gives the slot back at a clean exit. No system call. */
void process_leave(struct segment *segment, uint32_t holder);

/*
 * Whether the holder still lives: reads /proc/PID/stat (three system calls), since kill(2) also answers for zombies; a process in another
 * pid name space can't be asked and counts as living. Also false for an identity that was given up or is out of range.
 */
bool process_alive(const struct segment *segment, uint32_t holder);

struct process_view {
    uint32_t pid, holder;
    uint64_t attached_ns, revision;
    char program[PROGRAM_NAME_MAX];
};
/* The next living process at or after `*cursor` (start with 0). */
bool process_next(const struct segment *segment, uint32_t *cursor, struct process_view *view);

/* pid and program of a holder, for events; false if it is unknown. No system call. */
bool process_describe(const struct segment *segment, uint32_t holder, struct process_view *view);

#endif
