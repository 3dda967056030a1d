/*
 * cascade_build.c - who waits for whom on this host: putting it together. See cascade.h.
 */
#define _GNU_SOURCE
#include "view/cascade.h"

#include <stdlib.h>
#include <string.h>

#include "view/cascade_host.h"
#include "view/output.h"
#include "view/destination.h"

#define FIRST_PROCESS 1u

/* One process's calls to one place. */
struct piece {
    const struct inflight_owner *owner;
    size_t place;
    struct cascade_sum sum;
};

struct build {
    struct cascade *cascade;
    struct cascade_host host;
    struct place_search *searches; /* one for each place */
    struct piece *pieces;
    size_t piece_count;
    bool *has_ground;   /* of each leader: its program is known by a socket, not only by its name */
    size_t *group_of;   /* of each leader; CASCADE_NONE */
    const char **names; /* of each node: as its own slot has it; NULL: it is not attached */
};

void cascade_add(struct cascade_sum *sum, const struct cascade_sum *more)
{
    sum->calls += more->calls;
    sum->overdue += more->overdue;
    for (unsigned int i = 0; i < CASCADE_PHASES; i++)
        sum->phases[i] += more->phases[i];
    if (more->oldest_ns > sum->oldest_ns)
        sum->oldest_ns = more->oldest_ns;
}

static void add_call(struct cascade_sum *sum, const struct inflight_call *call)
{
    struct cascade_sum one = {.calls = 1, .overdue = call->is_overdue, .oldest_ns = call->waited_ns};
    one.phases[call->phase < CASCADE_PHASES ? call->phase : CASCADE_PHASES - 1] = 1;
    cascade_add(sum, &one);
}

/* One more of something, as zeros; the list is moved. */
static void *add_one(void *list, size_t *count, size_t size)
{
    char *longer = grow(list, *count, size);
    memset(longer + *count * size, 0, size);
    ++*count;
    return longer;
}

/* --- places ------------------------------------------------------------------------------------------------------- */

/* The same destination in two network name spaces is two places. */
static size_t place_of(struct build *build, const struct inflight_call *call, uint64_t space)
{
    struct cascade *cascade = build->cascade;
    char why[DESTINATION_WHY_MAX];
    struct destination destination;
    for (size_t i = 0; i < cascade->place_count; i++)
        if (cascade->places[i].space == space &&
            strcmp(cascade->places[i].destination, call->circuit->destination) == 0) {
            cascade_add_target(&cascade->places[i], call->circuit->target);
            return i;
        }
    size_t searches = cascade->place_count;
    build->searches = add_one(build->searches, &searches, sizeof *build->searches);
    cascade->places = add_one(cascade->places, &cascade->place_count, sizeof *cascade->places);
    struct cascade_place *place = &cascade->places[cascade->place_count - 1];
    *place = (struct cascade_place){.destination = call->circuit->destination, .space = space, .group = CASCADE_NONE};
    cascade_add_target(place, call->circuit->target);
    if (destination_read(&destination, place->destination, why))
        build->searches[searches - 1].literal = destination.endpoint;
    if (destination.name != NULL)
        build->searches[searches - 1].literal.family = ENDPOINT_NONE;
    destination_free(&destination);
    return cascade->place_count - 1;
}

static int compare_calls(const void *a, const void *b)
{
    const struct inflight_call *left = *(const struct inflight_call *const *)a,
                               *right = *(const struct inflight_call *const *)b;
    if (left->owner != right->owner)
        return left->owner->process.pid != right->owner->process.pid
                   ? (left->owner->process.pid < right->owner->process.pid ? -1 : 1)
                   : (left->owner->mark < right->owner->mark ? -1 : 1);
    if (left->circuit_index != right->circuit_index)
        return left->circuit_index < right->circuit_index ? -1 : 1;
    if (left->circuit != right->circuit) /* of different segments */
        return left->of < right->of ? -1 : 1;
    return left->address_key < right->address_key ? -1 : left->address_key > right->address_key;
}

