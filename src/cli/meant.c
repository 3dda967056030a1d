/*
 * meant.c - which circuits a DEST stands for. See meant.h.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/meant.h"
#include "view/rows.h"

/* What is asked for, and where. */
struct question {
    const char *text;
    const struct destination *destination; /* or NULL */
    const struct segment *segment;
    const struct policy *policy; /* NULL: only what stands is found */
    bool only_forced;            /* without a policy: nothing but where an operator's word stands */
    uint64_t now_ns;
};

static void add(struct meant *meant, const char *target_name, const char *destination, const struct target *target)
{
    for (size_t i = 0; i < meant->count; i++)
        /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): what policy_match found has a target with a name */
        if (strcmp(meant->at[i].target_name, target_name) == 0 && strcmp(meant->at[i].destination, destination) == 0)
            return;
    meant->at = grow(meant->at, meant->count, sizeof *meant->at);
    struct meant_circuit *at = &meant->at[meant->count++];
    *at = (struct meant_circuit){.mode = target != NULL ? target->mode : MODE_ENFORCE};
    snprintf(at->target_name, sizeof at->target_name, "%s", target_name);
    snprintf(at->destination, sizeof at->destination, "%s", destination);
}

static bool is_meant(const struct question *question, const struct row *row)
{
    return strcmp(row->target_name, question->text) == 0 ||
           (question->destination != NULL && strcmp(row->destination, question->destination->text) == 0);
}

static bool is_hidden(const struct target *target, bool called)
{
    return !called && target != NULL && target->scope == SCOPE_PROCESS;
}

/* Those that stand, and those that the policy's patterns name. */
static void find_rows(struct meant *meant, const struct question *question)
{
    struct rows rows;
    rows_collect(&rows, question->segment, question->policy, question->now_ns);
    for (size_t i = 0; i < rows.count; i++) {
        const struct row *row = &rows.at[i];
        if (!is_meant(question, row))
            continue;
        if (is_hidden(row->target, row->called))
            meant->hidden = true;
        else if (row->destination[0] == '\0')
            meant->nameless = true;
        else if (row->target != NULL ||
                 (question->policy == NULL && (!question->only_forced || row->forced != FORCED_NONE)))
            add(meant, row->target_name, row->destination, row->target);
    }
    rows_free(&rows);
}

/* The one that a call to the destination would have. */
static void find_to_come(struct meant *meant, const struct question *question)
{
    struct policy_match match;
    char text[DESTINATION_MAX];
    if (question->policy == NULL || question->destination == NULL)
        return;
    const struct endpoint *endpoint = &question->destination->endpoint;
    const char *const names[] = {question->destination->name};
    if (!policy_match(question->policy, endpoint, names, names[0] != NULL, &match))
        return;
    if (is_hidden(match.target, false))
        meant->hidden = true;
    else if (policy_destination(&match, endpoint, names, text, sizeof text) > 0)
        add(meant, match.target->name, text, match.target);
    else
        meant->nameless = true; /* a name, whose addresses have a circuit each */
}

static void find(struct meant *meant, struct question *question, const struct policy *policy)
{
    if (policy == NULL)
        return;
    question->policy = policy;
    find_rows(meant, question);
    find_to_come(meant, question);
}

/* What no policy has that is known: somebody else's may, a word may stand there, or there is nothing else. */
static void find_rest(struct meant *meant, struct question *question, const struct running *running)
{
    bool is_known = meant->count > 0;
    for (size_t i = 0; i < running->edition_count; i++)
        is_known = is_known && running->editions[i].policy != NULL;
    question->policy = NULL;
    question->only_forced = is_known;
    find_rows(meant, question);
}

void meant_find(struct meant *meant, const char *text, const struct destination *destination,
                const struct audience *audience, uint64_t now_ns)
{
    const struct running *running = audience->running;
    struct question question = {text, destination, &audience->selected->segment, NULL, false, now_ns};
    *meant = (struct meant){.at = NULL};
    for (size_t i = 0; i < running->edition_count; i++)
        find(meant, &question, running->editions[i].policy);
    find(meant, &question, audience->handed_over);
    find(meant, &question, running->file);
    find_rest(meant, &question, running);
}

void meant_free(struct meant *meant)
{
    free(meant->at);
    *meant = (struct meant){0};
}
