/*
 * circuits_text.h - the circuits of one policy as a table for people, with what is to be noted of them.
 *
 * For `sockfuse status`.
 */
#ifndef SOCKFUSE_VIEW_CIRCUITS_TEXT_H
#define SOCKFUSE_VIEW_CIRCUITS_TEXT_H

#include <stdint.h>

#include "view/rows.h"
#include "view/running.h"

/* To stdout; `now_ns` is the circuits' clock. There is at least one row. */
void circuits_print(const struct rows *rows, const struct running *running, uint64_t now_ns);

#endif
