/*
 * events.c - `sockfuse events`: the journals of the policies in use as one story, in the order of time; with -f it
 * goes on.
 *
 * Reads the rings of all selected segments; a ring that laps the reader loses events, which is said. With -f it looks
 * again ten times a second on the real clock, and ends when nobody reads its output any more.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/date.h"
#include "cli/cli.h"
#include "view/duration.h"
#include "view/event_print.h"
#include "cli/follow.h"
#include "view/json.h"
#include "view/select.h"
#include "view/selected_policy.h"
#include "segment/event.h"
#include "segment/journal.h"

static const char help[] =
    "Usage: sockfuse events [-f] [--json] [--since TIME] [-p FILE]\n"
    "Shows the journal: failures, and when and why circuits opened, probed and closed.\n"
    "\n"
    "  -f, --follow       go on with what happens from now on\n"
    "      --json         one JSON object a line\n"
    "      --since TIME   only what happened since TIME: 5m (ago), or 2026-02-03T04:05:06Z\n"
    "  -p, --policy FILE  only that of this policy\n" WHOSE_HELP "  -h, --help         this text\n"
    "      --version      the version\n";

#define POLL_MS 100
/* Every so many polls: look for new segments, and for files that were replaced. */
#define POLLS_PER_LOOK 10

struct wish {
    struct whose choice;
    bool follow, as_json;
    uint64_t since_ns; /* wall clock */
    struct event_columns columns;
};

/* How far a segment's journal was read. */
struct reader {
    uint64_t device, inode;
    uint64_t next;               /* number of the next event */
    bool started;                /* it was read before: events that are gone now are missed */
    bool waited;                 /* it could not be read at the last look: perhaps it was just being written */
    uint64_t missed, first, end; /* so many from `first` to before `end` were overwritten, and it was not said yet */
};
struct readers {
    struct reader *at; /* one for each segment of the selection, in its order */
    size_t count;
};

struct entry {
    struct event event;
    const struct selected *of;
};
struct batch {
    struct entry *at;
    size_t count;
};

static void batch_add(struct batch *batch, const struct event *event, const struct selected *of)
{
    batch->at = grow(batch->at, batch->count, sizeof *batch->at);
    batch->at[batch->count++] = (struct entry){*event, of};
}

static void miss(struct reader *reader, uint64_t from, uint64_t end)
{
    if (reader->missed == 0)
        reader->first = from;
    reader->missed += end - from;
    reader->end = end;
}

/* People count from 1. Of several pieces at once the whole is named, with how many of it there are. */
static void tell_missed(struct reader *reader, const struct selected *of, bool as_json)
{
    const uint64_t first = reader->first + 1, last = reader->end, missed = reader->missed;
    const uint32_t journal = of->segment.capacity.events;
    char time[32], some[48] = "";
    reader->missed = 0;
    if (!as_json) {
        if (missed != last - first + 1)
            snprintf(some, sizeof some, "%" PRIu64 " of the ", missed);
        warnx("%s: %sevents %" PRIu64 " to %" PRIu64 " were overwritten before they could be read: journal = %" PRIu32
              " events is too small",
              of->identity, some, first, last, journal);
        return;
    }
    time_rfc3339(clock_wall_ns(), time, sizeof time);
    printf("{\"time\":\"%s\",\"event\":\"missed\",\"from\":%" PRIu64 ",\"to\":%" PRIu64 ",\"missed\":%" PRIu64
           ",\"journal\":%" PRIu32 ",\"policy\":",
           time, first, last, missed, journal);
    json_text(of->identity, stdout);
    fputs(",\"owner\":", stdout);
    json_text(of->user, stdout);
    fputs("}\n", stdout);
}

/*
 * Reads what is new in one journal. An event that can't be read yet is waited for once: its writer may be at it, or
 * dead.
 */
static void read_journal(const struct selected *selected, uint64_t most, struct reader *reader, bool wait,
                         uint64_t since_ns, struct batch *batch)
{
    const struct segment *segment = &selected->segment;
    uint64_t oldest, head;
    journal_span(segment, &oldest, &head);
    if (head - oldest > most)
        oldest = head - most;
    if (reader->next < oldest) {
        if (reader->started)
            miss(reader, reader->next, oldest);
        reader->next = oldest;
    }
    if (reader->next > head) /* another journal under the same numbers of device and inode */
        reader->next = oldest;
    reader->started = true;
    while (reader->next < head) {
        struct event event;
        if (journal_read(segment, reader->next, &event)) {
            if (event.time_ns >= since_ns)
                batch_add(batch, &event, selected);
        } else if (reader->next < journal_oldest(segment)) {
            miss(reader, reader->next, reader->next + 1); /* just now */
        } else if (wait && !reader->waited) {
            reader->waited = true;
            return;
        }
        reader->waited = false;
        reader->next++;
    }
}

/* A stable sort needs the place as the second key: events of one journal keep their order. */
struct place {
    const struct entry *entry;
    size_t index;
};

static int compare(const void *a, const void *b)
{
    const struct place *left = a, *right = b;
    const uint64_t one = left->entry->event.time_ns, other = right->entry->event.time_ns;
    if (one != other)
        return one < other ? -1 : 1;
    return left->index < right->index ? -1 : left->index > right->index;
}

/* The event's own object, with whose it is before its end. */
static void print_json(const struct entry *entry)
{
    char line[EVENT_JSON_MAX];
    const char *end = "}\n";
    const size_t length = event_json(&entry->event, line, sizeof line);
    if (length < strlen(end))
        return;
    fwrite(line, 1, length - strlen(end), stdout);
    fputs(",\"policy\":", stdout);
    json_text(entry->of->identity, stdout);
    fputs(",\"owner\":", stdout);
    json_text(entry->of->user, stdout);
    fputs(end, stdout);
}

