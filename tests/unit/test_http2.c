/* The frames of HTTP/2, in both directions: the same events in whatever pieces they come. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "breaker/http2.h"

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define TEXT_MAX 2048u

static uint64_t random_state = UINT64_C(0x9e3779b97f4a7c15);

static size_t draw(size_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (size_t)(random_state >> 11) % below;
}

struct bytes {
    unsigned char at[4096];
    size_t count;
};

static void add(struct bytes *bytes, const void *more, size_t count)
{
    assert_true(bytes->count + count <= sizeof bytes->at);
    memcpy(bytes->at + bytes->count, more, count);
    bytes->count += count;
}

static void add_frame(struct bytes *bytes, unsigned int type, unsigned int flags, uint32_t stream, const void *payload,
                      size_t count)
{
    const unsigned char head[] = {
        (unsigned char)(count >> 16),  (unsigned char)(count >> 8),  (unsigned char)count,
        (unsigned char)type,           (unsigned char)flags,         (unsigned char)(stream >> 24),
        (unsigned char)(stream >> 16), (unsigned char)(stream >> 8), (unsigned char)stream};
    add(bytes, head, sizeof head);
    add(bytes, payload, count);
}

static void add_settings(struct bytes *bytes)
{
    add_frame(bytes, 4, 0, 0, "\0\3\0\0\0\144", 6);
}

/* What a reader says of the bytes, as text; in pieces by chance, or whole. */
static void tell(const struct bytes *bytes, bool is_client, bool whole, char text[TEXT_MAX])
{
    struct http2_reader reader = {0};
    struct hpack hpack;
    size_t length = 0, from = 0;

    if (is_client)
        http2_start_client(&reader);
    hpack_start(&hpack);
    text[0] = '\0';
    while (from < bytes->count) {
        size_t part = whole ? bytes->count - from : 1 + draw(draw(2) == 0 ? 3 : bytes->count - from);
        part = part < bytes->count - from ? part : bytes->count - from;
        unsigned char *piece = malloc(part);
        assert_non_null(piece);
        memcpy(piece, bytes->at + from, part);
        for (size_t at = 0; at < part;) {
            struct http2_event event;
            memset(&event, 0xff, sizeof event);
            const size_t taken = http2_read(&reader, is_client ? NULL : &hpack, piece + at, part - at, &event);
            assert_true(taken > 0 && taken <= part - at);
            assert_true(event.what != HTTP2_NOTHING || taken == part - at);
            at += taken;
            static const char *const names[] = {"", "lost", "settings", "headers", "data", "reset", "goaway"};
            if (event.what == HTTP2_LOST) {
                assert_true(event.stream == 0 && !event.ends);
                snprintf(text, TEXT_MAX, "lost");
                free(piece);
                return;
            }
            if (event.what == HTTP2_NOTHING)
                continue;
            length += (size_t)snprintf(text + length, TEXT_MAX - length, "%s %u", names[event.what], event.stream);
            if (event.what == HTTP2_RESET && !is_client)
                length += (size_t)snprintf(text + length, TEXT_MAX - length, " by %u", event.error);
            if (event.what == HTTP2_HEADERS && !is_client)
                length += (size_t)snprintf(text + length, TEXT_MAX - length, " with %d", event.head.status);
            if ((event.what == HTTP2_HEADERS || event.what == HTTP2_DATA) && event.ends)
                length += (size_t)snprintf(text + length, TEXT_MAX - length, " ends");
            length += (size_t)snprintf(text + length, TEXT_MAX - length, ", ");
        }
        free(piece);
        from += part;
    }
}

static void expect(const struct bytes *bytes, bool is_client, const char *expected)
{
    char text[TEXT_MAX];
    tell(bytes, is_client, true, text);
    assert_string_equal(text, expected);
    for (unsigned int round = 0; round < 200; round++) {
        tell(bytes, is_client, false, text);
        assert_string_equal(text, expected);
    }
}

static void what_a_client_sends_says_which_streams_begin_and_end(void **state)
{
    struct bytes bytes = {.count = 0};
    (void)state;
    add(&bytes, PREFACE, sizeof PREFACE - 1);
    add_settings(&bytes);
    add_frame(&bytes, 1, 0x4 | 0x1, 1, "\x82\x84", 2);
    add_frame(&bytes, 2, 0, 3, "\0\0\0\0\1", 5);
    add_frame(&bytes, 1, 0x20, 3, "\0\0\0\0\1\x82", 6);
    add_frame(&bytes, 9, 0x4, 3, "\x84", 1);
    add_frame(&bytes, 0, 0, 3, "a body", 6);
    add_frame(&bytes, 0, 1, 3, "", 0);
    add_frame(&bytes, 6, 0, 0, "12345678", 8);
    add_frame(&bytes, 3, 0, 1, "\0\0\0\x8", 4);
    add_frame(&bytes, 8, 0, 0, "\0\0\0\x8", 4);
    add_frame(&bytes, 200, 0xff, 77, "unknown", 7);
    expect(&bytes, true, "headers 1 ends, headers 3, data 3, data 3 ends, reset 1, ");
}

