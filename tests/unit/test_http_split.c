/* Heads of HTTP answers: the same result whatever the pieces, and the same as that of a slow and obvious reader. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support_http.h"

#define ROUNDS 60000u
#define ANSWER_MAX 1024u

static uint64_t random_state = UINT64_C(0x2545f4914f6cdd1d);

static size_t draw(size_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (size_t)(random_state >> 11) % below;
}

/* --- one answer --- */

struct answer {
    char bytes[ANSWER_MAX];
    size_t count;
};

static void fail_of(const struct answer *answer, const char *what)
{
    char *escaped = malloc(4 * answer->count + 1);
    size_t length = 0;
    assert_non_null(escaped);
    for (size_t i = 0; i < answer->count; i++)
        length += (size_t)sprintf(escaped + length, "\\%03o", (unsigned char)answer->bytes[i]);
    fail_msg("%s: %s", what, escaped);
}

/* What the reader says of these bytes when they come in pieces that end at the places given, ascending. */
static void check_pieces(const struct answer *answer, const struct slow_http *expected, const size_t *ends,
                         size_t count)
{
    struct http_reader reader = {0};
    struct http_head head = {0};
    enum http_progress progress = HTTP_MORE;
    size_t from = 0;

    for (size_t i = 0; i <= count; i++) {
        const size_t to = i < count ? ends[i] : answer->count;
        progress = http_read(&reader, answer->bytes + from, to - from, &head);
        const bool decided = expected->progress != HTTP_MORE && expected->used <= to;
        if (progress != (decided ? expected->progress : HTTP_MORE))
            fail_of(answer, "progress");
        from = to;
    }
    if (progress == HTTP_KNOWN && !same_head(&head, &expected->head))
        fail_of(answer, "head");
    memset(&head, 0, sizeof head);
    if (http_break(&reader, &head) != expected->if_broken)
        fail_of(answer, "broken");
    if (expected->if_broken == HTTP_KNOWN && !same_head(&head, &expected->broken_head))
        fail_of(answer, "broken head");
}

static void check_byte_by_byte(const struct answer *answer, const struct slow_http *expected)
{
    size_t ends[ANSWER_MAX];
    for (size_t i = 0; i < answer->count; i++)
        ends[i] = i + 1;
    check_pieces(answer, expected, ends, answer->count);
}

static void check_random_pieces(const struct answer *answer, const struct slow_http *expected)
{
    size_t ends[8], count = 0;
    for (size_t at = 0; count < 8 && (at += draw(answer->count / 4 + 2)) < answer->count;)
        ends[count++] = at;
    check_pieces(answer, expected, ends, count);
}

static struct answer answer_of(const char *text)
{
    struct answer answer = {.count = strlen(text)};
    assert_true(answer.count < sizeof answer.bytes);
    memcpy(answer.bytes, text, answer.count);
    return answer;
}

/* --- answers --- */

static const char *const usual[] = {
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "HTTP/1.1 503 Service Unavailable\r\nServer: x\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.0 429\nretry-AFTER \t:  120\t \nX: y\n\nbody",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nX: y\r\n\r\nHTTP/1.1 503 \r\nRetry-After: 5\r\n\r\n",
    "HTTP/1.1 503 x\r\nRetry-After: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n",
    "HTTP/1.1 503 x\r\nRetry-After: Sunday, 06-Nov-94 08:49:37 GMT \r\n\r\n",
    "HTTP/1.1 503 x\r\nRetry-After: Sun Nov  6 08:49:37 1994\n\r\n",
    "HTTP/1.1 503 x\r\nRetry-After: soon\r\nRetry-After: 3\r\n 4\r\nRetry-After: 2\r\n\r\n",
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n\x81\x05hello",
    "HTTP/1.1 2000 OK\r\n\r\n",
    "HTTP/2.0 200 OK\r\n\r\n",
    "-ERR unknown command\r\n",
    "HTTP/1.1 503 x\r\nRetry-After: 99999999999999999999\r\n\rRetry-After: 1\r\n\r\r\n\r\n",
};

