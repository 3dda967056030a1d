/*
 * support_engine_left.h - all that calls have left so far, in a few numbers: of two histories that come to the same they
 * are the same.
 */
#ifndef SOCKFUSE_TESTS_SUPPORT_ENGINE_LEFT_H
#define SOCKFUSE_TESTS_SUPPORT_ENGINE_LEFT_H

#include <stdint.h>

/* What the program saw is the caller's to note. */
enum left_part { LEFT_PROGRAM, LEFT_CONNECTIONS, LEFT_RECORDS, LEFT_CIRCUITS, LEFT_JOURNAL, LEFT_PARTS };

uint64_t left_mix(uint64_t left, uint64_t word);
/* Fills all other parts. `from` and `journal`: which events are noted, and what they come to; both start with 0. */
void left_note(uint64_t parts[LEFT_PARTS], uint64_t *from, uint64_t *journal);
/* Says on stderr how the connections stand. */
void left_tell(void);

#endif
