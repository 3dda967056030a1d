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

#include "base/hash.h"

/* The kernel takes an IPv6 address also without its zone (net/ipv6: SIN6_LEN_RFC2133). */
#define SOCKADDR_IN6_SHORTEST (offsetof(struct sockaddr_in6, sin6_scope_id))

static const uint8_t mapped_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

static void set_ipv4(struct endpoint *endpoint, const uint8_t *address, uint16_t port)
{
    endpoint->family = ENDPOINT_IPV4;
    memcpy(endpoint->address, address, 4);
    endpoint->port = port;
}

/* The zone counts for link-local addresses only: for all others the kernel does not look at it. */
static void set_ipv6(struct endpoint *endpoint, const uint8_t *address, uint16_t port, uint32_t scope_id)
{
    if (memcmp(address, mapped_prefix, sizeof mapped_prefix) == 0) {
        set_ipv4(endpoint, address + sizeof mapped_prefix, port);
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

bool endpoint_from_sockaddr(struct endpoint *endpoint, const struct sockaddr *address, socklen_t length)
{
    memset(endpoint, 0, sizeof *endpoint);
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

/* Text that grows to the end of its room; `length` goes on counting what did not fit. */
struct writer {
    char *text;
    size_t size, length;
};

static void put(struct writer *writer, char byte)
{
    if (writer->length < writer->size)
        writer->text[writer->length] = byte;
    writer->length++;
}

static void put_text(struct writer *writer, const char *text)
{
    while (*text != '\0')
        put(writer, *text++);
}

static void put_number(struct writer *writer, uint32_t number, unsigned int base)
{
    char digits[11];
    size_t count = 0;
    do {
        digits[count++] = "0123456789abcdef"[number % base];
        number /= base;
    } while (number > 0);
    while (count > 0)
        put(writer, digits[--count]);
}

static void put_ipv4(struct writer *writer, const uint8_t *address)
{
    for (unsigned int i = 0; i < 4; i++) {
        if (i > 0)
            put(writer, '.');
        put_number(writer, address[i], 10);
    }
}

/* RFC 5952: lower case, no leading zeros, the longest run of two or more zero groups (the first of equals) as "::". */
static void put_ipv6(struct writer *writer, const uint8_t *address)
{
    unsigned int group[8], run = 0, run_length = 0;
    for (unsigned int i = 0; i < 8; i++)
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
            put_text(writer, "::");
            i += run_length;
            continue;
        }
        put_number(writer, group[i++], 16);
        if (i < 8 && !(run_length > 0 && i == run))
            put(writer, ':');
    }
}

size_t endpoint_format(const struct endpoint *endpoint, char *text, size_t size)
{
    struct writer writer = {text, size, 0};
    switch (endpoint->family) {
    case ENDPOINT_IPV4:
        put_ipv4(&writer, endpoint->address);
        break;
    case ENDPOINT_IPV6:
        put(&writer, '[');
        put_ipv6(&writer, endpoint->address);
        if (endpoint->scope_id != 0) {
            put(&writer, '%');
            put_number(&writer, endpoint->scope_id, 10);
        }
        put(&writer, ']');
        break;
    case ENDPOINT_UNIX:
        put_text(&writer, "unix:");
        if (endpoint->abstract)
            put(&writer, '@');
        else if (endpoint->path[0] == '@')
            put_text(&writer, "./"); /* a relative path, not an abstract name */
        put_text(&writer, endpoint->path);
        break;
    case ENDPOINT_NONE:
        break;
    }
    if (endpoint->family == ENDPOINT_IPV4 || endpoint->family == ENDPOINT_IPV6) {
        put(&writer, ':');
        put_number(&writer, endpoint->port, 10);
    }
    const bool fits = writer.length > 0 && writer.length < size;
    if (size > 0)
        text[fits ? writer.length : 0] = '\0';
    return fits ? writer.length : 0;
}

/* Decimal digits up to `end`, at most `limit`; false for anything else. */
static bool read_number(const char *text, const char *end, uint32_t limit, uint32_t *number)
{
    uint64_t value = 0;
    if (text == end)
        return false;
    for (; text < end; text++) {
        if (*text < '0' || *text > '9')
            return false;
        value = value * 10 + (uint64_t)(*text - '0');
        if (value > limit)
            return false;
    }
    *number = (uint32_t)value;
    return true;
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

bool endpoint_parse(struct endpoint *endpoint, const char *text)
{
    memset(endpoint, 0, sizeof *endpoint);
    if (strncmp(text, "unix:", 5) == 0)
        return parse_unix(endpoint, text + 5);

    char host[INET6_ADDRSTRLEN];
    uint8_t address[16];
    uint32_t port, scope_id = 0;
    const bool bracket = text[0] == '[';
    const char *start = text + bracket;
    const char *colon = strrchr(text, ':');
    const char *end = colon;
    if (colon == NULL || !read_number(colon + 1, text + strlen(text), UINT16_MAX, &port))
        return false;
    if (bracket) {
        if (end == text || *--end != ']')
            return false;
        const char *zone = memchr(start, '%', (size_t)(end - start));
        if (zone != NULL && !read_number(zone + 1, end, UINT32_MAX, &scope_id))
            return false;
        if (zone != NULL)
            end = zone;
    }
    if (end <= start || (size_t)(end - start) >= sizeof host)
        return false;
    memcpy(host, start, (size_t)(end - start));
    host[end - start] = '\0';
    if (inet_pton(bracket ? AF_INET6 : AF_INET, host, address) != 1)
        return false;
    if (bracket)
        set_ipv6(endpoint, address, (uint16_t)port, scope_id);
    else
        set_ipv4(endpoint, address, (uint16_t)port);
    return true;
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
