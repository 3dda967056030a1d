/*
 * in_force.c - the policy that came into force last in a watched segment. See in_force.h.
 */
#define _GNU_SOURCE
#include "agent/in_force.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "policy/identity.h"
#include "segment/editions.h"
#include "view/output.h"
#include "view/selected_policy.h"

/* Another user may say that a new one is in force as often as he likes: it is read this often. */
#define READ_AGAIN_NS (10 * NS_PER_S)

static bool has_a_file(const char *text)
{
    struct identity identity;
    if (!identity_read(&identity, text))
        no_memory();
    const bool has = identity.path != NULL;
    identity_free(&identity);
    return has;
}

/* One that was made on the spot has no text beside its identity. */
static struct policy *of_patterns(const struct selected *selected)
{
    struct policy_problems problems;
    if (has_a_file(selected->identity))
        return NULL;
    struct policy *policy = policy_load_identity(selected->identity, &problems);
    policy_problems_free(&problems);
    return policy;
}

static struct policy *of_edition(const struct selected *selected, uint64_t revision)
{
    size_t length = 0;
    char *why = NULL, *edition = edition_read(&selected->segment, revision, &length);
    if (edition == NULL)
        return NULL;
    char *text = format_text("%.*s", (int)length, edition);
    edition_free(edition, length);
    struct policy *policy = policy_of_text(selected, text, revision, &why);
    free(text);
    free(why);
    return policy;
}

const struct policy *in_force_look(struct in_force *in_force, const struct selected *selected)
{
    const uint64_t revision = editions_last(&selected->segment);
    /* A segment that was just made has none yet, and its first one is not to wait for that. */
    uint64_t *read_ns = &in_force->read_ns[revision != 0];
    if (*read_ns != 0 && revision == in_force->revision)
        return in_force->policy;
    const uint64_t now_ns = clock_real_ns();
    if (*read_ns != 0 && selected->is_foreign && now_ns - *read_ns < READ_AGAIN_NS)
        return in_force->policy;
    policy_free(in_force->policy);
    in_force->revision = revision;
    *read_ns = now_ns;
    in_force->policy = of_edition(selected, revision);
    if (in_force->policy == NULL)
        in_force->policy = of_patterns(selected);
    return in_force->policy;
}

void in_force_free(struct in_force *in_force)
{
    policy_free(in_force->policy);
    *in_force = (struct in_force){.policy = NULL};
}
