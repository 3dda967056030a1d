/*
 * forced.h - what an operator said of a circuit, as it lies in the segment: a word and when it ends.
 *
 * Setting and obeying it is the guard's (guard/operator.h). Async-signal-safe; no system call.
 */
#ifndef SOCKFUSE_SEGMENT_FORCED_H
#define SOCKFUSE_SEGMENT_FORCED_H

#include <stdbool.h>
#include <stdint.h>

/* Values are stored in shared memory: append only. */
enum forced { FORCED_NONE = 0, FORCED_OPEN, FORCED_CLOSED, FORCED_WORDS };

/* What an operator said. */
struct force {
    enum forced word;
    uint64_t end_ns; /* circuits' clock: AT it the word holds no more; 0: it holds until another one */
};

/* The latest end that can be kept: later ones are none. */
#define FORCE_END_MAX ((UINT64_C(1) << 62) - 1)

/* What stands in a circuit's entry for it, and what of that holds now. Any bit pattern can be taken apart. */
uint64_t forced_pack(struct force force);
struct force forced_unpack(uint64_t word, uint64_t now_ns);

/* Whether the word of a circuit's entry, as it lies in shared memory, holds now. */
bool force_holds(uint64_t word, uint64_t now_ns);

/* "open", "closed"; NULL: not forced. */
const char *forced_name(unsigned int forced);

#endif
