/*
 * local_faults.h - calls that failed on this side, by their errno: how many, and who was the last one and when.
 *
 * A small table in each circuit's entry, written only when there is such a fault, and never for what the peer did.
 * Async-signal-safe; no system call.
 */
#ifndef SOCKFUSE_SEGMENT_LOCAL_FAULTS_H
#define SOCKFUSE_SEGMENT_LOCAL_FAULTS_H

#include <stdint.h>

#include "segment/circuit_kept.h"

struct circuit_entry;

struct local_fault_view {
    int error; /* 0: several that found no place of their own */
    uint32_t count;
    uint32_t pid;
    uint64_t time_ns, mono_ns;
    char program[PROGRAM_NAME_MAX]; /* "": two wrote at once */
};

/* A call has failed so. */
void local_fault_note(struct circuit_entry *entry, const struct local_fault_view *fault);
/* The circuit begins anew. */
void local_faults_clear(struct circuit_entry *entry);

/* Returns how many were set. Everything is checked. */
unsigned int local_faults_read(const struct circuit_entry *entry, struct local_fault_view faults[LOCAL_FAULTS]);

#endif
