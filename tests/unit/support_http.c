#include "support_http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <time.h>

#define HEAD_MAX 65536u
#define VALUE_MAX 128

bool same_head(const struct http_head *one, const struct http_head *other)
{
    return one->status == other->status && one->retry_after == other->retry_after &&
           one->retry_after_s == other->retry_after_s && one->two_digit_year == other->two_digit_year;
}

enum http_progress read_at_edge(const char *bytes, size_t count, struct http_head *head)
{
    const size_t size = 2 * HEAD_MAX, page = 65536;
    char *pages = mmap(NULL, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct http_reader reader = {0};

    if (pages == MAP_FAILED || count == 0 || count > size || mprotect(pages + size, page, PROT_NONE) != 0)
        abort();
    memcpy(pages + size - count, bytes, count);
    enum http_progress progress = http_read(&reader, pages + size - count, count - 1, head);
    progress = progress == HTTP_MORE ? http_read(&reader, pages + size - 1, 1000, head) : HTTP_MORE;
    munmap(pages, size + page);
    return progress;
}

/* --- dates: taken apart loosely, then written again; what does not come out the same was none --- */

static const char *const long_days[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

static bool is_day(const char *name, bool in_full)
{
    char day[16];
    for (int i = 0; i < 7; i++) {
        snprintf(day, sizeof day, in_full ? "%s" : "%.3s", long_days[i]);
        if (strcmp(day, name) == 0)
            return true;
    }
    return false;
}

static bool to_seconds(struct tm tm, const char *month, uint64_t *seconds)
{
    const bool leap_second = tm.tm_sec == 60;
    for (tm.tm_mon = 0; tm.tm_mon < 12 && strcmp(months[tm.tm_mon], month) != 0;)
        tm.tm_mon++;
    if (tm.tm_mon == 12 || tm.tm_year < -1900 || tm.tm_year > 9999 - 1900)
        return false;
    tm.tm_sec -= leap_second;
    struct tm normal = tm;
    const time_t time = timegm(&normal);
    if (normal.tm_sec != tm.tm_sec || normal.tm_min != tm.tm_min || normal.tm_hour != tm.tm_hour ||
        normal.tm_mday != tm.tm_mday || normal.tm_mon != tm.tm_mon)
        return false;
    *seconds = normal.tm_year < 70 ? 0 : (uint64_t)time + leap_second;
    return true;
}

static bool slow_date(const char *text, uint64_t *seconds, bool *two_digit_year)
{
    char day[16], month[4], again[VALUE_MAX];
    struct tm tm = {0};
    int year;

    *two_digit_year = false;
    if (sscanf(text, "%15[A-Za-z], %d %3s %d %d:%d:%d", day, &tm.tm_mday, month, &year, &tm.tm_hour, &tm.tm_min,
               &tm.tm_sec) == 7) {
        snprintf(again, sizeof again, "%s, %02d %s %04d %02d:%02d:%02d GMT", day, tm.tm_mday, month, year, tm.tm_hour,
                 tm.tm_min, tm.tm_sec);
        tm.tm_year = year - 1900;
        return strcmp(text, again) == 0 && is_day(day, false) && to_seconds(tm, month, seconds);
    }
    if (sscanf(text, "%15[A-Za-z], %d-%3[^-]-%d %d:%d:%d", day, &tm.tm_mday, month, &year, &tm.tm_hour, &tm.tm_min,
               &tm.tm_sec) == 7) {
        snprintf(again, sizeof again, "%s, %02d-%s-%02d %02d:%02d:%02d GMT", day, tm.tm_mday, month, year, tm.tm_hour,
                 tm.tm_min, tm.tm_sec);
        tm.tm_year = 100 + year;
        *two_digit_year = true;
        return strcmp(text, again) == 0 && year >= 0 && year < 100 && is_day(day, true) &&
               to_seconds(tm, month, seconds);
    }
    if (sscanf(text, "%15[A-Za-z] %3s %d %d:%d:%d %d", day, month, &tm.tm_mday, &tm.tm_hour, &tm.tm_min, &tm.tm_sec,
               &year) == 7) {
        const char *formats[] = {"%s %s %2d %02d:%02d:%02d %04d", "%s %s %02d %02d:%02d:%02d %04d"};
        tm.tm_year = year - 1900;
        for (int i = 0; i < 2; i++) { /* a blank or a zero before a day of one digit */
            snprintf(again, sizeof again, formats[i], day, month, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, year);
            if (strcmp(text, again) == 0)
                return is_day(day, false) && to_seconds(tm, month, seconds);
        }
    }
    return false;
}

/* --- header lines --- */

static int rank(const struct http_head *head)
{
    if (head->retry_after == RETRY_AFTER_DATE)
        return head->two_digit_year ? 1 : 2;
    return head->retry_after == RETRY_AFTER_SECONDS ? 3 : 0;
}

static void take_value(const char *value, struct http_head *head)
{
    struct http_head found = {.status = head->status};
    if (value[0] != '\0' && value[strspn(value, "0123456789")] == '\0') {
        const unsigned long long seconds = strtoull(value, NULL, 10); /* saturates */
        found.retry_after = RETRY_AFTER_SECONDS;
        found.retry_after_s = seconds < UINT32_MAX ? seconds : UINT32_MAX;
    } else if (slow_date(value, &found.retry_after_s, &found.two_digit_year)) {
        found.retry_after = RETRY_AFTER_DATE;
    } else {
        return;
    }
    if (rank(&found) > rank(head) || (rank(&found) == rank(head) && found.retry_after_s > head->retry_after_s))
        *head = found;
}

/* A line without its end. */
static void take_line(const char *line, size_t length, struct http_head *head)
{
    static const char name[] = "Retry-After";
    size_t at = sizeof name - 1;
    if (length <= at || memchr(line, '\0', length) != NULL || strncasecmp(line, name, at) != 0)
        return;
    while (at < length && (line[at] == ' ' || line[at] == '\t'))
        at++;
    if (at == length || line[at++] != ':')
        return;
    while (at < length && (line[at] == ' ' || line[at] == '\t'))
        at++;
    while (length > at && (line[length - 1] == ' ' || line[length - 1] == '\t'))
        length--;
    char *value = strndup(line + at, length - at);
    take_value(value, head);
    free(value);
}

/* --- heads --- */

static bool fits(char byte, char pattern)
{
    if (pattern == 'd')
        return byte >= '0' && byte <= '9';
    if (pattern == 'n')
        return byte >= '1' && byte <= '9';
    if (pattern == 'e')
        return byte == ' ' || byte == '\r' || byte == '\n';
    return byte == pattern;
}

struct slow_http slow_http(const char *bytes, size_t count)
{
    static const char start[] = "HTTP/1.d ndde";
    struct slow_http result = {.progress = HTTP_MORE, .if_broken = HTTP_NONE};
    const char *head = bytes, *end = bytes + count;

    for (;;) {
        for (size_t i = 0; start[i] != '\0'; i++) {
            if (head + i == end)
                return result;
            if (!fits(head[i], start[i])) {
                result.progress = HTTP_NONE;
                result.used = (size_t)(head + i + 1 - bytes);
                return result;
            }
        }
        const unsigned int status = (unsigned int)atoi(head + 9);
        const bool interim = status < 200 && status != 101;
        const bool block = interim || status == 429 || status == 503;
        struct http_head found = {.status = status};

        for (const char *line = head;;) {
            const char *newline = memchr(line, '\n', (size_t)(end - line));
            size_t length = (size_t)((newline != NULL ? newline : end) - line);
            if (newline != NULL && length > 0 && line[length - 1] == '\r')
                length--;
            const bool is_last = newline != NULL && (line == head ? !block : length == 0);
            const size_t so_far = (size_t)((newline != NULL ? newline + 1 : end) - head);
            if (so_far > HEAD_MAX || (so_far == HEAD_MAX && !is_last)) {
                result.progress = result.if_broken = interim ? HTTP_NONE : HTTP_KNOWN;
                result.head = result.broken_head = (struct http_head){.status = status};
                result.used = (size_t)(head - bytes) + HEAD_MAX;
                return result;
            }
            if (newline == NULL)
                return result;
            if (line != head && !interim)
                take_line(line, length, &found);
            if (!interim) {
                result.if_broken = HTTP_KNOWN;
                result.broken_head = found;
            }
            line = newline + 1;
            if (is_last && interim) {
                head = line;
                break;
            }
            if (is_last) {
                result.progress = HTTP_KNOWN;
                result.head = found;
                result.used = (size_t)(line - bytes);
                return result;
            }
        }
    }
}
