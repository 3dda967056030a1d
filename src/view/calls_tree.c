/*
 * calls_tree.c - the cascade with its inversions. See calls_tree.h.
 */
#define _GNU_SOURCE
#include "view/calls_tree.h"

#include <string.h>

#include "view/cascade_output.h"
#include "view/output.h"
#include "view/inversions.h"

static void build(struct cascade *cascade, struct inversions *inversions, const struct inflight *inflight,
                  const struct selection *selection, const struct calls_tree *tree)
{
    cascade_build(cascade, inflight, selection);
    cascade_narrow(cascade, &tree->wish);
    inversions_find(inversions, selection);
    if (tree->wish.text != NULL)
        inversions_keep(inversions, tree->wish.destination);
}

void calls_tree_print(const struct inflight *inflight, const struct selection *selection, const struct calls_tree *tree,
                      FILE *out)
{
    struct cascade cascade;
    struct inversions inversions;
    build(&cascade, &inversions, inflight, selection, tree);
    cascade_print(&cascade, out);
    inversions_print(&inversions, out);
    inversions_free(&inversions);
    cascade_free(&cascade);
}

bool calls_tree_show(const struct inflight *inflight, const struct selection *selection, const struct calls_tree *tree)
{
    struct cascade cascade;
    struct inversions inversions;
    struct json json;
    build(&cascade, &inversions, inflight, selection, tree);
    if (tree->as_dot) {
        cascade_dot(&cascade, stdout);
    } else if (tree->as_json) {
        json_start(&json, stdout);
        cascade_json(&json, &cascade, &inversions);
    } else {
        cascade_print(&cascade, stdout);
        inversions_print(&inversions, stdout);
    }
    if (cascade.error != 0)
        warnx("the sockets of this host can't all be asked for (%s), so who listens where is not all seen",
              strerror(cascade.error));
    if (cascade.is_cut)
        warnx("there are more sockets on this host than are looked at");
    const bool whole = cascade.error == 0 && !cascade.is_cut;
    inversions_free(&inversions);
    cascade_free(&cascade);
    return whole;
}
