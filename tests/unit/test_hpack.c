/* Header blocks of HTTP/2: the examples of RFC 7541, and what another implementation writes, in whatever pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dlfcn.h>

#include "breaker/hpack.h"

static uint64_t random_state = UINT64_C(0x9e3779b97f4a7c15);

static size_t draw(size_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (size_t)(random_state >> 11) % below;
}

static size_t bytes_of(const char *hex, unsigned char *bytes)
{
    size_t count = 0;
    for (; *hex != '\0'; hex++) {
        if (*hex == ' ')
            continue;
        const char pair[3] = {hex[0], hex[1], '\0'};
        bytes[count++] = (unsigned char)strtoul(pair, NULL, 16);
        hex++;
    }
    return count;
}

/* A whole block, in one piece or byte by byte. */
static bool read_block(struct hpack *hpack, const unsigned char *bytes, size_t count, bool whole)
{
    hpack_begin(hpack);
    for (size_t i = 0; i < count; i += whole ? count : 1) {
        if (!hpack_read(hpack, bytes + i, whole ? count : 1))
            return false;
    }
    return hpack_end(hpack);
}

struct example {
    const char *hex;
    unsigned int status;
    uint32_t size, entries; /* of the table afterwards */
};

/* RFC 7541, C.5 and C.6: three answers, without and with Huffman's code, with a table of 256 bytes. */
static const struct example plain_answers[] = {
    {"3fe101"
     "4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a323120474d54"
     "6e1768747470733a2f2f7777772e6578616d706c652e636f6d",
     302, 222, 4},
    {"4803333037c1c0bf", 307, 222, 4},
    {"88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04677a69707738666f6f3d4153444a"
     "4b48514b425a584f5157454f50495541585157454f49553b206d61782d6167653d333630303b2076657273696f6e3d31",
     200, 215, 3},
};
static const struct example coded_answers[] = {
    {"3fe101"
     "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3",
     302, 222, 4},
    {"4883640effc1c0bf", 307, 222, 4},
    {"88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335dfdfcd5b3960d5af"
     "27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007",
     200, 215, 3},
};

static void check_examples(const struct example *examples, size_t count, bool whole)
{
    struct hpack hpack;
    hpack_start(&hpack);
    for (size_t i = 0; i < count; i++) {
        unsigned char bytes[256];
        assert_true(read_block(&hpack, bytes, bytes_of(examples[i].hex, bytes), whole));
        assert_int_equal(hpack.head.status, examples[i].status);
        assert_int_equal(hpack.table_size, examples[i].size);
        assert_int_equal(hpack.table_count, examples[i].entries);
    }
}

static void the_examples_of_the_rfc_are_read(void **state)
{
    (void)state;
    for (unsigned int whole = 0; whole < 2; whole++) {
        check_examples(plain_answers, 3, whole);
        check_examples(coded_answers, 3, whole);
    }
}

/* RFC 7541, C.2 to C.4: requests, which say nothing that is wanted, but fill the table. */
static void the_requests_of_the_rfc_fill_the_table(void **state)
{
    static const struct example requests[] = {
        {"828684418cf1e3c2e5f23a6ba0ab90f4ff", HPACK_NO_VALUE, 57, 1},
        {"828684be5886a8eb10649cbf", HPACK_NO_VALUE, 110, 2},
        {"828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf", HPACK_NO_VALUE, 164, 3},
    };
    (void)state;
    check_examples(requests, 3, true);
    check_examples(requests, 3, false);
}