static void what_a_server_sends_says_which_streams_are_answered(void **state)
{
    struct bytes bytes = {.count = 0};
    (void)state;
    add_settings(&bytes);
    add_frame(&bytes, 4, 1, 0, "", 0);
    add_frame(&bytes, 1, 0x4, 1, "\x88", 1);                                  /* 200 */
    add_frame(&bytes, 1, 0x4 | 0x8 | 0x20 | 0x1, 3, "\2\0\0\0\0\1\x8d..", 9); /* 404, padded, with a priority */
    add_frame(&bytes, 5, 0x4 | 0x8, 3,
              "\1\0\0\0\2\x48\3"
              "204.",
              11);                         /* a promise: kept, and not told */
    add_frame(&bytes, 1, 0x1, 5, "", 0);   /* in three frames */
    add_frame(&bytes, 9, 0, 5, "\xbe", 1); /* 204, from the table */
    add_frame(&bytes, 9, 0x4, 5, "\x40\1x\1y", 5);
    add_frame(&bytes, 0, 0x8, 1, "\3body...", 8);
    add_frame(&bytes, 3, 0, 7, "\0\0\0\x7", 4);
    add_frame(&bytes, 7, 0, 0, "\x80\0\0\x5\0\0\0\0why", 11);
    add_frame(&bytes, 0, 1, 1, "end", 3);
    expect(&bytes, false,
           "settings 0, headers 1 with 200, headers 3 with 404 ends, headers 5 with 204 ends, data 1, "
           "reset 7 by 7, goaway 5, data 1 ends, ");
}

struct wrong {
    unsigned int type, flags;
    uint32_t stream;
    const char *payload;
    size_t count;
};

static void what_can_not_be_followed_is_lost(void **state)
{
    static const struct wrong frames[] = {
        {1, 0x4, 0, "\x88", 1},         /* of no stream */
        {9, 0x4, 1, "\x88", 1},         /* goes on with nothing */
        {1, 0x4, 1, "\x80", 1},         /* no header block */
        {1, 0x4, 1, "\x40", 1},         /* half a header */
        {1, 0x4 | 0x8, 1, "\2\x88", 2}, /* more padding than there is */
        {1, 0x4 | 0x8, 1, "", 0},       /* no room for its length */
        {1, 0x4 | 0x20, 1, "\0\0", 2},  /* nor for a priority */
        {3, 0, 1, "\0", 1},
        {7, 0, 0, "\0\0\0\0", 4},
    };
    (void)state;
    for (size_t i = 0; i < sizeof frames / sizeof frames[0]; i++) {
        struct bytes bytes = {.count = 0};
        char text[TEXT_MAX];
        add_settings(&bytes);
        add_frame(&bytes, frames[i].type, frames[i].flags, frames[i].stream, frames[i].payload, frames[i].count);
        tell(&bytes, false, true, text);
        if (strstr(text, "lost") == NULL)
            fail_msg("frame %zu: %s", i, text);
    }
}

static void a_connection_that_begins_otherwise_is_lost(void **state)
{
    struct bytes bytes = {.count = 0};
    (void)state;
    add(&bytes, "PRI * HTTP/1.1\r\n", 16);
    expect(&bytes, true, "lost");
    bytes.count = 0;
    add(&bytes, "HTTP/1.1 400 Bad Request\r\n\r\n", 28);
    expect(&bytes, false, "lost");
    assert_true(http2_begins(PREFACE, 24));
    assert_false(http2_begins("PRI * HTTP/1", 12));
    assert_true(http2_greets("\0\0\6\4\0\0\0\0\0\0\3\0\0\0\144", 15));
    assert_false(http2_greets("J\0\0\0\n8.0.36\0", 12)); /* MySQL's */
    assert_false(http2_greets("\0\0\5\4\0\0\0\0\0", 9));
    assert_false(http2_greets("\0\0\0\4\1\0\0\0\0", 9));
}

static void a_head_that_is_in_parts_is_followed_by_its_next_part_alone(void **state)
{
    struct bytes bytes = {.count = 0};
    (void)state;
    add_settings(&bytes);
    add_frame(&bytes, 1, 0, 1, "\x88", 1);
    add_frame(&bytes, 0, 0, 1, "body", 4);
    expect(&bytes, false, "lost");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_client_sends_says_which_streams_begin_and_end),
        cmocka_unit_test(what_a_server_sends_says_which_streams_are_answered),
        cmocka_unit_test(what_can_not_be_followed_is_lost),
        cmocka_unit_test(a_connection_that_begins_otherwise_is_lost),
        cmocka_unit_test(a_head_that_is_in_parts_is_followed_by_its_next_part_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
