/*
 * check_value.h - what `health_check` may say: none, connect, a URL, or a command's words. Private to src/policy, but
 * for who makes the checks.
 */
#ifndef SOCKFUSE_POLICY_CHECK_VALUE_H
#define SOCKFUSE_POLICY_CHECK_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy_model.h"

enum check_kind { CHECK_NONE, CHECK_CONNECT, CHECK_HTTP, CHECK_COMMAND };

/* Copies a good value, its blanks made single. False: `why` says what is expected. */
bool check_parse(char value[HEALTH_CHECK_SIZE], const char *text, char *why, size_t why_size);

enum check_kind check_kind(const char *value);
/* The command's words, behind the first one. */
const char *check_command(const char *value);

/* A URL taken apart. */
struct check_url {
    char host[HEALTH_CHECK_SIZE]; /* a name or an address, without brackets; "": the destination itself */
    uint16_t port;                /* of the host */
    const char *path;             /* in the value: "/" at least, or "" for that */
};
/* Of a good value of CHECK_HTTP. */
void check_url(struct check_url *url, const char *value);
/* Whether the check goes to the circuit's own destination. */
bool check_needs_destination(const char *value);

#endif
