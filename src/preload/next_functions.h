/*
 * next_functions.h - what dlsym(RTLD_NEXT) finds, for many names at once.
 *
 * dlsym prepares itself anew for each name: for a hundred that costs a start as much as the reading of its policy. Here
 * each object behind this one is gone through once, by the tables by which the loader searches it. Whatever is not as
 * usual is left to dlsym. Start-up only; allocates nothing.
 */
#ifndef SOCKFUSE_PRELOAD_NEXT_FUNCTIONS_H
#define SOCKFUSE_PRELOAD_NEXT_FUNCTIONS_H

#include <stddef.h>

/*
 * `names`: one behind the other, each with its zero byte. Of each that an object behind the one of `self` (an address
 * in it) has, up to libc, `found` gets the address; of the others, NULL: dlsym is to be asked.
 */
void next_functions(const void *self, const char *names, size_t count, void **found);

#endif
