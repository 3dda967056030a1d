/*
 * problem.h - collects what is wrong in a policy. Private to src/policy; others read struct policy_problems.
 */
#ifndef SOCKFUSE_POLICY_PROBLEM_H
#define SOCKFUSE_POLICY_PROBLEM_H

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

#endif
