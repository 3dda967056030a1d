/*
 * hpack.c - see hpack.h. Representations: RFC 7541, 6; integers: 5.1; strings: 5.2; the table: 2.3 and 4.
 */
#include "breaker/hpack.h"

#include <string.h>

#include "base/ascii.h"
#include "breaker/hpack_huffman.h"
#include "breaker/hpack_static.h"

#define ENTRY_OVERHEAD 32u /* RFC 7541, 4.1 */
#define TABLE_USUAL 4096u
/* A string or a table that is larger is no longer followed; the lengths of two strings fit into an entry. */
#define LENGTH_MOST (UINT32_C(1) << 22)
#define SHIFT_MOST 28u

enum state { AT_HEADER, IN_NUMBER, AT_LENGTH, IN_LENGTH, IN_STRING };

/* Of the representation: by the first bits of its first byte. */
enum form { FORM_INDEXED, FORM_KEPT, FORM_TABLE_SIZE, FORM_PASSING };

/* The names that a literal may be, in the order of enum hpack_kind. */
static const char names[][16] = {[HPACK_STATUS] = ":status",
                                 [HPACK_GRPC_STATUS] = "grpc-status",
                                 [HPACK_CONTENT_TYPE] = "content-type",
                                 [HPACK_RETRY_AFTER] = "retry-after"};
#define NAMES (sizeof names / sizeof names[0])
#define ALL_NAMES (((1u << NAMES) - 1) & ~1u)

static const char grpc_type[] = "application/grpc";
#define GRPC_TYPE_LENGTH (sizeof grpc_type - 1)

void hpack_start(struct hpack *hpack)
{
    memset(hpack, 0, sizeof *hpack);
    hpack->table_most = TABLE_USUAL;
}

void hpack_begin(struct hpack *hpack)
{
    hpack->state = AT_HEADER;
    hpack->head = (struct hpack_head){HPACK_NO_VALUE, HPACK_NO_VALUE, HPACK_NO_VALUE, false};
}

bool hpack_end(const struct hpack *hpack)
{
    return hpack->state == AT_HEADER;
}

/* --- the table --- */

static uint64_t entry_of(unsigned int kind, uint32_t value, uint32_t name_size, uint32_t size)
{
    return (uint64_t)(kind & 7) << 61 | (uint64_t)(value & HPACK_NO_VALUE) << 48 | (uint64_t)name_size << 24 | size;
}

static unsigned int entry_kind(uint64_t entry)
{
    return (unsigned int)(entry >> 61);
}

static uint32_t entry_value(uint64_t entry)
{
    return (uint32_t)(entry >> 48) & HPACK_NO_VALUE;
}

static uint32_t entry_name_size(uint64_t entry)
{
    return (uint32_t)(entry >> 24) & 0xffffffu;
}

static uint32_t entry_size(uint64_t entry)
{
    return (uint32_t)entry & 0xffffffu;
}

/* Makes room for so much: the oldest go. */
static void table_shrink(struct hpack *hpack, uint32_t most)
{
    while (hpack->table_count > 0 && hpack->table_size > most) {
        hpack->table_size -= entry_size(hpack->table[hpack->table_first % HPACK_ENTRIES]);
        hpack->table_first = (hpack->table_first + 1) % HPACK_ENTRIES;
        hpack->table_count--;
    }
}

/* False: there is no place for it. */
static bool table_add(struct hpack *hpack, uint64_t entry)
{
    const uint32_t size = entry_size(entry);

    table_shrink(hpack, size > hpack->table_most ? 0 : hpack->table_most - size);
    if (size > hpack->table_most) /* which empties the table, and is no error (RFC 7541, 4.4) */
        return true;
    if (hpack->table_count >= HPACK_ENTRIES)
        return false;
    hpack->table[(hpack->table_first + hpack->table_count) % HPACK_ENTRIES] = entry;
    hpack->table_count++;
    hpack->table_size += size;
    return true;
}

/* The entry of an index (RFC 7541, 2.3.3). False: there is none. */
static bool table_find(const struct hpack *hpack, uint64_t index, uint64_t *entry)
{
    if (index == 0)
        return false;
    if (index <= HPACK_STATIC_ENTRIES) {
        const struct hpack_static *known = &hpack_static[index - 1];
        const uint32_t value = known->value != 0 ? known->value : HPACK_NO_VALUE;
        *entry = entry_of(known->kind, value, known->name_length,
                          known->name_length + (uint32_t)known->value_length + ENTRY_OVERHEAD);
        return true;
    }
    index -= HPACK_STATIC_ENTRIES + 1;
    if (index >= hpack->table_count)
        return false;
    *entry = hpack->table[(hpack->table_first + hpack->table_count - 1 - (uint32_t)index) % HPACK_ENTRIES];
    return true;
}

