/*
 * pattern.c - reads patterns and holds them against destinations.
 *
 * See pattern.h. Each thing that can be wrong in a pattern is told with what to write instead.
 */
#include "policy/pattern.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/span.h"
#include "policy/complaint.h"
#include "policy/glob.h"

#define LABEL_BYTES_MAX 63
#define DIGITS "0123456789"

/* --- ports --- */

static bool read_port(const char *text, uint16_t *port)
{
    return endpoint_parse_port(text, port) && *port > 0 && strlen(text) <= 5;
}

static bool parse_range(struct pattern *pattern, const char *text, struct complaint why)
{
    char first[8];
    const char *dash = strchr(text, '-');
    const size_t length = (size_t)(dash - text);
    if (length >= sizeof first)
        return complain(why, "`%.40s` is no range of ports, such as `8000-8099`", text);
    memcpy(first, text, length);
    first[length] = '\0';
    if (!read_port(first, &pattern->port_first) || !read_port(dash + 1, &pattern->port_last))
        return complain(why, "`%.40s` is no range of ports from 1 to 65535, such as `8000-8099`", text);
    if (pattern->port_first > pattern->port_last)
        return complain(why, "the range of ports `%s` is the wrong way round: write `%u-%u`", text, pattern->port_last,
                        pattern->port_first);
    return true;
}

static bool parse_service(struct pattern *pattern, const char *text, struct complaint why)
{
    struct servent entry, *found = NULL;
    char room[1024];
    if (getservbyname_r(text, "tcp", &entry, room, sizeof room, &found) != 0 || found == NULL)
        return complain(why, "this system knows no TCP service `%.40s`: write the port's number", text);
    pattern->port_first = pattern->port_last = ntohs((uint16_t)entry.s_port);
    return true;
}

static bool parse_port(struct pattern *pattern, const char *text, struct complaint why)
{
    if (strcmp(text, "*") == 0) {
        pattern->port_first = 0;
        pattern->port_last = UINT16_MAX;
        return true;
    }
    if (text[0] == '\0')
        return complain(why, "the port is missing behind the `:`; write `*` for every port");
    if (strchr(text, '-') != NULL && text[span_of(text, DIGITS "-")] == '\0')
        return parse_range(pattern, text, why);
    if (text[span_of(text, DIGITS)] != '\0')
        return parse_service(pattern, text, why);
    if (!read_port(text, &pattern->port_first))
        return complain(why, "port `%.40s` is not between 1 and 65535; write `*` for every port", text);
    pattern->port_last = pattern->port_first;
    return true;
}

/* --- addresses and networks --- */

/* Clears the bits behind `prefix`; true if there were any. */
static bool clear_host_bits(uint8_t *address, size_t bytes, unsigned int prefix)
{
    bool any = false;
    for (size_t i = prefix / 8; i < bytes; i++) {
        const uint8_t keep = (uint8_t)(i == prefix / 8 ? 0xff00u >> (prefix % 8) : 0);
        any = any || (address[i] & (uint8_t)~keep) != 0;
        address[i] &= keep;
    }
    return any;
}

/* `address` is the text of an address, `prefix` that of its length or NULL. */
static bool parse_network(struct pattern *pattern, int family, const char *address, const char *prefix,
                          struct complaint why)
{
    struct endpoint *network = &pattern->network;
    const unsigned int width = family == AF_INET ? 32 : 128;
    if (family == AF_INET6 ? inet_pton(family, address, network->address) != 1
                           : !endpoint_read_ipv4(address, network->address))
        return complain(why, "`%.60s` is no IPv%c address", address, family == AF_INET ? '4' : '6');
    network->family = family == AF_INET ? ENDPOINT_IPV4 : ENDPOINT_IPV6;
    pattern->kind = PATTERN_NETWORK;
    pattern->prefix = width;
    if (prefix != NULL) {
        uint64_t length;
        if (!ascii_is_number(prefix, &length) || strlen(prefix) > 3 || length > width)
            return complain(why, "the prefix length `/%.40s` is not between 0 and %u", prefix, width);
        pattern->prefix = (unsigned int)length;
        if (clear_host_bits(network->address, width / 8, pattern->prefix)) {
            char corrected[INET6_ADDRSTRLEN] = "";
            inet_ntop(family, network->address, corrected, sizeof corrected);
            return complain(why, "`%s/%u` has bits set behind its prefix: the network is `%s/%u`", address,
                            pattern->prefix, corrected, pattern->prefix);
        }
    }
    if (family == AF_INET6 && pattern->prefix >= 96 && endpoint_is_mapped(network->address)) {
        memmove(network->address, network->address + 12, 4);
        memset(network->address + 4, 0, 12);
        network->family = ENDPOINT_IPV4;
        pattern->prefix -= 96;
    }
    return true;
}

