/*
 * cascade_text.c - a cascade for people. See cascade_output.h.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "view/cascade_output.h"
#include "view/fold.h"
#include "view/output.h"
#include "view/duration.h"
#include "view/table.h"

#define INDENT 5

struct page {
    const struct cascade *cascade;
    FILE *out;
    bool *printed, *above; /* groups: anywhere, and on the way down to where we are */
    bool is_coloured;
};

/* --- labels ------------------------------------------------------------------------------------------------------- */

static const char *plural(size_t count)
{
    return count == 1 ? "" : "s";
}

char *cascade_silence(const struct cascade_sum *sum)
{
    const size_t connecting = sum->phases[PHASE_CONNECTING], silent = sum->calls - connecting;
    if (connecting == 0)
        return copy_text("connected and silent");
    if (silent == 0)
        return copy_text("no connection comes about");
    return format_text("%zu connected and silent, %zu without a connection", silent, connecting);
}

char *cascade_group_label(const struct cascade_group *group)
{
    const char *name = group->program != NULL ? group->program : "";
    if (group->workers > 1 && group->waiting <= group->workers)
        return group->waiting > 0 ? format_text("%s (%zu of %zu workers wait%s)", name, group->waiting, group->workers,
                                                group->waiting == 1 ? "s" : "")
                                  : format_text("%s (%zu workers)", name, group->workers);
    if (group->waiting > 1)
        return format_text("%s (%zu processes wait)", name, group->waiting);
    return group->pid_count > 0 ? format_text("%s (pid %" PRIu32 "%s)", name, group->pids[group->pid_count - 1],
                                              group->waiting > 0 ? " waits" : "")
                                : copy_text(name);
}

/* "other, wh"; NULL: it is called by its destination alone. To be freed. */
static char *names_of(const struct cascade_place *place)
{
    char *names = NULL;
    for (size_t i = 0; i < place->target_count; i++) {
        if (strcmp(place->targets[i], place->destination) == 0)
            continue;
        char *longer = names != NULL ? format_text("%s, %s", names, place->targets[i]) : copy_text(place->targets[i]);
        free(names);
        names = longer;
    }
    return names;
}

char *cascade_place_label(const struct cascade *cascade, size_t index)
{
    const struct cascade_place *place = &cascade->places[index];
    char *names = names_of(place);
    const char *name = names != NULL                  ? names
                       : place->group != CASCADE_NONE ? cascade->groups[place->group].program
                                                      : NULL;
    char *label = name != NULL ? format_text("%s (%s)", place->destination, name) : copy_text(place->destination);
    free(names);
    return label;
}

static void print_freed(char *text, FILE *out)
{
    print_safely(text, out);
    free(text);
}

/* --- one place ---------------------------------------------------------------------------------------------------- */

/* "8 wait for an answer"; of several kinds each with its number. */
static void print_phases(const struct cascade_sum *sum, FILE *out)
{
    static const char *const what[CASCADE_PHASES] = {"a connection", "a greeting", "an answer"};
    fprintf(out, "%zu wait%s for ", sum->calls, sum->calls == 1 ? "s" : "");
    for (unsigned int i = 0, told = 0; i < CASCADE_PHASES; i++) {
        if (sum->phases[i] == 0)
            continue;
        fprintf(out, "%s%s", told++ > 0 ? ", " : "", what[i]);
        if (sum->phases[i] < sum->calls)
            fprintf(out, " (%zu)", sum->phases[i]);
    }
}

static void print_wait(const struct page *page, const struct cascade_wait *wait, int indent)
{
    const struct cascade_place *place = &page->cascade->places[wait->place];
    char span[SPAN_TEXT_MAX], *names = names_of(place);
    fprintf(page->out, "%*s-> ", indent, "");
    print_safely(place->destination, page->out);
    if (names != NULL)
        fprintf(page->out, " (%s)", shown(names));
    free(names);
    fputs(": ", page->out);
    print_phases(&wait->sum, page->out);
    fprintf(page->out, ", oldest %s", span_format(wait->sum.oldest_ns, span));
    if (wait->sum.overdue > 0)
        fprintf(page->out, ", %s%zu OVERDUE%s", colour_start(RED, page->is_coloured), wait->sum.overdue,
                colour_start(PLAIN, page->is_coloured));
    fputc('\n', page->out);
    if (place->not_accepted > 0)
        fprintf(page->out, "%*s%zu connection%s no program has accepted yet\n", indent + 3, "", place->not_accepted,
                plural(place->not_accepted));
}

