/*
 * fuzz_tls_records.c - throws bytes at the reader of TLS records.
 *
 * `make fuzz` builds and runs it. The input is a row of turns: one byte says who speaks and how much of what follows is
 * his. Beside crashes it looks for this: what is known is the same for each turn at once and byte by byte.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "breaker/tls_records.h"
#include "fuzz.h"
#include "fuzz_words.h"

#define CLIENT 0x80u
#define SENDING 0x40u

static void read_turn(struct tls_records *records, unsigned int turn, const uint8_t *bytes, size_t count)
{
    char *piece = piece_of((const char *)bytes, count);
    if (turn & CLIENT)
        tls_records_sent(records, piece, count);
    else
        tls_records_came(records, piece, count);
    free(piece);
}

static void begin_turn(struct tls_records *records, unsigned int turn)
{
    if (turn & SENDING)
        tls_records_sending(records, records->in.bytes + turn % 4);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tls_records whole, pieces;
    memset(&whole, 0, sizeof whole);
    memset(&pieces, 0, sizeof pieces);
    while (size > 1) {
        const unsigned int turn = *data++;
        size--;
        size_t count = (size_t)(turn % SENDING) * 8 + 1;
        if (count > size)
            count = size;
        begin_turn(&whole, turn);
        begin_turn(&pieces, turn);
        read_turn(&whole, turn, data, count);
        for (size_t i = 0; i < count; i++)
            read_turn(&pieces, turn, data + i, 1);
        if (turn & CLIENT) {
            tls_records_send_is_over(&whole);
            tls_records_send_is_over(&pieces);
        }
        assert(tls_records_standing(&whole) == tls_records_standing(&pieces));
        assert(whole.is_lost || memcmp(&whole, &pieces, sizeof whole) == 0);
        data += count;
        size -= count;
    }
    return 0;
}