/* --- headers --- */

static void note_header(struct hpack *hpack, unsigned int kind, uint32_t value)
{
    struct hpack_head *head = &hpack->head;

    if (value == HPACK_NO_VALUE)
        return;
    switch (kind) {
    case HPACK_STATUS:
        head->status = (uint16_t)value;
        break;
    case HPACK_GRPC_STATUS:
        head->grpc_status = (uint16_t)value;
        break;
    case HPACK_CONTENT_TYPE:
        head->is_grpc = value != 0;
        break;
    case HPACK_RETRY_AFTER:
        head->retry_after_s = (uint16_t)value;
        break;
    default:
        break;
    }
}

/* Both strings of a literal are known. */
static bool end_literal(struct hpack *hpack)
{
    uint32_t value = hpack->value;

    /* "application/grpc", or with "+proto", or ";charset". */
    if (hpack->kind == HPACK_CONTENT_TYPE)
        value = value == GRPC_TYPE_LENGTH;
    else if (hpack->length == 0)
        value = HPACK_NO_VALUE;
    note_header(hpack, hpack->kind, value);
    hpack->state = AT_HEADER;
    return hpack->form != FORM_KEPT || table_add(hpack, entry_of(hpack->kind, value, hpack->name_size,
                                                                 hpack->name_size + hpack->length + ENTRY_OVERHEAD));
}

static void begin_string(struct hpack *hpack, bool is_value)
{
    hpack->is_value = is_value;
    hpack->length = 0;
    hpack->may_be = ALL_NAMES;
    hpack->value = 0;
    hpack->state = AT_LENGTH;
}

static bool end_string(struct hpack *hpack)
{
    if (hpack->is_value)
        return end_literal(hpack);
    hpack->kind = HPACK_OTHER;
    for (unsigned int name = 1; name < NAMES; name++) {
        if ((hpack->may_be >> name & 1) && strlen(names[name]) == hpack->length)
            hpack->kind = (uint8_t)name;
    }
    hpack->name_size = hpack->length;
    begin_string(hpack, true);
    return true;
}

/* --- what a string says, by its decoded bytes --- */

static void take_of_name(struct hpack *hpack, unsigned char byte)
{
    for (unsigned int name = 1; name < NAMES && hpack->may_be != 0; name++) {
        if ((hpack->may_be >> name & 1) &&
            (hpack->length >= strlen(names[name]) || (unsigned char)names[name][hpack->length] != byte))
            hpack->may_be &= (uint8_t) ~(1u << name);
    }
}

/* How far it is the type of gRPC: as many bytes, or NO_VALUE when it is another. */
static void take_of_type(struct hpack *hpack, unsigned char byte)
{
    if (hpack->value != hpack->length && hpack->value != GRPC_TYPE_LENGTH)
        return;
    if (hpack->length < GRPC_TYPE_LENGTH)
        hpack->value = (unsigned char)ascii_lower((char)byte) == (unsigned char)grpc_type[hpack->length]
                           ? hpack->value + 1
                           : HPACK_NO_VALUE;
    else if (hpack->length == GRPC_TYPE_LENGTH && byte != '+' && byte != ';' && byte != ' ')
        hpack->value = HPACK_NO_VALUE;
}

static void take_of_number(struct hpack *hpack, unsigned char byte)
{
    if (hpack->value == HPACK_NO_VALUE)
        return;
    if (!ascii_is_digit(byte)) {
        hpack->value = HPACK_NO_VALUE;
        return;
    }
    const uint32_t value = hpack->value * 10 + (uint32_t)(byte - '0');
    hpack->value = value < HPACK_MOST ? value : HPACK_MOST;
}

static bool take_decoded(struct hpack *hpack, unsigned char byte)
{
    if (!hpack->is_value)
        take_of_name(hpack, byte);
    else if (hpack->kind == HPACK_CONTENT_TYPE)
        take_of_type(hpack, byte);
    else if (hpack->kind != HPACK_OTHER)
        take_of_number(hpack, byte);
    return ++hpack->length < LENGTH_MOST;
}

