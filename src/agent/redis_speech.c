/*
 * redis_speech.c - one connection to a Redis: what is written and read. See redis_line.h.
 */
#define _GNU_SOURCE
#include "agent/redis_line.h"

#include <stdlib.h>
#include <string.h>

#ifdef SOCKFUSE_HIREDIS

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

#include "agent/redis_line_model.h"

#define UNREAD_MAX ((size_t)1 << 20)
#define UNSENT_MAX ((size_t)1 << 23)
#define UNANSWERED_MAX 65536u
#define LIST_MAX 4096
/* Of a greeting's answer. */
#define TAG_GREETING UINT32_MAX

/* --- what is sent --- */

static bool make_room(struct redis_line *line, size_t more)
{
    const size_t needed = line->unsent_length + more;
    size_t size = line->unsent_size != 0 ? line->unsent_size : 4096;

    if (needed > UNSENT_MAX)
        return false;
    while (size < needed)
        size *= 2;
    if (size == line->unsent_size)
        return true;
    char *grown = realloc(line->unsent, size);
    if (grown == NULL)
        return false;
    line->unsent = grown;
    line->unsent_size = size;
    return true;
}

static bool note_tag(struct redis_line *line, uint32_t tag)
{
    if (line->tags == NULL)
        line->tags = malloc(UNANSWERED_MAX * sizeof *line->tags);
    if (line->tags == NULL || line->tag_count == UNANSWERED_MAX)
        return false;
    line->tags[(line->tag_first + line->tag_count++) % UNANSWERED_MAX] = tag;
    return true;
}

static void send_words(struct redis_line *line, uint32_t tag, unsigned int count, const char *const *words,
                       const size_t *lengths)
{
    char *command = NULL;
    const int length = (int)redisFormatCommandArgv(&command, (int)count, (const char **)(uintptr_t)words, lengths);

    if (length > 0 && make_room(line, (size_t)length) && note_tag(line, tag)) {
        memcpy(line->unsent + line->unsent_length, command, (size_t)length);
        line->unsent_length += (size_t)length;
        ev_io_start(line->loop, &line->writable);
    } else {
        redis_line_give_up(line, "it takes nothing");
    }
    if (command != NULL)
        redisFreeCommand(command);
}

void redis_line_send(struct redis_line *line, const struct fleet_command *command)
{
    if (line->state == LINE_STANDS && !line->is_given_up)
        send_words(line, command->tag, command->count, command->words, command->lengths);
}

bool redis_speech_flush(struct redis_line *line)
{
    const ssize_t sent = line->tls != NULL ? redis_tls_send(line->tls, line->unsent, line->unsent_length)
                                           : send(line->writable.fd, line->unsent, line->unsent_length, MSG_NOSIGNAL);

    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) {
        /* What TLS has to read first: until then there is room to write, and nothing to do. */
        if (line->tls != NULL && redis_tls_needs(line->tls) == TLS_READABLE)
            ev_io_stop(line->loop, &line->writable);
        return true;
    }
    if (sent < 0)
        return false;
    line->unsent_length -= (size_t)sent;
    memmove(line->unsent, line->unsent + sent, line->unsent_length);
    if (line->unsent_length == 0)
        ev_io_stop(line->loop, &line->writable);
    return true;
}

void redis_speech_greet(struct redis_line *line)
{
    const struct redis_url *const url = &line->url;
    const bool has_user = url->user[0] != '\0';
    const char *const login[] = {"AUTH", has_user ? url->user : url->password, url->password};
    const size_t login_lengths[] = {4, strlen(login[1]), strlen(login[2])};
    char database[16];
    const char *const select[] = {"SELECT", database}, *const ping[] = {"PING"};
    const size_t select_lengths[] = {6, (size_t)snprintf(database, sizeof database, "%u", url->database)};

    line->state = LINE_GREETS;
    line->greetings = url->has_password + 1u;
    if (url->has_password)
        send_words(line, TAG_GREETING, has_user ? 3 : 2, login, login_lengths);
    if (url->database != 0)
        send_words(line, TAG_GREETING, 2, select, select_lengths);
    else
        send_words(line, TAG_GREETING, 1, ping, (const size_t[]){4});
}

