/*
 * top_look.c - reads for `sockfuse top` what the segments in use say now. See top_look.h.
 *
 * The folders are looked through at each look, so that new segments come and deleted ones go. What can't be read is
 * said by the parts that find it (on standard error, which top captures), and shown.
 */
#define _GNU_SOURCE
#include "cli/top_look.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "cli/capture.h"
#include "cli/cli.h"
#include "cli/reach.h"
#include "segment/journal.h"

/* So far back events of a circuit are looked for. */
#define EVENTS_LOOKED_AT 2048u
/* Of so many processes the kernel is asked as whom they run; of more it would take long. */
#define OWNERS_ASKED 128u

/* --- rows --------------------------------------------------------------------------------------------------------- */

/* The same for a circuit as long as its segment stands. */
static uint64_t key_of(const struct selected *selected, const struct row *row)
{
    uint64_t hash = hash_bytes(HASH_BEGIN, selected->identity, strlen(selected->identity) + 1);
    hash = hash_bytes(hash, &selected->segment.device, sizeof selected->segment.device);
    hash = hash_bytes(hash, &selected->segment.inode, sizeof selected->segment.inode);
    hash = hash_bytes(hash, row->target_name, strlen(row->target_name) + 1);
    hash = hash_spread(hash_bytes(hash, row->destination, strlen(row->destination) + 1));
    return hash != 0 ? hash : 1;
}

static bool is_wished(const struct top_look *look, const struct row *row)
{
    for (size_t i = 0; i < look->wish_count; i++)
        if (strcmp(row->target_name, look->wishes[i].text) == 0 ||
            strcmp(row->destination, look->wishes[i].destination) == 0)
            return true;
    return look->wish_count == 0;
}

static void add_rows(struct top_look *look, size_t place)
{
    const struct selected *selected = &look->selection.at[place];
    const struct rows *rows = &look->policies[place].rows;
    struct top_sight *sight = &look->sight;
    for (size_t i = 0; i < rows->count; i++) {
        const struct row *row = &rows->at[i];
        if (!is_wished(look, row))
            continue;
        sight->rows = grow(sight->rows, sight->row_count, sizeof *sight->rows);
        sight->rows[sight->row_count] = (struct top_row){
            .key = key_of(selected, row),
            .row = row,
            .policy = selected->identity,
            .whose = selected->whose != NULL ? selected->whose : "",
            .place = place,
            .order = sight->row_count,
        };
        sight->row_count++;
    }
}

/* --- notes -------------------------------------------------------------------------------------------------------- */

/* What status says in words below a policy's name, where something is to be known of it. */
static void note_policy(const struct selected *selected, const struct running *running)
{
    const char *whose = selected->whose != NULL ? selected->whose : "";
    const unsigned int behind = running_behind(running);
    uint64_t unguarded = 0;
    if (running->file == NULL && !running->ended)
        warnx("%s%s: the policy can't be read now: %s", selected->identity, whose, running->file_why);
    if (behind > 0)
        warnx("%s%s: the file was edited since; %u program%s by what it said before (sockfuse reload)",
              selected->identity, whose, behind, behind == 1 ? " goes" : "s go");
    if (selected->segment.map == NULL)
        return;
    for (unsigned int i = 0; i < NO_ROOM_KINDS; i++)
        unguarded += segment_no_room(&selected->segment, i);
    if (unguarded > 0)
        warnx("%s%s: %" PRIu64 " calls passed unguarded, for there was no room (capacity)", selected->identity, whose,
              unguarded);
    if (segment_apart(&selected->segment) > 0)
        warnx("%s%s: %" PRIu64 " calls were guarded apart, by circuits of single programs", selected->identity, whose,
              segment_apart(&selected->segment));
}

static void note_nothing(struct top_look *look)
{
    size_t size;
    FILE *out = open_text(&look->nothing, &size);
    if (look->wish_count > 0 && look->selection.count > 0)
        fputs("No policy in use has such a circuit or target yet; when one does, it is shown here.\n", out);
    else
        tell_nothing_in_use(&look->selection, out);
    close_text(out);
}

/* --- a look ------------------------------------------------------------------------------------------------------- */

static void forget_rows(struct top_look *look)
{
    for (size_t i = 0; i < look->selection.count; i++) {
        rows_free(&look->policies[i].rows);
        running_free(&look->policies[i].running);
    }
    free(look->policies);
    free(look->sight.rows);
    free(look->nothing);
    look->policies = NULL;
    look->sight.rows = NULL;
    look->sight.row_count = 0;
    look->nothing = NULL;
}

static void take_outcomes(struct top_look *look)
{
    static const unsigned int counters[OUTCOME_KINDS] = {
        [OUTCOME_SUCCEEDED] = COUNT_SUCCEEDED, [OUTCOME_FAILED] = COUNT_FAILED, [OUTCOME_REFUSED] = COUNT_REFUSED};
    struct top_sight *sight = &look->sight;
    struct outcome_sums *sums = allocate(sight->row_count, sizeof *sums);
    size_t count = 0;
    for (size_t i = 0; i < sight->row_count; i++) {
        if (!sight->rows[i].row->called)
            continue;
        sums[count].key = sight->rows[i].key;
        for (unsigned int j = 0; j < OUTCOME_KINDS; j++)
            sums[count].counts[j] = sight->rows[i].row->counts[counters[j]];
        count++;
    }
    /* Who was not there at the last look, which saw all, has counted since. */
    outcomes_take(&sight->outcomes, sums, count, !look->is_first && look->was_whole);
    free(sums);
}

