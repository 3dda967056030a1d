/*
 * endpoint.c - addresses and paths, from what connect was given and from text, and back to text.
 *
 * See endpoint.h. No libc function that may lock or allocate is called here.
 */
#include "policy/endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/un.h>

#include "base/ascii.h"
#include "base/hot.h"
#include "base/hash.h"
#include "base/text.h"

/* The kernel takes an IPv6 address also without its zone (net/ipv6: SIN6_LEN_RFC2133). */
#define SOCKADDR_IN6_SHORTEST (offsetof(struct sockaddr_in6, sin6_scope_id))

#define MAPPED_BYTES 12 /* before the IPv4 address */

bool endpoint_is_mapped(const uint8_t *address)
{
    static const uint8_t prefix[MAPPED_BYTES] = {[10] = 0xff, [11] = 0xff};
    return memcmp(address, prefix, sizeof prefix) == 0;
}

static void set_ipv4(struct endpoint *endpoint, const uint8_t *address, uint16_t port)
{
    endpoint->family = ENDPOINT_IPV4;
    memcpy(endpoint->address, address, 4);
    endpoint->port = port;
}

/* The zone counts for link-local addresses only: for all others the kernel does not look at it. */
static void set_ipv6(struct endpoint *endpoint, const uint8_t *address, uint16_t port, uint32_t scope_id)
{
    if (endpoint_is_mapped(address)) {
        set_ipv4(endpoint, address + MAPPED_BYTES, port);
        return;
    }
    endpoint->family = ENDPOINT_IPV6;
    memcpy(endpoint->address, address, 16);
    endpoint->port = port;
    if (address[0] == 0xfe && (address[1] & 0xc0) == 0x80)
        endpoint->scope_id = scope_id;
}

/*
 * An abstract name is all bytes up to the length, zeros too. Programs that pass the whole sun_path mean the same text
 * with zeros behind it: those are cut off. A zero inside is shown as '@', as /proc/net/unix does.
 */
static bool set_unix(struct endpoint *endpoint, const char *name, size_t length)
{
    if (length == 0 || length > ENDPOINT_PATH_MAX)
        return false; /* unnamed, or EINVAL from the kernel */
    endpoint->family = ENDPOINT_UNIX;
    memset(endpoint->path, 0, sizeof endpoint->path);
    if (name[0] != '\0') {
        memcpy(endpoint->path, name, strnlen(name, length));
        return true;
    }
    endpoint->abstract = true;
    memcpy(endpoint->path, name + 1, length - 1);
    size_t end = length - 1;
    while (end > 0 && endpoint->path[end - 1] == '\0')
        end--;
    for (size_t i = 0; i < end; i++) {
        if (endpoint->path[i] == '\0')
            endpoint->path[i] = '@';
    }
    return true;
}

HOT bool endpoint_from_sockaddr(struct endpoint *endpoint, const struct sockaddr *address, socklen_t length)
{
    memset(endpoint, 0, offsetof(struct endpoint, path) + 1); /* the path is for few */
    sa_family_t family;
    if (address == NULL || length < sizeof family)
        return false;
    memcpy(&family, address, sizeof family);
    switch (family) { /* copies, for the program's memory may be aligned as it likes */
    case AF_INET: {
        struct sockaddr_in in;
        if (length < sizeof in)
            return false;
        memcpy(&in, address, sizeof in);
        set_ipv4(endpoint, (const uint8_t *)&in.sin_addr, ntohs(in.sin_port));
        return true;
    }
    case AF_INET6: {
        struct sockaddr_in6 in6 = {0};
        if (length < SOCKADDR_IN6_SHORTEST)
            return false;
        memcpy(&in6, address, length < sizeof in6 ? SOCKADDR_IN6_SHORTEST : sizeof in6);
        set_ipv6(endpoint, in6.sin6_addr.s6_addr, ntohs(in6.sin6_port), in6.sin6_scope_id);
        return true;
    }
    case AF_UNIX: {
        const size_t start = offsetof(struct sockaddr_un, sun_path);
        return length > start && set_unix(endpoint, (const char *)address + start, length - start);
    }
    default:
        return false;
    }
}

