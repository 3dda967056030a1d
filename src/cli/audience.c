/*
 * audience.c - whom a force reaches. See audience.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/audience.h"
#include "cli/cli.h"
#include "view/rows.h"
#include "policy/flat.h"
#include "segment/handover.h"

void audience_know(struct audience *audience, const struct selected *selected, const struct running *running)
{
    bool again;
    const char *why;
    *audience = (struct audience){
        .running = running,
        .selected = selected,
        .identity = selected->identity,
        .whose = selected->whose,
        .which = selected->which,
        .in_use = selected->segment.map != NULL,
    };
    if (audience->in_use)
        audience->bytes = handover_read(&selected->segment, POLICY_FLAT_MAX, &audience->size, &again);
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

/* The policy of a revision, if it is known. */
static const struct policy *policy_of(const struct audience *audience, uint64_t revision)
{
    const struct running *running = audience->running;
    for (size_t i = 0; i < running->edition_count; i++)
        if (running->editions[i].revision == revision)
            return running->editions[i].policy;
    /* Who came since those were collected goes by the file, or by what was handed over. */
    if (running->file != NULL && running->file->revision == revision)
        return running->file;
    const struct policy *handed_over = audience->handed_over;
    return handed_over != NULL && handed_over->revision == revision ? handed_over : NULL;
}

/* Whether it judges its next call by the policy that was handed over last. Of a fork's child it may be unknown. */
enum takes { TAKES_NOT, TAKES_IT, TAKES_PERHAPS };

static enum takes takes_handed_over(const struct audience *audience, const struct process_view *view)
{
    const uint32_t number = atomic_load_explicit(handover_number(audience->segment), memory_order_relaxed);
    if (audience->handed_over == NULL || view->keeps_policy || view->reload == number)
        return TAKES_NOT;
    const uint64_t ago_ns = clock_wall_ns() - view->attached_ns, now_ns = clock_real_ns();
    if (ago_ns < now_ns && handover_was_since(audience->segment, now_ns - ago_ns))
        return TAKES_IT;
    return TAKES_PERHAPS;
}

static const char *why_deaf_under(const struct policy *policy, const char *target_name, const char *destination)
{
    const struct target *target = policy_target_named(policy, target_name);
    if (target == NULL)
        return "the policy that it runs has no such target (sockfuse reload brings it the file's)";
    if (target->mode == MODE_OFF)
        return "its target has mode = off, so its calls pass unguarded";
    if (target->scope == SCOPE_PROCESS)
        return "it keeps its circuits to itself (scope = process)";
    return rows_takes(policy, target_name, destination)
               ? NULL
               : "in the policy that it runs the target has no such circuit (sockfuse reload brings it the file's)";
}

/* Why a process does not ask that circuit; NULL: it does, as far as is known (`*known`). */
static const char *why_deaf(const struct audience *audience, const struct attached *process, const char *target_name,
                            const char *destination, bool *known)
{
    const enum takes takes = takes_handed_over(audience, &process->view);
    const struct policy *present = policy_of(audience, process->view.revision);
    const struct policy *first = takes == TAKES_IT ? audience->handed_over : present;
    *known = first != NULL;
    const char *why = first != NULL ? why_deaf_under(first, target_name, destination) : NULL;
    if (takes == TAKES_PERHAPS &&
        (why_deaf_under(audience->handed_over, target_name, destination) == NULL) != (why == NULL)) {
        *known = false;
        why = NULL;
    }
    return why;
}

/* Each reason once, with those to whom it applies. */
static void tell_deaf(const struct audience *audience, const char *destination, const char *target_name)
{
    const struct reach *reach = &audience->reach;
    const char **whys = allocate(reach->count + 1, sizeof *whys);
    bool known;
    flush_output(); /* what was done stands before who does not obey */
    for (size_t i = 0; i < reach->count; i++)
        whys[i] = why_deaf(audience, &reach->at[i], target_name, destination, &known);
    for (size_t i = 0; i < reach->count; i++) {
        const char *why = whys[i];
        struct naming naming = {0};
        for (size_t j = i; why != NULL && j < reach->count; j++) {
            if (whys[j] == NULL || strcmp(whys[j], why) != 0)
                continue;
            naming_add(&naming, &reach->at[j], NULL);
            whys[j] = NULL;
        }
        if (naming.count > 0)
            warnx("%s: not reached: %s, for %s", destination, naming_text(&naming), why);
        naming_free(&naming);
    }
    free(whys);
}

/* Who is reached, behind what was done. Returns how many these are. */
size_t audience_tell(const struct audience *audience, const char *destination, const char *target_name)
{
    struct naming stopped = {0}, unknown = {0};
    size_t reached = 0;
    bool known;
    for (size_t i = 0; i < audience->reach.count; i++) {
        const struct attached *process = &audience->reach.at[i];
        if (why_deaf(audience, process, target_name, destination, &known) != NULL)
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
    if (unknown.count > 0)
        printf("  of %zu it is not known what policy %s, so the target may be another there: %s\n", unknown.count,
               unknown.count == 1 ? "it runs" : "they run", naming_text(&unknown));
    naming_free(&stopped);
    naming_free(&unknown);
    tell_deaf(audience, destination, target_name);
    return reached;
}

void audience_tell_nobody(const struct audience *audience, const char *destination, bool forced)
{
    if (audience->reach.count > 0)
        warnx("%s: no program that runs under %s%s is reached", destination, audience->identity, audience->whose);
    else if (audience->in_use)
        warnx("%s: no program runs under %s%s now%s", destination, audience->identity, audience->whose,
              forced ? "; the next one that starts obeys" : "");
    else
        warnx("%s: no program runs under %s%s; the first one that starts obeys", destination, audience->identity,
              audience->others_unusable ? " and can be reached from here" : " yet");
}