static void what_grpc_says_is_known_by_its_words(void **state)
{
    struct {
        const char *type, *status;
        bool is_grpc;
        unsigned int value;
    } cases[] = {
        {"application/grpc", "0", true, 0},       {"application/grpc+proto", "14", true, 14},
        {"application/grpc;x", "4", true, 4},     {"Application/GRPC", "16", true, 16},
        {"application/grpcx", "1", false, 1},     {"application/grp", "x", false, HPACK_NO_VALUE},
        {"text/html", "", false, HPACK_NO_VALUE}, {"application/grpc-web", "1x", false, HPACK_NO_VALUE},
        {"", "99999999", false, HPACK_MOST},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned char block[256];
        struct hpack hpack;
        size_t at = 0;
        hpack_start(&hpack);
        block[at++] = 0x88;
        block[at++] = 0x5f; /* content-type, kept */
        block[at++] = (unsigned char)strlen(cases[i].type);
        memcpy(block + at, cases[i].type, strlen(cases[i].type));
        at += strlen(cases[i].type);
        block[at++] = 0x40;
        block[at++] = 11;
        memcpy(block + at, "grpc-status", 11);
        at += 11;
        block[at++] = (unsigned char)strlen(cases[i].status);
        memcpy(block + at, cases[i].status, strlen(cases[i].status));
        at += strlen(cases[i].status);
        static const unsigned char again[] = {0xbe, 0xbf}; /* both from the table */
        for (unsigned int round = 0; round < 3; round++) {
            assert_true(round == 2 ? read_block(&hpack, again, sizeof again, true)
                                   : read_block(&hpack, block, at, round == 0));
            assert_int_equal(hpack.head.is_grpc, cases[i].is_grpc);
            assert_int_equal(hpack.head.grpc_status, cases[i].value);
        }
    }
}

static void what_is_no_header_block_is_lost(void **state)
{
    static const char *const wrong[] = {
        "80",               /* index 0 */
        "ff80808080808080", /* an integer without end */
        "be",               /* an index beyond the table */
        "7f01",             /* a name beyond the table */
        "0085ffffffff00",   /* bits that are no code's, nor padding */
        "008400000000",     /* fewer bits than a byte are not all ones */
        "3fffffff7f",       /* a table that nobody has */
        "40017fffffff7f",   /* nor such a string */
        "0001618103",       /* padding that is no ones */
        "000182ffff",       /* more than seven bits of padding */
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        unsigned char bytes[64];
        struct hpack hpack;
        hpack_start(&hpack);
        if (read_block(&hpack, bytes, bytes_of(wrong[i], bytes), false))
            fail_msg("%s", wrong[i]);
    }
}

static void more_entries_than_there_is_room_for_are_lost(void **state)
{
    static const unsigned char grow[] = {0x3f, 0xe1, 0xff, 0x03}; /* 65,536 bytes */
    static const unsigned char small[] = {0x40, 0x01, 'a', 0x01, 'b'};
    struct hpack hpack;
    (void)state;
    hpack_start(&hpack);
    assert_true(read_block(&hpack, grow, sizeof grow, true));
    for (unsigned int i = 0; i < HPACK_ENTRIES; i++)
        assert_true(read_block(&hpack, small, sizeof small, true));
    assert_false(read_block(&hpack, small, sizeof small, true));
}

/* --- what libnghttp2 writes --- */

struct field {
    uint8_t *name, *value;
    size_t name_length, value_length;
    uint8_t flags;
};

static struct {
    int (*start)(void **deflater, size_t most);
    void (*end)(void *deflater);
    int (*resize)(void *deflater, size_t most);
    ssize_t (*write)(void *deflater, uint8_t *bytes, size_t count, const struct field *fields, size_t field_count);
} other;

