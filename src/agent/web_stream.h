/*
 * web_stream.h - the journals as a stream of server-sent events (HTML Standard, 9.2): each event as `events --json` has
 * it, with an id by which who was cut off goes on.
 *
 * The latest are kept for all readers; one who reads too slowly is told how many he missed. Ids are of one life of the
 * agent: who comes with another's is told so (`event: restarted`), and gets what is kept. Bounded memory.
 */
#ifndef SOCKFUSE_AGENT_WEB_STREAM_H
#define SOCKFUSE_AGENT_WEB_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/watched.h"

#define WEB_STREAM_KEPT 1024u

/* One who reads. */
struct web_reader {
    uint64_t next; /* number of the next event for him */
    char *piece;   /* what he is given right now */
    size_t length, at;
    bool is_to_be_kept; /* nothing has happened for a while: a line is sent, so that the connection is known to live */
};

/* An event of a journal, for all readers. */
void web_stream_add(const struct watched *watched, const struct event *event);

/* `last_id`: of Last-Event-ID, or NULL: from now on. */
void web_reader_start(struct web_reader *reader, const char *last_id);
/* The next bytes for him, at most so many; 0: there is nothing now. */
size_t web_reader_take(struct web_reader *reader, char *bytes, size_t size);
void web_reader_end(struct web_reader *reader);

#endif
