/*
 * fleet_watch.c - joins watched segments to their fleets. See fleet_watch.h.
 */
#define _GNU_SOURCE
#include "agent/fleet_watch.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/fleet_joined.h"
#include "agent/fleet_link.h"
#include "agent/fleet_operator.h"
#include "agent/fleet_secret.h"
#include "agent/fleet_self.h"
#include "agent/fleet_show.h"
#include "agent/watched.h"
#include "base/clock.h"
#include "guard/holding.h"
#include "policy/quorum.h"
#include "segment/circuits.h"
#include "segment/editions.h"
#include "view/destination.h"
#include "view/output.h"
#include "view/running.h"

/* The policy in force is looked at anew when another one came into force, and after so long. */
#define POLICY_EVERY_NS (10 * NS_PER_S)
/* Circuits that a segment is given because the fleet has them open, in one look and in all. */
#define PLACED_AT_ONCE 8u
#define PLACED_MAX 128u

/* What is kept of a watched segment. */
struct membership {
    struct fleet *fleet; /* NULL: none */
    struct running running;
    bool has_running;
    uint64_t edition, looked_ns;
    struct guard guard;
    struct fleet_joined *joined;
    uint32_t capacity;
    unsigned int placed;
    struct fleet_showing showing;
};

static struct {
    struct ev_loop *loop;
    struct fleet_link *link;
    struct watcher watcher;
    struct redis_url url;
    uint64_t host;
    char host_name[AGENT_TEXT_MAX];
    char trouble[200]; /* that was said last */
    bool is_missed;    /* it was said that no Redis is named */
} state;

static struct membership *membership_of(const struct watched *watched)
{
    return watched->data[state.watcher.number];
}

/* --- its policy ------------------------------------------------------------------------------------------------------ */

static void know_policy(struct membership *membership, const struct watched *watched)
{
    const uint64_t now_ns = clock_real_ns(), edition = editions_last(&watched->selected->segment);

    if (membership->has_running && membership->edition == edition && now_ns - membership->looked_ns < POLICY_EVERY_NS)
        return;
    if (membership->has_running)
        running_free(&membership->running);
    running_collect(&membership->running, watched->selected);
    membership->has_running = true;
    membership->edition = edition;
    membership->looked_ns = now_ns;
}

static bool has_fleet(const struct policy *policy)
{
    for (size_t i = 0; policy != NULL && i < policy->target_count; i++)
        if (policy->targets[i].scope == SCOPE_FLEET)
            return true;
    return false;
}

static const struct target *fleet_target(const struct membership *membership, const char *name)
{
    const struct policy *const policy = membership->running.shown;
    const struct target *const target = policy != NULL ? policy_target_named(policy, name) : NULL;

    return target != NULL && target->scope == SCOPE_FLEET && target->mode == MODE_ENFORCE ? target : NULL;
}

/* --- one circuit ------------------------------------------------------------------------------------------------------ */

static void look_at_circuit(struct membership *membership, uint32_t index, const struct circuit_texts *texts,
                            uint64_t now_ns, uint64_t real_ns)
{
    struct fleet_joined *joined = index < membership->capacity ? &membership->joined[index] : NULL;
    const struct target *const target = fleet_target(membership, texts->target);
    const uint64_t key = circuits_key(texts->target, texts->destination);

    if (joined == NULL)
        return;
    if (joined->key != 0 && (joined->key != key || target == NULL))
        fleet_joined_part(membership->fleet, &membership->guard, joined, index, now_ns);
    if (target == NULL)
        return;
    if (joined->key == 0) {
        joined->number = fleet_circuit(membership->fleet, texts->target, texts->destination);
        joined->key = joined->number != FLEET_CIRCUIT_NONE ? key : 0;
    }
    if (joined->key == 0)
        return;
    const struct fleet_view view =
        fleet_joined_look(membership->fleet, &membership->guard, joined, index, target, now_ns, real_ns);
    fleet_operator_obey(membership->fleet, &membership->guard, joined, index, target->mode, now_ns, real_ns);
    fleet_show_circuit(&membership->showing, &view, key, target->fleet_quorum);
}

