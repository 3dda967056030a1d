/*
 * test_http_request.c - how far a request has come, in whatever pieces it is sent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "breaker/http_request.h"

#define POST "POST /upload HTTP/1.1\r\nHost: x\r\n"

/* `open`: whether more is to come behind the whole text. */
static const struct row {
    const char *text;
    bool open;
} rows[] = {
    {"", false},
    {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", false},
    {"GET / HTTP/1.1\r\nHost: x\r\n", true},
    {"\r\nGET / HTTP/1.0\n\n", false},
    {"GET / HTTP/1.1\r", true},
    {"GET / HTTP/1.", false}, /* not known yet */
    {"GET /", false},
    {"PING\r\n", false},
    {"GET key\r\n", false},
    {"get / HTTP/1.1\r\n", false},
    {"PRI * HTTP/2.0\r\n\r\n", false},
    {"GET  / HTTP/1.1\r\n", false},
    {"GET / HTTP/1.1 \r\n", false},
    {"AVERYLONGWORDTHATISNOMETHOD / HTTP/1.1\r\n", false},
    {"M-SEARCH * HTTP/1.1\r\n", true},
    {"OPTIONS * HTTP/1.1\r\n\r\n", false},
    {"CONNECT host:443 HTTP/1.1\r\n\r\n", false},
    {POST "Content-Length: 5\r\n\r\n", true},
    {POST "Content-Length: 5\r\n\r\nfour", true},
    {POST "Content-Length: 5\r\n\r\nfives", false},
    {POST "Content-Length: 5\r\n\r\nfives and the next one", false},
    {POST "Content-Length: 0\r\n\r\n", false},
    {POST "content-length:5\n\nfour", true},
    {POST "CONTENT-LENGTH : \t5 \r\n\r\nfour", true},
    {POST "Content-Length: 18446744073709551616\r\n\r\n", false},
    {POST "Content-Length: 5, 5\r\n\r\n", false},
    {POST "Content-Length: 5 5\r\n\r\n", false},
    {POST "Content-Length: -5\r\n\r\n", false},
    {POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", false},
    {POST "X-Content-Length: 5\r\n\r\n", false},
    {POST "Content-Length-X: 5\r\n\r\n", false},
    {POST "Content: 5\r\nConnection: close\r\n\r\n", false},
    {POST "Transfer-Encoding: chunked\r\n\r\n", true},
    {POST "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", true},
    {POST "Transfer-Encoding: chunked\r\n\r\n3\r\nab", true},
    {POST "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", false},
    {POST "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n", true},
    {POST "Transfer-Encoding: chunked\r\n\r\n3;name=value\r\nabc\r\n000\r\nTrailer: x\r\n\r\n", false},
    {POST "Transfer-Encoding: chunked\r\n\r\n3\nabc\n0\n\n", false},
    {POST "Transfer-Encoding: chunked\r\n\r\nA\r\n0123456789\r\na\r\n0123456789\r\n", true},
    {POST "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", false},
    {POST "Transfer-Encoding: chunked\r\n\r\n\r\n", false},
    {POST "Transfer-Encoding: chunked\r\n\r\n1234567890123456\r\n", false},
    {POST "Transfer-Encoding: gzip, Chunked\r\n\r\n", true},
    {POST "Transfer-Encoding: chunked, gzip\r\n\r\n", false},
    {POST "Transfer-Encoding: unchunked\r\n\r\n", false},
    {POST "Transfer-Encoding: chunkedly\r\n\r\n", false},
    {POST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nxyz", false},
    {POST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc", true},
    {POST "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n", false},
    {POST "Content-Length: 5\r\nEXPECT:100-Continue\r\n\r\n", false},
    {POST "Expect: 100-continue\r\nContent-Length: 5\r\n\r\nf", true},
    {POST "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n", false},
    {POST "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n5", true},
    {POST "Expect: something\r\nContent-Length: 5\r\n\r\n", true},
    {POST "Expect: 100-continue\r\n", true},
};
#define ROWS (sizeof rows / sizeof rows[0])

static void a_request_is_open_until_it_is_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        struct http_request request = {0};
        http_request_read(&request, rows[i].text, strlen(rows[i].text));
        if (http_request_is_open(&request) != rows[i].open)
            fail_msg("%s", rows[i].text);
    }
}

static void pieces_make_no_difference_wherever_they_are_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        size_t length = strlen(rows[i].text);
        for (size_t first = 0; first <= length; first++) {
            for (size_t second = first; second <= length; second++) {
                struct http_request request = {0};
                http_request_read(&request, rows[i].text, first);
                http_request_read(&request, rows[i].text + first, second - first);
                http_request_read(&request, rows[i].text + second, length - second);
                if (http_request_is_open(&request) != rows[i].open)
                    fail_msg("%s, cut at %zu and %zu", rows[i].text, first, second);
            }
        }
    }
}

