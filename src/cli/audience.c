/*
 * audience.c - whom a force reaches. See audience.h.
 */
#include <stdio.h>
#include <string.h>

#include "cli/audience.h"
#include "cli/cli.h"
#include "policy/flat.h"
#include "segment/handover.h"

void audience_know(struct audience *audience, struct segment *segment, const struct selected *selected,
                   const struct policy *policy)
{
    bool again;
    const char *why;
    *audience = (struct audience){
        .segment = segment,
        .policy = policy,
        .selected = selected,
        .identity = selected->identity,
        .whose = selected->whose,
        .which = selected->which,
        .in_use = selected->segment.map != NULL,
    };
    audience->bytes = handover_read(segment, POLICY_FLAT_MAX, &audience->size, &again);
    if (audience->bytes != NULL)
        audience->handed_over = policy_unfold(audience->bytes, audience->size, selected->identity, &why);
}

void audience_free(struct audience *audience)
{
    reach_free(&audience->reach);
    if (audience->bytes != NULL)
        handover_free(audience->bytes, audience->size);
    *audience = (struct audience){0};
}

void audience_gather(struct audience *audience)
{
    if (!audience->gathered)
        reach_collect(&audience->reach, audience->segment);
    audience->gathered = true;
}

/* The policy that a process runs, if it is known. */
static const struct policy *policy_of(const struct audience *audience, const struct attached *process)
{
    if (audience->policy != NULL && audience->policy->revision == process->view.revision)
        return audience->policy;
    if (audience->handed_over != NULL && audience->handed_over->revision == process->view.revision)
        return audience->handed_over;
    return NULL;
}

/* Why a process does not ask that circuit; NULL: it does, as far as is known (`*known`). */
static const char *why_deaf(const struct audience *audience, const struct attached *process, const char *target_name,
                            bool *known)
{
    const struct policy *policy = policy_of(audience, process);
    *known = policy != NULL;
    if (policy == NULL)
        return NULL;
    const struct target *target = policy_target_named(policy, target_name);
    if (target == NULL)
        return "its policy has no such target now";
    if (target->mode == MODE_OFF)
        return "its target has mode = off, so its calls pass unguarded";
    return target->scope == SCOPE_PROCESS ? "it keeps its circuits to itself (scope = process)" : NULL;
}

static void tell_deaf(const struct audience *audience, const char *destination, const char *target_name)
{
    bool known;
    for (size_t i = 0; i < audience->reach.count; i++) {
        struct naming name = {0};
        const char *why = why_deaf(audience, &audience->reach.at[i], target_name, &known);
        if (why == NULL)
            continue;
        naming_add(&name, &audience->reach.at[i], NULL);
        warnx("%s: not reached: %s, for %s", destination, naming_text(&name), why);
        naming_free(&name);
    }
}

/* Who is reached, behind what was done. Returns how many these are. */
size_t audience_tell(const struct audience *audience, const char *destination, const char *target_name)
{
    struct naming stopped = {0}, unknown = {0};
    size_t reached = 0;
    bool known;
    for (size_t i = 0; i < audience->reach.count; i++) {
        const struct attached *process = &audience->reach.at[i];
        if (why_deaf(audience, process, target_name, &known) != NULL)
            continue;
        reached++;
        if (!known)
            naming_add(&unknown, process, NULL);
        if (process->is_stopped)
            naming_add(&stopped, process, NULL);
    }
    if (reached > 0)
        printf("; reached %s", programs(reached));
    fputc('\n', stdout);
    if (stopped.count > 0)
        printf("  %zu %s stopped, and obey%s when %s on: %s\n", stopped.count, stopped.count == 1 ? "is" : "are",
               stopped.count == 1 ? "s" : "", stopped.count == 1 ? "it goes" : "they go", naming_text(&stopped));
    if (unknown.count > 0 && audience->policy != NULL && audience->policy->path != NULL)
        printf("  %zu run%s an earlier version of the policy, in which the target may be another: %s\n", unknown.count,
               unknown.count == 1 ? "s" : "", naming_text(&unknown));
    naming_free(&stopped);
    naming_free(&unknown);
    tell_deaf(audience, destination, target_name);
    return reached;
}

void audience_tell_nobody(const struct audience *audience, const char *destination)
{
    if (audience->reach.count > 0)
        warnx("%s: no program that runs under %s%s is reached", destination, audience->identity, audience->whose);
    else if (audience->in_use)
        warnx("%s: no program runs under %s%s now; the next one that starts obeys", destination, audience->identity,
              audience->whose);
    else
        warnx("%s: no program runs under %s%s; the first one that starts obeys", destination, audience->identity,
              audience->others_unusable ? " and can be reached from here" : " yet");
}
