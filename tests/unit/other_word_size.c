/*
 * other_word_size.c - the 32-bit half of a test: reads what the 64-bit half wrote into a segment, and writes to it.
 *
 * Compiled and run by test_segment_bytes, for one program has one word size. Its exit status is the line that failed.
 */
#include <stdlib.h>
#include <string.h>

#include "segment/journal.h"
#include "segment/layout.h"
#include "segment/processes.h"
#include "segment/segment.h"

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            return __LINE__;                                                                                           \
    } while (0)

/* The offsets that the other half has measured, for the capacities that it names: each but the size is an offset. */
static int check_places(char **numbers)
{
    uint32_t number[14];
    for (unsigned int i = 0; i < sizeof number / sizeof *number; i++)
        number[i] = (uint32_t)strtoul(numbers[i], NULL, 10);
    const struct capacity capacity = {number[0], number[1], number[2], number[3]};
    const struct segment_places places = layout_measure(&capacity);
    CHECK(places.processes == number[4] && places.call_owner == number[5] && places.call_group == number[6]);
    CHECK(places.calls == number[7] && places.events == number[8] && places.circuits == number[9]);
    CHECK(places.latency == number[10] && places.learnt == number[11] && places.fleet == number[12]);
    CHECK(places.size == number[13]);
    return 0;
}

int main(int count, char **arguments)
{
    if (count == 15)
        return check_places(arguments + 1);
    static struct segment segment;
    static struct segment_error error;
    struct process_view view;
    struct event event;
    uint32_t cursor = 0;
    CHECK(count == 3 && sizeof(void *) == 4);
    CHECK(segment_attach(&segment, arguments[1], arguments[2], NULL, &error));
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