static void a_body_that_goes_by_sendfile_is_counted(void **state)
{
    static const char head[] = POST "Content-Length: 5000000000\r\n\r\n";
    static const char chunks[] = POST "Transfer-Encoding: chunked\r\n\r\n8\r\n";
    struct http_request request = {0};

    (void)state;
    http_request_read(&request, head, sizeof head - 1);
    http_request_skip(&request, 4999999999);
    assert_true(http_request_is_open(&request));
    http_request_skip(&request, 1);
    assert_false(http_request_is_open(&request));

    request = (struct http_request){0};
    http_request_read(&request, chunks, sizeof chunks - 1);
    http_request_skip(&request, 8);
    http_request_read(&request, "\r\n", 2);
    assert_true(http_request_is_open(&request));
    http_request_read(&request, "0\r\n\r\n", 5);
    assert_false(http_request_is_open(&request));
}

static void what_was_not_seen_of_a_head_ends_the_following(void **state)
{
    struct http_request request = {0};

    (void)state;
    http_request_read(&request, POST, sizeof POST - 1);
    assert_true(http_request_is_open(&request));
    http_request_skip(&request, 10);
    assert_false(http_request_is_open(&request));
    http_request_read(&request, POST, sizeof POST - 1);
    assert_false(http_request_is_open(&request));
}

static void a_head_without_end_is_given_up(void **state)
{
    struct http_request request = {0};

    (void)state;
    http_request_read(&request, POST, sizeof POST - 1);
    for (unsigned int i = 0; i < 65536; i++)
        http_request_read(&request, "x", 1);
    assert_false(http_request_is_open(&request));
}

static void usual_requests_without_a_body_are_told_by_their_ends(void **state)
{
    static const struct {
        const char *text;
        bool plain;
    } sends[] = {
        {"GET / HTTP/1.1\r\n\r\n", true},
        {"HEAD / HTTP/1.1\r\n\r\n", true},
        {"*1\r\n$4\r\nPING\r\n", true},
        {"get key\r\n", true},
        {"POST / HTTP/1.1\r\n\r\n", false},
        {"GET / HTTP/1.1\r\n", false},
        {"\x16\x03\x01", true},
        {"", true},
        {"GET \r\n\r\n", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof sends / sizeof sends[0]; i++) {
        if (http_request_is_plain(sends[i].text, strlen(sends[i].text)) != sends[i].plain)
            fail_msg("%s", sends[i].text);
    }
}

/* --- all at once, or byte by byte --- */

static const char *const parts[] = {"GET ",
                                    "HEAD ",
                                    "POST ",
                                    "G",
                                    "M-SEARCH ",
                                    " ",
                                    "/",
                                    "/x?y",
                                    "*",
                                    " HTTP/1.1\r\n",
                                    " HTTP/1.",
                                    "0",
                                    "1",
                                    "\r\n",
                                    "\r\n\r\n",
                                    "\n",
                                    "\r",
                                    "Host: x\r\n",
                                    "Accept: */*\r\n",
                                    "User-Agent: a b\r\n",
                                    "Zone: c\n",
                                    "`x\r\n",
                                    "[x\r\n",
                                    "Content-Length: 3\r\n",
                                    "Content-Length: 0\r\n",
                                    "Connection: close\r\n",
                                    "Expect: 100-continue\r\n",
                                    "Transfer-Encoding: chunked\r\n",
                                    "abc",
                                    "3\r\n",
                                    "\t",
                                    "\x80"};

static uint32_t drawn = 1;

static const char *draw_part(void)
{
    drawn = drawn * 1664525u + 1013904223u;
    return parts[(drawn >> 16) % (sizeof parts / sizeof parts[0])];
}

static void begin_as_most_do(char *text)
{
    strcpy(text, drawn >> 31 ? "GET /x HTTP/1.1\r\nHost: x\r\n" : "");
}

static void the_whole_of_a_request_leaves_what_its_bytes_leave(void **state)
{
    (void)state;
    for (unsigned int round = 0; round < 200000; round++) {
        char text[400];
        struct http_request whole = {0}, bytes = {0};
        begin_as_most_do(text);
        for (unsigned int i = 0, count = 1 + (drawn >> 20) % 8; i < count; i++)
            strcat(text, draw_part());
        if (drawn >> 30 & 1)
            strcat(text, "\r\n\r\n");
        http_request_read(&whole, text, strlen(text));
        for (size_t i = 0; text[i]; i++)
            http_request_read(&bytes, &text[i], 1);
        if (memcmp(&whole, &bytes, sizeof whole) != 0)
            fail_msg("%s", text);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_whole_of_a_request_leaves_what_its_bytes_leave),
        cmocka_unit_test(a_request_is_open_until_it_is_whole),
        cmocka_unit_test(pieces_make_no_difference_wherever_they_are_cut),
        cmocka_unit_test(a_body_that_goes_by_sendfile_is_counted),
        cmocka_unit_test(what_was_not_seen_of_a_head_ends_the_following),
        cmocka_unit_test(a_head_without_end_is_given_up),
        cmocka_unit_test(usual_requests_without_a_body_are_told_by_their_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
