/*
 * date.h - the calendar, and a moment as people and machines write it.
 *
 * The proleptic Gregorian calendar in UTC; years count as written, months and days from 1. By arithmetic alone, for the
 * C library's own ways take locks, allocate, and read the time zone. Async-signal-safe.
 */
#ifndef SOCKFUSE_BASE_DATE_H
#define SOCKFUSE_BASE_DATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* RFC 3339 in UTC with milliseconds ("2026-02-03T04:05:06.789Z"); 24 bytes, or 0 if `size` is less than 25. */
size_t time_rfc3339(uint64_t wall_ns, char *text, size_t size);

/* Whether there is such a day. */
bool date_exists(unsigned int year, unsigned int month, unsigned int day);

/* How many days a day that exists lies behind 1970-01-01; none before that. */
uint64_t date_days(unsigned int year, unsigned int month, unsigned int day);

#endif
