/*
 * fallback.c - where `fallback` leads. See fallback.h.
 */
#include "policy/fallback.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/complaint.h"
#include "policy/value.h"

#define EXPECTED "expected `address:port`, `[v6]:port`, `host:port`, `unix:/path`, or `none`"
#define LABEL_MAX 63u /* RFC 1035 */

_Static_assert(DESTINATION_MAX <= VALUE_TEXT_MAX, "any endpoint fits");

static bool read_port(const char *text, uint16_t *port)
{
    char *end;
    if (!isdigit((unsigned char)*text))
        return false;
    const unsigned long value = strtoul(text, &end, 10);
    if (*end != '\0' || value < 1 || value > UINT16_MAX)
        return false;
    *port = (uint16_t)value;
    return true;
}

/* Letters, digits, hyphens and underscores between dots; not what looks like an address and is none. */
static bool is_host_name(const char *name, size_t length)
{
    size_t label = 0;
    bool has_letter = false;
    if (length == 0 || length >= FALLBACK_HOST_MAX)
        return false;
    for (size_t i = 0; i < length; i++) {
        const unsigned char byte = (unsigned char)name[i];
        if (byte == '.' ? label == 0 : !isalnum(byte) && byte != '-' && byte != '_')
            return false;
        label = byte == '.' ? 0 : label + 1;
        has_letter = has_letter || isalpha(byte) != 0;
        if (label > LABEL_MAX)
            return false;
    }
    return has_letter;
}

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
    if (!is_host_name(text, (size_t)(colon - text)))
        return complain(why, EXPECTED);
    if (!read_port(colon + 1, &read.port))
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
