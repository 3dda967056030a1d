/* Heads of HTTP answers: what is recognised, and when it is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "support_http.h"

#define HEAD_MAX 65536u

/* Bytes that are final with the last of them, and not before. */
static struct http_head known(const char *bytes)
{
    struct http_head head;
    if (read_at_edge(bytes, strlen(bytes), &head) != HTTP_KNOWN)
        fail_msg("not known: %s", bytes);
    return head;
}

/* At the end of a page behind which nothing may be touched. Mapped once. */
static unsigned int at_once(const char *bytes, size_t count)
{
    enum { SIZE = 65536 };
    static char *pages;
    if (!pages) {
        pages = mmap(NULL, 2 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(pages, MAP_FAILED);
        assert_int_equal(mprotect(pages + SIZE, SIZE, PROT_NONE), 0);
    }
    memcpy(pages + SIZE - count, bytes, count);
    return http_status_at_once(pages + SIZE - count, count);
}

/* --- status lines --- */

static void a_status_is_known_at_the_end_of_its_line(void **state)
{
    static const struct {
        const char *bytes;
        unsigned int status;
    } answers[] = {
        {"HTTP/1.1 200 OK\r\n", 200},
        {"HTTP/1.0 200 OK\r\n", 200},
        {"HTTP/1.9 204 No Content\r\n", 204},
        {"HTTP/1.1 200\r\n", 200},
        {"HTTP/1.1 200 \r\n", 200},
        {"HTTP/1.1 200\n", 200},
        {"HTTP/1.1 200 OK\n", 200},
        {"HTTP/1.1 404 Not Found: a long and odd\treason\x80\xff\r more\r\n", 404},
        {"HTTP/1.1 101 Switching Protocols\r\n", 101},
        {"HTTP/1.1 101\n", 101},
        {"HTTP/1.1 500 \r\n", 500},
        {"HTTP/1.1 502 Bad Gateway\r\n", 502},
        {"HTTP/1.1 504 \r\n", 504},
        {"HTTP/1.1 428 \r\n", 428},
        {"HTTP/1.1 430 \r\n", 430},
        {"HTTP/1.1 999 \r\n", 999},
    };
    (void)state;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        struct http_head head = known(answers[i].bytes);
        assert_int_equal(head.status, answers[i].status);
        assert_int_equal(head.retry_after, RETRY_AFTER_NONE);
        /* At once, but for what may be no final answer; and not before the end of the line. */
        size_t length = strlen(answers[i].bytes);
        assert_int_equal(at_once(answers[i].bytes, length), answers[i].status == 101 ? 0 : answers[i].status);
        assert_int_equal(at_once(answers[i].bytes, length - 1), 0);
    }
}

/* What is told at once is what is read; what may have more to it is left to be read. */
static void a_status_at_once_is_the_one_that_is_read(void **state)
{
    static const char *const parts[] = {"HTTP/1.1 ", "HTTP/1.0 ", "HTTP/2.0 ", "HTTP/1.x ", "HTTP/1.1", "200",
                                        "302",       "429",       "503",       "100",       "0200",     "20",
                                        "2x0",       " OK",       "\r\n",      "\n",        "x"};
    enum { PARTS = sizeof parts / sizeof *parts, LINES = PARTS * PARTS * PARTS * PARTS };
    unsigned int told = 0;
    (void)state;
    for (unsigned int number = 0; number < LINES; number++) {
        char line[64] = "";
        for (unsigned int part = 0, rest = number; part < 4; part++, rest /= PARTS)
            strcat(line, parts[rest % PARTS]);
        struct http_reader reader = {0};
        struct http_head head = {0};
        bool known = http_read(&reader, line, strlen(line), &head) == HTTP_KNOWN;
        unsigned int status = at_once(line, strlen(line));
        assert_int_equal(status, known && head.status != 429 && head.status != 503 ? head.status : 0);
        told += status != 0;
    }
    assert_true(told > 50);
}

static void a_status_line_that_does_not_end_is_not_told_at_once(void **state)
{
    static char line[2000] = "HTTP/1.1 200 ";
    (void)state;
    memset(line + strlen(line), 'x', sizeof line - 20);
    assert_int_equal(at_once(line, strlen(line)), 0);
    strcat(line, "\r\n");
    assert_int_equal(at_once(line, strlen(line)), 0); /* and a very long one neither */
}

