/*
 * hpack_static.h - the static table of HPACK (RFC 7541, appendix A), as far as hpack.c needs it: what each header says
 * here, and how long its name and its value are. Private to hpack.c.
 */
#ifndef SOCKFUSE_BREAKER_HPACK_STATIC_H
#define SOCKFUSE_BREAKER_HPACK_STATIC_H

#include <stdint.h>

/* What a header is about. */
enum hpack_kind { HPACK_OTHER, HPACK_STATUS, HPACK_GRPC_STATUS, HPACK_CONTENT_TYPE, HPACK_RETRY_AFTER };

#define HPACK_STATIC_ENTRIES 61u

struct hpack_static {
    uint8_t kind; /* enum hpack_kind */
    uint16_t value;
    uint8_t name_length, value_length;
};

static const struct hpack_static hpack_static[HPACK_STATIC_ENTRIES] = {
    {HPACK_OTHER, 0, 10, 0},       {HPACK_OTHER, 0, 7, 3},    {HPACK_OTHER, 0, 7, 4},         {HPACK_OTHER, 0, 5, 1},
    {HPACK_OTHER, 0, 5, 11},       {HPACK_OTHER, 0, 7, 4},    {HPACK_OTHER, 0, 7, 5},         {HPACK_STATUS, 200, 7, 3},
    {HPACK_STATUS, 204, 7, 3},     {HPACK_STATUS, 206, 7, 3}, {HPACK_STATUS, 304, 7, 3},      {HPACK_STATUS, 400, 7, 3},
    {HPACK_STATUS, 404, 7, 3},     {HPACK_STATUS, 500, 7, 3}, {HPACK_OTHER, 0, 14, 0},        {HPACK_OTHER, 0, 15, 13},
    {HPACK_OTHER, 0, 15, 0},       {HPACK_OTHER, 0, 13, 0},   {HPACK_OTHER, 0, 6, 0},         {HPACK_OTHER, 0, 27, 0},
    {HPACK_OTHER, 0, 3, 0},        {HPACK_OTHER, 0, 5, 0},    {HPACK_OTHER, 0, 13, 0},        {HPACK_OTHER, 0, 13, 0},
    {HPACK_OTHER, 0, 19, 0},       {HPACK_OTHER, 0, 16, 0},   {HPACK_OTHER, 0, 16, 0},        {HPACK_OTHER, 0, 14, 0},
    {HPACK_OTHER, 0, 16, 0},       {HPACK_OTHER, 0, 13, 0},   {HPACK_CONTENT_TYPE, 0, 12, 0}, {HPACK_OTHER, 0, 6, 0},
    {HPACK_OTHER, 0, 4, 0},        {HPACK_OTHER, 0, 4, 0},    {HPACK_OTHER, 0, 6, 0},         {HPACK_OTHER, 0, 7, 0},
    {HPACK_OTHER, 0, 4, 0},        {HPACK_OTHER, 0, 4, 0},    {HPACK_OTHER, 0, 8, 0},         {HPACK_OTHER, 0, 17, 0},
    {HPACK_OTHER, 0, 13, 0},       {HPACK_OTHER, 0, 8, 0},    {HPACK_OTHER, 0, 19, 0},        {HPACK_OTHER, 0, 13, 0},
    {HPACK_OTHER, 0, 4, 0},        {HPACK_OTHER, 0, 8, 0},    {HPACK_OTHER, 0, 12, 0},        {HPACK_OTHER, 0, 18, 0},
    {HPACK_OTHER, 0, 19, 0},       {HPACK_OTHER, 0, 5, 0},    {HPACK_OTHER, 0, 7, 0},         {HPACK_OTHER, 0, 7, 0},
    {HPACK_RETRY_AFTER, 0, 11, 0}, {HPACK_OTHER, 0, 6, 0},    {HPACK_OTHER, 0, 10, 0},        {HPACK_OTHER, 0, 25, 0},
    {HPACK_OTHER, 0, 17, 0},       {HPACK_OTHER, 0, 10, 0},   {HPACK_OTHER, 0, 4, 0},         {HPACK_OTHER, 0, 3, 0},
    {HPACK_OTHER, 0, 16, 0},
};

#endif
