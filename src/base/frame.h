/*
 * frame.h - for functions whose part of the stack is not to lie under what their callers do besides.
 *
 * All this may run in a signal's handler on a stack of 8 KiB, or in a thread of 16, so a wrapper takes 4 KiB of it at
 * the most (preload/test_stack.c). A compiler that puts a function in line adds its locals to its caller's, and there
 * they lie also while that one calls others. So what has large locals, or comes deep down and seldom, keeps a frame of
 * its own.
 */
#ifndef SOCKFUSE_BASE_FRAME_H
#define SOCKFUSE_BASE_FRAME_H

#define OWN_FRAME __attribute__((noinline))

#endif
