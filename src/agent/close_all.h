/*
 * close_all.h - a child keeps nothing of what its parent has open.
 */
#ifndef SOCKFUSE_AGENT_CLOSE_ALL_H
#define SOCKFUSE_AGENT_CLOSE_ALL_H

/* Closes all descriptors from that number on. Async-signal-safe. */
void close_all_from(int first);

#endif