static bool take_coded(struct hpack *hpack, unsigned char byte)
{
    unsigned char symbol = 0;
    unsigned int taken;

    hpack->bits = hpack->bits << 8 | byte;
    hpack->bit_count = (uint8_t)(hpack->bit_count + 8);
    while ((taken = huffman_take(hpack->bits, hpack->bit_count, &symbol)) != 0) {
        hpack->bit_count = (uint8_t)(hpack->bit_count - taken);
        if (!take_decoded(hpack, symbol))
            return false;
    }
    return hpack->bit_count < HUFFMAN_LONGEST;
}

/* What is left of the last byte is ones, and fewer than a byte (RFC 7541, 5.2). */
static bool is_padding(const struct hpack *hpack)
{
    const uint64_t ones = (UINT64_C(1) << hpack->bit_count) - 1;
    return hpack->bit_count < 8 && (hpack->bits & ones) == ones;
}

/* --- representations --- */

/* The index, or the table's size, is known. */
static bool end_number(struct hpack *hpack)
{
    uint64_t entry;

    if (hpack->form == FORM_TABLE_SIZE) {
        if (hpack->number >= LENGTH_MOST)
            return false;
        hpack->table_most = (uint32_t)hpack->number;
        table_shrink(hpack, hpack->table_most);
        hpack->state = AT_HEADER;
        return true;
    }
    if (hpack->form == FORM_INDEXED) {
        if (!table_find(hpack, hpack->number, &entry))
            return false;
        note_header(hpack, entry_kind(entry), entry_value(entry));
        hpack->state = AT_HEADER;
        return true;
    }
    if (hpack->number == 0) {
        begin_string(hpack, false);
        return true;
    }
    if (!table_find(hpack, hpack->number, &entry))
        return false;
    hpack->kind = (uint8_t)entry_kind(entry);
    hpack->name_size = entry_name_size(entry);
    begin_string(hpack, true);
    return true;
}

/* The length of a string is known. */
static bool end_length(struct hpack *hpack)
{
    if (hpack->number >= LENGTH_MOST)
        return false;
    hpack->left = (uint32_t)hpack->number;
    hpack->bits = 0;
    hpack->bit_count = 0;
    hpack->state = IN_STRING;
    return hpack->left > 0 || end_string(hpack);
}

static bool end_integer(struct hpack *hpack)
{
    return hpack->state == IN_NUMBER ? end_number(hpack) : end_length(hpack);
}

/* An integer begins in the lower bits of a byte. */
static bool begin_integer(struct hpack *hpack, unsigned char byte, unsigned int bits, enum state state)
{
    const unsigned int most = (1u << bits) - 1;

    hpack->state = (uint8_t)state;
    hpack->number = byte & most;
    hpack->shift = 0;
    return hpack->number < most ? end_integer(hpack) : true;
}

static bool go_on_integer(struct hpack *hpack, unsigned char byte)
{
    if (hpack->shift > SHIFT_MOST)
        return false;
    hpack->number += (uint64_t)(byte & 0x7f) << hpack->shift;
    hpack->shift = (uint8_t)(hpack->shift + 7);
    return (byte & 0x80) != 0 || end_integer(hpack);
}

static bool begin_header(struct hpack *hpack, unsigned char byte)
{
    const unsigned int bits = byte & 0x80 ? 7 : byte & 0x40 ? 6 : byte & 0x20 ? 5 : 4;

    hpack->form = byte & 0x80 ? FORM_INDEXED : byte & 0x40 ? FORM_KEPT : byte & 0x20 ? FORM_TABLE_SIZE : FORM_PASSING;
    return begin_integer(hpack, byte, bits, IN_NUMBER);
}

static bool in_string(struct hpack *hpack, unsigned char byte)
{
    if (!(hpack->is_coded ? take_coded(hpack, byte) : take_decoded(hpack, byte)))
        return false;
    if (--hpack->left > 0)
        return true;
    return (!hpack->is_coded || is_padding(hpack)) && end_string(hpack);
}

static bool take(struct hpack *hpack, unsigned char byte)
{
    switch ((enum state)hpack->state) {
    case AT_HEADER:
        return begin_header(hpack, byte);
    case IN_NUMBER:
    case IN_LENGTH:
        return go_on_integer(hpack, byte);
    case AT_LENGTH:
        hpack->is_coded = byte >> 7;
        return begin_integer(hpack, byte, 7, IN_LENGTH);
    case IN_STRING:
        return in_string(hpack, byte);
    }
    return false;
}

bool hpack_read(struct hpack *hpack, const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!take(hpack, bytes[i]))
            return false;
    }
    return true;
}