/* Behind what happened stands which policy's and whose it is, where there are several. */
static void print_text(struct event_columns *columns, const struct entry *entry)
{
    /* " under POLICY" is no part of what happened; " (user NAME)" stands by itself. */
    char *behind = format_text("%s%s", strncmp(entry->of->which, " under", 6) == 0 ? "," : "", entry->of->which);
    event_columns_print(columns, &entry->event, behind);
    free(behind);
}

/* The columns are as wide as any event so far needs them. */
static void print_batch(const struct batch *batch, struct event_columns *columns, bool as_json)
{
    struct place *places = allocate(batch->count, sizeof *places);
    for (size_t i = 0; i < batch->count; i++)
        places[i] = (struct place){&batch->at[i], i};
    qsort(places, batch->count, sizeof *places, compare);
    for (size_t i = 0; i < batch->count && !as_json; i++)
        event_columns_fit(columns, &batch->at[i].event);
    for (size_t i = 0; i < batch->count && ferror(stdout) == 0; i++) {
        if (as_json)
            print_json(places[i].entry);
        else
            print_text(columns, places[i].entry);
    }
    free(places);
}

/* One look at all journals; what is new is printed and flushed. False: not all could be read as they are. */
static bool look(const struct selection *selection, struct readers *readers, struct wish *wish)
{
    struct batch batch = {0};
    bool whole = true;
    for (size_t i = 0; i < selection->count; i++) {
        const struct selected *selected = &selection->at[i];
        if (selected->segment.map == NULL)
            continue;
        read_journal(selected, select_events_most(selection, selected), &readers->at[i], wish->follow, wish->since_ns,
                     &batch);
        whole = select_was_whole(selected) && whole;
        if (readers->at[i].missed > 0)
            tell_missed(&readers->at[i], selected, wish->as_json);
    }
    print_batch(&batch, &wish->columns, wish->as_json);
    flush_output();
    free(batch.at);
    return whole;
}

/* Opens the segments, and goes on where those that were open before had been read to. */
static void reopen(struct selection *selection, struct readers *readers, const struct wish *wish, bool quiet)
{
    struct readers before = *readers;
    select_close(selection);
    select_open(selection, &wish->choice, quiet);
    readers->count = selection->count;
    readers->at = allocate(readers->count, sizeof *readers->at);
    for (size_t i = 0; i < readers->count; i++) {
        const struct segment *segment = &selection->at[i].segment;
        readers->at[i] = (struct reader){.device = segment->device, .inode = segment->inode};
        for (size_t j = 0; segment->map != NULL && j < before.count; j++) {
            if (before.at[j].device == segment->device && before.at[j].inode == segment->inode)
                readers->at[i] = before.at[j];
        }
    }
    free(before.at);
}

static void tell_unused(const struct selection *selection, const struct wish *wish)
{
    for (size_t i = 0; i < selection->count; i++)
        if (selection->at[i].segment.map != NULL)
            return;
    if (wish->choice.policy_file == NULL)
        tell_nothing_in_use(selection, stderr);
    else
        fprintf(stderr, "%s is not in use yet: it has no journal.\n", shown(wish->choice.policy_file));
}

static int show(struct wish *wish)
{
    struct selection selection = {0};
    struct readers readers = {0};
    event_columns_start(&wish->columns, stdout, 0, false);
    reopen(&selection, &readers, wish, false);
    select_warn_of_builds(&selection);
    const bool missed = select_missed(&selection), known = policies_are_known(&selection);
    if (known && !wish->as_json)
        tell_unused(&selection, wish);
    bool whole = look(&selection, &readers, wish) && known;
    for (unsigned int polls = 1; known && wish->follow && follow_wait(POLL_MS); polls++) {
        if (polls % POLLS_PER_LOOK == 0) {
            whole = look(&selection, &readers, wish) && whole; /* the last words of a segment that is gone by now */
            reopen(&selection, &readers, wish, true);
        }
        whole = look(&selection, &readers, wish) && whole;
    }
    const int status = missed || select_missed(&selection) ? EXIT_FAILURE : EXIT_SUCCESS;
    select_close(&selection);
    free(readers.at);
    return finish_output(whole ? status : EXIT_FAILURE);
}

int command_events(int argc, char **argv)
{
    static const struct option options[] = {
        COMMON_OPTIONS,
        WHOSE_OPTIONS,
        {"follow", no_argument, NULL, 'f'},
        {"json", no_argument, NULL, OPTION_JSON},
        {"since", required_argument, NULL, OPTION_SINCE},
        {NULL, 0, NULL, 0},
    };
    struct wish wish = {0};
    int letter;
    while ((letter = getopt_long(argc, argv, "hf" WHOSE_LETTERS, options, NULL)) != -1) {
        if (whose_take(&wish.choice, letter, optarg))
            continue;
        switch (letter) {
        case 'f':
            wish.follow = true;
            break;
        case OPTION_JSON:
            wish.as_json = true;
            break;
        case OPTION_SINCE:
            if (!since_parse(optarg, clock_wall_ns(), &wish.since_ns)) {
                warnx("--since %s: a span such as 5m, or a time such as 2026-02-03T04:05:06Z is expected", optarg);
                return usage_error("events");
            }
            break;
        default:
            return common_option("events", help, letter);
        }
    }
    if (optind < argc)
        return unexpected_word("events", argv[optind]);
    return show(&wish);
}
