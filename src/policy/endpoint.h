/*
 * endpoint.h - where a connect goes: an IPv4 or IPv6 address with a port, or the path of a UNIX socket.
 *
 * A value in one canonical form: an IPv4-mapped IPv6 address is stored as IPv4. Used inside connect(), so
 * everything here is async-signal-safe and allocates nothing.
 */
#ifndef SOCKFUSE_POLICY_ENDPOINT_H
#define SOCKFUSE_POLICY_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define ENDPOINT_PATH_MAX 108   /* sizeof sun_path */
#define HOST_NAME_BYTES_MAX 253 /* RFC 1035 */
#define HOST_NAME_SIZE 256      /* with its end, in whole words */
/* Room for any endpoint or host:port as text, with its end: a port has at most 5 bytes. */
#define DESTINATION_MAX 272

enum endpoint_family { ENDPOINT_NONE = 0, ENDPOINT_IPV4 = 4, ENDPOINT_IPV6 = 6, ENDPOINT_UNIX = 1 };

struct endpoint {
    enum endpoint_family family;
    uint8_t address[16];              /* network order; IPv4 in the first four bytes, the rest zero */
    uint32_t scope_id;                /* IPv6 link-local zone, or 0 */
    uint16_t port;                    /* host order; 0 for UNIX */
    bool abstract;                    /* UNIX: the name is in the abstract name space, written unix:@name */
    char path[ENDPOINT_PATH_MAX + 1]; /* UNIX: ends with a zero byte; a relative path stays as it is */
};

/*
 * Reads what connect was given. Looks at no byte beyond `length`; a NULL, short or foreign address gives false.
 * The caller must know that the memory is readable (it is the address of connect, guarded by its length).
 */
bool endpoint_from_sockaddr(struct endpoint *endpoint, const struct sockaddr *address, socklen_t length);

/*
 * Writes "192.0.2.1:80", "[2001:db8::1]:80" (with %zone number if it has one) or "unix:/path" and returns the length.
 * What does not fit is not cut: then the text is empty and 0 is returned. DESTINATION_MAX is always enough.
 */
size_t endpoint_format(const struct endpoint *endpoint, char *text, size_t size);

/* Reads what endpoint_format writes ("address:port", "[v6]:port", "unix:/path"). False if it is none. */
bool endpoint_parse(struct endpoint *endpoint, const char *text);

/* "192.0.2.1" as inet_pton reads it; that lies in a part of libc which a start that needs it has to be given first. */
bool endpoint_read_ipv4(const char *text, uint8_t address[4]);

/* The same of an address alone: "192.0.2.1", "2001:db8::1", "fe80::1%2". What is read has the port 0. */
size_t endpoint_format_address(const struct endpoint *endpoint, char *text, size_t size);
bool endpoint_parse_address(struct endpoint *endpoint, const char *text);
/* A port's number, 0 to 65535, and nothing else. */
bool endpoint_parse_port(const char *text, uint16_t *port);

/* A hash of family, address, scope, port and path; never 0. */
uint64_t endpoint_hash(const struct endpoint *endpoint);
/* The same without the port: for tables of names. */
uint64_t endpoint_host_hash(const struct endpoint *endpoint);

/* Whether 16 bytes are an IPv6 address with an IPv4 one in its last four. */
bool endpoint_is_mapped(const uint8_t *address);

bool endpoint_equal(const struct endpoint *a, const struct endpoint *b);

#endif
