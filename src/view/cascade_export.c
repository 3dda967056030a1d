/*
 * cascade_export.c - a cascade for Graphviz and as JSON. See cascade_output.h.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "view/cascade_output.h"
#include "view/output.h"
#include "view/duration.h"

/* --- Graphviz ----------------------------------------------------------------------------------------------------- */

/* Inside of a quoted label: what is no text becomes \xNN first; then a backslash is no escape of Graphviz's. */
static void dot_text(const char *text, FILE *out)
{
    for (const char *at = shown(text); *at != '\0'; at++) {
        if (*at == '"' || *at == '\\')
            fputc('\\', out);
        fputc(*at, out);
    }
}

static void dot_freed(char *text, FILE *out)
{
    dot_text(text, out);
    free(text);
}

static const char *view_text(enum cascade_view view)
{
    switch (view) {
    case VIEW_ELSEWHERE:
        return "on another host";
    case VIEW_NETWORK:
        return "in another network name space";
    case VIEW_UNSERVED:
        return "nobody listens";
    case VIEW_HIDDEN:
        return "another user's, not seen";
    default:
        return "not known who listens";
    }
}

static void dot_place(const struct cascade *cascade, size_t index, FILE *out)
{
    const struct cascade_place *place = &cascade->places[index];
    fprintf(out, "  p%zu [shape=box, label=\"", index);
    dot_freed(cascade_place_label(cascade, index), out);
    if (index == cascade->root || place->group == CASCADE_NONE)
        fputs("\\n", out);
    if (index == cascade->root)
        dot_freed(cascade_silence(&place->sum), out);
    else if (place->group == CASCADE_NONE)
        fputs(view_text(place->view), out);
    fputs(index == cascade->root ? "\", color=red, penwidth=2];\n" : "\"];\n", out);
    if (place->group != CASCADE_NONE)
        fprintf(out, "  p%zu -> g%zu [style=dotted, arrowhead=none];\n", index, place->group);
}

/* Whether a group is on the picture: it waits, or somebody waits for it. */
static bool is_shown(const struct cascade *cascade, size_t group)
{
    for (size_t i = 0; i < cascade->wait_count; i++)
        if (cascade->waits[i].group == group || cascade->places[cascade->waits[i].place].group == group)
            return true;
    return false;
}

