/*
 * grpc_statuses.c - see grpc_statuses.h.
 */
#include "policy/grpc_statuses.h"

#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "base/span.h"
#include "breaker/outcome.h"
#include "policy/distance.h"

#define SEPARATORS " \t,"
#define WORD_SIZE 32u

/* As gRPC's documents have them. */
static const char names[GRPC_STATUSES][20] = {
    "OK",        "CANCELLED",       "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS",  "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",    "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED",
};

static bool complain_of(struct complaint why, const char *word)
{
    struct nearest nearest = nearest_to(word);
    for (unsigned int status = 1; status < GRPC_STATUSES; status++)
        nearest_offer(&nearest, names[status]);
    if (nearest_meant(&nearest) != NULL)
        return complain(why, "`%.31s` is no failure of gRPC's; did you mean `%s`?", word, nearest.name);
    return complain(why,
                    "`%.31s` is no failure of gRPC's; expected statuses from 1 to %u, or their names, such as "
                    "`UNAVAILABLE DEADLINE_EXCEEDED`, or `none`",
                    word, GRPC_STATUSES - 1);
}

/* The status of that name or number; 0: it has none, or is no failure. */
static unsigned int status_of(const char *word)
{
    uint64_t number;
    for (unsigned int status = 1; status < GRPC_STATUSES; status++) {
        if (ascii_equal(word, names[status]))
            return status;
    }
    return ascii_is_number(word, &number) && number < GRPC_STATUSES ? (unsigned int)number : 0;
}

bool grpc_statuses_parse(const char *text, uint64_t *mask, struct complaint why)
{
    char word[WORD_SIZE];
    uint64_t read = 0;

    *mask = 0;
    if (strcmp(text, "none") == 0)
        return true;
    for (text += span_of(text, SEPARATORS); *text != '\0'; text += span_of(text, SEPARATORS)) {
        const size_t length = span_until(text, SEPARATORS), kept = length < WORD_SIZE ? length : WORD_SIZE - 1;
        memcpy(word, text, kept);
        word[kept] = '\0';
        const unsigned int status = status_of(word);
        if (status == 0 || length >= WORD_SIZE)
            return complain_of(why, word);
        read |= UINT64_C(1) << status;
        text += length;
    }
    *mask = read;
    return read != 0 || complain_of(why, "");
}

void grpc_statuses_format(uint64_t mask, char *text, size_t size)
{
    size_t length = 0;
    snprintf(text, size, "none");
    for (unsigned int status = 1; status < GRPC_STATUSES && length < size; status++) {
        if (mask >> status & 1)
            length += (size_t)snprintf(text + length, size - length, "%s%s", length > 0 ? " " : "", names[status]);
    }
}