/*
 * A circuit that other hosts have open and this one has not called yet: it gets its place, so that its first call finds
 * the hold. The name is others' word: it must be a destination of a target that is in the fleet.
 */
static void place_elsewhere(struct membership *membership, const char *name, uint64_t now_ns)
{
    char target[TARGET_NAME_MAX] = "", why[DESTINATION_WHY_MAX];
    const char *const end = strchr(name, '\n');
    struct destination destination;

    if (end == NULL || (size_t)(end - name) >= sizeof target || membership->placed >= PLACED_MAX)
        return;
    memcpy(target, name, (size_t)(end - name));
    const struct target *const found = fleet_target(membership, target);
    if (found == NULL)
        return;
    if (strcmp(end + 1, target) == 0 ||
        (destination_read(&destination, end + 1, why) && strcmp(destination.text, end + 1) == 0)) {
        circuits_find(membership->guard.segment, target, end + 1, now_ns);
        membership->placed++;
    }
}

static bool is_member(void *context, const char *target)
{
    return fleet_target(context, target) != NULL;
}

/* What operators on this host have to say to the fleet. */
static void take_orders(struct membership *membership, const struct watched *watched, const char *trouble,
                        uint64_t now_ns)
{
    const struct fleet_orders orders = {.segment = watched->writable,
                                        .fleet = membership->fleet,
                                        .trouble = trouble,
                                        .is_member = is_member,
                                        .context = membership};

    fleet_operator_orders(&orders, now_ns);
}

/* --- one segment ------------------------------------------------------------------------------------------------------ */

static void leave(struct membership *membership, uint64_t now_ns)
{
    if (membership->fleet == NULL)
        return;
    for (uint32_t i = 0; i < membership->capacity; i++)
        fleet_joined_part(membership->fleet, &membership->guard, &membership->joined[i], i, now_ns);
    fleet_link_leave(state.link, membership->fleet);
    membership->fleet = NULL;
}

static void join(struct membership *membership, const struct watched *watched)
{
    char *name = format_text("%s:%s", watched->selected->user, watched->selected->identity);

    membership->guard.segment = watched->writable;
    membership->guard.pid = (uint32_t)getpid();
    memcpy(membership->guard.program, "sockfuse-agent", sizeof "sockfuse-agent");
    membership->capacity = watched->writable->capacity.circuits;
    free(membership->joined);
    membership->joined = allocate(membership->capacity, sizeof *membership->joined);
    membership->fleet = fleet_link_join(state.link, name, state.host);
    if (membership->fleet != NULL)
        fleet_set_host(membership->fleet, state.host_name);
    free(name);
}

static void say_trouble(void)
{
    const char *const trouble = fleet_link_trouble(state.link);

    if (strcmp(trouble, state.trouble) == 0 || (trouble[0] == '\0' && !fleet_link_works(state.link)))
        return;
    if (trouble[0] != '\0')
        warnx("fleet: %s", trouble);
    else
        warnx("fleet: all is well again");
    snprintf(state.trouble, sizeof state.trouble, "%s", trouble);
}

