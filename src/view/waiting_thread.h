/*
 * waiting_thread.h - which thread of its process waits in a call, where that can be known.
 *
 * Guarded programs do not note it: asking for it would cost each call. The kernel tells of each thread in which system
 * call it is and with which descriptor (/proc/PID/task/TID/syscall): to root, and to others of what they may trace. A
 * thread is a call's if it alone waits in a call for that address, and no other call of its process goes there; of a
 * process with one thread it is that one. Of a program that waits for many at once (poll, epoll) it is not known.
 */
#ifndef SOCKFUSE_VIEW_WAITING_THREAD_H
#define SOCKFUSE_VIEW_WAITING_THREAD_H

#include "view/inflight.h"

/* Sets `thread` of each call of the list; 0: not known. */
void inflight_find_threads(struct inflight *inflight);

#endif