/* --- text. By hand, for snprintf and inet_ntop are not async-signal-safe. --- */

static void add_ipv4(struct text *text, const uint8_t *address)
{
    for (unsigned int i = 0; i < 4; i++) {
        if (i > 0)
            text_add_byte(text, '.');
        text_add_unsigned(text, address[i]);
    }
}

/* RFC 5952: lower case, no leading zeros, the longest run of two or more zero groups (the first of equals) as "::". */
static void add_ipv6(struct text *text, const uint8_t *address)
{
    unsigned int group[8], run = 0, run_length = 0;
    for (size_t i = 0; i < 8; i++)
        group[i] = (unsigned int)address[2 * i] << 8 | address[2 * i + 1];
    for (unsigned int i = 0; i < 8; i++) {
        unsigned int end = i;
        while (end < 8 && group[end] == 0)
            end++;
        if (end - i > run_length) {
            run = i;
            run_length = end - i;
        }
    }
    if (run_length < 2)
        run_length = 0;
    for (unsigned int i = 0; i < 8;) {
        if (run_length > 0 && i == run) {
            text_add(text, "::");
            i += run_length;
            continue;
        }
        text_add_hex(text, group[i++], 1);
        if (i < 8 && !(run_length > 0 && i == run))
            text_add_byte(text, ':');
    }
}

static void add_address(struct text *text, const struct endpoint *endpoint)
{
    if (endpoint->family == ENDPOINT_IPV4) {
        add_ipv4(text, endpoint->address);
    } else if (endpoint->family == ENDPOINT_IPV6) {
        add_ipv6(text, endpoint->address);
        if (endpoint->scope_id != 0) {
            text_add_byte(text, '%');
            text_add_unsigned(text, endpoint->scope_id);
        }
    }
}

size_t endpoint_format_address(const struct endpoint *endpoint, char *buffer, size_t size)
{
    struct text text;
    text_start(&text, buffer, size);
    add_address(&text, endpoint);
    return text_whole(&text);
}

size_t endpoint_format(const struct endpoint *endpoint, char *buffer, size_t size)
{
    struct text text;
    text_start(&text, buffer, size);
    switch (endpoint->family) {
    case ENDPOINT_IPV4:
        add_address(&text, endpoint);
        break;
    case ENDPOINT_IPV6:
        text_add_byte(&text, '[');
        add_address(&text, endpoint);
        text_add_byte(&text, ']');
        break;
    case ENDPOINT_UNIX:
        text_add(&text, "unix:");
        if (endpoint->abstract)
            text_add_byte(&text, '@');
        else if (endpoint->path[0] == '@')
            text_add(&text, "./"); /* a relative path, not an abstract name */
        text_add(&text, endpoint->path);
        break;
    case ENDPOINT_NONE:
        break;
    }
    if (endpoint->family == ENDPOINT_IPV4 || endpoint->family == ENDPOINT_IPV6) {
        text_add_byte(&text, ':');
        text_add_unsigned(&text, endpoint->port);
    }
    return text_whole(&text);
}

static bool parse_unix(struct endpoint *endpoint, const char *name)
{
    const size_t length = strlen(name);
    endpoint->family = ENDPOINT_UNIX;
    endpoint->abstract = name[0] == '@';
    if (length == 0 || length > ENDPOINT_PATH_MAX)
        return false;
    memcpy(endpoint->path, name + endpoint->abstract, length - endpoint->abstract);
    return true;
}

bool endpoint_read_ipv4(const char *text, uint8_t address[4])
{
    for (unsigned int part = 0; part < 4; part++) {
        uint64_t number;
        if (part > 0 && *text++ != '.')
            return false;
        const char *first = text;
        if (!ascii_number(&text, &number) || number > UINT8_MAX || (*first == '0' && text - first > 1))
            return false;
        address[part] = (uint8_t)number;
    }
    return *text == '\0';
}

