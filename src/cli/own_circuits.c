/*
 * own_circuits.c - the circuits of one run that is observed. See own_circuits.h.
 */
#define _GNU_SOURCE
#include "cli/own_circuits.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "segment/removal.h"
#include "segment/segment.h"

char *own_circuits_option(void)
{
    uint32_t number = 0;
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) != (ssize_t)sizeof number)
        number = (uint32_t)getpid() ^ (uint32_t)clock_wall_ns();
    return format_text("inject_seed=%" PRIu32, number);
}

/* No pattern with a path takes an abstract name. */
struct run_list own_circuits_everybody(void)
{
    return (struct run_list){{"*.:*", "*:*", "unix:*", "unix:@*"}, 4};
}

/* The number is nobody else's; nothing is injected. */
void own_circuits_ask(struct run_request *request, char **command)
{
    *request = (struct run_request){
        .patterns = own_circuits_everybody(),
        .options = {{"mode=observe", own_circuits_option()}, 2},
        .command = command,
    };
}

static bool open_them(struct selected *selected, const struct policy *policy, bool writable)
{
    struct state_places places;
    struct segment_error *error = allocate(1, sizeof *error);
    bool opened = false;
    find_places(&places);
    if (state_places_name(&places, policy->identity))
        for (unsigned int i = 0; i < places.count && !opened; i++)
            opened = segment_open(&selected->segment, places.at[i].segment, writable, error);
    state_places_free(&places);
    free(error);
    if (opened)
        selected->identity = copy_text(policy->identity);
    selected->uid = geteuid();
    selected->user = selected->whose = selected->which = copy_text("");
    return opened;
}

bool own_circuits_open(struct selected *selected, const struct policy *policy)
{
    return open_them(selected, policy, false);
}

void own_circuits_close(struct selected *selected)
{
    segment_detach(&selected->segment);
    free(selected->identity);
    free(selected->user); /* the other texts are the same */
    *selected = (struct selected){.identity = NULL};
}

static void tell_kept(const struct selected *selected, size_t left)
{
    if (left > 0)
        warnx("%zu of its processes go%s on; what comes of that is kept, and read by sockfuse observe -p '%s'", left,
              left == 1 ? "es" : "", selected->identity);
    else
        warnx("its circuits are kept: sockfuse observe -p '%s'; sockfuse forget -p removes them", selected->identity);
}

void own_circuits_give_back(const struct selected *selected, const struct policy *policy, bool keep, size_t left)
{
    struct selected own = {.identity = NULL};
    if (!keep && open_them(&own, policy, true)) {
        const enum removal removal = segment_remove(&own.segment, NULL);
        own_circuits_close(&own);
        if (removal == REMOVAL_DONE)
            return;
    }
    tell_kept(selected, left);
}
