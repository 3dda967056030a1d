/*
 * processes.h - the processes that are attached to a segment, and whether they still live.
 *
 * A process's identity (`holder`) is index:12 + 1 | epoch:20 of its slot, never 0; it marks its calls and leases. A
 * slot whose process is dead is taken again. Async-signal-safe; system calls as said; errno is not kept.
 */
#ifndef SOCKFUSE_SEGMENT_PROCESSES_H
#define SOCKFUSE_SEGMENT_PROCESSES_H

#include <stdbool.h>
#include <stdint.h>

#include "segment/event.h"
#include "segment/segment_model.h"

/*
 * Takes a slot for this process, and proves it to the others (proof.h): some twenty system calls, and a dozen more for
 * each of at most eight others that may be dead. A slot that this process left by exec (same pid and start time,
 * another program image) is taken over, so the owner of the former image's calls and leases is dead. Called twice, and
 * in a fork's child, it takes another slot each time. When the table is full, those in other pid name spaces who have
 * no proof lose theirs, longest attached first. 0: it is full, as far as one process asks; the next one asks others.
 */
uint32_t process_join(struct segment *segment, const char *program, uint64_t revision);
/*
 * The same in a constructor, without a word of when this process started: its lock is enough, until calls are its own.
 * `is_known`: all is said, for want of the lock, say; else process_introduce is to follow before the first call.
 */
uint32_t process_join_briefly(struct segment *segment, const char *program, uint64_t revision, bool *is_known);
/* Says the rest. Some nine system calls. False: in a vfork's child, or the slot is another's. */
bool process_introduce(struct segment *segment, uint32_t holder);
/*
 * Takes a slot for another process of this pid name space, by whom its connections are guarded from outside: as
 * process_join, but nothing proves it (by its pid all can ask), and the slot is left by who took it.
 */
uint32_t process_join_for(struct segment *segment, uint32_t pid, const char *program, uint64_t revision);
/* Whether that process guards its own connections here. A walk over the slots in use; no system call. */
bool process_guards_itself(const struct segment *segment, uint32_t pid);

/*
 * Gives the slot back at a clean exit; a holder that leaves records all the same counts as a death (dead_owners.h). Not
 * for one that a fork's child has from its parent. A walk over the records' owners, and one system call.
 */
void process_leave(struct segment *segment, uint32_t holder);
/* Takes the slot from another, who is dead: somebody is to look for what it left. */
void process_died(struct segment *segment, uint32_t holder);

/*
 * Whether the holder still lives and is the program that it was: asks for its lock (proof.h), and in the same pid name
 * space reads /proc/PID/stat, since kill(2) also answers for zombies. Some twelve system calls. One that has no lock,
 * or whose file can't be opened here, in another pid name space can't be asked and counts as living. Also false for an
 * identity that was given up, was taken over or is out of range.
 */
bool process_alive(const struct segment *segment, uint32_t holder);

/*
 * For owners.c: when it was last asked whether the holder lives; NULL if its slot is not its own any more. And the
 * holder that has the place with this index; 0: none. No system call.
 */
_Atomic uint64_t *process_asked(const struct segment *segment, uint32_t holder);
uint32_t process_holder(const struct segment *segment, uint32_t index);

/* What a holder runs by now, for observers; `keeps_policy`: it takes no reload. No system call. */
void process_runs(struct segment *segment, uint32_t holder, uint64_t revision, bool keeps_policy);

/* Whether somebody who attached, and perhaps lives no more, runs that revision. No system call. */
bool process_runs_revision(const struct segment *segment, uint64_t revision);

/*
 * The last sign of a process here, for when none lives: wall clock, when one left, attached, or 0. For observers.
 */
uint64_t process_last_seen(const struct segment *segment);

/*
 * What a holder did with the edited policy that was handed over as `number` (handover.h), for whoever handed it over.
 * An answer of RELOAD_REFUSED or more says by the rest what was wrong with it (enum flat_fault). Values are stored in
 * shared memory: append only. No system call.
 */
enum { RELOAD_UNANSWERED = 0, RELOAD_TAKEN, RELOAD_NO_MEMORY, RELOAD_UNREADABLE, RELOAD_REFUSED = 16 };
void process_answers(struct segment *segment, uint32_t holder, uint32_t number, uint32_t answer);

struct process_view {
    uint32_t pid, holder;
    uint64_t attached_ns, revision;
    bool keeps_policy;
    bool is_near;                   /* its pid is one of the caller's pid name space, as far as is known */
    uint32_t reload, reload_answer; /* of the last edited policy that it looked at: number and answer; 0: none */
    char program[PROGRAM_NAME_MAX];
};
/*
 * The next living process at or after `*cursor` (start with 0). Three system calls for each slot in use; for
 * observers.
 */
bool process_next(const struct segment *segment, uint32_t *cursor, struct process_view *view);

/* pid and program of a holder, for events; false if it is unknown. No system call. */
bool process_describe(const struct segment *segment, uint32_t holder, struct process_view *view);

/*
 * Whether any process that is attached lives. Asks `most` of them; if none of so many does, the rest is taken to live.
 */
bool process_any(const struct segment *segment, uint32_t most);

#endif
