/*
 * tls_hello.c - the first messages of a session. See tls_hello.h.
 */
#include "breaker/tls_hello.h"

#include <string.h>

#define CLIENT_HELLO 1u
#define SERVER_HELLO 2u

enum extension {
    EXTENSION_PSK = 41,
    EXTENSION_EARLY_DATA = 42,
    EXTENSION_VERSIONS = 43,
};

/* The fields, in their order. */
enum step {
    STEP_TYPE,
    STEP_LENGTH,
    STEP_VERSION,
    STEP_RANDOM,
    STEP_SESSION_LENGTH,
    STEP_SESSION,
    STEP_SUITES_LENGTH, /* the client's */
    STEP_SUITES,
    STEP_SUITE, /* the server's */
    STEP_COMPRESSIONS_LENGTH,
    STEP_COMPRESSIONS,
    STEP_COMPRESSION,
    STEP_EXTENSIONS_LENGTH,
    STEP_EXTENSION_TYPE,
    STEP_EXTENSION_LENGTH,
    STEP_EXTENSION,
    STEP_IDENTITIES_LENGTH, /* of the client's PSKs: the list's length, the first one's, and the rest */
    STEP_IDENTITY_LENGTH,
    STEP_OVER,
};

/* A ServerHello with this random asks for another ClientHello (RFC 8446, 4.1.3): it is SHA-256 of "HelloRetryRequest". */
static const uint8_t retry_random[TLS_RANDOM_BYTES] = {
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
};

bool tls_hello_is_over(const struct tls_hello *hello)
{
    return hello->step == STEP_OVER;
}

/* What follows a field, and of how many bytes that is; of one that may be missing (0 bytes) what follows it in turn. */
struct follows {
    uint8_t step, bytes;
};
static const struct follows client_fields[STEP_OVER] = {
    [STEP_LENGTH] = {STEP_VERSION, 2},
    [STEP_VERSION] = {STEP_RANDOM, TLS_RANDOM_BYTES},
    [STEP_RANDOM] = {STEP_SESSION_LENGTH, 1},
    [STEP_SESSION_LENGTH] = {STEP_SESSION, 0},
    [STEP_SESSION] = {STEP_SUITES_LENGTH, 2},
    [STEP_SUITES_LENGTH] = {STEP_SUITES, 0},
    [STEP_SUITES] = {STEP_COMPRESSIONS_LENGTH, 1},
    [STEP_COMPRESSIONS_LENGTH] = {STEP_COMPRESSIONS, 0},
    [STEP_COMPRESSIONS] = {STEP_EXTENSIONS_LENGTH, 2},
    [STEP_EXTENSIONS_LENGTH] = {STEP_EXTENSION_TYPE, 2},
    [STEP_EXTENSION_TYPE] = {STEP_EXTENSION_LENGTH, 2},
    [STEP_EXTENSION_LENGTH] = {STEP_EXTENSION, 0},
    [STEP_EXTENSION] = {STEP_EXTENSION_TYPE, 2},
    [STEP_IDENTITIES_LENGTH] = {STEP_IDENTITY_LENGTH, 2},
    [STEP_IDENTITY_LENGTH] = {STEP_OVER, 0}, /* it is in the last of all extensions (RFC 8446, 4.2.11) */
};
static const struct follows server_fields[STEP_OVER] = {
    [STEP_LENGTH] = {STEP_VERSION, 2},
    [STEP_VERSION] = {STEP_RANDOM, TLS_RANDOM_BYTES},
    [STEP_RANDOM] = {STEP_SESSION_LENGTH, 1},
    [STEP_SESSION_LENGTH] = {STEP_SESSION, 0},
    [STEP_SESSION] = {STEP_SUITE, 2},
    [STEP_SUITE] = {STEP_COMPRESSION, 1},
    [STEP_COMPRESSION] = {STEP_EXTENSIONS_LENGTH, 2},
    [STEP_EXTENSIONS_LENGTH] = {STEP_EXTENSION_TYPE, 2},
    [STEP_EXTENSION_TYPE] = {STEP_EXTENSION_LENGTH, 2},
    [STEP_EXTENSION_LENGTH] = {STEP_EXTENSION, 0},
    [STEP_EXTENSION] = {STEP_EXTENSION_TYPE, 2},
};