/* `inner` is what stands in brackets, `outer` the prefix length behind them or NULL. */
static bool parse_bracketed(struct pattern *pattern, char *inner, const char *outer, struct complaint why)
{
    char *slash = strchr(inner, '/');
    if (slash != NULL) {
        if (outer != NULL)
            return complain(why, "it has two prefix lengths");
        *slash = '\0';
        outer = slash + 1;
    }
    char *zone = strchr(inner, '%');
    if (zone != NULL) {
        *zone++ = '\0';
        uint64_t number;
        if (!ascii_is_number(zone, &number) || number > UINT32_MAX)
            return complain(why, "the zone `%%%.40s` is no number; without one, any zone matches", zone);
        pattern->network.scope_id = (uint32_t)number;
    }
    return parse_network(pattern, AF_INET6, inner, outer, why);
}

/* --- names --- */

/* `host` may have a final dot; it is made lower case in place and loses the dot. */
static bool check_name(char *host, struct complaint why)
{
    size_t length = strlen(host), label = 0;
    if (length > 1 && host[length - 1] == '.')
        host[--length] = '\0';
    if (length > HOST_NAME_BYTES_MAX)
        return complain(why, "the host name has %zu bytes; %d are possible", length, HOST_NAME_BYTES_MAX);
    for (size_t i = 0; i <= length; i++) {
        const char byte = host[i] = ascii_lower(host[i]);
        if (byte == '.' || byte == '\0') {
            if (i == label)
                return complain(why, "the host name `%.60s` has an empty part", host);
            if (i - label > LABEL_BYTES_MAX)
                return complain(why, "a part of the host name has %zu bytes; %d are possible", i - label,
                                LABEL_BYTES_MAX);
            if (byte == '\0' && host[label + span_of(host + label, DIGITS)] == '\0')
                return complain(why, "`%.60s` is no IPv4 address (four numbers up to 255, no leading zeros)", host);
            label = i + 1;
        } else if ((unsigned char)byte >= 0x80) {
            return complain(why, "write the host name `%.60s` as programs look it up, in ASCII (`xn--...`)", host);
        } else if (byte == '*') {
            return complain(why, "a `*` in a host name stands only at its front, as in `*.example.com:443`");
        } else if (!ascii_is_letter(byte) && !ascii_is_digit(byte) && byte != '-' && byte != '_') {
            return byte > ' ' && byte < 0x7f ? complain(why, "`%c` can't be in a host name", byte)
                                             : complain(why, "a blank or control character can't be in a host name");
        }
    }
    return true;
}

bool pattern_is_host_name(const char *name, size_t length)
{
    char copy[HOST_NAME_SIZE], why[128]; /* what is wrong is not asked */
    if (length == 0 || length >= sizeof copy)
        return false;
    memcpy(copy, name, length);
    copy[length] = '\0';
    return check_name(copy, (struct complaint){why, sizeof why});
}

