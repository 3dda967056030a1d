/*
 * editions.c - keeps the texts of the policies in force. See editions.h.
 *
 * The header names for each kept text its revision and its place behind the tables. Who writes has the lock of behind.h
 * and takes the revision away before the text, so a killed writer leaves an empty place at worst.
 */
#define _GNU_SOURCE
#include "segment/editions.h"

#include <stdatomic.h>
#include <string.h>

#include "base/bare.h"
#include "base/frame.h"
#include "base/undisturbed.h"
#include "segment/behind.h"
#include "segment/layout.h"
#include "segment/processes.h"

#define PATIENT_TRIES 20u

static uint64_t revision_at(const struct segment *segment, unsigned int index)
{
    /* Acquire: its place was written before. */
    return atomic_load_explicit(&segment->map->edition_revision[index], memory_order_acquire);
}

/* EDITIONS: it is not kept. */
static unsigned int find(const struct segment *segment, uint64_t revision)
{
    unsigned int index = 0;
    while (index < EDITIONS && revision_at(segment, index) != revision)
        index++;
    return index;
}

static void note_last(struct segment *segment, unsigned int index)
{
    _Atomic uint32_t *last = &segment->map->edition_last;
    if (atomic_load_explicit(last, memory_order_relaxed) != index + 1)
        atomic_store_explicit(last, index + 1, memory_order_relaxed);
}

/* The first place behind the last one that is free, or whose revision nobody runs; else that of the oldest. */
static unsigned int choose_place(const struct segment *segment)
{
    unsigned int last = atomic_load_explicit(&segment->map->edition_last, memory_order_relaxed);
    for (unsigned int step = 0; step < EDITIONS; step++) {
        unsigned int index = (last + step) % EDITIONS;
        uint64_t revision = revision_at(segment, index);
        if (revision == 0 || !process_runs_revision(segment, revision))
            return index;
    }
    return last % EDITIONS;
}

static void write_edition(int fd, struct segment *segment, uint64_t revision, const char *text, size_t length)
{
    unsigned int index = choose_place(segment);
    uint64_t at;
    atomic_store_explicit(&segment->map->edition_revision[index], 0, memory_order_relaxed);
    if (behind_write(fd, segment, revision, text, length, &at) != 0)
        return;
    atomic_store_explicit(&segment->map->edition_at[index], (uint32_t)((at - segment->size) / SEGMENT_BASE_GRAIN),
                          memory_order_relaxed);
    /* Release: who finds the revision finds its place. */
    atomic_store_explicit(&segment->map->edition_revision[index], revision, memory_order_release);
    note_last(segment, index);
}

static void keep_new(struct segment *segment, uint64_t revision, const char *text, size_t length, unsigned int tries)
{
    int fd = behind_open(segment, tries);
    if (fd < 0)
        return;
    if (find(segment, revision) == EDITIONS) /* nobody was faster */
        write_edition(fd, segment, revision, text, length);
    bare_close(fd);
}

OWN_FRAME void editions_keep(struct segment *segment, uint64_t revision, const char *text, bool patient)
{
    struct undisturbed before;
    size_t length = text != NULL ? strlen(text) : 0;
    if (revision == 0 || length == 0 || length > EDITION_BYTES_MAX || segment->inode == 0)
        return;
    unsigned int index = find(segment, revision);
    if (index < EDITIONS) {
        note_last(segment, index);
        return;
    }
    if (patient) { /* at a start, or in a command: nobody jumps out of here */
        keep_new(segment, revision, text, length, PATIENT_TRIES);
        return;
    }
    undisturbed_begin(&before);
    keep_new(segment, revision, text, length, 1);
    undisturbed_end(&before);
}

char *edition_read(const struct segment *segment, uint64_t revision, size_t *length)
{
    bool again = false;
    unsigned int index = revision != 0 ? find(segment, revision) : EDITIONS;
    if (index == EDITIONS)
        return NULL;
    uint64_t grains = atomic_load_explicit(&segment->map->edition_at[index], memory_order_relaxed);
    return behind_read(segment, segment->size + grains * SEGMENT_BASE_GRAIN, revision, EDITION_BYTES_MAX, length,
                       &again);
}

void edition_free(char *text, size_t length)
{
    behind_free(text, length);
}

uint64_t editions_last(const struct segment *segment)
{
    uint32_t last = atomic_load_explicit(&segment->map->edition_last, memory_order_relaxed);
    return last >= 1 && last <= EDITIONS ? revision_at(segment, last - 1) : 0;
}
