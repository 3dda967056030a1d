/*
 * support_redis.c - a Redis in plain memory. See support_redis.h.
 */
#include "support_redis.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct redis *redis_start(void)
{
    struct redis *redis = calloc(1, sizeof *redis);

    if (redis == NULL)
        abort();
    redis->now_ms = UINT64_C(1800000000000);
    return redis;
}

static void key_free(struct redis_key *key)
{
    free(key->members);
    memset(key, 0, sizeof *key);
}

void redis_empty(struct redis *redis)
{
    for (unsigned int i = 0; i < REDIS_KEYS; i++)
        key_free(&redis->keys[i]);
}

void redis_end(struct redis *redis)
{
    redis_empty(redis);
    free(redis);
}

/* --- keys --- */

static struct redis_key *key_find(struct redis *redis, const char *name)
{
    for (unsigned int i = 0; i < REDIS_KEYS; i++) {
        struct redis_key *key = &redis->keys[i];
        if (key->name[0] != '\0' && key->end_ms != 0 && key->end_ms <= redis->now_ms)
            key_free(key);
        if (strcmp(key->name, name) == 0 && name[0] != '\0')
            return key;
    }
    return NULL;
}

static struct redis_key *key_make(struct redis *redis, const char *name)
{
    struct redis_key *key = key_find(redis, name);

    for (unsigned int i = 0; key == NULL && i < REDIS_KEYS; i++) {
        if (redis->keys[i].name[0] != '\0')
            continue;
        key = &redis->keys[i];
        snprintf(key->name, sizeof key->name, "%s", name);
    }
    if (key == NULL)
        abort();
    return key;
}

/* A key by the end of its name. */
static struct redis_key *key_ending(struct redis *redis, const char *end)
{
    for (unsigned int i = 0; i < REDIS_KEYS; i++) {
        const char *const name = redis->keys[i].name;
        const size_t length = strlen(name), wanted = strlen(end);
        if (length >= wanted && length > 0 && strcmp(name + length - wanted, end) == 0)
            return key_find(redis, name);
    }
    return NULL;
}

const char *redis_value(struct redis *redis, const char *key_end)
{
    const struct redis_key *const key = key_ending(redis, key_end);

    return key != NULL && !key->is_set ? key->value : NULL;
}

void redis_put(struct redis *redis, const char *key_end, const char *value)
{
    struct redis_key *key = key_ending(redis, key_end);

    if (key == NULL)
        key = key_make(redis, key_end);
    snprintf(key->value, sizeof key->value, "%s", value);
}

unsigned int redis_members(struct redis *redis, const char *key_end)
{
    const struct redis_key *const key = key_ending(redis, key_end);
    unsigned int count = 0;

    for (unsigned int i = 0; key != NULL && i < key->count; i++)
        count += key->members[i].score > redis->now_ms;
    return count;
}

unsigned int redis_key_count(struct redis *redis)
{
    unsigned int count = 0;

    for (unsigned int i = 0; i < REDIS_KEYS; i++)
        count += redis->keys[i].name[0] != '\0' && key_find(redis, redis->keys[i].name) != NULL;
    return count;
}

/* --- replies --- */

static struct fleet_reply nil(void)
{
    return (struct fleet_reply){.type = REPLY_NIL};
}

static struct fleet_reply count_of(int64_t number)
{
    return (struct fleet_reply){.type = REPLY_NUMBER, .number = number};
}

static struct fleet_reply text_of(struct redis *redis, enum fleet_reply_type type, const char *text)
{
    if (redis->used == REDIS_ITEMS)
        abort();
    char *const copy = redis->texts[redis->used++];
    snprintf(copy, REDIS_TEXT, "%s", text);
    return (struct fleet_reply){.type = type, .text = copy, .length = strlen(copy)};
}

static struct fleet_reply number_as_text(struct redis *redis, uint64_t number)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRIu64, number);
    return text_of(redis, REPLY_TEXT, text);
}

static struct fleet_reply list_of(struct redis *redis, unsigned int count)
{
    return (struct fleet_reply){.type = REPLY_LIST, .items = redis->items, .count = count};
}

/* --- commands --- */