/* The address that begins at `*at` and ends before `end`, with its zone if it is an IPv6 one. */
static bool parse_address(struct endpoint *endpoint, int family, const char *at, const char *end)
{
    char host[INET6_ADDRSTRLEN];
    uint8_t address[16];
    uint64_t scope_id = 0;
    const char *zone = family == AF_INET6 ? memchr(at, '%', (size_t)(end - at)) : NULL;
    if (zone != NULL) {
        const char *digits = zone + 1;
        if (!ascii_number(&digits, &scope_id) || digits != end || scope_id > UINT32_MAX)
            return false;
        end = zone;
    }
    if ((size_t)(end - at) >= sizeof host)
        return false;
    memcpy(host, at, (size_t)(end - at));
    host[end - at] = '\0';
    if (family == AF_INET6 ? inet_pton(family, host, address) != 1 : !endpoint_read_ipv4(host, address))
        return false;
    if (family == AF_INET6)
        set_ipv6(endpoint, address, 0, (uint32_t)scope_id);
    else
        set_ipv4(endpoint, address, 0);
    return true;
}

bool endpoint_parse_address(struct endpoint *endpoint, const char *text)
{
    memset(endpoint, 0, sizeof *endpoint);
    return parse_address(endpoint, strchr(text, ':') != NULL ? AF_INET6 : AF_INET, text, text + strlen(text));
}

bool endpoint_parse_port(const char *text, uint16_t *port)
{
    uint64_t number;
    if (!ascii_is_number(text, &number) || number > UINT16_MAX)
        return false;
    *port = (uint16_t)number;
    return true;
}

bool endpoint_parse(struct endpoint *endpoint, const char *text)
{
    uint16_t port;
    memset(endpoint, 0, sizeof *endpoint);
    if (strncmp(text, "unix:", 5) == 0)
        return parse_unix(endpoint, text + 5);
    const char *colon = strrchr(text, ':');
    if (colon == NULL || !endpoint_parse_port(colon + 1, &port))
        return false;
    const bool bracket = text[0] == '[';
    if (bracket && (colon == text + 1 || colon[-1] != ']'))
        return false;
    const bool good = bracket ? parse_address(endpoint, AF_INET6, text + 1, colon - 1)
                              : parse_address(endpoint, AF_INET, text, colon);
    endpoint->port = port;
    return good;
}

/* --- hash. --- */

static uint64_t hash_host(const struct endpoint *endpoint)
{
    const uint8_t kind[2] = {(uint8_t)endpoint->family, endpoint->abstract};
    const uint8_t scope[4] = {(uint8_t)(endpoint->scope_id >> 24), (uint8_t)(endpoint->scope_id >> 16),
                              (uint8_t)(endpoint->scope_id >> 8), (uint8_t)endpoint->scope_id};
    uint64_t hash = hash_bytes(HASH_BEGIN, kind, sizeof kind);
    hash = hash_bytes(hash, endpoint->address, sizeof endpoint->address);
    hash = hash_bytes(hash, scope, sizeof scope);
    return endpoint->family == ENDPOINT_UNIX ? hash_bytes(hash, endpoint->path, strlen(endpoint->path)) : hash;
}

/* FNV's high bits are weak for short input; tables that take the top or the bottom bits get good ones alike. */
static uint64_t finish(uint64_t hash)
{
    hash ^= hash >> 32;
    hash *= UINT64_C(0xd6e8feb86659fd93);
    hash ^= hash >> 32;
    return hash != 0 ? hash : 1;
}

uint64_t endpoint_hash(const struct endpoint *endpoint)
{
    const uint8_t port[2] = {(uint8_t)(endpoint->port >> 8), (uint8_t)endpoint->port};
    return finish(hash_bytes(hash_host(endpoint), port, sizeof port));
}

uint64_t endpoint_host_hash(const struct endpoint *endpoint)
{
    return finish(hash_host(endpoint));
}

bool endpoint_equal(const struct endpoint *a, const struct endpoint *b)
{
    return a->family == b->family && a->port == b->port && a->scope_id == b->scope_id && a->abstract == b->abstract &&
           memcmp(a->address, b->address, sizeof a->address) == 0 &&
           (a->family != ENDPOINT_UNIX || strcmp(a->path, b->path) == 0);
}
