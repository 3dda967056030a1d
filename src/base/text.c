/*
 * text.c - the bounded text builder, and what becomes of bytes that are no good text.
 *
 * All that is added goes through text_add_bytes, which alone knows the bounds. Names come from other processes and from
 * policies, so they may hold anything: JSON and terminals get them escaped.
 */
#include "base/text.h"

#include <errno.h>
#include <string.h>

void text_start(struct text *text, char *buffer, size_t size)
{
    text->at = buffer;
    text->size = size;
    text->length = 0;
    text->cut = false;
    if (size > 0)
        buffer[0] = '\0';
}

void text_add_bytes(struct text *text, const char *bytes, size_t count)
{
    size_t room = text->size > text->length ? text->size - text->length - 1 : 0;
    if (count > room) {
        count = room;
        text->cut = true;
    }
    if (count == 0)
        return;
    memcpy(text->at + text->length, bytes, count);
    text->length += count;
    text->at[text->length] = '\0';
}

void text_add(struct text *text, const char *string)
{
    text_add_bytes(text, string, strlen(string));
}

void text_add_padded(struct text *text, uint64_t number, unsigned int digits)
{
    char buffer[20]; /* UINT64_MAX has 20 digits */
    size_t at = sizeof buffer;
    if (digits > sizeof buffer)
        digits = sizeof buffer;
    while (number > 0 || sizeof buffer - at < digits) {
        buffer[--at] = (char)('0' + number % 10);
        number /= 10;
    }
    text_add_bytes(text, buffer + at, sizeof buffer - at);
}

void text_add_unsigned(struct text *text, uint64_t number)
{
    text_add_padded(text, number, 1);
}

