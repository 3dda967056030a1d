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

/* Whether words that far apart look like a slip of the finger. */
bool word_is_near(const char *word, unsigned int distance);

#endif