static bool other_is_there(void)
{
    void *library = dlopen("libnghttp2.so.14", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return false;
    *(void **)&other.start = dlsym(library, "nghttp2_hd_deflate_new");
    *(void **)&other.end = dlsym(library, "nghttp2_hd_deflate_del");
    *(void **)&other.resize = dlsym(library, "nghttp2_hd_deflate_change_table_size");
    *(void **)&other.write = dlsym(library, "nghttp2_hd_deflate_hd");
    return other.start && other.end && other.resize && other.write;
}

#define FIELDS 12u
#define TEXT 80u

/* One list of headers, and what is to be found in it. */
struct list {
    char names[FIELDS][TEXT], values[FIELDS][TEXT];
    struct field fields[FIELDS];
    size_t count;
    struct hpack_head head;
};

static void add(struct list *list, const char *name, const char *value)
{
    const size_t at = list->count++;
    snprintf(list->names[at], TEXT, "%s", name);
    snprintf(list->values[at], TEXT, "%s", value);
    list->fields[at] = (struct field){(uint8_t *)list->names[at], (uint8_t *)list->values[at], strlen(list->names[at]),
                                      strlen(list->values[at]), draw(8) == 0};
}

static void add_any(struct list *list)
{
    static const char *const known[] = {"server",     "date",          "x-request-id", "grpc-message",
                                        "grpc-statu", ":statusx",      "retry-afte",   "content-typ",
                                        "x",          "content-length"};
    char value[TEXT];
    size_t length = draw(TEXT - 1);
    for (size_t i = 0; i < length; i++)
        value[i] = (char)(draw(5) == 0 ? 1 + draw(255) : 'a' + draw(26));
    value[length] = '\0';
    if (draw(3) == 0)
        snprintf(value, sizeof value, "%zu", draw(4));
    add(list, known[draw(sizeof known / sizeof known[0])], value);
}

static void draw_list(struct list *list)
{
    static const unsigned int statuses[] = {200, 503, 204, 404, 502, 429, 100, 299};
    char text[TEXT];
    *list = (struct list){.head = {HPACK_NO_VALUE, HPACK_NO_VALUE, HPACK_NO_VALUE, false}};
    if (draw(4) != 0) {
        list->head.status = (uint16_t)statuses[draw(8)];
        snprintf(text, sizeof text, "%u", list->head.status);
        add(list, ":status", text);
    }
    while (list->count < FIELDS - 3 && draw(4) != 0)
        add_any(list);
    if (draw(2) == 0) {
        list->head.is_grpc = draw(2) == 0;
        add(list, "content-type", list->head.is_grpc ? "application/grpc" : "text/plain");
    }
    if (draw(2) == 0) {
        list->head.grpc_status = (uint16_t)draw(17);
        snprintf(text, sizeof text, "%u", list->head.grpc_status);
        add(list, "grpc-status", text);
    }
    if (draw(8) == 0) {
        list->head.retry_after_s = (uint16_t)draw(4000);
        snprintf(text, sizeof text, "%u", list->head.retry_after_s);
        add(list, "retry-after", text);
    }
}

/* Reads it in pieces by chance, each in memory of just its size, for the sanitizers' sake. */
static bool read_pieces(struct hpack *hpack, const uint8_t *bytes, size_t count)
{
    hpack_begin(hpack);
    for (size_t from = 0; from < count;) {
        const size_t length = 1 + draw(count - from);
        unsigned char *piece = malloc(length);
        assert_non_null(piece);
        memcpy(piece, bytes + from, length);
        const bool goes_on = hpack_read(hpack, piece, length);
        free(piece);
        if (!goes_on)
            return false;
        from += length;
    }
    return hpack_end(hpack);
}

static void what_another_implementation_writes_is_read(void **state)
{
    (void)state;
    if (!other_is_there())
        skip();
    for (unsigned int round = 0; round < 60; round++) {
        void *deflater = NULL;
        struct hpack hpack;
        hpack_start(&hpack);
        assert_int_equal(other.start(&deflater, 8192), 0);
        for (unsigned int i = 0; i < 100; i++) {
            static uint8_t bytes[8192];
            struct list list;
            if (draw(20) == 0)
                other.resize(deflater, draw(8193));
            draw_list(&list);
            const ssize_t count = other.write(deflater, bytes, sizeof bytes, list.fields, list.count);
            assert_true(count >= 0);
            assert_true(read_pieces(&hpack, bytes, (size_t)count));
            assert_memory_equal(&hpack.head, &list.head, sizeof list.head);
        }
        other.end(deflater);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_examples_of_the_rfc_are_read),
        cmocka_unit_test(the_requests_of_the_rfc_fill_the_table),
        cmocka_unit_test(what_grpc_says_is_known_by_its_words),
        cmocka_unit_test(what_is_no_header_block_is_lost),
        cmocka_unit_test(more_entries_than_there_is_room_for_are_lost),
        cmocka_unit_test(what_another_implementation_writes_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
