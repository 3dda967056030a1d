/*
 * sweep.c - the agent's sweeps. See sweep.h; what is done is in guard/sweeping.h.
 *
 * A segment's circuits are looked through only while something in them can come to an end by itself: the journal tells
 * of what begins.
 */
#define _GNU_SOURCE
#include "agent/sweep.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/watched.h"
#include "guard/sweeping.h"
#include "view/output.h"

struct swept {
    const struct policy *policy; /* of the present look */
    bool has_more;               /* something may end by itself */
};

static const struct agent_settings *settings;
static uint32_t own_pid;
static struct watcher sweep;

static struct swept *swept_of(struct watched *watched)
{
    return watched->data[sweep.number];
}

static void begin(struct watched *watched)
{
    struct swept *swept = allocate(1, sizeof *swept);
    swept->has_more = true;
    watched->data[sweep.number] = swept;
}

static void end(struct watched *watched)
{
    free(swept_of(watched));
}

static void hear(struct watched *watched, const struct event *event)
{
    if (event->type == EVENT_HALF_OPEN || event->type == EVENT_PROBE || event->type == EVENT_FORCED ||
        event->type == EVENT_HELD)
        swept_of(watched)->has_more = true;
}

static const struct target *target_named(const char *name, void *context)
{
    const struct swept *swept = context;
    return swept->policy != NULL ? policy_target_named(swept->policy, name) : NULL;
}

static void look(struct watched *watched, uint64_t now_ns)
{
    struct swept *swept = swept_of(watched);
    if (!settings->sweep || watched->writable == NULL)
        return;
    struct guard guard = {.segment = watched->writable, .pid = own_pid, .target_named = target_named, .context = swept};
    memcpy(guard.program, "sockfuse-agent", sizeof "sockfuse-agent");
    swept->policy = watched_policy(watched);
    sweeping_charge(&guard, now_ns);
    if (swept->has_more)
        swept->has_more = sweeping_tend(&guard, now_ns);
}

static struct watcher sweep = {.name = "sweep", .begin = begin, .event = hear, .look = look, .end = end};

void sweep_register(const struct agent_settings *of_the_agent)
{
    settings = of_the_agent;
    own_pid = (uint32_t)getpid(); /* a system call, which no look is to make */
    watched_register(&sweep);
}
