/*
 * capture.h - keeps what a command says to standard output and standard error in memory, while its screen is something
 * else: messages of the parts that it uses are shown there, and none is lost.
 */
#ifndef SOCKFUSE_CLI_CAPTURE_H
#define SOCKFUSE_CLI_CAPTURE_H

#include <stdbool.h>

/* False: it can't be kept, and all is as before (errno). `*output`: a descriptor of what standard output was. */
bool capture_start(int *output);
/* What was said since, without "sockfuse: " before each line; to be freed. */
char *capture_take(void);
/* Both are as before; what was not taken is said on standard error now. */
void capture_end(void);

#endif