static void what_only_looks_like_http_is_none_at_the_first_byte_that_cannot_be(void **state)
{
    static const char *const others[] = {
        "h",
        "G",
        "\x16",
        " ",
        "\n",
        "HTTP/2",
        "HTTP/0",
        "HTTPS",
        "HTP",
        "HTTP ",
        "HTTP/1 ",
        "HTTP/1.x",
        "HTTP/1.1\t",
        "HTTP/1.1\r",
        "HTTP/1.1  ",
        "HTTP/1.10",
        "HTTP/1.1 a",
        "HTTP/1.1 0",
        "HTTP/1.1 -",
        "HTTP/1.1 99 ",
        "HTTP/1.1 2:",
        "HTTP/1.1 20/",
        "HTTP/1.1 2000",
        "HTTP/1.1 200:",
        "HTTP/1.1 200\t",
        "HTTP/1.1 100 \n\nX",
        "HTTP/1.1 100 \r\n\r\nHTTP/1.1 100\n\r\nHTTP/1.1 2\n",
    };
    struct http_head head = {.status = 77};
    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct http_reader reader = {0};
        const size_t before = strlen(others[i]) - 1;
        if (http_read(&reader, others[i], before, &head) != HTTP_MORE ||
            http_read(&reader, others[i] + before, 1, &head) != HTTP_NONE)
            fail_msg("%s", others[i]);
        assert_int_equal(http_read(&reader, "HTTP/1.1 200 OK\r\n", 17, &head), HTTP_NONE);
        assert_int_equal(http_break(&reader, &head), HTTP_NONE);
        assert_int_equal(head.status, 77);
    }
}

static void a_final_result_stays(void **state)
{
    static const char answer[] = "HTTP/1.1 429 \r\nRetry-After: 5\r\n\r\n";
    static const char more[] = "\r\nRetry-After: 9\r\n\r\nHTTP/1.1 200 OK\r\n\r\n";
    struct http_reader reader = {0};
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct http_head head = {0};
        assert_int_equal(
            http_read(&reader, i == 0 ? answer : more, i == 0 ? sizeof answer - 1 : sizeof more - 1, &head),
            HTTP_KNOWN);
        assert_int_equal(head.status, 429);
        assert_int_equal(head.retry_after_s, 5);
        memset(&head, 0, sizeof head);
        assert_int_equal(http_read(&reader, NULL, 0, &head), HTTP_KNOWN);
        assert_int_equal(head.retry_after_s, 5);
        memset(&head, 0, sizeof head);
        assert_int_equal(http_break(&reader, &head), HTTP_KNOWN);
        assert_int_equal(head.retry_after_s, 5);
    }
}

/* --- interim answers --- */

static void interim_answers_are_skipped_with_their_headers(void **state)
{
    (void)state;
    assert_int_equal(known("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n").status, 200);
    assert_int_equal(known("HTTP/1.1 100\n\nHTTP/1.0 404\n").status, 404);
    assert_int_equal(
        known("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n b\r\n\r\nHTTP/1.1 102 \r\n\r\nHTTP/1.1 201 \r\n").status,
        201);
    assert_int_equal(known("HTTP/1.1 199 \r\nX: HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 101 \r\n").status, 101);
}

/* --- answers that break off --- */

static struct http_reader reader_after(const char *bytes)
{
    struct http_reader reader = {0};
    struct http_head head;
    http_read(&reader, bytes, strlen(bytes), &head);
    return reader;
}

static void an_answer_has_begun_with_its_first_byte_and_interim_ones_are_none(void **state)
{
    static const char *const begun[] = {
        "H",
        "HTTP/1.1",
        "HTTP/1.1 ",
        "HTTP/1.1 2",
        "HTTP/1.1 20",
        "HTTP/1.1 200",
        "HTTP/1.1 200 OK\r",
        "HTTP/1.1 50",
        "HTTP/1.1 101",
        "HTTP/1.1 101 \r\n",
        "HTTP/1.1 503 \r\n",
        "HTTP/1.1 503 \r\nRetry-",
        "HTTP/1.1 200 OK\r\n",
        "x",
        "HTTP/1.1 100 \r\n\r\nH",
        "HTTP/1.1 100 \r\n\r\nHTTP/1.1 9",
    };
    static const char *const not_begun[] = {
        "",
        "HTTP/1.1 1",
        "HTTP/1.1 10",
        "HTTP/1.1 19",
        "HTTP/1.1 100",
        "HTTP/1.1 100 Con",
        "HTTP/1.1 103 \r\nLink: <",
        "HTTP/1.1 103 \r\nLink\r\n\r",
        "HTTP/1.1 100 \r\n\r\n",
        "HTTP/1.1 100 \n\nHTTP/1.1 102 \n\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof begun / sizeof *begun; i++) {
        struct http_reader reader = reader_after(begun[i]);
        if (!http_has_begun(&reader))
            fail_msg("has begun: %s", begun[i]);
    }
    for (size_t i = 0; i < sizeof not_begun / sizeof *not_begun; i++) {
        struct http_reader reader = reader_after(not_begun[i]);
        if (http_has_begun(&reader))
            fail_msg("has not begun: %s", not_begun[i]);
    }
}

