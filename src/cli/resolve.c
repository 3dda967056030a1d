/*
 * resolve.c - looks up a policy's names, all at the same time. See resolve.h.
 */
#define _GNU_SOURCE
#include "cli/resolve.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "cli/cli.h"

/* A name server that does not answer must not keep the program from its start for longer. */
#define WITHIN_NS INT64_C(1000000000)
#define NAMES_MAX 256
/* One string of the environment may have 128 KiB; this leaves the program its share. */
#define TEXT_MAX 32768

struct lookups {
    struct gaicb *at[NAMES_MAX];
    int count;
};

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void add(struct lookups *lookups, const char *host, const struct addrinfo *hints)
{
    for (int i = 0; i < lookups->count; i++) {
        if (strcasecmp(lookups->at[i]->ar_name, host) == 0)
            return;
    }
    if (lookups->count == NAMES_MAX || strpbrk(host, " =,") != NULL)
        return;
    struct gaicb *lookup = allocate(1, sizeof *lookup);
    lookup->ar_name = host;
    lookup->ar_request = hints;
    lookups->at[lookups->count++] = lookup;
}

/* The names that are spelled out; what `*.example.com` stands for nobody can list. */
static void collect(struct lookups *lookups, const struct policy *policy, const struct addrinfo *hints)
{
    for (size_t i = 0; i < policy->target_count; i++) {
        const struct target *target = &policy->targets[i];
        for (size_t j = 0; j < target->pattern_count; j++) {
            if (target->patterns[j].kind == PATTERN_HOST)
                add(lookups, target->patterns[j].host, hints);
        }
        if (target->fallback.host[0] != '\0')
            add(lookups, target->fallback.host, hints);
    }
}

/* Waits until all are answered or the time is over. */
static void wait_for_all(struct lookups *lookups)
{
    int64_t end = now_ns() + WITHIN_NS;
    for (;;) {
        bool pending = false;
        for (int i = 0; i < lookups->count; i++)
            pending |= gai_error(lookups->at[i]) == EAI_INPROGRESS;
        int64_t left = end - now_ns();
        if (!pending || left <= 0)
            return;
        /* Comes back with the first of them; those that were answered before are passed over. */
        struct timespec time = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
        int error = gai_suspend((const struct gaicb *const *)lookups->at, lookups->count, &time);
        if (error != 0 && error != EAI_INTR && error != EAI_ALLDONE)
            return;
    }
}

/* Adds "name=address,address", if it fits; the same address comes once for each kind of socket, and is told once. */
static void tell(char *text, const struct gaicb *lookup)
{
    char line[TEXT_MAX];
    size_t length = 0;
    for (const struct addrinfo *info = lookup->ar_result; info != NULL; info = info->ai_next) {
        char address[INET6_ADDRSTRLEN];
        const void *bytes = info->ai_family == AF_INET
                                ? (const void *)&((const struct sockaddr_in *)(const void *)info->ai_addr)->sin_addr
                                : (const void *)&((const struct sockaddr_in6 *)(const void *)info->ai_addr)->sin6_addr;
        if ((info->ai_family != AF_INET && info->ai_family != AF_INET6) ||
            inet_ntop(info->ai_family, bytes, address, sizeof address) == NULL)
            continue;
        int added = snprintf(line + length, sizeof line - length, "%s%s%s", length > 0 ? "," : lookup->ar_name,
                             length > 0 ? "" : "=", address);
        if (added < 0 || (size_t)added >= sizeof line - length)
            break;
        length += (size_t)added;
    }
    line[length] = '\0';
    size_t used = strlen(text);
    if (length > 0 && used + length + 2 <= TEXT_MAX) {
        if (used > 0)
            text[used++] = ' ';
        memcpy(text + used, line, length + 1);
    }
}

char *resolve_names(const struct policy *policy)
{
    static const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct lookups lookups = {.count = 0};
    collect(&lookups, policy, &hints);
    if (lookups.count == 0 || getaddrinfo_a(GAI_NOWAIT, lookups.at, lookups.count, NULL) != 0)
        return NULL;
    wait_for_all(&lookups);
    char *text = allocate(TEXT_MAX, 1);
    for (int i = 0; i < lookups.count; i++) {
        if (gai_error(lookups.at[i]) == 0)
            tell(text, lookups.at[i]);
    }
    if (text[0] != '\0')
        return text;
    free(text);
    return NULL;
}