/* All calls, each process's to one place after the other. */
static const struct inflight_call **in_order(const struct inflight *inflight)
{
    const struct inflight_call **calls = allocate(inflight->count, sizeof(const struct inflight_call *));
    for (size_t i = 0; i < inflight->count; i++)
        calls[i] = &inflight->at[i];
    if (inflight->count > 1)
        qsort(calls, inflight->count, sizeof(const struct inflight_call *), compare_calls);
    return calls;
}

static void read_calls(struct build *build, const struct inflight *inflight)
{
    const struct inflight_call **calls = in_order(inflight), *former = NULL;
    uint64_t space = 0;
    for (size_t i = 0; i < inflight->count; former = calls[i++]) {
        const struct inflight_call *call = calls[i];
        const struct inflight_owner *owner = call->owner;
        const bool is_new = former == NULL || former->owner != owner || former->circuit != call->circuit;
        if (former == NULL || former->owner != owner)
            space = owner->process.is_near ? host_network_space(owner->process.pid) : 0;
        if (is_new) {
            const size_t place = place_of(build, call, space);
            build->pieces = add_one(build->pieces, &build->piece_count, sizeof *build->pieces);
            build->pieces[build->piece_count - 1].owner = owner;
            build->pieces[build->piece_count - 1].place = place;
        }
        struct piece *piece = &build->pieces[build->piece_count - 1];
        add_call(&piece->sum, call);
        add_call(&build->cascade->places[piece->place].sum, call);
        if (!is_new && former->address_key == call->address_key)
            continue;
        build->searches[piece->place].place = &build->cascade->places[piece->place];
        cascade_search(&build->host, &build->searches[piece->place], call);
    }
    free(calls);
}

/* --- groups ------------------------------------------------------------------------------------------------------- */

static bool is_first(const struct build *build, size_t node)
{
    const struct host_process *process = cascade_process(&build->host, node);
    return process != NULL && process->pid == FIRST_PROCESS;
}

/* Who serves one place is one program; but who holds its socket for others, where these are seen. */
static void join_servers(struct build *build)
{
    for (size_t i = 0; i < build->cascade->place_count; i++) {
        struct place_search *search = &build->searches[i];
        size_t kept = 0;
        for (size_t j = 0; j < search->node_count; j++)
            if (!is_first(build, search->nodes[j]))
                search->nodes[kept++] = search->nodes[j];
        search->node_count = kept > 0 ? kept : search->node_count;
        for (size_t j = 1; j < search->node_count; j++)
            cascade_join(&build->host, search->nodes[0], search->nodes[j]);
    }
}

static void find_grounds(struct build *build)
{
    memset(build->has_ground, 0, build->host.node_count * sizeof *build->has_ground);
    for (size_t node = 0; node < build->host.node_count; node++)
        if (build->host.listens[node])
            build->has_ground[cascade_leader(&build->host, node)] = true;
    for (size_t i = 0; i < build->cascade->place_count; i++)
        if (build->searches[i].node_count > 0)
            build->has_ground[cascade_leader(&build->host, build->searches[i].nodes[0])] = true;
}

/* A worker that listens nowhere belongs to the master of its name, which does, and hands it its connections (node). */
static bool join_master(struct build *build, size_t node)
{
    const struct host_process *process = cascade_process(&build->host, node);
    const struct host_process *above = process;
    for (size_t steps = 0; above != NULL && steps < build->host.processes.count; steps++) {
        above = host_process_of(&build->host.processes, above->parent);
        if (above == NULL || above->session != process->session || strcmp(above->program, process->program) != 0)
            return false;
        const size_t other = (size_t)(above - build->host.processes.at);
        if (!build->has_ground[cascade_leader(&build->host, other)])
            continue;
        cascade_join(&build->host, node, other);
        build->has_ground[cascade_leader(&build->host, node)] = true;
        return true;
    }
    return false;
}

