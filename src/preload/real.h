/*
 * real.h - the other side of the fence: the functions that the program meant to call.
 *
 * real.connect is libc's connect (or that of a preload behind us); wrap_connect is ours, which the dynamic symbol table
 * shows as connect. Library code that needs a wrapped function says real.NAME, so it never re-enters a wrapper. A
 * pointer is good at any time, also before this library's constructor ran: it starts out at a stub that looks its
 * function up (dlsym does not allocate when it succeeds).
 */
#ifndef SOCKFUSE_PRELOAD_REAL_H
#define SOCKFUSE_PRELOAD_REAL_H

#include <dlfcn.h>
#include <netdb.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

/* The wrapper has a private name in C and the public one for the linker. */
#define SYMBOL(name, type, parameters, arguments)                                                                      \
    type wrap_##name parameters __asm__(#name) __attribute__((visibility("default")));
#define FOREIGN SYMBOL
#include "preload/symbols.def"

/*
 * A wrapper whose real function looks at its caller, or returns twice, must end in a jump to it: `JUMP real.NAME(...)`,
 * with no statement after it and no local whose address is known. JUMPS stands before the function: without it, gcc
 * makes a call of it when it is told not to optimise, and counts behind it when it is told to count.
 */
#if defined __has_attribute
#if __has_attribute(musttail)
#define JUMP __attribute__((musttail)) return
#endif
#endif
#ifndef JUMP
#define JUMP return
#endif
#ifdef __clang__
#define JUMPS
#else
#define JUMPS __attribute__((optimize("O2", "optimize-sibling-calls"), no_profile_instrument_function))
#endif

struct real {
#define SYMBOL(name, type, parameters, arguments) type(*name) parameters;
#define NEEDED SYMBOL
#include "preload/symbols.def"
} __attribute__((aligned(64)));

/* One of the library's few roots. Written once for each pointer; any thread may see the stub or the function. */
extern struct real real;

/* Looks all functions up. Start-up only: a missing optional function makes dlsym allocate. */
void real_resolve(void);

/* Whether the function behind us is another copy of this library: then that one does the work. */
bool real_is_another_copy(void);
/* Whether this pointer leads to a function that is not libc's, but yet another preload's. */
bool real_is_anothers(const void *pointer_to_function);

#endif
