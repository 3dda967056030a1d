/*
 * web_gate.c - who may ask over HTTP. See web_gate.h.
 */
#include "agent/web_gate.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "base/ascii.h"
#include "policy/endpoint.h"
#include "policy/listen_address.h"

/* Of "name:port" the name's length; an IPv6 address stands in brackets. */
static size_t name_length(const char *host, size_t length)
{
    const char *end = host[0] == '[' ? memchr(host, ']', length) : NULL;
    const char *colon = memchr(end != NULL ? end : host, ':', length - (size_t)((end != NULL ? end : host) - host));
    return colon != NULL ? (size_t)(colon - host) : length;
}

static bool is_this_host(const char *host, size_t length)
{
    struct endpoint endpoint;
    char name[64];
    if (length == strlen("localhost") && strncasecmp(host, "localhost", length) == 0)
        return true;
    if (length > 2 && host[0] == '[') {
        host++;
        length -= 2;
    }
    if (length >= sizeof name)
        return false;
    memcpy(name, host, length);
    name[length] = '\0';
    return endpoint_parse_address(&endpoint, name) && listen_address_is_local(&endpoint);
}

static bool is_allowed(const char *host, const char *allow)
{
    const size_t length = strlen(host);
    for (const char *at = allow; *at != '\0';) {
        const size_t word = strcspn(at, " ");
        const bool has_port = name_length(at, word) < word;
        const size_t asked = has_port ? length : name_length(host, length);
        if (word > 0 && word == asked && strncasecmp(at, host, word) == 0)
            return true;
        at += word + (at[word] == ' ');
    }
    return false;
}

/* A page's own address is that which it was had by. */
static bool is_own_origin(const char *origin, const char *host)
{
    const char *const behind = strstr(origin, "://");
    return behind != NULL && host != NULL && strcasecmp(behind + 3, host) == 0;
}

/* Who follows a link to us from another page is let in: he sees our page, that other one does not. */
static bool is_foreign(const struct web_asker *asker)
{
    const char *const site = asker->fetch_site;
    if (asker->origin != NULL && !is_own_origin(asker->origin, asker->host))
        return true;
    if (site == NULL || strcmp(site, "same-origin") == 0 || strcmp(site, "none") == 0)
        return false;
    return asker->fetch_mode == NULL || strcmp(asker->fetch_mode, "navigate") != 0;
}

struct web_verdict web_gate(const struct web_asker *asker, bool is_unix, const char *allow)
{
    const char *const host = asker->host;
    if (strcmp(asker->method, "GET") != 0 && strcmp(asker->method, "HEAD") != 0)
        return (struct web_verdict){405, "nothing can be changed here: GET and HEAD alone are answered"};
    if (!is_unix && host == NULL)
        return (struct web_verdict){400, "the request has no Host"};
    if (!is_unix && !is_this_host(host, name_length(host, strlen(host))) && !is_allowed(host, allow))
        return (struct web_verdict){421,
                                    "this Host is not ours: ask by 127.0.0.1, or start the agent with --allow NAME"};
    if (is_foreign(asker))
        return (struct web_verdict){403, "another site's page asks: it gets nothing"};
    return (struct web_verdict){0, NULL};
}