/* --- what is answered --- */

/* The reader makes room for as many items as it is told of before one has come. */
static redisReplyObjectFunctions *usual_functions;
#if HIREDIS_MAJOR >= 1
static void *create_list(const redisReadTask *task, size_t count)
#else
static void *create_list(const redisReadTask *task, int count)
#endif
{
    return count <= LIST_MAX ? usual_functions->createArray(task, count) : NULL;
}

static struct fleet_reply simple_reply(const redisReply *reply)
{
    switch (reply->type) {
    case REDIS_REPLY_INTEGER:
        return (struct fleet_reply){.type = REPLY_NUMBER, .number = reply->integer};
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
        return (struct fleet_reply){.type = REPLY_TEXT, .text = reply->str, .length = (size_t)reply->len};
    case REDIS_REPLY_ERROR:
        return (struct fleet_reply){.type = REPLY_ERROR, .text = reply->str, .length = (size_t)reply->len};
    default:
        return (struct fleet_reply){.type = REPLY_NIL}; /* a list in a list is none that was asked for */
    }
}

static void take_greeting(struct redis_line *line, const struct fleet_reply *reply)
{
    char said[80];
    const size_t length = reply->length < sizeof said ? reply->length : sizeof said - 1;

    if (reply->type == REPLY_ERROR) {
        memcpy(said, reply->text, length);
        said[length] = '\0';
        redis_line_give_up(line, "it refuses");
        redis_line_tell(line, "it refuses", said);
    } else if (--line->greetings == 0) {
        line->state = LINE_STANDS;
        line->trouble[0] = '\0';
        ev_timer_stop(line->loop, &line->timer);
        line->events.stands(line->events.context);
    }
}

static void take_reply(struct redis_line *line, const redisReply *reply)
{
    static struct fleet_reply items[LIST_MAX];
    struct fleet_reply said = simple_reply(reply);

    if (reply->type == REDIS_REPLY_ARRAY) {
        for (size_t i = 0; i < reply->elements; i++)
            items[i] = simple_reply(reply->element[i]);
        said = (struct fleet_reply){.type = REPLY_LIST, .items = items, .count = reply->elements};
    }
    if (line->tag_count == 0) {
        if (line->events.message != NULL && line->state == LINE_STANDS)
            line->events.message(line->events.context, &said);
        else
            redis_line_give_up(line, "it answers what it was not asked");
        return;
    }
    const uint32_t tag = line->tags[line->tag_first];
    line->tag_first = (line->tag_first + 1) % UNANSWERED_MAX;
    line->tag_count--;
    if (tag == TAG_GREETING)
        take_greeting(line, &said);
    else
        line->events.answer(line->events.context, tag, &said);
}

bool redis_speech_take(struct redis_line *line, const char *bytes, size_t count)
{
    void *reply = NULL;

    if (redisReaderFeed(line->reader, bytes, count) != REDIS_OK)
        return false;
    while (!line->is_given_up) {
        if (redisReaderGetReply(line->reader, &reply) != REDIS_OK)
            return false;
        if (reply == NULL)
            break;
        take_reply(line, reply);
        freeReplyObject(reply);
    }
    if (line->reader->len > UNREAD_MAX)
        redis_line_give_up(line, "it answers more than can be meant");
    return true;
}

bool redis_speech_is_excessive(const struct redis_line *line)
{
    return line->reader->err == REDIS_ERR_OOM;
}

bool redis_speech_begins(struct redis_line *line)
{
    line->reader = redisReaderCreate();
    if (line->reader == NULL)
        return false;
    usual_functions = line->reader->fn;
    line->functions = *usual_functions;
    line->functions.createArray = create_list;
    line->reader->fn = &line->functions;
    return true;
}

/* A password may have been in it. */
void redis_speech_ends(struct redis_line *line)
{
    if (line->reader != NULL)
        redisReaderFree(line->reader);
    line->reader = NULL;
    if (line->unsent != NULL)
        explicit_bzero(line->unsent, line->unsent_size);
    line->unsent_length = 0;
    line->tag_first = line->tag_count = 0;
}

#endif