static void look(struct watched *watched, uint64_t now_ns)
{
    struct membership *membership = membership_of(watched);
    const uint64_t real_ns = clock_real_ns();
    struct circuit_texts texts;
    const char *name;

    if (membership == NULL || watched->writable == NULL)
        return;
    know_policy(membership, watched);
    const bool is_wanted = has_fleet(membership->running.shown);
    if (is_wanted && state.link == NULL && !state.is_missed)
        warnx("%s%s has `scope = fleet`, and no `fleet` in [agent] says where the fleet's Redis is",
              watched->selected->identity, watched->selected->whose);
    state.is_missed = state.is_missed || (is_wanted && state.link == NULL);
    fleet_show_begins(&membership->showing, watched->writable, membership->fleet, now_ns, real_ns);
    if (!is_wanted || state.link == NULL) {
        leave(membership, now_ns);
        if (is_wanted)
            fleet_show_ends(&membership->showing, NULL, false, "");
        take_orders(membership, watched, "no `fleet` in [agent] says where its Redis is", now_ns);
        return;
    }
    if (membership->fleet == NULL)
        join(membership, watched);
    if (membership->fleet == NULL)
        return;
    say_trouble();
    take_orders(membership, watched, fleet_link_works(state.link) ? "" : fleet_link_trouble(state.link), now_ns);
    unsigned int placed = 0;
    for (uint32_t cursor = 0;
         placed < PLACED_AT_ONCE && (name = fleet_elsewhere(membership->fleet, &cursor, real_ns)) != NULL; placed++)
        place_elsewhere(membership, name, now_ns);
    for (uint32_t cursor = 0, index; (index = circuits_next(watched->writable, &cursor, &texts)) != CIRCUIT_INDEX_NONE;)
        look_at_circuit(membership, index, &texts, now_ns, real_ns);
    fleet_show_ends(&membership->showing, membership->fleet, true, fleet_link_trouble(state.link));
    fleet_link_turn(state.link, membership->fleet, real_ns);
}

static void begin(struct watched *watched)
{
    watched->data[state.watcher.number] = allocate(1, sizeof(struct membership));
}

static void end(struct watched *watched)
{
    struct membership *membership = membership_of(watched);

    leave(membership, clock_circuit_ns());
    fleet_show_over(&membership->showing);
    if (membership->has_running)
        running_free(&membership->running);
    free(membership->joined);
    free(membership);
}

/* --- the whole --------------------------------------------------------------------------------------------------------- */

static void drop_link(struct watched *watched, void *context)
{
    (void)context;
    if (membership_of(watched) != NULL)
        leave(membership_of(watched), clock_circuit_ns());
}

static void open_link(const struct redis_url *url)
{
    static const struct redis_url nowhere;

    state.url = *url;
    if (memcmp(url, &nowhere, sizeof nowhere) == 0)
        return;
    state.link = fleet_link_open(state.loop, url, watched_look_soon);
    if (state.link == NULL)
        warnx("fleet: no memory");
}

struct fleet *fleet_watch_member(const struct watched *watched, const char *target)
{
    const struct membership *const membership = state.loop != NULL ? membership_of(watched) : NULL;

    return membership != NULL && membership->fleet != NULL && fleet_target(membership, target) != NULL
               ? membership->fleet
               : NULL;
}

bool fleet_watch_wants(const struct watched *watched, const char *target)
{
    const struct membership *const membership = state.loop != NULL ? membership_of(watched) : NULL;

    return membership != NULL && membership->has_running && fleet_target(membership, target) != NULL;
}

void fleet_watch_turn(struct fleet *fleet)
{
    fleet_link_turn(state.link, fleet, clock_real_ns());
}

static void rename_host(struct watched *watched, void *context)
{
    const struct membership *const membership = membership_of(watched);
    (void)context;

    if (membership != NULL && membership->fleet != NULL)
        fleet_set_host(membership->fleet, state.host_name);
}

void fleet_watch_start(struct ev_loop *loop, const struct agent_settings *settings)
{
    state.loop = loop;
    fleet_self_name(settings, state.host_name);
    state.host = fleet_self_number();
    state.watcher = (struct watcher){.name = "fleet", .begin = begin, .look = look, .end = end};
    watched_register(&state.watcher);
    struct redis_url url;
    fleet_secret_address(&url, settings);
    open_link(&url);
    explicit_bzero(&url, sizeof url);
}

void fleet_watch_set(const struct agent_settings *settings)
{
    struct redis_url url;

    fleet_self_name(settings, state.host_name);
    watched_each(rename_host, NULL);
    fleet_secret_address(&url, settings);
    if (memcmp(&url, &state.url, sizeof url) != 0) {
        watched_each(drop_link, NULL);
        fleet_link_close(state.link);
        state.link = NULL;
        state.is_missed = false;
        open_link(&url);
    }
    explicit_bzero(&url, sizeof url);
}

void fleet_watch_stop(void)
{
    fleet_link_close(state.link);
    state.link = NULL;
}
