/*
 * support_redis.h - the few commands of Redis by which a fleet speaks, in plain memory and with a clock that the test sets.
 *
 * It keeps keys as Redis does: strings and sorted sets, each with an end. What it is asked beyond that it answers with an
 * error. tests/e2e/test_fleet_redis.py shows that the real one answers the same.
 */
#ifndef SOCKFUSE_TESTS_SUPPORT_REDIS_H
#define SOCKFUSE_TESTS_SUPPORT_REDIS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/fleet.h"

#define REDIS_KEYS 256u
#define REDIS_MEMBERS 64u
#define REDIS_TEXT 600u
#define REDIS_ITEMS 600u

struct redis_member {
    char name[REDIS_TEXT];
    uint64_t score;
};

struct redis_key {
    char name[REDIS_TEXT]; /* "": free */
    uint64_t end_ms;       /* 0: none */
    bool is_set;
    char value[REDIS_TEXT];
    struct redis_member *members;
    unsigned int count;
};

struct redis {
    uint64_t now_ms;
    bool forbids_scripts, is_replica;
    unsigned long executed, published;
    struct redis_key keys[REDIS_KEYS];
    /* Of the last reply. */
    struct fleet_reply items[REDIS_ITEMS];
    char texts[REDIS_ITEMS][REDIS_TEXT];
    unsigned int used;
};

struct redis *redis_start(void);
void redis_end(struct redis *redis);
void redis_empty(struct redis *redis);
/* What it answers; holds until the next command. */
struct fleet_reply redis_do(struct redis *redis, const struct fleet_command *command);
/* A string's value by the end of its key; NULL: there is none. */
const char *redis_value(struct redis *redis, const char *key_end);
void redis_put(struct redis *redis, const char *key_end, const char *value);
unsigned int redis_members(struct redis *redis, const char *key_end);
unsigned int redis_key_count(struct redis *redis);

/* A reply that outlives the next one. */
struct fleet_reply *redis_keep(const struct fleet_reply *reply);
void redis_drop(struct fleet_reply *reply);

#endif
