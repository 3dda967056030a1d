/*
 * tls_records.c - a TLS session from outside. See tls_records.h.
 */
#include "breaker/tls_records.h"

#include "breaker/tls_hello.h"

#define RECORD_MAX (16384u + 2048u)

enum record_type { RECORD_CHANGE = 20, RECORD_ALERT, RECORD_HANDSHAKE, RECORD_DATA };

/* What TLS 1.3 adds to what is inside of a record: its type, and a tag. */
#define SEALED 17u
#define ALERT_LENGTH (2u + SEALED)
#define KEY_UPDATE_LENGTH (5u + SEALED)
#define PADDING 16u /* that Java adds to each of its records */
/* Certificate, CertificateVerify and one more before the Finished. */
#define OTHERS_MAX 3u

/* OpenSSL's NewSessionTicket: header, lifetime, age, nonce, two lengths; then the ticket, by itself of whole blocks; and
 * where early data is allowed, an extension. */
#define TICKET_FRAME (4u + 4 + 4 + 1 + 8 + 2 + 2 + SEALED)
#define TICKET_EARLY 8u
#define TICKET_BLOCK 16u
#define TICKET_MIN 32u
#define TICKET_MAX 4096u
#define TICKETS 2u

void tls_records_lose(struct tls_records *records)
{
    records->is_lost = true;
}

/* The length of a record that is the client's Finished, without padding; 0: nobody knows. */
static uint32_t finished_length(const struct tls_records *records)
{
    switch (records->suite) {
    case 0x1301: /* AES-128-GCM, ChaCha20-Poly1305, AES-128-CCM: with SHA-256 */
    case 0x1303:
    case 0x1304:
        return 4 + 32 + SEALED;
    case 0x1302: /* AES-256-GCM: with SHA-384 */
        return 4 + 48 + SEALED;
    default:
        return 0;
    }
}

/* --- what the client sends --- */

static void client_handshake_1_3(struct tls_records *records, uint32_t length)
{
    const uint32_t finished = finished_length(records);
    if (finished == 0) {
        tls_records_lose(records);
    } else if (length == finished || length == finished + PADDING) {
        records->is_finished = true;
        records->padding = (uint8_t)(length - finished);
    } else if (length == ALERT_LENGTH || length == ALERT_LENGTH + PADDING) {
        records->is_rejected = true;
    } else if (++records->others > OTHERS_MAX) {
        tls_records_lose(records);
    }
}

static void client_data_1_3(struct tls_records *records, uint32_t length)
{
    if (!records->is_finished) {
        client_handshake_1_3(records, length);
        return;
    }
    if (length == ALERT_LENGTH + records->padding || length == KEY_UPDATE_LENGTH + records->padding)
        return;
    if (!records->has_asked)
        records->has_asked = true;
    else if (tls_records_standing(records) == RECORDS_HELD)
        records->is_answered = true; /* who goes on has perhaps been answered */
}

static void client_record(struct tls_records *records, unsigned int type, uint32_t length)
{
    switch (type) {
    case RECORD_HANDSHAKE:
        records->out.is_hello = true;
        break;
    case RECORD_ALERT:
        if (!records->is_finished)
            records->is_rejected = true;
        break;
    case RECORD_CHANGE:
        if (records->version == VERSION_1_2)
            records->is_finished = true; /* as good as */
        break;
    default:
        if (records->version == 0)
            tls_records_lose(records); /* early data */
        else if (records->version == VERSION_1_3)
            client_data_1_3(records, length);
        else
            records->has_asked = true;
    }
}

/* --- what the server sends --- */

static void server_data_1_3(struct tls_records *records, uint64_t at, uint32_t length)
{
    if (!records->is_finished && !records->is_sending) {
        if (records->others > 0)
            tls_records_lose(records); /* one of the client's others was its Finished after all */
        return;
    }
    if (at >= records->asked_from)
        records->after++;
    if (at < records->finished_from)
        return;
    if (records->tail++ == 0)
        records->tail_length = length;
    else if (records->tail_length != length)
        records->is_uneven = true;
}

static void server_record(struct tls_records *records, unsigned int type, uint64_t at, uint32_t length)
{
    switch (type) {
    case RECORD_HANDSHAKE:
        records->in.is_hello = records->version == 0;
        if (records->version == VERSION_1_3)
            tls_records_lose(records);
        break;
    case RECORD_ALERT:
        if (records->version != VERSION_1_2 || !records->is_finished)
            records->is_answered = true; /* it says no */
        break;
    case RECORD_CHANGE:
        break;
    default:
        if (records->version == 0)
            tls_records_lose(records);
        else if (records->version == VERSION_1_3)
            server_data_1_3(records, at, length);
        else
            records->is_answered = true;
    }
}