static int compare_names(const void *a, const void *b)
{
    const struct inflight_owner *left = (*(const struct piece *const *)a)->owner,
                                *right = (*(const struct piece *const *)b)->owner;
    const int names = strcmp(left->process.program, right->process.program);
    if (names != 0 || left->uid == right->uid)
        return names;
    return left->uid < right->uid ? -1 : 1;
}

/* Those that listen nowhere are one program if they have one name, and run as one user. */
static void join_by_name(struct build *build)
{
    struct piece **loose = allocate(build->piece_count, sizeof(struct piece *));
    size_t count = 0;
    find_grounds(build);
    for (size_t i = 0; i < build->piece_count; i++) {
        const size_t node = build->pieces[i].owner->mark;
        if (!build->has_ground[cascade_leader(&build->host, node)] && !join_master(build, node))
            loose[count++] = &build->pieces[i];
    }
    if (count > 1)
        qsort(loose, count, sizeof(struct piece *), compare_names);
    for (size_t i = 1; i < count; i++)
        if (compare_names(&loose[i - 1], &loose[i]) == 0)
            cascade_join(&build->host, loose[i - 1]->owner->mark, loose[i]->owner->mark);
    free(loose);
}

static size_t group_with(struct build *build, size_t node)
{
    struct cascade *cascade = build->cascade;
    const size_t leader = cascade_leader(&build->host, node);
    if (build->group_of[leader] == CASCADE_NONE) {
        build->group_of[leader] = cascade->group_count;
        cascade->groups = add_one(cascade->groups, &cascade->group_count, sizeof *cascade->groups);
    }
    return build->group_of[leader];
}

static void add_pid(struct cascade_group *group, uint32_t pid)
{
    group->pids = add_one(group->pids, &group->pid_count, sizeof *group->pids);
    group->pids[group->pid_count - 1] = pid;
}

/* A name by which its policy is found goes before what the kernel calls it. */
static void take_name(struct cascade_group *group, const char *name, bool is_better)
{
    if (group->program != NULL && !is_better)
        return;
    free(group->program);
    group->program = copy_text(name);
}

static void fill_group(struct build *build, size_t node, const bool *is_parent, bool waits)
{
    const size_t index = build->group_of[cascade_leader(&build->host, node)];
    if (index == CASCADE_NONE || (node >= build->host.processes.count && !waits))
        return;
    struct cascade_group *group = &build->cascade->groups[index];
    const struct host_process *process = cascade_process(&build->host, node);
    const char *known = build->names[node];
    if (process != NULL)
        add_pid(group, process->pid);
    group->workers += !is_parent[node];
    group->waiting += waits;
    if (known != NULL)
        take_name(group, known, !group->is_guarded);
    else if (process != NULL)
        take_name(group, process->program, false);
    group->is_guarded = group->is_guarded || known != NULL;
}

/* Who is attached, and by which name; the calls' own processes above all. */
static void find_names(struct build *build, const struct selection *selection, struct process_view **kept)
{
    size_t count = 0;
    for (size_t i = 0; i < selection->count; i++) {
        struct process_view view;
        for (uint32_t cursor = 0;
             selection->at[i].segment.map != NULL && process_next(&selection->at[i].segment, &cursor, &view);) {
            const size_t node = view.is_near ? cascade_node_of(&build->host, view.pid) : CASCADE_NONE;
            if (node == CASCADE_NONE || build->names[node] != NULL)
                continue;
            kept[count] = allocate(1, sizeof view);
            *kept[count] = view;
            build->names[node] = kept[count++]->program;
        }
    }
}