/* The words of a command, each with an end. */
static unsigned int words_of(const struct fleet_command *command, char words[][REDIS_TEXT])
{
    for (unsigned int i = 0; i < command->count; i++) {
        if (command->lengths[i] >= REDIS_TEXT)
            abort();
        memcpy(words[i], command->words[i], command->lengths[i]);
        words[i][command->lengths[i]] = '\0';
    }
    return command->count;
}

static struct fleet_reply do_set(struct redis *redis, char words[][REDIS_TEXT], unsigned int count)
{
    uint64_t lasts_ms = 0;
    bool only_new = false;

    for (unsigned int i = 3; i < count; i++) {
        only_new = only_new || strcmp(words[i], "NX") == 0;
        if (strcmp(words[i], "PX") == 0)
            lasts_ms = strtoull(words[i + 1], NULL, 10);
    }
    if (lasts_ms == 0)
        return text_of(redis, REPLY_ERROR, "ERR invalid expire time in 'set' command");
    if (only_new && key_find(redis, words[1]) != NULL)
        return nil();
    struct redis_key *key = key_make(redis, words[1]);
    snprintf(key->value, sizeof key->value, "%s", words[2]);
    key->end_ms = redis->now_ms + lasts_ms;
    return text_of(redis, REPLY_TEXT, "OK");
}

static struct fleet_reply do_get(struct redis *redis, const char *name)
{
    const struct redis_key *const key = key_find(redis, name);

    return key != NULL && !key->is_set ? text_of(redis, REPLY_TEXT, key->value) : nil();
}

static struct fleet_reply do_add(struct redis *redis, char words[][REDIS_TEXT])
{
    struct redis_key *key = key_make(redis, words[1]);
    const uint64_t score = strtoull(words[2], NULL, 10);

    key->is_set = true;
    if (key->members == NULL)
        key->members = calloc(REDIS_MEMBERS, sizeof *key->members);
    for (unsigned int i = 0; i < key->count; i++) {
        if (strcmp(key->members[i].name, words[3]) == 0) {
            key->members[i].score = score;
            return count_of(0);
        }
    }
    if (key->members == NULL || key->count == REDIS_MEMBERS)
        abort();
    snprintf(key->members[key->count].name, REDIS_TEXT, "%s", words[3]);
    key->members[key->count++].score = score;
    return count_of(1);
}

static void member_drop(struct redis_key *key, unsigned int i)
{
    key->members[i] = key->members[--key->count];
    if (key->count == 0)
        key_free(key);
}

static struct fleet_reply do_remove(struct redis *redis, char words[][REDIS_TEXT])
{
    struct redis_key *key = key_find(redis, words[1]);

    for (unsigned int i = 0; key != NULL && i < key->count; i++) {
        if (strcmp(key->members[i].name, words[2]) == 0) {
            member_drop(key, i);
            return count_of(1);
        }
    }
    return count_of(0);
}

static uint64_t bound(const char *word)
{
    return strcmp(word, "-inf") == 0 ? 0 : strtoull(word, NULL, 10);
}

static struct fleet_reply do_range(struct redis *redis, char words[][REDIS_TEXT])
{
    const struct redis_key *const key = key_find(redis, words[1]);
    unsigned int count = 0;

    for (unsigned int i = 0; key != NULL && i < key->count; i++) {
        if (key->members[i].score < bound(words[2]) || key->members[i].score > bound(words[3]))
            continue;
        redis->items[count++] = text_of(redis, REPLY_TEXT, key->members[i].name);
        redis->items[count++] = number_as_text(redis, key->members[i].score);
    }
    return list_of(redis, count);
}

static struct fleet_reply do_count(struct redis *redis, char words[][REDIS_TEXT])
{
    const struct fleet_reply list = do_range(redis, words);

    return count_of((int64_t)list.count / 2);
}

static struct fleet_reply do_prune(struct redis *redis, char words[][REDIS_TEXT])
{
    struct redis_key *key = key_find(redis, words[1]);
    int64_t gone = 0;

    for (unsigned int i = 0; key != NULL && i < key->count;) {
        if (key->members[i].score < bound(words[2]) || key->members[i].score > bound(words[3])) {
            i++;
            continue;
        }
        member_drop(key, i);
        gone++;
    }
    return count_of(gone);
}

static struct fleet_reply do_script(struct redis *redis, char words[][REDIS_TEXT])
{
    struct redis_key *key = key_find(redis, words[3]);