static bool parse_host(struct pattern *pattern, char *host, struct complaint why)
{
    uint8_t ignored[4];
    if (host[0] == '\0')
        return complain(why, "the host is missing before the `:`; write `*` for every host");
    if (strcmp(host, "*") == 0) {
        pattern->kind = PATTERN_NETWORK;
        return true;
    }
    char *slash = strchr(host, '/');
    if (slash != NULL) {
        *slash = '\0';
        return parse_network(pattern, AF_INET, host, slash + 1, why);
    }
    if (endpoint_read_ipv4(host, ignored))
        return parse_network(pattern, AF_INET, host, NULL, why);
    const bool suffix = strncmp(host, "*.", 2) == 0, any = strcmp(host, "*.") == 0;
    pattern->kind = suffix ? PATTERN_HOST_SUFFIX : PATTERN_HOST;
    if (!any && !check_name(suffix ? host + 2 : host, why))
        return false;
    pattern->host = strdup(any ? "" : suffix ? host + 1 : host);
    return pattern->host != NULL || complain(why, "out of memory");
}

/* --- the whole --- */

static bool parse_unix(struct pattern *pattern, const char *name, struct complaint why)
{
    pattern->kind = PATTERN_UNIX;
    pattern->network.family = ENDPOINT_UNIX;
    pattern->network.abstract = name[0] == '@';
    if (name[0] == '\0')
        return complain(why, "the path is missing behind `unix:`");
    name += pattern->network.abstract;
    const char *complaint = glob_complaint(name);
    if (complaint != NULL)
        return complain(why, "`%.60s`: %s", name, complaint);
    pattern->host = strdup(name);
    return pattern->host != NULL || complain(why, "out of memory");
}

static bool is_ipv6(const char *text)
{
    uint8_t ignored[16];
    const char *colon = strchr(text, ':'); /* one has two at least */
    return colon != NULL && strchr(colon + 1, ':') != NULL && inet_pton(AF_INET6, text, ignored) == 1;
}

static bool complain_of_no_port(const char *text, struct complaint why)
{
    if (strcmp(text, "*") == 0)
        return complain(why, "it has no port: write `*:*` for every destination with a port");
    return complain(why, "it has no port: write `%.100s:443`, say, or `%.100s:*` for every port", text, text);
}

/* Takes `text` (a copy) apart: host, prefix length behind a bracket, port. */
static bool parse_host_and_port(struct pattern *pattern, char *text, struct complaint why)
{
    if (text[0] == '[') {
        char *close = strchr(text, ']');
        if (close == NULL)
            return complain(why, "its `[` has no `]`");
        char *colon = strchr(close, ':');
        if (colon == NULL)
            return complain_of_no_port(text, why);
        char *prefix = close[1] == '/' ? close + 2 : NULL;
        if (prefix == NULL && colon != close + 1)
            return complain(why, "behind the `]` stands neither `:` and a port nor `/` and a prefix length");
        *close = *colon = '\0';
        return parse_port(pattern, colon + 1, why) && parse_bracketed(pattern, text + 1, prefix, why);
    }
    if (is_ipv6(text))
        return complain(why, "an IPv6 address stands in brackets and has a port: write `[%s]:443`, say", text);
    char *colon = strrchr(text, ':');
    if (colon == NULL)
        return complain_of_no_port(text, why);
    *colon = '\0';
    if (is_ipv6(text))
        return complain(why, "an IPv6 address stands in brackets: write `[%s]:%.40s`", text, colon + 1);
    if (strchr(text, ':') != NULL)
        return complain(why, "it has more than one `:`; a pattern is `HOST:PORT`, with IPv6 addresses in brackets");
    return parse_port(pattern, colon + 1, why) && parse_host(pattern, text, why);
}

bool pattern_parse(struct pattern *pattern, const char *text, char *why_text, size_t why_size)
{
    struct complaint why = {why_text, why_size};
    bool good;
    memset(pattern, 0, sizeof *pattern);
    pattern->text = strdup(text);
    char *copy = strdup(text);
    if (pattern->text == NULL || copy == NULL)
        good = complain(why, "out of memory");
    else if (strncmp(text, "unix:", 5) == 0)
        good = parse_unix(pattern, text + 5, why);
    else if (text[0] == '/' || text[0] == '@')
        good = complain(why, "it is the path of a UNIX socket: write `unix:%.100s`", text);
    else if (strstr(text, "://") != NULL)
        good = complain(why, "it is a URL; a pattern is `HOST:PORT` alone");
    else
        good = parse_host_and_port(pattern, copy, why);
    free(copy);
    if (!good)
        pattern_release(pattern);
    return good;
}

