/*
 * redis_line_model.h - what a line to a Redis consists of. Private to src/agent.
 */
#ifndef SOCKFUSE_AGENT_REDIS_LINE_MODEL_H
#define SOCKFUSE_AGENT_REDIS_LINE_MODEL_H

#include <hiredis/hiredis.h>

#include "agent/name_lookup.h"
#include "agent/redis_line.h"
#include "agent/redis_tls.h"

enum line_state { LINE_WAITS, LINE_ASKS, LINE_CONNECTS, LINE_SHAKES, LINE_GREETS, LINE_STANDS };

struct redis_line {
    struct ev_loop *loop;
    struct redis_url url;
    struct redis_line_events events;
    enum line_state state;
    struct lookup lookup;
    unsigned int next_address;
    ev_io readable, writable; /* of one descriptor; -1: none */
    struct redis_tls *tls;    /* of this connection; NULL: none */
    ev_timer timer;           /* the pause, or the limit of what is going on */
    double pause_s;
    uint64_t random;
    redisReader *reader; /* of this connection */
    redisReplyObjectFunctions functions;
    char *unsent; /* as far as the kernel has not taken it */
    size_t unsent_length, unsent_size;
    uint32_t *tags; /* of what was not answered yet: a ring */
    uint32_t tag_first, tag_count;
    unsigned int greetings; /* not answered yet */
    bool is_given_up;       /* the connection is ended when what goes on with it is over */
    char trouble[160];
};

/* What is wrong, in words; `detail` may come from the server. */
void redis_line_tell(struct redis_line *line, const char *what, const char *detail);

/* What is written and read (redis_speech.c). The connection is new: what it is asked, and who we are. */
bool redis_speech_begins(struct redis_line *line);
void redis_speech_greet(struct redis_line *line);
void redis_speech_ends(struct redis_line *line);
/* What could not be sent yet; what has come. False: the connection is over. */
bool redis_speech_flush(struct redis_line *line);
bool redis_speech_take(struct redis_line *line, const char *bytes, size_t count);
/* Of what was over: it was too much, and no fault of grammar. */
bool redis_speech_is_excessive(const struct redis_line *line);

#endif
