/*
 * page.h - the page of `sockfuse report`: a file that was made when the project was built, and the data put into it.
 *
 * The page stands beside the command (`make`) or in share/sockfuse (`make install`); it is not there when the project
 * was built without Node.js.
 */
#ifndef SOCKFUSE_VIEW_PAGE_H
#define SOCKFUSE_VIEW_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct page {
    char *text;
    size_t length;
    size_t place; /* where the data go, instead of PAGE_PLACE */
};

#define PAGE_PLACE "@REPORT-DATA@"

/* False: there is none, or it is no such page; why, and what to do, was said. Free it with page_free. */
bool page_load(struct page *page);
void page_free(struct page *page);

/*
 * Writes the page with the data: a JSON document, which stands in a script element of a type that is not executed. No
 * text in it can end that element or begin another: what means something to HTML is escaped as JSON does.
 */
void page_write(const struct page *page, const char *data, size_t length, FILE *out);

#endif