void text_add_signed(struct text *text, int64_t number)
{
    if (number < 0)
        text_add_bytes(text, "-", 1);
    text_add_unsigned(text, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
}

void text_add_hex(struct text *text, uint64_t number, unsigned int digits)
{
    char buffer[16];
    size_t at = sizeof buffer;
    if (digits > sizeof buffer)
        digits = sizeof buffer;
    while (number > 0 || sizeof buffer - at < digits) {
        buffer[--at] = "0123456789abcdef"[number & 15];
        number >>= 4;
    }
    text_add_bytes(text, buffer + at, sizeof buffer - at);
}

/*
 * Length of the well-formed UTF-8 character at `bytes` (RFC 3629: no overlong form, no surrogate, at most U+10FFFF),
 * 0 if there is none. The zero byte at the end of the string ends every sequence that is too short.
 */
static size_t utf8_character(const unsigned char *bytes)
{
    unsigned char first = bytes[0];
    if (first < 0x80)
        return 1;
    size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (first < 0xc2 || first > 0xf4)
        return 0;
    unsigned char low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    unsigned char high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (bytes[1] < low || bytes[1] > high)
        return 0;
    for (size_t at = 2; at < length; at++)
        if (bytes[at] < 0x80 || bytes[at] > 0xbf)
            return 0;
    return length;
}

/*
 * Whether a well-formed character may change what a terminal does, or the order in which a line is read: C0, DEL and C1
 * controls; the marks, embeddings and isolates of writing from right to left (UAX #9), and separators of lines.
 */
static bool is_control(const unsigned char *bytes)
{
    if (bytes[0] < 0x80)
        return bytes[0] < 0x20 || bytes[0] == 0x7f;
    if (bytes[0] == 0xe2 && bytes[1] == 0x80)
        return bytes[2] == 0x8e || bytes[2] == 0x8f || (bytes[2] >= 0xa8 && bytes[2] <= 0xae);
    return (bytes[0] == 0xc2 && bytes[1] < 0xa0) || (bytes[0] == 0xd8 && bytes[1] == 0x9c) ||
           (bytes[0] == 0xe2 && bytes[1] == 0x81 && bytes[2] >= 0xa6 && bytes[2] <= 0xa9);
}

/* Of a character of up to three bytes, or of a stray byte, as if it were Latin-1. */
static unsigned int code_point(const unsigned char *bytes, size_t length)
{
    if (length == 3)
        return (bytes[0] & 0xfu) << 12 | (bytes[1] & 0x3fu) << 6 | (bytes[2] & 0x3fu);
    return length == 2 ? (bytes[0] & 0x1fu) << 6 | (bytes[1] & 0x3fu) : bytes[0];
}

/*
 * The JSON form of the character or stray byte at `*string` in `piece`; moves `*string` behind it. Returns its
 * length.
 */
static size_t json_piece(const unsigned char **string, char piece[8])
{
    const unsigned char *bytes = *string;
    size_t length = utf8_character(bytes);
    struct text text;
    text_start(&text, piece, 8);
    if (bytes[0] == '"' || bytes[0] == '\\') {
        text_add_bytes(&text, "\\", 1);
        text_add_bytes(&text, (const char *)bytes, 1);
    } else if (length > 0 && !is_control(bytes)) {
        text_add_bytes(&text, (const char *)bytes, length);
    } else {
        /* A stray byte gets the number of the byte, as if it were Latin-1: valid JSON, and to be told from nothing. */
        text_add(&text, "\\u");
        text_add_hex(&text, code_point(bytes, length), 4);
    }
    *string += length > 0 ? length : 1;
    return text.length;
}

void text_add_json_cut(struct text *text, const char *string, size_t most)
{
    size_t added = 0;
    text_add_bytes(text, "\"", 1);
    for (const unsigned char *at = (const unsigned char *)string; *at;) {
        char piece[8];
        size_t length = json_piece(&at, piece);
        if (length > most - added)
            break;
        text_add_bytes(text, piece, length);
        added += length;
    }
    text_add_bytes(text, "\"", 1);
}

void text_add_json(struct text *text, const char *string)
{
    text_add_json_cut(text, string, SIZE_MAX);
}

void text_add_printable(struct text *text, const char *string)
{
    for (const unsigned char *at = (const unsigned char *)string; *at;) {
        size_t length = utf8_character(at);
        if (length > 0 && !is_control(at)) {
            text_add_bytes(text, (const char *)at, length);
        } else {
            if (length == 0)
                length = 1;
            for (size_t byte = 0; byte < length; byte++) {
                text_add_bytes(text, "\\x", 2);
                text_add_hex(text, at[byte], 2);
            }
        }
        at += length;
    }
}

const char *errno_name(int error)
{
#define NAME(symbol)                                                                                                   \
    case symbol:                                                                                                       \
        return #symbol
    switch (error) {
    case 0:
        return "";
        NAME(EPERM);
        NAME(ENOENT);
        NAME(EINTR);
        NAME(EIO);
        NAME(ENXIO);
        NAME(EBADF);
        NAME(EAGAIN);
        NAME(ENOMEM);
        NAME(EACCES);
        NAME(EFAULT);
        NAME(EBUSY);
        NAME(EEXIST);
        NAME(ENODEV);
        NAME(ENOTDIR);
        NAME(EISDIR);
        NAME(EINVAL);
        NAME(ENFILE);
        NAME(EMFILE);
        NAME(EFBIG);
        NAME(ENOSPC);
        NAME(EROFS);
        NAME(EPIPE);
        NAME(ENAMETOOLONG);
        NAME(ENOSYS);
        NAME(ELOOP);
        NAME(ENODATA);
        NAME(ETIME);
        NAME(EPROTO);
        NAME(EBADMSG);
        NAME(EOVERFLOW);
        NAME(EUSERS);
        NAME(ENOTSOCK);
        NAME(EDESTADDRREQ);
        NAME(EMSGSIZE);
        NAME(EPROTOTYPE);
        NAME(ENOPROTOOPT);
        NAME(EPROTONOSUPPORT);
        NAME(ESOCKTNOSUPPORT);
        NAME(EOPNOTSUPP);
        NAME(EPFNOSUPPORT);
        NAME(EAFNOSUPPORT);
        NAME(EADDRINUSE);
        NAME(EADDRNOTAVAIL);
        NAME(ENETDOWN);
        NAME(ENETUNREACH);
        NAME(ENETRESET);
        NAME(ECONNABORTED);
        NAME(ECONNRESET);
        NAME(ENOBUFS);
        NAME(EISCONN);
        NAME(ENOTCONN);
        NAME(ESHUTDOWN);
        NAME(ETOOMANYREFS);
        NAME(ETIMEDOUT);
        NAME(ECONNREFUSED);
        NAME(EHOSTDOWN);
        NAME(EHOSTUNREACH);
        NAME(EALREADY);
        NAME(EINPROGRESS);
        NAME(ESTALE);
        NAME(EDQUOT);
        NAME(ECANCELED);
        NAME(ENONET);
        NAME(ECOMM);
    default:
        return "unknown";
    }
#undef NAME
}
