/*
 * selected_policy.c - reads the policy of a selected segment. See selected_policy.h.
 */
#define _GNU_SOURCE
#include "view/selected_policy.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "view/output.h"
#include "view/rights.h"
#include "policy/identity.h"

/* A policy of another user's that is longer is not read: each of its segments would have it read, and compared. */
#define POLICY_BYTES_MAX (1 << 20)

/*
 * Whether the file of an identity is one that can be read without harm. Another user's may be a device of his, whose
 * opening does something, or tells nothing but to him who waits.
 */
static bool is_file(const char *text)
{
    struct stat status;
    struct identity identity;
    if (!identity_read(&identity, text))
        return false;
    bool is_one = identity.path == NULL ||
                  (stat(identity.path, &status) == 0 && S_ISREG(status.st_mode) && status.st_size <= POLICY_BYTES_MAX);
    identity_free(&identity);
    return is_one;
}

struct policy *policy_load_selected(const struct selected *selected, struct policy_problems *problems)
{
    struct policy *policy = NULL;
    *problems = (struct policy_problems){0};
    if (!selected->is_foreign)
        return policy_load_identity(selected->identity, problems);
    if (!rights_take(selected->uid))
        return NULL;
    if (is_file(selected->identity))
        policy = policy_load_identity(selected->identity, problems);
    rights_return();
    return policy;
}

/* The first error, in words; to be freed. */
static char *first_error(const struct policy_problems *problems, const char *otherwise)
{
    for (size_t i = 0; i < problems->count; i++) {
        if (problems->at[i].is_error && problems->at[i].line > 0)
            return format_text("line %u: %s", problems->at[i].line, problems->at[i].text);
        if (problems->at[i].is_error)
            return copy_text(problems->at[i].text);
    }
    return copy_text(otherwise);
}

struct policy *policy_of_selected(const struct selected *selected, char **why)
{
    struct policy_problems problems;
    struct policy *policy = policy_load_selected(selected, &problems);
    const char *otherwise = selected->is_foreign ? "it can't be read with that user's rights" : "it can't be read";
    *why = policy == NULL ? first_error(&problems, otherwise) : NULL;
    policy_problems_free(&problems);
    return policy;
}

bool policies_are_known(const struct selection *selection)
{
    bool are = true;
    for (size_t i = 0; i < selection->count; i++) {
        char *why = NULL;
        if (selection->at[i].segment.map != NULL)
            continue;
        struct policy *policy = policy_of_selected(&selection->at[i], &why);
        if (policy == NULL)
            warnx("%s: %s", selection->at[i].identity, why);
        are = are && policy != NULL;
        policy_free(policy);
        free(why);
    }
    return are;
}

struct policy *policy_of_text(const struct selected *selected, const char *text, uint64_t revision, char **why)
{
    struct policy_problems problems = {0};
    struct policy *policy = policy_from_text(selected->identity, text, revision, &problems);
    *why = policy == NULL ? first_error(&problems, "it can't be read") : NULL;
    policy_problems_free(&problems);
    return policy;
}
