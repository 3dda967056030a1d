/*
 * circuit_page.h - one circuit on a page of its own, for people.
 *
 * For `sockfuse status DEST`.
 */
#ifndef SOCKFUSE_VIEW_CIRCUIT_PAGE_H
#define SOCKFUSE_VIEW_CIRCUIT_PAGE_H

#include <stdint.h>

#include "view/rows.h"
#include "view/select.h"

/* To stdout; `now_ns` is the circuits' clock. */
void circuit_page_print(const struct selected *selected, const struct row *row, uint64_t now_ns);

#endif
