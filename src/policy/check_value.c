/*
 * check_value.c - what `health_check` may say. See check_value.h.
 */
#include "policy/check_value.h"

#include <string.h>

#include "base/span.h"
#include "policy/command_words.h"
#include "policy/complaint.h"
#include "policy/endpoint.h"
#include "policy/pattern.h"

#define EXPECTED "expected `connect`, `http://HOST/PATH`, `http:///PATH`, `command WORD...`, or `none`"
#define HTTP "http://"
#define HTTP_LENGTH (sizeof HTTP - 1)
#define HTTP_PORT 80u
static const char command[] = "command";

enum check_kind check_kind(const char *value)
{
    if (strcmp(value, "connect") == 0)
        return CHECK_CONNECT;
    if (strncmp(value, HTTP, HTTP_LENGTH) == 0)
        return CHECK_HTTP;
    return strncmp(value, command, sizeof command - 1) == 0 ? CHECK_COMMAND : CHECK_NONE;
}

const char *check_command(const char *value)
{
    const char *words = value + sizeof command - 1;
    return words + span_of(words, " ");
}

/* --- URLs --- */

/* HOST, HOST:PORT, [V6], [V6]:PORT; "" is the destination. `length` is all of it. */
static bool read_authority(struct check_url *url, const char *text, size_t length)
{
    const char *end = text + length, *host_end, *colon = NULL, *host = text;
    char port[8] = "";
    struct endpoint endpoint;
    url->port = HTTP_PORT;
    url->host[0] = '\0';
    if (length == 0)
        return true;
    if (*text == '[') {
        host = text + 1;
        host_end = memchr(text, ']', length);
        if (host_end == NULL)
            return false;
        colon = host_end + 1 < end ? host_end + 1 : NULL;
    } else {
        colon = memchr(text, ':', length);
        host_end = colon != NULL ? colon : end;
    }
    if (colon != NULL) {
        const size_t digits = (size_t)(end - colon) - 1;
        if (*colon != ':' || digits == 0 || digits >= sizeof port)
            return false;
        memcpy(port, colon + 1, digits);
        if (!endpoint_parse_port(port, &url->port) || url->port == 0)
            return false;
    }
    const size_t host_length = (size_t)(host_end - host);
    memcpy(url->host, host, host_length);
    url->host[host_length] = '\0';
    if (*text != '[')
        return pattern_is_host_name(host, host_length) || endpoint_parse_address(&endpoint, url->host);
    return strchr(url->host, ':') != NULL && endpoint_parse_address(&endpoint, url->host);
}

/* What stands in a request's first line and headers. */
static bool is_plain(const char *text)
{
    for (; *text != '\0'; text++)
        if (*text <= ' ' || *text > '~')
            return false;
    return true;
}

static bool read_url(struct check_url *url, const char *value)
{
    const char *authority = value + HTTP_LENGTH;
    const size_t length = span_until(authority, "/?#");
    url->path = authority + length;
    return is_plain(value) && url->path[0] != '?' && strchr(url->path, '#') == NULL &&
           read_authority(url, authority, length);
}

void check_url(struct check_url *url, const char *value)
{
    if (!read_url(url, value))
        *url = (struct check_url){.port = HTTP_PORT, .path = ""};
}

bool check_needs_destination(const char *value)
{
    struct check_url url;
    if (check_kind(value) != CHECK_HTTP)
        return check_kind(value) == CHECK_CONNECT;
    check_url(&url, value);
    return url.host[0] == '\0';
}

/* --- the value --- */

bool check_parse(char value[HEALTH_CHECK_SIZE], const char *text, char *why_text, size_t why_size)
{
    const struct complaint why = {why_text, why_size};
    char read[HEALTH_CHECK_SIZE];
    struct check_url url;
    if (!words_copy(read, sizeof read, text))
        return complain(why, "too long; expected %u bytes or less: a script may do the rest", HEALTH_CHECK_SIZE - 1);
    if (strcmp(read, "none") == 0)
        memset(read, 0, sizeof read);
    else if (strncmp(read, "https://", 8) == 0)
        return complain(why, "TLS is not spoken here; `command curl -fsS -o /dev/null https://...` does");
    else if (strncmp(read, HTTP, HTTP_LENGTH) == 0 && !read_url(&url, read))
        return complain(why, "no URL that can be asked for; expected `http://HOST/PATH`, `http://HOST:PORT/PATH`, or "
                             "`http:///PATH` for the destination itself");
    else if (strncmp(read, command, sizeof command - 1) == 0 && read[sizeof command - 1] != ' ')
        return complain(why, read[sizeof command - 1] == '\0' ? "which? Write `command /path/of/a/script`" : EXPECTED);
    else if (check_kind(read) == CHECK_NONE)
        return complain(why, EXPECTED);
    memcpy(value, read, HEALTH_CHECK_SIZE);
    return true;
}
