/*
 * support_stepped.h - a child that is stepped through something, instruction by instruction, and stopped where the test
 * wants it: killed there, or held up while others go on.
 *
 * Where nobody may step through a child the test is skipped.
 */
#ifndef SOCKFUSE_TESTS_SUPPORT_STEPPED_H
#define SOCKFUSE_TESTS_SUPPORT_STEPPED_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* More than anything takes that is stepped through here. */
#define STEPPED_MAX 1000000u

/* Zeros that children share; given back with stepped_unshare. */
void *stepped_share(size_t size);
void stepped_unshare(void *shared, size_t size);

/* Forks a child that is about to do it; what it does `first` (or NULL) is not stepped through. */
pid_t stepped_start(void (*does)(void *what), void *what);
pid_t stepped_start_behind(void (*first)(void *what), void (*does)(void *what), void *what);
/* Lets it take so many steps, or all that there are; returns how many it took. */
unsigned int stepped_go(pid_t child, unsigned int most);
bool stepped_is_over(void);
/* Lets it come to its end, if it has not. */
void stepped_finish(pid_t child);
void stepped_kill(pid_t child);

/*
 * How far the points lie from one another at which something is left that takes `total` instructions: at most `points`
 * of them, and fewer where all steps together, each a stop of the child, would take minutes: with sanitizers all is ten
 * times as long.
 */
unsigned int stepped_stride(unsigned int total, unsigned int points);

#endif
