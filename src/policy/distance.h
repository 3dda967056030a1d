/*
 * distance.h - how far two words are apart, for "did you mean". For src/policy and the command line.
 */
#ifndef SOCKFUSE_POLICY_DISTANCE_H
#define SOCKFUSE_POLICY_DISTANCE_H

#include <stdbool.h>

/* Longer words are as far from anything as a word can be. */
#define DISTANCE_WORD_MAX 32u

/*
 * How many letters to insert, delete, replace or swap with their neighbour to turn one word into the other (Damerau's
 * distance, restricted form). Case does not matter, and '-' is as good as '_'.
 */
unsigned int word_distance(const char *a, const char *b);

/* Whether the two may be meant to be the same: a slip of the finger. */
bool word_is_near(const char *word, const char *name);

/* Which of several names a word is nearest to; of equals, the first. */
struct nearest {
    const char *word;
    const char *name; /* NULL: none was offered, or all are as far as a word can be */
    unsigned int distance;
};
static inline struct nearest nearest_to(const char *word)
{
    return (struct nearest){.word = word, .distance = DISTANCE_WORD_MAX};
}
void nearest_offer(struct nearest *nearest, const char *name);
/* It, if it is near at all; else NULL. */
const char *nearest_meant(const struct nearest *nearest);

#endif
