/*
 * web_stream.c - the journals as a stream of server-sent events. See web_stream.h.
 */
#define _GNU_SOURCE
#include "agent/web_stream.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/clock.h"
#include "view/json.h"
#include "view/output.h"

static struct {
    char *at[WEB_STREAM_KEPT]; /* each as it is sent */
    uint64_t next;             /* number of the next one; the latest WEB_STREAM_KEPT are kept */
    uint64_t life;             /* of the agent */
} stream;

static uint64_t life(void)
{
    if (stream.life == 0)
        stream.life = clock_wall_ns() | 1;
    return stream.life;
}

static uint64_t oldest(void)
{
    return stream.next > WEB_STREAM_KEPT ? stream.next - WEB_STREAM_KEPT : 0;
}

/* As `sockfuse events --json` has it: the event's own object, with whose it is before its end. */
void web_stream_add(const struct watched *watched, const struct event *event)
{
    char line[EVENT_JSON_MAX], **place = &stream.at[stream.next % WEB_STREAM_KEPT];
    size_t size;
    const size_t length = event_json(event, line, sizeof line), end = strlen("}\n");
    if (length < end)
        return;
    free(*place);
    FILE *out = open_text(place, &size);
    fprintf(out, "id: %" PRIx64 "-%" PRIu64 "\ndata: %.*s,\"policy\":", life(), stream.next + 1, (int)(length - end),
            line);
    json_text(watched->selected->identity, out);
    fputs(",\"owner\":", out);
    json_text(watched->selected->user, out);
    fputs("}\n\n", out);
    close_text(out);
    stream.next++;
}

static void give(struct web_reader *reader, char *piece)
{
    free(reader->piece);
    reader->piece = piece;
    reader->length = strlen(piece);
    reader->at = 0;
}

/* An id has the number of the event behind it. */
static bool is_of_this_life(const char *id, uint64_t *next)
{
    char *end;
    if (strtoull(id, &end, 16) != life() || *end != '-')
        return false;
    return ascii_is_number(end + 1, next) && *next <= stream.next;
}

/* First comes an id, so that who is cut off before anything happens goes on from here, too. */
void web_reader_start(struct web_reader *reader, const char *last_id)
{
    const bool is_other = last_id != NULL && !is_of_this_life(last_id, &reader->next);
    *reader = (struct web_reader){.next = last_id == NULL ? stream.next : is_other ? oldest() : reader->next};
    give(reader, format_text("retry: 2000\nid: %" PRIx64 "-%" PRIu64 "\n%s\n", life(), reader->next,
                             is_other ? "event: restarted\ndata: {}\n" : ""));
}

/* The next piece; false: there is none now. */
static bool go_on(struct web_reader *reader)
{
    const uint64_t first = oldest();
    if (reader->next < first) {
        give(reader, format_text("event: missed\ndata: {\"missed\":%" PRIu64 "}\n\n", first - reader->next));
        reader->next = first;
    } else if (reader->next < stream.next) {
        give(reader, copy_text(stream.at[reader->next % WEB_STREAM_KEPT]));
        reader->next++;
    } else if (reader->is_to_be_kept) {
        give(reader, copy_text(":\n\n"));
    } else {
        return false;
    }
    reader->is_to_be_kept = false;
    return true;
}

size_t web_reader_take(struct web_reader *reader, char *bytes, size_t size)
{
    if (reader->at >= reader->length && !go_on(reader))
        return 0;
    const size_t left = reader->length - reader->at, taken = left < size ? left : size;
    memcpy(bytes, reader->piece + reader->at, taken);
    reader->at += taken;
    return taken;
}

void web_reader_end(struct web_reader *reader)
{
    free(reader->piece);
    *reader = (struct web_reader){.piece = NULL};
}
