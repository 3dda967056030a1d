/*
 * local_faults.c - the table of faults on this side. See local_faults.h.
 *
 * A place is taken by the CAS that counts its first fault, and belongs to that errno from then on. The rest is hints:
 * the last writer's, or of two at once some of either; the program is believed under the checksum beside its pid.
 */
#include "segment/local_faults.h"

#include <stdbool.h>
#include <string.h>

#include "base/hash.h"
#include "base/shared.h"
#include "segment/layout.h"

#define TAKEN (UINT64_C(1) << 63)
#define ERROR_SHIFT 32
/* A CAS loses only to another fault of this circuit; one that loses so often is not counted. */
#define COUNT_STEPS_MAX 64u

static uint32_t checksum_of(const char *program, uint32_t pid)
{
    return (uint32_t)hash_spread(hash_bytes(HASH_BEGIN ^ pid, program, strnlen(program, PROGRAM_NAME_MAX)));
}

/* Counts it where it stands as `word`; false: the place is another errno's. */
static bool count_at(struct local_fault *fault, uint64_t key)
{
    /* Relaxed: nothing else is read by it. */
    uint64_t word = atomic_load_explicit(&fault->count, memory_order_relaxed);

    for (unsigned int step = 0; step < COUNT_STEPS_MAX; step++) {
        if (word != 0 && word >> ERROR_SHIFT != key >> ERROR_SHIFT)
            return false;
        const uint64_t next = word == 0 ? key | 1 : (uint32_t)word < UINT32_MAX ? word + 1 : word;
        if (atomic_compare_exchange_weak_explicit(&fault->count, &word, next, memory_order_relaxed,
                                                  memory_order_relaxed))
            return true;
    }
    return true;
}

static struct local_fault *count(struct circuit_entry *entry, int error)
{
    const uint64_t key = TAKEN | (uint64_t)((uint32_t)error & INT32_MAX) << ERROR_SHIFT;

    for (unsigned int place = 0; place < LOCAL_FAULTS - 1; place++)
        if (count_at(&entry->local_faults[place], key))
            return &entry->local_faults[place];
    struct local_fault *rest = &entry->local_faults[LOCAL_FAULTS - 1];
    return count_at(rest, TAKEN) ? rest : NULL;
}

void local_fault_note(struct circuit_entry *entry, const struct local_fault_view *fault)
{
    struct local_fault *at = count(entry, fault->error);

    if (at == NULL) /* corrupt */
        return;
    atomic_store_explicit(&at->time_ns, fault->time_ns, memory_order_relaxed);
    atomic_store_explicit(&at->mono_ns, fault->mono_ns, memory_order_relaxed);
    shared_store_text(at->program, fault->program, sizeof at->program);
    atomic_store_explicit(&at->who, (uint64_t)fault->pid << 32 | checksum_of(fault->program, fault->pid),
                          memory_order_relaxed);
}

void local_faults_clear(struct circuit_entry *entry)
{
    for (unsigned int place = 0; place < LOCAL_FAULTS; place++)
        atomic_store_explicit(&entry->local_faults[place].count, 0, memory_order_relaxed);
}

unsigned int local_faults_read(const struct circuit_entry *entry, struct local_fault_view faults[LOCAL_FAULTS])
{
    unsigned int count = 0;

    for (unsigned int place = 0; place < LOCAL_FAULTS; place++) {
        const struct local_fault *at = &entry->local_faults[place];
        const uint64_t word = atomic_load_explicit(&at->count, memory_order_relaxed);
        const uint64_t who = atomic_load_explicit(&at->who, memory_order_relaxed);
        struct local_fault_view *fault = &faults[count];

        if ((word & TAKEN) == 0 || (uint32_t)word == 0)
            continue;
        *fault = (struct local_fault_view){
            .error = (int)(word >> ERROR_SHIFT & INT32_MAX),
            .count = (uint32_t)word,
            .pid = (uint32_t)(who >> 32),
            .time_ns = atomic_load_explicit(&at->time_ns, memory_order_relaxed),
            .mono_ns = atomic_load_explicit(&at->mono_ns, memory_order_relaxed),
        };
        shared_load_text(fault->program, at->program, sizeof fault->program);
        if (checksum_of(fault->program, fault->pid) != (uint32_t)who)
            fault->program[0] = '\0';
        count++;
    }
    return count;
}