    if (redis->forbids_scripts)
        return text_of(redis, REPLY_ERROR, "NOPERM this user has no permissions to run the 'eval' command");
    if (key == NULL || strcmp(key->value, words[4]) != 0)
        return count_of(0);
    key_free(key);
    return count_of(1);
}

static struct fleet_reply do_delete(struct redis *redis, char words[][REDIS_TEXT], unsigned int count)
{
    int64_t gone = 0;

    for (unsigned int i = 1; i < count; i++) {
        struct redis_key *key = key_find(redis, words[i]);
        if (key != NULL) {
            key_free(key);
            gone++;
        }
    }
    return count_of(gone);
}

static struct fleet_reply do_time(struct redis *redis)
{
    redis->items[0] = number_as_text(redis, redis->now_ms / 1000);
    redis->items[1] = number_as_text(redis, redis->now_ms % 1000 * 1000);
    return list_of(redis, 2);
}

static struct fleet_reply do_read(struct redis *redis, char words[][REDIS_TEXT], unsigned int count)
{
    for (unsigned int i = 1; i < count; i++)
        redis->items[i - 1] = do_get(redis, words[i]);
    return list_of(redis, count - 1);
}

static struct fleet_reply do_expire(struct redis *redis, char words[][REDIS_TEXT])
{
    struct redis_key *key = key_find(redis, words[1]);

    if (key != NULL)
        key->end_ms = redis->now_ms + strtoull(words[2], NULL, 10);
    return count_of(key != NULL);
}

static bool is_write(const char *verb)
{
    static const char *const writes[] = {"SET", "ZADD", "ZREM", "ZREMRANGEBYSCORE", "DEL", "PEXPIRE", "EVAL"};

    for (unsigned int i = 0; i < sizeof writes / sizeof *writes; i++) {
        if (strcmp(verb, writes[i]) == 0)
            return true;
    }
    return false;
}

struct fleet_reply redis_do(struct redis *redis, const struct fleet_command *command)
{
    static char words[64][REDIS_TEXT];
    const unsigned int count = words_of(command, words);
    const char *const verb = words[0];

    redis->used = 0;
    redis->executed++;
    if (redis->is_replica && is_write(verb))
        return text_of(redis, REPLY_ERROR, "READONLY You can't write against a read only replica.");
    if (strcmp(verb, "TIME") == 0)
        return do_time(redis);
    if (strcmp(verb, "GET") == 0)
        return do_get(redis, words[1]);
    if (strcmp(verb, "MGET") == 0)
        return do_read(redis, words, count);
    if (strcmp(verb, "SET") == 0)
        return do_set(redis, words, count);
    if (strcmp(verb, "DEL") == 0)
        return do_delete(redis, words, count);
    if (strcmp(verb, "ZADD") == 0)
        return do_add(redis, words);
    if (strcmp(verb, "ZREM") == 0)
        return do_remove(redis, words);
    if (strcmp(verb, "ZCOUNT") == 0)
        return do_count(redis, words);
    if (strcmp(verb, "ZRANGEBYSCORE") == 0)
        return do_range(redis, words);
    if (strcmp(verb, "ZREMRANGEBYSCORE") == 0)
        return do_prune(redis, words);
    if (strcmp(verb, "PEXPIRE") == 0)
        return do_expire(redis, words);
    if (strcmp(verb, "EVAL") == 0)
        return do_script(redis, words);
    if (strcmp(verb, "PUBLISH") == 0)
        return count_of((int64_t)++redis->published);
    return text_of(redis, REPLY_ERROR, "ERR unknown command");
}

struct fleet_reply *redis_keep(const struct fleet_reply *reply)
{
    struct fleet_reply *kept = calloc(1 + reply->count, sizeof *kept);

    if (kept == NULL)
        abort();
    kept[0] = *reply;
    kept[0].items = kept + 1;
    for (size_t i = 0; i < reply->count; i++)
        kept[1 + i] = reply->items[i];
    for (size_t i = 0; i < 1 + reply->count; i++) {
        if (kept[i].text != NULL)
            kept[i].text = strndup(kept[i].text, kept[i].length);
    }
    return kept;
}

void redis_drop(struct fleet_reply *reply)
{
    for (size_t i = 0; i < 1 + reply->count; i++)
        free((char *)(uintptr_t)reply[i].text);
    free(reply);
}
