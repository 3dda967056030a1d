/*
 * problem.h - collects what is wrong in a policy. Private to src/policy; others read struct policy_problems.
 */
#ifndef SOCKFUSE_POLICY_PROBLEM_H
#define SOCKFUSE_POLICY_PROBLEM_H

#include <stdlib.h>

#include "policy/policy_model.h"

/* More are counted but not kept: a file that is no policy at all has something wrong in every line. */
#define PROBLEMS_KEPT_MAX 200u

/*
 * Adds an error or a warning. Control bytes of the file do not get into the text, so it may go to a terminal. Without
 * memory the text is lost, but an error still counts, so that the policy is refused.
 */
__attribute__((format(printf, 3, 4))) void problem_error(struct policy_problems *problems, unsigned int line,
                                                         const char *format, ...);
__attribute__((format(printf, 3, 4))) void problem_warning(struct policy_problems *problems, unsigned int line,
                                                           const char *format, ...);

/* By line; those of one line stay in the order in which they were found. */
void problems_sort(struct policy_problems *problems);

/*
 * Room for one more element behind `count`: the array as it is or moved, or NULL without memory (then the old one
 * stands). It doubles whenever `count` is a power of two, so that no capacity has to be kept.
 */
static inline void *array_grow(void *array, size_t count, size_t element_bytes)
{
    if (count != 0 && (count & (count - 1)) != 0)
        return array;
    return reallocarray(array, count == 0 ? 1 : 2 * count, element_bytes);
}

#endif