static void all_splits_in_two_and_in_three_say_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        const struct answer answer = answer_of(usual[i]);
        const struct slow_http expected = slow_http(answer.bytes, answer.count);
        check_byte_by_byte(&answer, &expected);
        for (size_t first = 0; first <= answer.count; first++)
            for (size_t second = first; second <= answer.count; second++)
                check_pieces(&answer, &expected, (const size_t[]){first, second}, 2);
    }
}

static void every_beginning_says_what_the_slow_reader_says(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        struct answer answer = answer_of(usual[i]);
        for (; answer.count > 0; answer.count--) {
            const struct slow_http expected = slow_http(answer.bytes, answer.count);
            check_pieces(&answer, &expected, NULL, 0);
        }
    }
}

static void every_single_byte_changed_says_what_the_slow_reader_says(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        for (size_t at = 0; at < strlen(usual[i]); at++) {
            for (unsigned int byte = 0; byte < 256; byte++) {
                struct answer answer = answer_of(usual[i]);
                answer.bytes[at] = (char)byte;
                const struct slow_http expected = slow_http(answer.bytes, answer.count);
                check_pieces(&answer, &expected, NULL, 0);
            }
        }
    }
}

/* --- answers by chance: mostly right ones, so that the depths are reached --- */

static void add(struct answer *answer, const char *text)
{
    const size_t length = strlen(text);
    if (answer->count + length > sizeof answer->bytes)
        return;
    memcpy(answer->bytes + answer->count, text, length);
    answer->count += length;
}

/* The first one is half of all. */
#define ADD_ONE_OF(answer, ...)                                                                                        \
    do {                                                                                                               \
        static const char *const choices[] = {__VA_ARGS__};                                                            \
        add(answer, choices[draw(2) * draw(sizeof choices / sizeof *choices)]);                                        \
    } while (0)

