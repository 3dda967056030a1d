/*
 * redis_url.c - where a Redis is. See redis_url.h.
 */
#include "policy/redis_url.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/span.h"
#include "base/text.h"
#include "policy/complaint.h"
#include "policy/endpoint.h"

#define EXPECTED "expected `redis://[:password@]host[:port][/db]`, `rediss://...` or `redis+unix:/path`"

static int digit_of(char letter)
{
    const char *const digits = "0123456789abcdefABCDEF";
    const char *const found = letter != '\0' ? strchr(digits, letter) : NULL;

    if (found == NULL)
        return -1;
    return (int)(found - digits < 16 ? found - digits : found - digits - 6);
}

/* Bytes with %XX for what has a meaning in a URL; false: too long, no such digits, or a zero byte. */
static bool take_escaped(char *to, size_t size, const char *from, size_t length)
{
    size_t count = 0;

    for (size_t i = 0; i < length; i++) {
        char byte = from[i];
        if (byte == '%') {
            const int high = i + 2 < length ? digit_of(from[i + 1]) : -1;
            const int low = high >= 0 ? digit_of(from[i + 2]) : -1;
            if (low < 0)
                return false;
            byte = (char)(high << 4 | low);
            i += 2;
        }
        if (byte == '\0' || count + 1 >= size)
            return false;
        to[count++] = byte;
    }
    to[count] = '\0';
    return true;
}

static bool take_database(struct redis_url *url, const char *text)
{
    unsigned int number = 0;

    for (const char *at = text; *at != '\0'; at++) {
        if (*at < '0' || *at > '9' || number > REDIS_DATABASES_MAX)
            return false;
        number = number * 10 + (unsigned int)(*at - '0');
    }
    url->database = number;
    return number < REDIS_DATABASES_MAX;
}

static bool take_path(struct redis_url *url, const char *text, struct complaint why)
{
    const char *const query = strchr(text, '?');
    const size_t length = query != NULL ? (size_t)(query - text) : strlen(text);

    if (length < 2 || text[0] != '/' || !take_escaped(url->path, sizeof url->path, text, length))
        return complain(why, "expected a path of 2 to %zu bytes behind `redis+unix:`", sizeof url->path - 1);
    if (query != NULL && (strncmp(query, "?db=", 4) != 0 || query[4] == '\0' || !take_database(url, query + 4)))
        return complain(why, "expected `?db=` and a number below %u behind the path", REDIS_DATABASES_MAX);
    return true;
}

/* "[USER]:PASSWORD", or a user without one. */
static bool take_credentials(struct redis_url *url, const char *text, size_t length, struct complaint why)
{
    const char *const colon = memchr(text, ':', length);
    const size_t user = colon != NULL ? (size_t)(colon - text) : length;

    url->has_password = colon != NULL && user + 1 < length;
    if (!take_escaped(url->user, sizeof url->user, text, user) ||
        (colon != NULL && !take_escaped(url->password, sizeof url->password, colon + 1, length - user - 1)))
        return complain(why, "the user or the password is too long, or has a `%%` without two hexadecimal digits");
    return true;
}

/* What can be a host's name: resolvers say the rest. */
static bool is_name(const char *text)
{
    return text[0] != '-' &&
           text[span_of(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_")] == '\0';
}

static bool take_host(struct redis_url *url, const char *text, size_t length, struct complaint why)
{
    const bool has_brackets = length > 0 && text[0] == '[';
    const char *const end = has_brackets ? memchr(text, ']', length) : memchr(text, ':', length);
    unsigned char address[16];
    char port[8];
    size_t host = end != NULL ? (size_t)(end - text) : length;
    const char *rest = text + host + (has_brackets && end != NULL);
    const size_t left = (size_t)(text + length - rest);

    if (has_brackets) {
        if (end == NULL)
            return complain(why, "the `]` of the address is missing");
        text++;
        host--;
    }
    if (host == 0 || host >= sizeof url->host)
        return complain(why, "a host is missing, or is none; " EXPECTED);
    memcpy(url->host, text, host);
    url->host[host] = '\0';
    if (has_brackets ? inet_pton(AF_INET6, url->host, address) != 1
                     : inet_pton(AF_INET, url->host, address) != 1 && !is_name(url->host))
        return complain(why, "a host is missing, or is none; " EXPECTED);
    url->port = REDIS_PORT;
    if (left == 0)
        return true;
    if (rest[0] != ':' || left < 2 || left > sizeof port)
        return complain(why, "expected `:` and a port behind the host");
    memcpy(port, rest + 1, left - 1);
    port[left - 1] = '\0';
    if (!endpoint_parse_port(port, &url->port) || url->port == 0)
        return complain(why, "expected a port from 1 to %u behind the host", UINT16_MAX);
    return true;
}

bool redis_url_parse(struct redis_url *url, const char *text, char *why_text, size_t why_size)
{
    const struct complaint why = {why_text, why_size};

    memset(url, 0, sizeof *url);
    if (strncmp(text, "redis+unix:", 11) == 0)
        return take_path(url, text + 11, why);
    url->is_tls = strncmp(text, "rediss://", 9) == 0;
    if (!url->is_tls && strncmp(text, "redis://", 8) != 0)
        return complain(why, EXPECTED);
    text += url->is_tls ? 9 : 8;
    /* A password may hold slashes and at-signs: what is behind the last one is the host. */
    const char *const at = strrchr(text, '@');
    if (at != NULL && !take_credentials(url, text, (size_t)(at - text), why))
        return false;
    text = at != NULL ? at + 1 : text;
    const size_t length = span_until(text, "/");
    if (text[length] == '/' && !take_database(url, text + length + 1))
        return complain(why, "expected a database's number below %u behind the last `/`", REDIS_DATABASES_MAX);
    return take_host(url, text, length, why);
}

void redis_url_format(const struct redis_url *url, char buffer[REDIS_URL_MAX])
{
    struct text text;

    text_start(&text, buffer, REDIS_URL_MAX);
    if (url->host[0] == '\0') {
        text_add(&text, "redis+unix:");
        text_add(&text, url->path);
        if (url->database != 0) {
            text_add(&text, "?db=");
            text_add_unsigned(&text, url->database);
        }
        return;
    }
    text_add(&text, url->is_tls ? "rediss://" : "redis://");
    text_add(&text, url->user);
    text_add(&text, url->has_password ? ":***" : "");
    text_add(&text, url->has_password || url->user[0] != '\0' ? "@" : "");
    const bool is_v6 = strchr(url->host, ':') != NULL;
    text_add(&text, is_v6 ? "[" : "");
    text_add(&text, url->host);
    text_add(&text, is_v6 ? "]:" : ":");
    text_add_unsigned(&text, url->port);
    text_add(&text, "/");
    text_add_unsigned(&text, url->database);
}
