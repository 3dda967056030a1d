/*
 * event_file.c - reads a file of events by lines. See event_file.h.
 */
#include "view/event_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "view/output.h"

struct event_file *event_file_open(const char *path)
{
    const bool is_input = strcmp(path, "-") == 0;
    struct event_file *file = allocate(1, sizeof *file);
    file->name = is_input ? "standard input" : path;
    file->file = is_input ? stdin : fopen(path, "re");
    if (file->file != NULL)
        return file;
    warn("%s", file->name);
    free(file);
    return NULL;
}

bool event_file_next(struct event_file *file)
{
    int byte = 0;
    file->length = 0;
    while (byte != '\n' && file->length < EVENT_LINE_MAX && (byte = getc_unlocked(file->file)) != EOF)
        file->text[file->length++] = (char)byte;
    file->text[file->length] = '\0';
    file->line += file->length > 0;
    if (ferror(file->file)) {
        warn("%s", file->name);
        file->failed = true;
    } else if (file->length == EVENT_LINE_MAX && byte != '\n') {
        warnx("%s:%" PRIu64 ": no event: the line is longer than any event; it is not read any further", file->name,
              file->line);
        file->failed = true;
    }
    return !file->failed && file->length > 0;
}

bool event_file_close(struct event_file *file)
{
    const bool good = !file->failed;
    if (file->file != stdin)
        fclose(file->file);
    free(file);
    return good;
}
