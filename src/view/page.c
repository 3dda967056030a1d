/*
 * page.c - the page of `sockfuse report`.
 *
 * See page.h. `src/report` has the page's sources.
 */
#define _GNU_SOURCE
#include "view/page.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "view/installed.h"
#include "view/library.h"
#include "view/output.h"

static const char file_name[] = "report.html";

/* NULL: not there. Anything else that is wrong is said when it is read. */
static FILE *open_page(const char *folder, const char *below, char **path)
{
    *path = format_text("%s%s/%s", folder, below, file_name);
    FILE *file = fopen(*path, "re");
    if (file == NULL) {
        free(*path);
        *path = NULL;
    }
    return file;
}

static FILE *find_page(char **path)
{
    char folder[PATH_MAX];
    library_own_folder(folder, sizeof folder);
    FILE *file = open_page(folder, "", path);
    if (file == NULL)
        file = open_page(folder, "/../share/sockfuse", path);
    if (file == NULL)
        file = open_page(installed_datadir, "", path);
    if (file == NULL)
        warnx(
            "the page %s is neither in %s nor in %s, for sockfuse was built without Node.js: in its sources, with "
            "nodejs and npm installed, 'make page' fetches what it is made of and makes it (then again make install); "
            "--trace FILE needs no page",
            file_name, folder, installed_datadir);
    return file;
}

static bool read_all(struct page *page, FILE *file)
{
    size_t size = 0, got;
    do {
        const size_t more = 1 << 20;
        char *text = realloc(page->text, size + more);
        if (text == NULL)
            err(EXIT_FAILURE, "no memory");
        page->text = text;
        got = fread(text + size, 1, more, file);
        size += got;
    } while (got > 0);
    page->length = size;
    return ferror(file) == 0;
}

bool page_load(struct page *page)
{
    *page = (struct page){.text = NULL};
    char *path;
    FILE *file = find_page(&path);
    if (file == NULL)
        return false;
    const bool read = read_all(page, file);
    fclose(file);
    const char *place = read ? memmem(page->text, page->length, PAGE_PLACE, sizeof PAGE_PLACE - 1) : NULL;
    if (!read)
        warn("%s", path);
    else if (place == NULL)
        warnx("%s: no page of this sockfuse; 'make page' makes it", path);
    else
        page->place = (size_t)(place - page->text);
    free(path);
    if (place == NULL)
        page_free(page);
    return place != NULL;
}

void page_free(struct page *page)
{
    free(page->text);
    page->text = NULL;
}

/* These stand nowhere in JSON but inside of strings. */
static void write_data(const char *data, size_t length, FILE *out)
{
    static const char special[] = "<>&";
    for (const char *at = data, *end = data + length; at < end;) {
        const char *next = at;
        while (next < end && (*next == '\0' || strchr(special, *next) == NULL))
            next++;
        write_output(at, (size_t)(next - at), out);
        if (next < end)
            fprintf(out, "\\u%04x", (unsigned int)(unsigned char)*next++);
        at = next;
    }
}

void page_write(const struct page *page, const char *data, size_t length, FILE *out)
{
    const size_t behind = page->place + sizeof PAGE_PLACE - 1;
    write_output(page->text, page->place, out);
    write_data(data, length, out);
    write_output(page->text + behind, page->length - behind, out);
}
