/*
 * learnt.h - what a circuit's calls have taught, beside how long they took: after how long programs give up, which runs
 * of failures healed, and what its refusals would have spared and cost where they were not enforced.
 *
 * For each circuit, in a table of its own that no admission reads and nothing is decided by. Written on rare ways
 * alone: a wait that was given up, or that took a second; a failure, and the success behind it; a call that passed
 * against its circuit's word. Time and names are arguments. Wait-free, no system call, async-signal-safe; a death
 * between two steps leaves one of the sums behind the others.
 */
#ifndef SOCKFUSE_SEGMENT_LEARNT_H
#define SOCKFUSE_SEGMENT_LEARNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "breaker/outcome.h"
#include "segment/event.h"

#define LEARNT_PROGRAMS 8u /* of one circuit */
#define LEARNT_SAMPLES 8u  /* the latest waits that were given up */
#define LEARNT_RUNS 16u    /* the latest runs of failures that healed */
#define LEARNT_HOURS 25u   /* in which is counted what was given up: of the longest day, whatever the time zone */

/* What a program waits for. Values are stored: append only. */
enum learnt_wait { LEARNT_CONNECT, LEARNT_ANSWER, LEARNT_WAITS };

/* What ended a wait. Values are stored: append only. */
enum learnt_end {
    LEARNT_GIVEN_UP,  /* the program had enough */
    LEARNT_BY_KERNEL, /* ETIMEDOUT: the kernel gave up (or TCP_USER_TIMEOUT), and the program would have waited on */
    LEARNT_BY_LIMIT,  /* enforce_timeouts ended it */
    LEARNT_OUTLASTED, /* what it waited for came, or the peer failed, after LEARNT_LONG_NS or more */
    LEARNT_ENDS
};

/* Sooner a close is a change of mind, or a program's last words, and no timeout. */
#define LEARNT_SHORTEST_NS UINT64_C(50000000)
/* A wait of this length that was not given up tells that the program's timeout is longer. */
#define LEARNT_LONG_NS UINT64_C(1000000000)

/* What one program was seen to do in one kind of wait. */
struct learnt_patience {
    _Atomic uint64_t since_ns, last_ns; /* wall clock: when it gave up first and last; 0: never */
    _Atomic uint32_t counts[LEARNT_ENDS], longest_ms[LEARNT_ENDS];
    _Atomic uint32_t shortest_ms;                /* that was given up */
    _Atomic uint32_t next;                       /* the number of the next sample */
    _Atomic uint32_t samples_ms[LEARNT_SAMPLES]; /* that were given up */
    _Atomic uint32_t hours[LEARNT_HOURS];        /* number of an hour of the wall clock:16 | given up in it:16 */
    uint32_t reserved;
};
_Static_assert(sizeof(struct learnt_patience) == 192, "the same in 32 and 64 bit");

struct learnt_program {
    _Atomic uint64_t key; /* of its name; 0: free. A name that does not have it is being written */
    char name[PROGRAM_NAME_MAX];
    struct learnt_patience waits[LEARNT_WAITS];
    uint64_t reserved[3];
};
_Static_assert(sizeof(struct learnt_program) == 448, "seven lines each");

/* Of calls that passed against their circuit's word, those of one verdict. */
struct learnt_shadow {
    _Atomic uint64_t calls, waited_us;
};

struct learnt {
    _Alignas(64) struct learnt_program programs[LEARNT_PROGRAMS];
    _Atomic uint64_t without_room; /* waits of further programs */
    _Atomic uint64_t run;    /* the present run of failures: since when, ms of the circuits' clock:40 | failures:24 */
    _Atomic uint64_t healed; /* runs that a success ended */
    _Atomic uint32_t most_failures, longest_ms; /* in one of these, and from its first failure to that success */
    _Atomic uint64_t runs[LEARNT_RUNS];         /* the latest of these: ms:40 | failures:24 */
    struct learnt_shadow shadows[6];            /* by enum verdict */
    uint64_t reserved[8];
};
_Static_assert(VERDICTS <= 6, "a shadow for each verdict");
_Static_assert(sizeof(struct learnt) == 3904, "pinned");

/* Notes a wait of a program that ended at `wall_ns`. What is too short to tell anything is left out. */
void learnt_note_wait(struct learnt *learnt, const char *program, enum learnt_wait waits, enum learnt_end end,
                      uint64_t waited_ns, uint64_t wall_ns);
/* Notes the outcome of a call that counted, as of a time of the circuits' clock. Of most it is one load. */
void learnt_note_outcome(struct learnt *learnt, enum verdict verdict, uint64_t at_ns);
/* Notes the outcome of a call that passed against its circuit's word; `calls` 0: it has waited on since. */
void learnt_note_shadow(struct learnt *learnt, enum verdict verdict, unsigned int calls, uint64_t waited_ns);
/* Empties it, for who has the circuit's place to himself. */
void learnt_reset(struct learnt *learnt);

/* What a reader sees: a copy in which every value is in its range. */
struct patience_view {
    uint64_t since_ns, last_ns;
    uint32_t counts[LEARNT_ENDS];
    uint64_t longest_ns[LEARNT_ENDS];
    uint64_t shortest_ns, median_ns; /* of what was given up; the median is of the latest LEARNT_SAMPLES */
    uint32_t hours[LEARNT_HOURS];    /* for learnt_given_up_since */
};
struct learnt_program_view {
    char name[PROGRAM_NAME_MAX];
    struct patience_view waits[LEARNT_WAITS];
};
struct run_view {
    uint32_t failures;
    uint64_t lasted_ns;
};
struct learnt_view {
    struct learnt_program_view programs[LEARNT_PROGRAMS];
    unsigned int program_count;
    uint64_t without_room;
    struct run_view present; /* no failures: there is none; it has lasted until `now_ns` */
    struct run_view latest[LEARNT_RUNS];
    unsigned int latest_count;
    uint64_t healed;
    uint32_t most_failures;
    uint64_t longest_ns;
    uint64_t shadow_calls[VERDICTS], shadow_waited_ns[VERDICTS];
};
/* `now_ns`: the circuits' clock. NULL reads as nothing. */
void learnt_read(const struct learnt *learnt, uint64_t now_ns, struct learnt_view *view);

/*
 * How often it gave up from a time on, a day ago at the most, until now; both are wall clock. `*from_ns` goes to the
 * full hour (UTC) at or behind it from which that is known. Of an hour no more than 65,535 are known.
 */
uint32_t learnt_given_up_since(const struct patience_view *seen, uint64_t *from_ns, uint64_t now_ns);

/* "connect", "answer". */
const char *learnt_wait_name(enum learnt_wait waits);

#endif
