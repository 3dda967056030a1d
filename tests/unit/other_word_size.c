/*
 * other_word_size.c - the 32-bit half of a test: reads what the 64-bit half wrote into a segment, and writes to it.
 *
 * Compiled and run by test_segment_bytes, for one program has one word size. Its exit status is the line that failed.
 */
#include <string.h>

#include "segment/journal.h"
#include "segment/process.h"

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            return __LINE__;                                                                                           \
    } while (0)

int main(int count, char **arguments)
{
    static struct segment segment;
    static struct segment_error error;
    struct process_view view;
    struct event event;
    uint32_t cursor = 0;
    CHECK(count == 3 && sizeof(void *) == 4);
    CHECK(segment_attach(&segment, arguments[1], arguments[2], &error));
    CHECK(error.text[0] == '\0');
    CHECK(journal_read(&segment, 0, &event));
    CHECK(event.type == EVENT_OPEN && event.mono_ns == UINT64_C(543210987654321));
    CHECK(strcmp(event.program, "first") == 0);
    CHECK(process_next(&segment, &cursor, &view));
    CHECK(strcmp(view.program, "first") == 0 && view.revision == UINT64_C(0x123456789abcdef));
    event.type = EVENT_FAILURE;
    event.mono_ns = UINT64_C(123456789012345);
    event.pid = 42;
    journal_append(&segment, &event);
    CHECK(process_join(&segment, "other", 5) == (2u << 20 | 1));
    return 0;
}