static void add_date(struct answer *answer)
{
    const char *days[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sonn"};
    const char *long_days[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sund"};
    const char *months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec", "Mai"};
    const unsigned int day = (unsigned int)draw(33), hour = (unsigned int)draw(25), minute = (unsigned int)draw(61),
                       second = (unsigned int)draw(62), year = 1960 + (unsigned int)draw(100);
    const char *month = months[draw(draw(10) == 0 ? 13 : 12)];
    const size_t name = draw(draw(10) == 0 ? 8 : 7);
    char text[96];

    switch (draw(4)) {
    case 0:
        snprintf(text, sizeof text, "%s, %02u %s %04u %02u:%02u:%02u GMT", days[name], day, month, year, hour, minute,
                 second);
        break;
    case 1:
        snprintf(text, sizeof text, "%s, %02u-%s-%02u %02u:%02u:%02u GMT", long_days[name], day, month, year % 100,
                 hour, minute, second);
        break;
    case 2:
        snprintf(text, sizeof text, "%s %s %2u %02u:%02u:%02u %04u", days[name], month, day, hour, minute, second,
                 year);
        break;
    default:
        snprintf(text, sizeof text, "%s %s %02u %02u:%02u:%02u %04u", days[name], month, day, hour, minute, second,
                 year);
        break;
    }
    add(answer, text);
}

static void add_header(struct answer *answer)
{
    ADD_ONE_OF(answer, "Retry-After", "retry-after", "RETRY-AFTER", "Retry-Afte", "Server", " ", "");
    ADD_ONE_OF(answer, ": ", ":", ":\t", " : ", "", ":  ");
    switch (draw(4)) {
    case 0:
        ADD_ONE_OF(answer, "7", "0", "120", "4294967295", "4294967296", "99999999999999999999999", "-1", "1.5", "");
        break;
    case 1:
    case 2:
        add_date(answer);
        break;
    default:
        ADD_ONE_OF(answer, "x", "soon", "7 8", "Sun", "Retry-After: 7");
        break;
    }
    ADD_ONE_OF(answer, "\r\n", "\n", " \r\n", "\t \r\n", "\r", "");
}

static struct answer random_answer(void)
{
    struct answer answer = {.count = 0};
    for (size_t heads = 1 + draw(3); heads > 0; heads--) {
        ADD_ONE_OF(&answer, "HTTP/1.1 ", "HTTP/1.0 ", "HTTP/1.2 ", "HTTP/1.9 ", "HTTP/1.1", "HTTP/2.0 ");
        if (heads > 1)
            ADD_ONE_OF(&answer, "100", "103", "102", "101", "199");
        else
            ADD_ONE_OF(&answer, "503", "429", "503", "200", "404", "1", "50");
        ADD_ONE_OF(&answer, " \r\n", " Some Reason\r\n", "\r\n", "\n", " x\n", "");
        for (size_t headers = draw(5); headers > 0; headers--)
            add_header(&answer);
        ADD_ONE_OF(&answer, "\r\n", "\n", "\r\r\n", "");
    }
    for (size_t changes = draw(3); changes > 0 && answer.count > 0 && draw(2) == 0; changes--)
        answer.bytes[draw(answer.count)] = "\0\r\n\t :,-7aG\xff"[draw(13)];
    return answer;
}

static void random_answers_in_random_pieces_say_what_the_slow_reader_says(void **state)
{
    unsigned int results[3] = {0}, dates = 0;
    (void)state;
    for (unsigned int round = 0; round < ROUNDS; round++) {
        const struct answer answer = random_answer();
        const struct slow_http expected = slow_http(answer.bytes, answer.count);
        check_pieces(&answer, &expected, NULL, 0);
        check_byte_by_byte(&answer, &expected);
        for (int i = 0; i < 4; i++)
            check_random_pieces(&answer, &expected);
        results[expected.progress]++;
        dates += expected.progress == HTTP_KNOWN && expected.head.retry_after == RETRY_AFTER_DATE;
    }
    /* The answers were such that each of these was really tried. */
    assert_true(results[HTTP_MORE] > ROUNDS / 20 && results[HTTP_NONE] > ROUNDS / 20);
    assert_true(results[HTTP_KNOWN] > ROUNDS / 20 && dates > ROUNDS / 100);
}

static void heads_around_64_kib_say_what_the_slow_reader_says(void **state)
{
    static const char *const starts[] = {"HTTP/1.1 503 ", "HTTP/1.1 503 \r\nRetry-After: 7\r\nX: ", "HTTP/1.1 100 ",
                                         "HTTP/1.1 200 "};
    static const char end[] = "\r\n\r\nHTTP/1.1 429 \r\n\r\n";
    const size_t size = 65536 + 64;
    char *bytes = malloc(size);
    (void)state;
    assert_non_null(bytes);
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        for (size_t at = 65536 - 40; at < 65536 + 10; at++) {
            struct http_reader reader = {0};
            struct http_head head = {0};
            memset(bytes, 'x', size);
            memcpy(bytes, starts[i], strlen(starts[i]));
            memcpy(bytes + at, end, sizeof end - 1);
            const struct slow_http expected = slow_http(bytes, size);
            assert_int_equal(http_read(&reader, bytes, at, &head), expected.used <= at ? expected.progress : HTTP_MORE);
            assert_int_equal(http_read(&reader, bytes + at, size - at, &head), expected.progress);
            if (expected.progress == HTTP_KNOWN)
                assert_true(same_head(&head, &expected.head));
        }
    }
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_splits_in_two_and_in_three_say_the_same),
        cmocka_unit_test(every_beginning_says_what_the_slow_reader_says),
        cmocka_unit_test(every_single_byte_changed_says_what_the_slow_reader_says),
        cmocka_unit_test(random_answers_in_random_pieces_say_what_the_slow_reader_says),
        cmocka_unit_test(heads_around_64_kib_say_what_the_slow_reader_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
