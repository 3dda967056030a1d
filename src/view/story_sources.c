/*
 * story_sources.c - where a story's events come from.
 *
 * See story_sources.h.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <string.h>

#include "view/output.h"
#include "view/event_file.h"
#include "view/event_line.h"
#include "view/story_sources.h"
#include "segment/journal.h"

/* How the lines of a file were taken. */
struct taken {
    uint64_t line, bad_line; /* the present one; the first that is no event */
    uint64_t events, bad, unknown;
    bool full;
};

static void take_line(struct story *story, const char *text, size_t length, unsigned int source, uint64_t since_ns,
                      struct taken *taken)
{
    static struct event_line line;
    taken->line++;
    if (strspn(text, " \t\r\n") == length)
        return;
    switch (event_line_read(&line, text, length)) {
    case EVENT_LINE_GOOD:
        taken->events++;
        if (line.event.time_ns >= since_ns && !story_tell(story, &line.event, line.policy, line.owner, source))
            taken->full = true;
        break;
    case EVENT_LINE_UNKNOWN:
        taken->unknown++;
        break;
    case EVENT_LINE_BAD:
        taken->bad_line = taken->bad++ == 0 ? taken->line : taken->bad_line;
        break;
    }
}

static void tell_full(const char *name)
{
    warnx("%s: more than %u events: what comes after them is left out; --since TIME narrows it down", name,
          STORY_EVENTS_MAX);
}

/* False: there is nothing in it that could be told. */
static bool tell_taken(const char *name, const struct taken *taken)
{
    const bool any = taken->events + taken->unknown > 0;
    if (taken->full)
        tell_full(name);
    if (taken->unknown > 0)
        warnx("%s: %" PRIu64 " event%s of a newer sockfuse, left out", name, taken->unknown,
              taken->unknown == 1 ? "" : "s");
    if (taken->bad > 0 && any)
        warnx("%s:%" PRIu64 ": no event; %" PRIu64 " such line%s left out", name, taken->bad_line, taken->bad,
              taken->bad == 1 ? " is" : "s are");
    if (taken->bad > 0 && !any)
        warnx("%s:%" PRIu64 ": no event; a file as 'sockfuse events --json' writes it is expected", name,
              taken->bad_line);
    return any || taken->bad == 0;
}

bool story_read_file(struct story *story, const char *path, unsigned int source, uint64_t since_ns)
{
    struct event_file *file = event_file_open(path);
    struct taken taken = {0};
    if (file == NULL)
        return false;
    while (!taken.full && event_file_next(file))
        take_line(story, file->text, file->length, source, since_ns, &taken);
    const bool good = tell_taken(file->name, &taken);
    return event_file_close(file) && good;
}

/* False: there is no room for more. */
static bool read_journal(struct story *story, const struct selected *selected, uint64_t most, unsigned int source,
                         uint64_t since_ns)
{
    uint64_t oldest, head;
    journal_span(&selected->segment, &oldest, &head);
    if (head - oldest > most)
        oldest = head - most;
    for (uint64_t number = oldest; number < head; number++) {
        struct event event;
        if (journal_read(&selected->segment, number, &event) && event.time_ns >= since_ns &&
            !story_tell(story, &event, selected->identity, selected->user, source))
            return false;
    }
    return true;
}

bool story_read_journals(struct story *story, const struct selection *selection, uint64_t since_ns)
{
    bool whole = true;
    for (size_t i = 0; i < selection->count; i++) {
        const struct selected *selected = &selection->at[i];
        if (selected->segment.map == NULL)
            continue;
        const uint64_t most = select_events_most(selection, selected);
        if (!read_journal(story, selected, most, (unsigned int)i, since_ns))
            tell_full(selected->identity);
        whole = select_was_whole(selected) && whole;
    }
    return whole;
}