/* False: not all of it could be read. */
static bool read_policy(struct top_look *look, size_t place)
{
    const struct selected *selected = &look->selection.at[place];
    struct top_policy *policy = &look->policies[place];
    if (!select_has_time(selected))
        return false;
    running_collect(&policy->running, selected);
    rows_collect_running(&policy->rows, &selected->segment, &policy->running, look->sight.now_ns);
    add_rows(look, place);
    note_policy(selected, &policy->running);
    return select_was_whole(selected);
}

bool top_look_begins(const struct top_look *look)
{
    struct selection selection;
    struct running running;
    bool is_good = true;
    if (look->choice.policy_file == NULL)
        return true;
    select_open(&selection, &look->choice, true);
    for (size_t i = 0; i < selection.count; i++) {
        running_collect(&running, &selection.at[i]);
        if (running.file == NULL && selection.at[i].segment.map == NULL) {
            warnx("%s: %s", selection.at[i].identity, running.file_why);
            is_good = false;
        }
        running_free(&running);
    }
    select_close(&selection);
    return is_good;
}

void top_look(struct top_look *look, bool is_tick)
{
    struct top_sight *sight = &look->sight;
    forget_rows(look);
    top_look_closer(look, NULL);
    select_close(&look->selection);
    select_open(&look->selection, &look->choice, false);
    select_warn_of_builds(&look->selection);
    sight->now_ns = clock_circuit_ns();
    sight->wall_ns = clock_wall_ns();
    look->policies = allocate(look->selection.count, sizeof *look->policies);
    bool is_whole = !select_missed(&look->selection);
    for (size_t i = 0; i < look->selection.count; i++)
        is_whole = read_policy(look, i) && is_whole;
    if (is_tick) {
        take_outcomes(look);
        look->is_first = false;
        look->was_whole = is_whole;
    }
    if (sight->row_count == 0)
        note_nothing(look);
    free(look->notes);
    look->notes = capture_take();
    sight->notes = look->notes;
    sight->nothing = look->nothing;
}

/* --- more of one -------------------------------------------------------------------------------------------------- */

static void forget_detail(struct top_look *look)
{
    inflight_free(&look->detail.calls);
    free(look->detail.program_names);
    look->detail = (struct top_detail){.events = look->events};
}

/* Those of this very circuit: another target's may be called as its destination is. */
static void keep_calls(struct inflight *calls, const struct row *row)
{
    size_t kept = 0;
    for (size_t i = 0; i < calls->count; i++)
        if (strcmp(calls->at[i].circuit->target, row->target_name) == 0 &&
            strcmp(calls->at[i].circuit->destination, row->destination) == 0)
            calls->at[kept++] = calls->at[i];
    calls->count = kept;
    inflight_sort(calls);
}

static void read_events(struct top_look *look, const struct segment *segment, const struct row *row)
{
    struct top_detail *detail = &look->detail;
    uint64_t oldest, head;
    if (look->events == NULL)
        look->events = detail->events = allocate(TOP_EVENTS, sizeof *look->events);
    journal_span(segment, &oldest, &head);
    for (uint64_t number = head;
         number > oldest && head - number < EVENTS_LOOKED_AT && detail->event_count < TOP_EVENTS;) {
        struct event *event = &detail->events[detail->event_count];
        number--;
        if (journal_read(segment, number, event) && strcmp(event->target, row->target_name) == 0 &&
            strcmp(event->destination, row->destination) == 0)
            detail->event_count++;
    }
}

static void name_programs(struct top_detail *detail, const struct running *running)
{
    struct naming naming = {0};
    detail->programs = running->process_count;
    for (size_t i = 0; i < running->process_count; i++)
        naming_add(&naming, &(struct attached){.view = running->processes[i]}, NULL);
    detail->program_names = copy_text(naming_text(&naming));
    naming_free(&naming);
}

void top_look_closer(struct top_look *look, const struct top_row *row)
{
    forget_detail(look);
    if (row == NULL)
        return;
    const struct segment *segment = &look->selection.at[row->place].segment;
    look->detail.key = row->key;
    name_programs(&look->detail, &look->policies[row->place].running);
    if (segment->map == NULL || !row->row->called)
        return;
    if (row->row->waiting.calls > 0)
        inflight_add(&look->detail.calls, segment, &look->selection.at[row->place], clock_circuit_ns());
    keep_calls(&look->detail.calls, row->row);
    if (look->detail.calls.owner_count <= OWNERS_ASKED)
        inflight_find_users(&look->detail.calls);
    read_events(look, segment, row->row);
}

void top_look_free(struct top_look *look)
{
    forget_rows(look);
    forget_detail(look);
    free(look->events);
    free(look->notes);
    outcomes_free(&look->sight.outcomes);
    select_close(&look->selection);
    *look = (struct top_look){.is_first = true};
}
