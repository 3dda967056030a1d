/*
 * follow.h - commands with -f, which go on looking until they are ended, or nobody reads any more.
 */
#ifndef SOCKFUSE_CLI_FOLLOW_H
#define SOCKFUSE_CLI_FOLLOW_H

#include <stdbool.h>

/* Sleeps until the next look, on the real clock. False: nobody reads the standard output any more. */
bool follow_wait(int milliseconds);

#endif
