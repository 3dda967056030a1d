/*
 * listen_address.c - where the agent is to be asked over HTTP. See listen_address.h.
 */
#include "policy/listen_address.h"

#include <string.h>

#include "base/ascii.h"
#include "policy/complaint.h"

static const uint8_t own_ipv6[16] = {[15] = 1};

bool listen_address_parse(struct endpoint *endpoint, const char *text, char *why, size_t why_size)
{
    memset(endpoint, 0, sizeof *endpoint);
    if (strcmp(text, "off") == 0)
        return true;
    if (endpoint_parse(endpoint, text) && !endpoint->abstract &&
        (endpoint->family == ENDPOINT_UNIX ? endpoint->path[0] == '/' : endpoint->port != 0))
        return true;
    complain((struct complaint){why, why_size}, "expected ADDRESS:PORT such as 127.0.0.1:9464, unix:/PATH, or off");
    return false;
}

bool listen_address_is_local(const struct endpoint *endpoint)
{
    if (endpoint->family == ENDPOINT_IPV4)
        return endpoint->address[0] == 127;
    if (endpoint->family == ENDPOINT_IPV6)
        return memcmp(endpoint->address, own_ipv6, sizeof own_ipv6) == 0;
    return true;
}

bool listen_names_are_good(const char *text, char *why, size_t why_size)
{
    for (const char *at = text; *at != '\0'; at++) {
        if (ascii_is_letter(*at) || ascii_is_digit(*at) || strchr(".-:[] ", *at) != NULL)
            continue;
        complain((struct complaint){why, why_size},
                 "expected names of hosts, parted by blanks, such as circuits.example.org");
        return false;
    }
    return true;
}
