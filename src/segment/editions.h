/*
 * editions.h - the texts of the policies that a segment's processes run, kept in its file.
 *
 * A policy's file may be edited, broken or gone while programs run what it said when they started, each perhaps another
 * revision. So who brings a revision into force (a process that attaches, a command that hands it over) keeps its text,
 * if it is not there already; observers read it by the revision that a process's place names. As text, for it is to be
 * read by programs of another word size. Of a few revisions at a time: one that no process runs gives its place up
 * first. System calls but no malloc and no stdio. errno is not kept.
 */
#ifndef SOCKFUSE_SEGMENT_EDITIONS_H
#define SOCKFUSE_SEGMENT_EDITIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "segment/segment_model.h"

/* A longer text is not kept. */
#define EDITION_BYTES_MAX ((size_t)1 << 20)

/*
 * Notes that the revision comes into force, and keeps its text if it is not kept yet. `patient`: waits for others, 0.1
 * s at most. Where it can't be kept nothing is: observers then can't say what its processes run. No system call for a
 * text that is there; else some twenty, once for each revision.
 */
void editions_keep(struct segment *segment, uint64_t revision, const char *text, bool patient);

/*
 * The text of a revision, `*length` bytes without a zero byte behind them; NULL: it is not kept, or damaged. For
 * observers. edition_free gives the memory back.
 */
char *edition_read(const struct segment *segment, uint64_t revision, size_t *length);
void edition_free(char *text, size_t length);

/* The revision that came into force last; 0: unknown. */
uint64_t editions_last(const struct segment *segment);

#endif
