/*
 * top_list.c - which circuits `sockfuse top` shows, in which order. See top_list.h.
 */
#define _GNU_SOURCE
#include "cli/top_list.h"

#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "view/row_standing.h"

static const struct {
    const char *name, *title;
} sorts[SORTS] = {
    [SORT_WORST] = {"worst", "worst first"},      [SORT_NAME] = {"name", "by name"},
    [SORT_WAITING] = {"waiting", "most waiting"}, [SORT_OLDEST] = {"oldest", "longest wait"},
    [SORT_RATE] = {"rate", "most calls"},         [SORT_P95] = {"p95", "slowest"},
    [SORT_FAILED] = {"failed", "most failures"},  [SORT_REFUSED] = {"refused", "most refusals"},
};

const char *top_sort_title(enum top_sort sort)
{
    return sorts[sort].title;
}

const char *top_sort_name(enum top_sort sort)
{
    return sorts[sort].name;
}

bool top_sort_named(const char *name, enum top_sort *sort)
{
    for (unsigned int i = 0; i < SORTS; i++) {
        if (strcmp(sorts[i].name, name) == 0) {
            *sort = (enum top_sort)i;
            return true;
        }
    }
    return false;
}

const char *top_state(const struct top_row *of)
{
    static const char *const forced[] = {[CIRCUIT_CLOSED] = "closed, forced",
                                         [CIRCUIT_OPEN] = "open, forced",
                                         [CIRCUIT_HALF_OPEN] = "half-open, forced"};
    static const char *const by_mode[] = {
        [CIRCUIT_CLOSED] = "closed, by mode", [CIRCUIT_OPEN] = "open, by mode", [CIRCUIT_HALF_OPEN] = "half-open"};
    static const char *const observed[] = {[CIRCUIT_CLOSED] = "closed, observed",
                                           [CIRCUIT_OPEN] = "open, observed",
                                           [CIRCUIT_HALF_OPEN] = "half-open, observed"};
    static const char *const ended[] = {
        [CIRCUIT_CLOSED] = "closed, ended", [CIRCUIT_OPEN] = "open, ended", [CIRCUIT_HALF_OPEN] = "half-open, ended"};
    const struct row *row = of->row;
    const enum circuit_state state = row_state(row);
    const enum target_mode mode = row->target != NULL ? row->target->mode : MODE_ENFORCE;
    if (row->ended != ENDED_NOT)
        return ended[row->ended == ENDED_TARGET ? row->view.state : state];
    if (mode == MODE_OFF)
        return "off";
    if (row->forced != FORCED_NONE)
        return forced[state];
    if (row_is_hidden(row))
        return "in each process";
    if (row->destination[0] == '\0')
        return "no calls yet";
    if (mode == MODE_OPEN || mode == MODE_CLOSED)
        return by_mode[state];
    if (row->hold != HOLD_NONE)
        return row->hold == HOLD_FLEET ? "open, by fleet" : "open, check fails";
    if (row_probe_due(row))
        return mode == MODE_OBSERVE ? "probe due, observed" : "probe due";
    return mode == MODE_OBSERVE ? observed[state] : circuit_state_name(state);
}

/* --- which -------------------------------------------------------------------------------------------------------- */

static bool passes(const struct top_row *row, const char *filter)
{
    return filter[0] == '\0' || strcasestr(row->row->destination, filter) != NULL ||
           strcasestr(row->row->target_name, filter) != NULL || strcasestr(row->policy, filter) != NULL ||
           strcasestr(row->whose, filter) != NULL || strcasestr(top_state(row), filter) != NULL;
}

/* --- in which order ----------------------------------------------------------------------------------------------- */

/* What an order goes by; the larger, the further up. */
static uint64_t weight_of(const struct row *row, enum top_sort sort)
{
    switch (sort) {
    case SORT_WAITING:
        return row->waiting.calls;
    case SORT_OLDEST:
        return row->waiting.oldest_ns;
    case SORT_RATE:
        return row_waits_rate(&row->waits);
    case SORT_P95:
        return row->waits.recent.p95_ns;
    case SORT_FAILED:
        return row->counts[COUNT_FAILED];
    case SORT_REFUSED:
        return row->counts[COUNT_REFUSED];
    default:
        return 0;
    }
}

/* Negative: the left one stands further up. */
static int compare_by(const struct top_row *left, const struct top_row *right, enum top_sort sort)
{
    if (sort == SORT_NAME)
        return strverscmp(left->row->destination[0] != '\0' ? left->row->destination : left->row->target_name,
                          right->row->destination[0] != '\0' ? right->row->destination : right->row->target_name);
    const uint64_t one = weight_of(left->row, sort), other = weight_of(right->row, sort);
    return one > other ? -1 : one < other;
}

static int compare(const void *a, const void *b, void *context)
{
    const struct top_row *left = *(const struct top_row *const *)a, *right = *(const struct top_row *const *)b;
    const struct top_view *view = context;
    const int wanted = compare_by(left, right, view->sort);
    const unsigned int one = row_rank(left->row), other = row_rank(right->row);
    const int worse = one < other ? -1 : one > other;
    const int first = view->sort == SORT_WORST ? worse : wanted;
    if (first != 0)
        return view->is_reversed ? -first : first;
    if (worse != 0)
        return worse;
    return left->order < right->order ? -1 : left->order > right->order;
}

void top_list_make(struct top_list *list, const struct top_sight *sight, struct top_view *view)
{
    top_list_free(list);
    list->at = allocate(sight->row_count, sizeof *list->at);
    for (size_t i = 0; i < sight->row_count; i++)
        if (passes(&sight->rows[i], view->filter))
            list->at[list->count++] = &sight->rows[i];
    if (list->count > 1)
        qsort_r(list->at, list->count, sizeof *list->at, compare, view);
    top_choose(list, view, 0);
}

void top_list_free(struct top_list *list)
{
    free(list->at);
    *list = (struct top_list){0};
}

/* --- the chosen one ----------------------------------------------------------------------------------------------- */

const struct top_row *top_chosen(const struct top_list *list, const struct top_view *view)
{
    return list->count > 0 ? list->at[view->chosen_index] : NULL;
}

void top_choose(const struct top_list *list, struct top_view *view, long step)
{
    if (list->count == 0)
        return; /* what was chosen may come back */
    const size_t last = list->count - 1;
    size_t index = view->chosen_index < last ? view->chosen_index : last;
    if (view->chosen == 0)
        index = 0;
    for (size_t i = 0; view->chosen != 0 && i < list->count; i++)
        if (list->at[i]->key == view->chosen)
            index = i;
    if (step < 0)
        index = index < (size_t)-step ? 0 : index - (size_t)-step;
    else
        index = last - index < (size_t)step ? last : index + (size_t)step;
    view->chosen_index = index;
    /* As long as nobody chose, the one at the top is shown, whichever that comes to be. */
    if (view->chosen != 0 || step != 0)
        view->chosen = list->at[index]->key;
}

void top_scroll(const struct top_list *list, struct top_view *view, size_t room)
{
    const size_t most = list->count > room ? list->count - room : 0;
    if (view->first > view->chosen_index)
        view->first = view->chosen_index;
    if (room > 0 && view->chosen_index >= view->first + room)
        view->first = view->chosen_index - room + 1;
    if (view->first > most)
        view->first = most;
}
