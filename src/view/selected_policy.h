/*
 * selected_policy.h - the policy of a segment that a command acts on: as its file says it now, or said it once.
 *
 * Another user's file is hostile input to root: it is read with that user's rights, if it is one, and no longer than a
 * policy can sensibly be.
 */
#ifndef SOCKFUSE_VIEW_SELECTED_POLICY_H
#define SOCKFUSE_VIEW_SELECTED_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "view/select.h"
#include "policy/policy.h"

/*
 * The policy of a selected segment as it is now: read from its file, with the targets of -t and the options of -o that
 * are part of its identity. Another user's is read with that user's rights: NULL without a problem if it can't be.
 */
struct policy *policy_load_selected(const struct selected *selected, struct policy_problems *problems);

/* The same; NULL: it can't be read or has errors (the first is in `*why`, to be freed). */
struct policy *policy_of_selected(const struct selected *selected, char **why);

/*
 * Whether each policy of the selection is in use, or one that can be read: of what is neither, a misspelt file's perhaps,
 * nothing can be shown, and it was said why.
 */
bool policies_are_known(const struct selection *selection);

/* The policy of a selected segment as it was when its file had that text (segment/editions.h). NULL: as above. */
struct policy *policy_of_text(const struct selected *selected, const char *text, uint64_t revision, char **why);

#endif
