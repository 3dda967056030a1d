/*
 * fallback.c - where `fallback` leads. See fallback.h.
 */
#include "policy/fallback.h"

#include <stdio.h>
#include <string.h>

#include "policy/complaint.h"
#include "policy/pattern.h"
#include "policy/value.h"

#define EXPECTED "expected `address:port`, `[v6]:port`, `host:port`, `unix:/path`, or `none`"

_Static_assert(DESTINATION_MAX <= VALUE_TEXT_MAX, "any endpoint fits");

bool fallback_parse(struct fallback *fallback, const char *text, char *why_text, size_t why_size)
{
    const struct complaint why = {why_text, why_size};
    struct fallback read = {.port = 0};
    if (strcmp(text, "none") == 0) {
        *fallback = read;
        return true;
    }
    if (endpoint_parse(&read.at[0], text)) {
        if (read.at[0].family != ENDPOINT_UNIX && read.at[0].port == 0)
            return complain(why, "a port from 1 to %u is expected behind the address", UINT16_MAX);
        *fallback = read;
        return true;
    }
    if (strncmp(text, "unix:", 5) == 0)
        return complain(why, "expected a path of 1 to %d bytes behind `unix:`", ENDPOINT_PATH_MAX);
    const char *colon = strrchr(text, ':');
    if (colon == NULL)
        return complain(why, "the port is missing; " EXPECTED);
    if (!pattern_is_host_name(text, (size_t)(colon - text)))
        return complain(why, EXPECTED);
    if (!endpoint_parse_port(colon + 1, &read.port) || read.port == 0)
        return complain(why, "`%.40s` is no port; expected a number from 1 to %u", colon + 1, UINT16_MAX);
    memcpy(read.host, text, (size_t)(colon - text));
    *fallback = read;
    return true;
}

void fallback_format(const struct fallback *fallback, char *text, size_t size)
{
    if (fallback->host[0] != '\0')
        snprintf(text, size, "%s:%u", fallback->host, fallback->port);
    else if (fallback->at[0].family == ENDPOINT_NONE)
        snprintf(text, size, "none");
    else
        endpoint_format(&fallback->at[0], text, size);
}
