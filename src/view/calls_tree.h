/*
 * calls_tree.h - `sockfuse calls --tree`: the cascade, and the inversions along the chains of this host.
 */
#ifndef SOCKFUSE_VIEW_CALLS_TREE_H
#define SOCKFUSE_VIEW_CALLS_TREE_H

#include <stdbool.h>
#include <stdio.h>

#include "view/cascade.h"

struct calls_tree {
    struct cascade_wish wish;
    bool as_json, as_dot;
};

/* For people. */
void calls_tree_print(const struct inflight *inflight, const struct selection *selection, const struct calls_tree *tree,
                      FILE *out);
/* As it is asked for, to standard output. False: not all could be asked for, which was said. */
bool calls_tree_show(const struct inflight *inflight, const struct selection *selection, const struct calls_tree *tree);

#endif