/* --- both --- */

/* A header is whole. False: it is none. */
static bool begin_record(struct tls_records *records, struct tls_stream *stream, uint64_t at)
{
    const uint8_t *header = stream->header;
    const uint32_t length = (uint32_t)header[3] << 8 | header[4];
    if (header[0] < RECORD_CHANGE || header[0] > RECORD_DATA || header[1] != 3 || header[2] > 4 || length > RECORD_MAX)
        return false;
    stream->have = 0;
    stream->left = length;
    stream->is_hello = false;
    if (stream == &records->out)
        client_record(records, header[0], length);
    else
        server_record(records, header[0], at, length);
    return true;
}

/* Takes bytes of a record; how many. */
static size_t take_body(struct tls_records *records, struct tls_stream *stream, const uint8_t *bytes, size_t count)
{
    const bool is_client = stream == &records->out;
    struct tls_hello *hello = is_client ? &records->client : &records->server;
    const size_t part = count < stream->left ? count : stream->left;
    for (size_t i = 0; stream->is_hello && i < part && !tls_hello_is_over(hello); i++)
        tls_hello_read(records, hello, is_client, bytes[i]);
    stream->left -= (uint32_t)part;
    return part;
}

static void follow(struct tls_records *records, struct tls_stream *stream, const void *from, size_t count)
{
    const uint8_t *bytes = from;
    while (count > 0 && !records->is_lost) {
        size_t part = 1;
        if (stream->left > 0)
            part = take_body(records, stream, bytes, count);
        else
            stream->header[stream->have++] = *bytes;
        bytes += part;
        count -= part;
        stream->bytes += part;
        if (stream->have == TLS_HEADER_BYTES && !begin_record(records, stream, stream->bytes - TLS_HEADER_BYTES))
            tls_records_lose(records);
    }
}

void tls_records_sending(struct tls_records *records, uint64_t came)
{
    if (records->is_sending) { /* of two at once nobody knows which one has asked */
        tls_records_lose(records);
        return;
    }
    records->is_sending = true;
    if (records->has_asked)
        return;
    records->asked_from = came;
    records->after = 0;
    if (records->is_finished)
        return;
    records->finished_from = came;
    records->tail = records->tail_length = 0;
    records->is_uneven = false;
}

void tls_records_sent(struct tls_records *records, const void *bytes, size_t count)
{
    follow(records, &records->out, bytes, count);
}

void tls_records_send_is_over(struct tls_records *records)
{
    records->is_sending = false;
}

void tls_records_came(struct tls_records *records, const void *bytes, size_t count)
{
    follow(records, &records->in, bytes, count);
}

/* --- what it comes to --- */

static bool is_ticket(uint32_t length, uint32_t early)
{
    const uint32_t frame = TICKET_FRAME + early;
    return length >= frame + TICKET_MIN && length <= frame + TICKET_MAX && (length - frame) % TICKET_BLOCK == 0;
}

/* Tickets that follow on the Finished: how many there are to be. 0: what came is none. */
static uint32_t tickets_of(const struct tls_records *records)
{
    const uint32_t length = records->tail_length;
    if (records->is_uneven || (!is_ticket(length, 0) && !is_ticket(length, TICKET_EARLY)))
        return 0;
    if (!records->is_resumed)
        return TICKETS;
    const uint32_t like_offered = TICKET_FRAME + records->offered;
    return records->offered != 0 && (length == like_offered || length == like_offered + TICKET_EARLY) ? 1 : 0;
}

static enum tls_standing standing_1_3(const struct tls_records *records)
{
    if (!records->is_finished)
        return RECORDS_HANDSHAKE;
    const uint32_t tickets = records->tail > 0 ? tickets_of(records) : 1;
    const bool is_only_tickets = records->tail <= tickets;
    if (!records->has_asked)
        return is_only_tickets ? RECORDS_READY : RECORDS_ANSWERED;
    if (records->after == 0)
        return RECORDS_ASKED;
    if (!is_only_tickets)
        return RECORDS_ANSWERED;
    return records->tail == tickets ? RECORDS_ASKED : RECORDS_HELD;
}

enum tls_standing tls_records_standing(const struct tls_records *records)
{
    if (records->is_lost)
        return RECORDS_LOST;
    if (records->is_answered)
        return RECORDS_ANSWERED;
    if (records->is_rejected && !records->is_finished)
        return RECORDS_REJECTED;
    if (records->version == VERSION_1_3)
        return standing_1_3(records);
    if (records->has_asked)
        return RECORDS_ASKED;
    return records->is_finished ? RECORDS_READY : RECORDS_HANDSHAKE;
}

bool tls_records_saw_all(const struct tls_records *records, uint64_t came)
{
    return records->in.have == 0 && records->in.bytes == came;
}
