/*
 * fold.h - sentences that go on below where a terminal is narrow, at a blank.
 */
#ifndef SOCKFUSE_VIEW_FOLD_H
#define SOCKFUSE_VIEW_FOLD_H

#include <stddef.h>
#include <stdio.h>

/* Where a sentence begins, and where it goes on. All in columns. */
struct fold {
    size_t at;     /* that was reached on this line */
    size_t owed;   /* blanks to write before the first word */
    size_t indent; /* of further lines */
    size_t room;   /* of a line; SIZE_MAX: any */
};

/* Without a newline at its end. A word that is longer than a line is not cut. `text` is safe to print. */
void fold_words(FILE *out, const char *text, struct fold fold);

#endif
