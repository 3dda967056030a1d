/*
 * top_outcomes.c - how the calls of each circuit ended lately. See top_outcomes.h.
 */
#include "cli/top_outcomes.h"

#include <stdlib.h>

#include "cli/cli.h"

#define LEVELS 8u
#define LOWEST_BLOCK 0x2581u /* and the seven behind it are higher by an eighth each */

static int compare(const void *a, const void *b)
{
    const struct outcomes *left = a, *right = b;
    return left->last.key < right->last.key ? -1 : left->last.key > right->last.key;
}

const struct outcomes *outcomes_of(const struct outcomes_set *set, uint64_t key)
{
    const struct outcomes wanted = {.last.key = key};
    return set->count > 0 ? bsearch(&wanted, set->at, set->count, sizeof *set->at, compare) : NULL;
}

static void add_tick(struct outcomes *outcomes, const struct outcome_sums *sums)
{
    /* Counters that went back belong to a circuit that was forgotten and made anew. */
    bool is_anew = false;
    for (unsigned int i = 0; i < OUTCOME_KINDS; i++)
        is_anew = is_anew || sums->counts[i] < outcomes->last.counts[i];
    for (unsigned int i = 0; i < OUTCOME_KINDS; i++) {
        const uint64_t more = sums->counts[i] - (is_anew ? 0 : outcomes->last.counts[i]);
        outcomes->ticks[outcomes->next][i] = more < UINT32_MAX ? (uint32_t)more : UINT32_MAX;
    }
    outcomes->next = (outcomes->next + 1) % OUTCOME_TICKS;
    outcomes->known += outcomes->known < OUTCOME_TICKS;
}

void outcomes_take(struct outcomes_set *set, const struct outcome_sums *sums, size_t count, bool new_is_whole)
{
    struct outcomes *now = allocate(count, sizeof *now);
    for (size_t i = 0; i < count; i++) {
        const struct outcomes *before = outcomes_of(set, sums[i].key);
        if (before != NULL)
            now[i] = *before;
        if (before != NULL || new_is_whole)
            add_tick(&now[i], &sums[i]);
        now[i].last = sums[i];
    }
    if (count > 0)
        qsort(now, count, sizeof *now, compare);
    outcomes_free(set);
    *set = (struct outcomes_set){now, count};
}

void outcomes_free(struct outcomes_set *set)
{
    free(set->at);
    *set = (struct outcomes_set){0};
}

/* The tick so many before the newest. */
static const uint32_t *tick_before(const struct outcomes *outcomes, uint32_t ago)
{
    return outcomes->ticks[(outcomes->next + OUTCOME_TICKS - 1 - ago) % OUTCOME_TICKS];
}

static uint64_t sum_of(const uint32_t *tick)
{
    uint64_t sum = 0;
    for (unsigned int i = 0; i < OUTCOME_KINDS; i++)
        sum += tick[i];
    return sum;
}

static void draw_tick(struct canvas *canvas, int row, int column, const uint32_t *tick, uint64_t most)
{
    static const char heights[] = "..::++##"; /* where there are no blocks */
    const uint64_t sum = sum_of(tick);
    if (sum == 0)
        return;
    const uint32_t level = (uint32_t)((sum * LEVELS - 1) / most); /* one that is not empty is seen */
    const bool failed = tick[OUTCOME_FAILED] > 0, refused = !failed && tick[OUTCOME_REFUSED] > 0;
    const unsigned int style = failed ? STYLE_RED : refused ? STYLE_YELLOW : STYLE_GREEN;
    const bool as_letter = (failed || refused) && (!canvas->takes_colour || !canvas->takes_utf8);
    const char letter = failed ? 'x' : '-';
    if (as_letter)
        canvas_put_sign(canvas, row, column, style, (unsigned char)letter, letter);
    else
        canvas_put_sign(canvas, row, column, style, LOWEST_BLOCK + level, heights[level]);
}

void outcomes_draw(const struct outcomes *outcomes, struct canvas *canvas, int row, int column, int room)
{
    uint64_t most = 0;
    uint32_t shown_ticks = room > 0 ? (uint32_t)room : 0;
    if (outcomes == NULL)
        return;
    if (shown_ticks > outcomes->known)
        shown_ticks = outcomes->known;
    for (uint32_t ago = 0; ago < shown_ticks; ago++) {
        const uint64_t sum = sum_of(tick_before(outcomes, ago));
        most = sum > most ? sum : most;
    }
    for (uint32_t ago = 0; ago < shown_ticks; ago++)
        draw_tick(canvas, row, column + room - 1 - (int)ago, tick_before(outcomes, ago), most);
}