static void make_groups(struct build *build, const struct selection *selection)
{
    const size_t nodes = build->host.node_count;
    bool *is_parent = allocate(nodes, sizeof *is_parent), *waits = allocate(nodes, sizeof *waits);
    struct process_view **kept = allocate(nodes + 1, sizeof(struct process_view *));
    for (size_t i = 0; i < build->piece_count; i++) {
        waits[build->pieces[i].owner->mark] = true;
        build->names[build->pieces[i].owner->mark] = build->pieces[i].owner->process.program;
        group_with(build, build->pieces[i].owner->mark);
    }
    for (size_t i = 0; i < build->cascade->place_count; i++) {
        if (build->searches[i].node_count == 0)
            continue;
        build->cascade->places[i].group = group_with(build, build->searches[i].nodes[0]);
        build->cascade->groups[build->cascade->places[i].group].is_waited_for = true;
    }
    find_names(build, selection, kept);
    for (size_t node = 0; node < build->host.processes.count; node++) {
        const size_t parent = cascade_node_of(&build->host, build->host.processes.at[node].parent);
        if (parent != CASCADE_NONE && cascade_leader(&build->host, parent) == cascade_leader(&build->host, node))
            is_parent[parent] = true;
    }
    for (size_t node = 0; node < nodes; node++)
        fill_group(build, node, is_parent, waits[node]);
    for (size_t i = 0; kept[i] != NULL; i++)
        free(kept[i]);
    free(kept);
    free(waits);
    free(is_parent);
}

/* --- waits -------------------------------------------------------------------------------------------------------- */

static int by_age(const void *a, const void *b)
{
    const struct cascade_wait *left = a, *right = b;
    if (left->sum.oldest_ns != right->sum.oldest_ns)
        return left->sum.oldest_ns > right->sum.oldest_ns ? -1 : 1;
    if (left->place != right->place)
        return left->place < right->place ? -1 : 1;
    return left->group < right->group ? -1 : left->group > right->group;
}

static void add_wait(struct build *build, const struct piece *piece)
{
    struct cascade *cascade = build->cascade;
    const size_t group = group_with(build, piece->owner->mark);
    size_t at = 0;
    while (at < cascade->wait_count && (cascade->waits[at].group != group || cascade->waits[at].place != piece->place))
        at++;
    if (at == cascade->wait_count) {
        cascade->waits = add_one(cascade->waits, &cascade->wait_count, sizeof *cascade->waits);
        cascade->waits[at].group = group;
        cascade->waits[at].place = piece->place;
    }
    cascade->waits[at].processes++;
    cascade_add(&cascade->waits[at].sum, &piece->sum);
}

void cascade_build(struct cascade *cascade, const struct inflight *inflight, const struct selection *selection)
{
    struct build build = {.cascade = cascade};
    *cascade = (struct cascade){.root = CASCADE_NONE};
    cascade_host_read(&build.host, inflight);
    build.has_ground = allocate(build.host.node_count, sizeof *build.has_ground);
    build.group_of = allocate(build.host.node_count, sizeof *build.group_of);
    build.names = allocate(build.host.node_count, sizeof(const char *));
    for (size_t i = 0; i < build.host.node_count; i++)
        build.group_of[i] = CASCADE_NONE;
    read_calls(&build, inflight);
    join_servers(&build);
    join_by_name(&build);
    make_groups(&build, selection);
    for (size_t i = 0; i < build.piece_count; i++)
        add_wait(&build, &build.pieces[i]);
    if (cascade->wait_count > 1)
        qsort(cascade->waits, cascade->wait_count, sizeof *cascade->waits, by_age);
    for (size_t i = 0; i < build.host.network_count; i++)
        cascade->error = cascade->error != 0 ? cascade->error : build.host.networks[i].network.error;
    cascade->is_cut = build.host.processes.is_cut;
    for (size_t i = 0; i < cascade->place_count; i++) {
        free(build.searches[i].known);
        free(build.searches[i].nodes);
        free(build.searches[i].connections);
    }
    free(build.searches);
    free(build.pieces);
    free(build.has_ground);
    free(build.group_of);
    free(build.names);
    cascade_host_free(&build.host);
    cascade_find_root(cascade);
}

void cascade_free(struct cascade *cascade)
{
    for (size_t i = 0; i < cascade->group_count; i++) {
        free(cascade->groups[i].program);
        free(cascade->groups[i].pids);
    }
    for (size_t i = 0; i < cascade->place_count; i++)
        free(cascade->places[i].targets);
    free(cascade->groups);
    free(cascade->places);
    free(cascade->waits);
    *cascade = (struct cascade){0};
}
