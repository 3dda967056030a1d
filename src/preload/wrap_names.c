/*
 * wrap_names.c - the resolver's functions, as an observer: what they answer is noted, nothing is changed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include "connection/edited_policy.h"
#include "connection/engine.h"
#include "connection/names.h"
#include "connection/policy_keeping.h"
#include "preload/real.h"

static bool is_wanted(const char *name)
{
    if (!name || !engine_ready())
        return false;
    edited_policy_look(); /* the connect that follows is to find the name that only a new policy wants */
    const struct policy *policy = policy_keeping_hold();
    bool wanted = policy_wants_name(policy, name);
    policy_keeping_drop(policy);
    return wanted;
}

static void note_addresses(const char *name, const struct addrinfo *list)
{
    int error = errno;
    uint32_t answer = names_new_answer();
    for (; list; list = list->ai_next) {
        struct endpoint endpoint;
        if (endpoint_from_sockaddr(&endpoint, list->ai_addr, list->ai_addrlen))
            names_note(answer, name, &endpoint);
    }
    errno = error;
}

static void note_entry(const char *name, const struct hostent *entry)
{
    int error = errno;
    uint32_t answer = names_new_answer();
    for (char **at = entry->h_addr_list; at && *at; at++) {
        struct endpoint endpoint;
        memset(&endpoint, 0, sizeof endpoint);
        if (entry->h_addrtype == AF_INET && entry->h_length == 4)
            endpoint.family = ENDPOINT_IPV4;
        else if (entry->h_addrtype == AF_INET6 && entry->h_length == 16)
            endpoint.family = ENDPOINT_IPV6;
        else
            break;
        memcpy(endpoint.address, *at, (size_t)entry->h_length);
        names_note(answer, name, &endpoint);
    }
    errno = error;
}

int wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **result)
{
    int status = real.getaddrinfo(node, service, hints, result);
    if (status == 0 && is_wanted(node))
        note_addresses(node, *result);
    return status;
}

struct hostent *wrap_gethostbyname(const char *name)
{
    struct hostent *entry = real.gethostbyname(name);
    if (entry && is_wanted(name))
        note_entry(name, entry);
    return entry;
}

struct hostent *wrap_gethostbyname2(const char *name, int family)
{
    struct hostent *entry = real.gethostbyname2(name, family);
    if (entry && is_wanted(name))
        note_entry(name, entry);
    return entry;
}

int wrap_gethostbyname_r(const char *name, struct hostent *entry, char *buffer, size_t size, struct hostent **result,
                         int *error)
{
    int status = real.gethostbyname_r(name, entry, buffer, size, result, error);
    if (status == 0 && *result && is_wanted(name))
        note_entry(name, *result);
    return status;
}

int wrap_gethostbyname2_r(const char *name, int family, struct hostent *entry, char *buffer, size_t size,
                          struct hostent **result, int *error)
{
    int status = real.gethostbyname2_r(name, family, entry, buffer, size, result, error);
    if (status == 0 && *result && is_wanted(name))
        note_entry(name, *result);
    return status;
}
