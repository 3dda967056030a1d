/*
 * fleet_words.h - values as they lie in a fleet's Redis: two words with a blank between them. Private to src/agent.
 *
 *     pause    LENGTH END    milliseconds, and the server's time
 *     lease    TOKEN END HOST    16 hexadecimal digits, and the server's time
 *     healed   TOKEN AT HOST
 *
 * The server's time is milliseconds since 1970 by its own clock. What is read may be anything.
 */
#ifndef SOCKFUSE_AGENT_FLEET_WORDS_H
#define SOCKFUSE_AGENT_FLEET_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/fleet.h"

#define FLEET_VALUE_MAX 64

/* A number that is all of the text, and no more than `most`. */
bool fleet_number_read(const char *text, size_t length, uint64_t most, uint64_t *number);
/* The first word in hexadecimal or decimal digits, the second one in decimal digits; false: it is no such value. */
bool fleet_value_read(const struct fleet_reply *reply, bool hexadecimal, uint64_t *first, uint64_t *second);
void fleet_value_write(char text[FLEET_VALUE_MAX], bool hexadecimal, uint64_t first, uint64_t second);
/* The third word, a host's number; 0: there is none. */
uint64_t fleet_value_host(const struct fleet_reply *reply);
/* A host's number, as sets have it; 0: it is none. */
uint64_t fleet_host_number(const char *text, size_t length);

/* A host's name: of plain bytes, none of them a blank; else "". */
void fleet_host_read(const char *text, size_t length, char name[FLEET_HOST_MAX]);

/* What was answered to TIME, in milliseconds; false: nothing that can be a time. */
bool fleet_time_read(const struct fleet_reply *reply, uint64_t *ms);

#endif