/* What is to be said of a place where no group is seen. */
static void print_unseen(const struct page *page, const struct cascade_place *place, int indent)
{
    fprintf(page->out, "%*s", indent, "");
    switch (place->view) {
    case VIEW_ELSEWHERE:
        fputs("on another host\n", page->out);
        break;
    case VIEW_NETWORK:
        fputs("in another network name space or container, which can't be looked into from here\n", page->out);
        break;
    case VIEW_UNSERVED:
        fputs("on this host, and nobody listens there\n", page->out);
        break;
    case VIEW_HIDDEN:
        fprintf(page->out, "on this host: a program of ");
        if (place->listener_uid != UINT32_MAX)
            fprintf(page->out, "uid %" PRIu32, place->listener_uid);
        else
            fputs("another user", page->out);
        fputs(", which can't be looked into from here\n", page->out);
        break;
    default:
        fputs("its address is not known here, so neither is who listens there\n", page->out);
        break;
    }
}

/* --- the tree ----------------------------------------------------------------------------------------------------- */

static void print_group(struct page *page, size_t index, int indent)
{
    const struct cascade *cascade = page->cascade;
    const struct cascade_group *group = &cascade->groups[index];
    const bool is_again = page->printed[index], is_circle = page->above[index];
    fprintf(page->out, "%*s", indent, "");
    print_freed(cascade_group_label(group), page->out);
    if (!cascade_waits(cascade, index))
        fputs(group->is_guarded ? ": waits for nobody" : ": unguarded, its own calls are not seen", page->out);
    else if (is_circle)
        fputs(": a circle, it is above", page->out);
    else if (is_again)
        fputs(": see above", page->out);
    fputc('\n', page->out);
    if (is_again || is_circle)
        return;
    page->printed[index] = page->above[index] = true;
    for (size_t i = 0; i < cascade->wait_count; i++) {
        const struct cascade_wait *wait = &cascade->waits[i];
        if (wait->group != index)
            continue;
        print_wait(page, wait, indent + 2);
        if (cascade->places[wait->place].group != CASCADE_NONE)
            print_group(page, cascade->places[wait->place].group, indent + INDENT);
        else
            print_unseen(page, &cascade->places[wait->place], indent + INDENT);
    }
    page->above[index] = false;
}

/* Whether somebody waits for the group, as far as it is shown. */
static bool is_below(const struct cascade *cascade, size_t group)
{
    for (size_t i = 0; i < cascade->wait_count; i++)
        if (cascade->places[cascade->waits[i].place].group == group)
            return true;
    return false;
}

/* --- the last line ------------------------------------------------------------------------------------------------ */

static void print_circle(const struct cascade *cascade, FILE *out)
{
    size_t count, *circle = cascade_circle(cascade, &count);
    if (circle == NULL)
        return;
    fputs("no root: they wait for each other: ", out);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s%s", i > 0 ? " -> " : "", shown(cascade->groups[circle[i]].program));
    fputc('\n', out);
    free(circle);
}

static void print_root(const struct page *page)
{
    const struct cascade *cascade = page->cascade;
    const struct cascade_sum *all = &cascade->root_sum;
    char span[SPAN_TEXT_MAX];
    if (cascade->root == CASCADE_NONE) {
        print_circle(cascade, page->out);
        return;
    }
    char *label = cascade_place_label(cascade, cascade->root), *text = NULL;
    char *silence = cascade_silence(&cascade->places[cascade->root].sum);
    size_t size;
    FILE *out = open_text(&text, &size);
    fputs("root: ", out);
    print_freed(label, out);
    fprintf(out, ", %s; %zu call%s of %zu program%s wait%s, the oldest %s", silence, all->calls, plural(all->calls),
            cascade->root_programs, plural(cascade->root_programs), all->calls == 1 ? "s" : "",
            span_format(all->oldest_ns, span));
    if (cascade->other_roots > 0)
        fprintf(out, " (and %zu other%s for which fewer wait)", cascade->other_roots, plural(cascade->other_roots));
    close_text(out);
    fputs(colour_start(BOLD, page->is_coloured), page->out);
    fold_words(page->out, text, (struct fold){.indent = INDENT, .room = line_room(page->out)});
    fprintf(page->out, "%s\n", colour_start(PLAIN, page->is_coloured));
    free(silence);
    free(text);
}

void cascade_print(const struct cascade *cascade, FILE *out)
{
    struct page page = {.cascade = cascade, .out = out, .is_coloured = colour_wanted(out)};
    if (cascade->wait_count == 0) {
        fputs("No calls in flight.\n", out);
        return;
    }
    page.printed = allocate(cascade->group_count, sizeof *page.printed);
    page.above = allocate(cascade->group_count, sizeof *page.above);
    /* Who waits longest comes first; then those that nobody outside of a circle leads to. */
    for (int in_circles = 0; in_circles <= 1; in_circles++)
        for (size_t i = 0; i < cascade->wait_count; i++) {
            const size_t group = cascade->waits[i].group;
            if (!page.printed[group] && (in_circles == 1 || !is_below(cascade, group)))
                print_group(&page, group, 0);
        }
    print_root(&page);
    free(page.printed);
    free(page.above);
}