static void go_to(struct tls_hello *hello, unsigned int step, uint32_t bytes)
{
    hello->step = (uint8_t)step;
    hello->left = bytes;
    hello->number = 0;
}

static void lose(struct tls_records *records, struct tls_hello *hello)
{
    go_to(hello, STEP_OVER, 0);
    records->is_lost = true;
}

/* To the next field; behind a length, to one of that length. */
static void go_on(struct tls_hello *hello, bool is_client)
{
    const struct follows *fields = is_client ? client_fields : server_fields;
    struct follows next = fields[hello->step];
    if (next.bytes > 0 || next.step == STEP_OVER) {
        go_to(hello, next.step, next.bytes);
        return;
    }
    const uint32_t length = hello->number;
    if (length > 0) {
        go_to(hello, next.step, length);
        return;
    }
    next = fields[next.step];
    go_to(hello, next.step, next.bytes);
}

/* A field is over. */
static void take(struct tls_records *records, struct tls_hello *hello, bool is_client)
{
    const uint32_t number = hello->number;
    switch ((enum step)hello->step) {
    case STEP_TYPE:
        if (number != (is_client ? CLIENT_HELLO : SERVER_HELLO))
            lose(records, hello);
        else
            go_to(hello, STEP_LENGTH, 3);
        return;
    case STEP_LENGTH:
        hello->remaining = number;
        break;
    case STEP_VERSION:
        hello->is_retry = !is_client; /* until a byte says otherwise */
        break;
    case STEP_RANDOM:
        records->has_random = records->has_random || is_client;
        break;
    case STEP_SUITE:
        records->suite = (uint16_t)number;
        break;
    case STEP_EXTENSION_TYPE:
        hello->type = (uint16_t)number;
        break;
    case STEP_EXTENSION_LENGTH:
        if (is_client && hello->type == EXTENSION_EARLY_DATA) {
            lose(records, hello);
            return;
        }
        if (is_client && hello->type == EXTENSION_PSK) {
            go_to(hello, STEP_IDENTITIES_LENGTH, 2);
            return;
        }
        break;
    case STEP_EXTENSION:
        if (!is_client && hello->type == EXTENSION_VERSIONS) {
            if (number != VERSION_1_3)
                records->is_lost = true;
            records->version = VERSION_1_3;
        }
        if (!is_client && hello->type == EXTENSION_PSK) {
            records->is_resumed = true;
            if (number != 0) /* by another ticket than the first */
                records->offered = 0;
        }
        break;
    case STEP_IDENTITY_LENGTH:
        records->offered = (uint16_t)number;
        break;
    default:
        break;
    }
    go_on(hello, is_client);
}

/* The server's message is over. */
static void end(struct tls_records *records, struct tls_hello *hello)
{
    if (hello->is_retry) { /* the true one is to come, and another one of the client's */
        records->client = (struct tls_hello){0};
        *hello = (struct tls_hello){0};
        records->version = records->suite = records->offered = 0;
        records->is_resumed = false;
        return;
    }
    go_to(hello, STEP_OVER, 0);
    if (records->version == 0)
        records->version = VERSION_1_2; /* or less */
}

void tls_hello_read(struct tls_records *records, struct tls_hello *hello, bool is_client, uint8_t byte)
{
    const enum step step = (enum step)hello->step;
    if (step == STEP_OVER)
        return;
    if (step == STEP_TYPE)
        hello->left = 1;
    if (step == STEP_RANDOM) {
        const uint32_t at = TLS_RANDOM_BYTES - hello->left;
        if (is_client)
            records->random[at] = byte;
        else if (byte != retry_random[at])
            hello->is_retry = false;
    }
    hello->number = hello->number << 8 | byte;
    hello->left--;
    if (step > STEP_LENGTH)
        hello->remaining--;
    const bool is_last = step > STEP_LENGTH && hello->remaining == 0;
    if (hello->left == 0)
        take(records, hello, is_client);
    if (is_last && is_client)
        go_to(hello, STEP_OVER, 0);
    else if (is_last)
        end(records, hello);
}
