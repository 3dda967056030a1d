/*
 * web_page.c - the live page. See web_page.h.
 */
#define _GNU_SOURCE
#include "agent/web_page.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "view/output.h"
#include "view/page.h"

static struct {
    bool was_looked_for;
    char *text;
    size_t length;
} live;

/* The page from disk may fetch nothing; this one may ask where it comes from. */
static void write_rule(char **text, size_t *length)
{
    static const char rule[] = "default-src 'none';", more[] = " connect-src 'self';";
    char *const place = memmem(*text, *length, rule, sizeof rule - 1), *const whole = *text;
    if (place == NULL)
        return;
    const size_t before = (size_t)(place - whole) + sizeof rule - 1;
    FILE *out = open_text(text, length);
    const size_t size = strlen(whole);
    write_output(whole, before, out);
    write_output(more, sizeof more - 1, out);
    write_output(whole + before, size - before, out);
    close_text(out);
    free(whole);
}

static void make(void)
{
    static const char data[] = "{\"live\":true}";
    struct page page;
    if (!page_load(&page))
        return;
    FILE *out = open_text(&live.text, &live.length);
    page_write(&page, data, sizeof data - 1, out);
    close_text(out);
    page_free(&page);
    write_rule(&live.text, &live.length);
}

const char *web_page(size_t *length)
{
    if (!live.was_looked_for)
        make();
    live.was_looked_for = true;
    *length = live.length;
    return live.text;
}

void web_page_free(void)
{
    free(live.text);
    live.text = NULL;
    live.was_looked_for = false;
}