void pattern_release(struct pattern *pattern)
{
    free(pattern->text);
    free(pattern->host);
    pattern->text = pattern->host = NULL;
}

/* --- matching --- */

static bool in_network(const struct pattern *pattern, const struct endpoint *endpoint)
{
    const struct endpoint *network = &pattern->network;
    if (network->family == ENDPOINT_NONE)
        return endpoint->family != ENDPOINT_UNIX;
    if (network->family != endpoint->family || (network->scope_id != 0 && network->scope_id != endpoint->scope_id))
        return false;
    const unsigned int bytes = pattern->prefix / 8, bits = pattern->prefix % 8;
    if (memcmp(network->address, endpoint->address, bytes) != 0)
        return false;
    return bits == 0 || ((network->address[bytes] ^ endpoint->address[bytes]) & (0xff00u >> bits) & 0xffu) == 0;
}

bool pattern_takes_endpoint(const struct pattern *pattern, const struct endpoint *endpoint)
{
    switch (pattern->kind) {
    case PATTERN_NETWORK:
        return pattern_has_port(pattern, endpoint->port) && in_network(pattern, endpoint);
    case PATTERN_UNIX:
        return endpoint->family == ENDPOINT_UNIX && endpoint->abstract == pattern->network.abstract &&
               glob_match(pattern->host, endpoint->path);
    default:
        return false;
    }
}

bool pattern_is_single(const struct pattern *pattern, struct endpoint *endpoint)
{
    *endpoint = pattern->network;
    endpoint->port = pattern->port_first;
    switch (pattern->kind) {
    case PATTERN_HOST:
        return pattern->port_first == pattern->port_last;
    case PATTERN_NETWORK:
        return pattern->port_first == pattern->port_last && endpoint->family != ENDPOINT_NONE &&
               pattern->prefix == (endpoint->family == ENDPOINT_IPV4 ? 32 : 128);
    case PATTERN_UNIX:
        if (strlen(pattern->host) > ENDPOINT_PATH_MAX || pattern->host[span_until(pattern->host, "*?[\\")] != '\0')
            return false;
        memcpy(endpoint->path, pattern->host, strlen(pattern->host) + 1);
        return true;
    case PATTERN_HOST_SUFFIX:
    default:
        return false;
    }
}

/* A resolver takes addresses too; no last part of a name is a number (RFC 3696, 2). */
static bool is_address(const char *name, size_t length)
{
    size_t digits = 0;
    while (digits < length && ascii_is_digit(name[length - digits - 1]))
        digits++;
    return memchr(name, ':', length) != NULL || (digits > 0 && (digits == length || name[length - digits - 1] == '.'));
}

/* Whether all of `name`, but for its final dot, is `host`, which is lower case. */
static bool is_host(const char *host, const char *name)
{
    for (; *host != '\0'; host++, name++) {
        if (*host != ascii_lower(*name))
            return false;
    }
    return name[0] == '\0' || (name[0] == '.' && name[1] == '\0');
}

bool pattern_names_host(const struct pattern *pattern, const char *name)
{
    if (pattern->kind == PATTERN_HOST)
        return is_host(pattern->host, name);
    if (pattern->kind != PATTERN_HOST_SUFFIX)
        return false;
    size_t length = strlen(name);
    const size_t suffix = strlen(pattern->host);
    if (length > 0 && name[length - 1] == '.')
        length--;
    if (suffix == 0)
        return length > 0 && !is_address(name, length);
    return length > suffix && is_host(pattern->host, name + length - suffix);
}