static void a_broken_answer_counts_if_its_status_line_was_whole(void **state)
{
    static const struct {
        const char *bytes;
        unsigned int status, retry_after_s; /* 0: none */
    } broken[] = {
        {"", 0, 0},
        {"HTTP/1.1 503", 0, 0},
        {"HTTP/1.1 503 Service Unav", 0, 0},
        {"HTTP/1.1 503 Service Unavailable\r", 0, 0},
        {"HTTP/1.1 503 Service Unavailable\r\n", 503, 0},
        {"HTTP/1.1 503 \r\nRetry-After: 1", 503, 0},
        {"HTTP/1.1 503 \r\nRetry-After: 1\r", 503, 0},
        {"HTTP/1.1 503 \r\nRetry-After: 1\r\n", 503, 1},
        {"HTTP/1.1 503 \r\nRetry-After: 1\r\nRetry-After: 20", 503, 1},
        {"HTTP/1.1 200 OK\r\n", 200, 0},
        {"HTTP/1.1 100 Continue\r\n", 0, 0},
        {"HTTP/1.1 103 \r\nRetry-After: 1\r\n", 0, 0},
        {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 429", 0, 0},
        {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 429\n", 429, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        struct http_head head = {0};
        struct http_reader reader = reader_after(broken[i].bytes);
        assert_int_equal(http_break(&reader, &head), broken[i].status != 0 ? HTTP_KNOWN : HTTP_NONE);
        assert_int_equal(head.status, broken[i].status);
        assert_int_equal(head.retry_after_s, broken[i].retry_after_s);
    }
}

/* --- heads without end --- */

/* A head of that many bytes, of which the last line is the one given. */
static char *long_head(const char *start, const char *end, size_t size)
{
    char *bytes = malloc(size + 1);
    assert_non_null(bytes);
    memset(bytes, 'x', size);
    memcpy(bytes, start, strlen(start));
    memcpy(bytes + size - strlen(end), end, strlen(end) + 1);
    return bytes;
}

static void a_head_of_64_kib_is_read_and_a_longer_one_is_given_up_without_its_retry_after(void **state)
{
    static const struct {
        const char *start, *end;
        size_t size;
        enum http_progress progress;
        unsigned int status, retry_after_s;
    } heads[] = {
        {"HTTP/1.1 503 \r\nRetry-After: 7\r\n", "\r\n\r\n", HEAD_MAX, HTTP_KNOWN, 503, 7},
        {"HTTP/1.1 503 \r\nRetry-After: 7\r\n", "x\r\n\r", HEAD_MAX, HTTP_KNOWN, 503, 0},
        {"HTTP/1.1 503 \r\n", "\r\nRetry-After: 7\r\n\r\n", HEAD_MAX, HTTP_KNOWN, 503, 7},
        {"HTTP/1.1 200 ", "\r\n", HEAD_MAX, HTTP_KNOWN, 200, 0},
        {"HTTP/1.1 200 ", "x", HEAD_MAX, HTTP_KNOWN, 200, 0},
        {"HTTP/1.1 101 ", "x", HEAD_MAX, HTTP_KNOWN, 101, 0},
        {"HTTP/1.1 100 ", "x", HEAD_MAX, HTTP_NONE, 0, 0},
        {"HTTP/1.1 103 \r\nLink: ", "\r\n", HEAD_MAX, HTTP_NONE, 0, 0},
        {"HTTP/1.1 103 \r\nLink: ", "\r\n\r\nHTTP/1.1 200\n", HEAD_MAX + 13, HTTP_KNOWN, 200, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        char *bytes = long_head(heads[i].start, heads[i].end, heads[i].size);
        struct http_head head = {0};
        assert_int_equal(read_at_edge(bytes, heads[i].size, &head), heads[i].progress);
        assert_int_equal(head.status, heads[i].status);
        assert_int_equal(head.retry_after_s, heads[i].retry_after_s);
        assert_int_equal(head.retry_after, heads[i].retry_after_s != 0 ? RETRY_AFTER_SECONDS : RETRY_AFTER_NONE);
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_status_is_known_at_the_end_of_its_line),
        cmocka_unit_test(a_status_at_once_is_the_one_that_is_read),
        cmocka_unit_test(a_status_line_that_does_not_end_is_not_told_at_once),
        cmocka_unit_test(what_only_looks_like_http_is_none_at_the_first_byte_that_cannot_be),
        cmocka_unit_test(a_final_result_stays),
        cmocka_unit_test(interim_answers_are_skipped_with_their_headers),
        cmocka_unit_test(an_answer_has_begun_with_its_first_byte_and_interim_ones_are_none),
        cmocka_unit_test(a_broken_answer_counts_if_its_status_line_was_whole),
        cmocka_unit_test(a_head_of_64_kib_is_read_and_a_longer_one_is_given_up_without_its_retry_after),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