void cascade_dot(const struct cascade *cascade, FILE *out)
{
    char span[SPAN_TEXT_MAX];
    fputs("digraph calls {\n  rankdir=LR;\n  node [fontname=\"sans-serif\"];\n  edge [fontname=\"sans-serif\"];\n",
          out);
    for (size_t i = 0; i < cascade->group_count; i++) {
        if (!is_shown(cascade, i))
            continue;
        fprintf(out, "  g%zu [label=\"", i);
        dot_freed(cascade_group_label(&cascade->groups[i]), out);
        fputs(cascade->groups[i].is_guarded ? "\"];\n" : "\", style=dashed];\n", out);
    }
    for (size_t i = 0; i < cascade->place_count; i++)
        if (cascade_is_waited_for(cascade, i))
            dot_place(cascade, i, out);
    for (size_t i = 0; i < cascade->wait_count; i++) {
        const struct cascade_wait *wait = &cascade->waits[i];
        fprintf(out, "  g%zu -> p%zu [label=\"%zu call%s, %s\"%s];\n", wait->group, wait->place, wait->sum.calls,
                wait->sum.calls == 1 ? "" : "s", span_format(wait->sum.oldest_ns, span),
                wait->sum.overdue > 0 ? ", color=red" : "");
    }
    fputs("}\n", out);
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static const char *view_name(enum cascade_view view)
{
    static const char *const names[] = {
        [VIEW_UNKNOWN] = "unknown",   [VIEW_ELSEWHERE] = "elsewhere", [VIEW_NETWORK] = "other-network",
        [VIEW_UNSERVED] = "unserved", [VIEW_HIDDEN] = "hidden",       [VIEW_SERVED] = "served",
    };
    return names[view];
}

static void write_sum(struct json *json, const struct cascade_sum *sum)
{
    json_unsigned(json, "calls", sum->calls);
    for (unsigned int i = 0; i < CASCADE_PHASES; i++)
        json_unsigned(json, inflight_phase((enum phase)i), sum->phases[i]);
    json_unsigned(json, "overdue", sum->overdue);
    json_unsigned(json, "oldest_ms", sum->oldest_ns / NS_PER_MS);
}

static void write_group(struct json *json, const struct cascade *cascade, size_t index)
{
    const struct cascade_group *group = &cascade->groups[index];
    json_open(json, NULL, '{');
    json_unsigned(json, "id", index);
    json_string(json, "program", group->program);
    json_bool(json, "guarded", group->is_guarded);
    json_unsigned(json, "workers", group->workers);
    json_unsigned(json, "waiting", group->waiting);
    json_open(json, "pids", '[');
    for (size_t i = 0; i < group->pid_count; i++)
        json_unsigned(json, NULL, group->pids[i]);
    json_close(json, ']');
    json_close(json, '}');
}

static void write_place(struct json *json, const struct cascade *cascade, size_t index)
{
    const struct cascade_place *place = &cascade->places[index];
    json_open(json, NULL, '{');
    json_unsigned(json, "id", index);
    json_string(json, "destination", place->destination);
    json_string(json, "target", place->targets[0]);
    json_open(json, "targets", '[');
    for (size_t i = 0; i < place->target_count; i++)
        json_string(json, NULL, place->targets[i]);
    json_close(json, ']');
    json_string(json, "seen", view_name(place->view));
    if (place->group != CASCADE_NONE)
        json_unsigned(json, "served_by", place->group);
    else
        json_null(json, "served_by");
    json_unsigned(json, "not_accepted", place->not_accepted);
    write_sum(json, &place->sum);
    json_close(json, '}');
}

static void write_root(struct json *json, const struct cascade *cascade)
{
    if (cascade->root == CASCADE_NONE) {
        json_null(json, "root");
        return;
    }
    json_open(json, "root", '{');
    json_unsigned(json, "place", cascade->root);
    json_string(json, "destination", cascade->places[cascade->root].destination);
    json_unsigned(json, "programs", cascade->root_programs);
    write_sum(json, &cascade->root_sum);
    json_close(json, '}');
}

static void write_circle(struct json *json, const struct cascade *cascade)
{
    size_t count = 0, *circle = cascade_circle(cascade, &count);
    if (circle == NULL) {
        json_null(json, "circle");
        return;
    }
    json_open(json, "circle", '[');
    for (size_t i = 0; i < count; i++)
        json_unsigned(json, NULL, circle[i]);
    json_close(json, ']');
    free(circle);
}

void cascade_json(struct json *json, const struct cascade *cascade, const struct inversions *inversions)
{
    json_open(json, NULL, '{');
    json_open(json, "groups", '[');
    for (size_t i = 0; i < cascade->group_count; i++)
        if (is_shown(cascade, i))
            write_group(json, cascade, i);
    json_close(json, ']');
    json_open(json, "places", '[');
    for (size_t i = 0; i < cascade->place_count; i++)
        if (cascade_is_waited_for(cascade, i))
            write_place(json, cascade, i);
    json_close(json, ']');
    json_open(json, "waits", '[');
    for (size_t i = 0; i < cascade->wait_count; i++) {
        json_open(json, NULL, '{');
        json_unsigned(json, "group", cascade->waits[i].group);
        json_unsigned(json, "place", cascade->waits[i].place);
        json_unsigned(json, "processes", cascade->waits[i].processes);
        write_sum(json, &cascade->waits[i].sum);
        json_close(json, '}');
    }
    json_close(json, ']');
    write_root(json, cascade);
    write_circle(json, cascade);
    if (inversions != NULL)
        inversions_json(json, "inversions", inversions);
    json_close(json, '}');
}
