/*
 * overrides.c - which -o the last `run` of a policy gave: one KEY=VALUE a line in FOLDER/NAME-HASH.options.
 *
 * See overrides.h.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/overrides.h"
#include "segment/segment.h"

/* More is no note of ours. */
#define NOTE_MAX 65536

static char *note_path(const char *segment_file)
{
    size_t length = strlen(segment_file), tail = strlen(SEGMENT_SUFFIX);
    if (length > tail && strcmp(segment_file + length - tail, SEGMENT_SUFFIX) == 0)
        length -= tail;
    return format_text("%.*s.options", (int)length, segment_file);
}

/* The whole note as text, or NULL. */
static char *read_note(const char *path)
{
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (descriptor < 0)
        return NULL;
    struct stat status;
    char *text = NULL;
    if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_size < NOTE_MAX) {
        text = allocate((size_t)status.st_size + 1, 1);
        ssize_t length = read(descriptor, text, (size_t)status.st_size);
        text[length > 0 ? length : 0] = '\0';
    }
    close(descriptor);
    return text;
}

static bool write_note(const char *path, const char *text)
{
    char *temporary = format_text("%s.XXXXXX", path);
    int descriptor = mkostemp(temporary, O_CLOEXEC);
    bool done = false;
    if (descriptor >= 0) {
        ssize_t length = (ssize_t)strlen(text);
        /* The umask may have taken something from the mode. */
        done = fchmod(descriptor, 0600) == 0 && write(descriptor, text, (size_t)length) == length;
        close(descriptor);
        done = done && rename(temporary, path) == 0;
        if (!done)
            unlink(temporary);
    }
    free(temporary);
    return done;
}

void overrides_remember(const char *segment_file, const char *const *options)
{
    char *path = note_path(segment_file);
    if (options == NULL || options[0] == NULL) {
        unlink(path);
        free(path);
        return;
    }
    char *text = copy_text("");
    for (size_t i = 0; options[i] != NULL; i++) {
        char *longer = format_text("%s%s\n", text, options[i]);
        free(text);
        text = longer;
    }
    char *before = read_note(path);
    /* A note that is wrong misleads, one that is missing does not. */
    if ((before == NULL || strcmp(before, text) != 0) && (strlen(text) >= NOTE_MAX || !write_note(path, text)))
        unlink(path);
    free(before);
    free(text);
    free(path);
}

char **overrides_recall(const char *segment_file)
{
    char *path = note_path(segment_file), *text = read_note(path);
    free(path);
    if (text == NULL)
        return NULL;
    size_t count = 0;
    char **options = allocate(strlen(text) / 2 + 2, sizeof *options);
    for (char *place, *line = strtok_r(text, "\n", &place); line != NULL; line = strtok_r(NULL, "\n", &place))
        options[count++] = copy_text(line);
    free(text);
    return options;
}

void overrides_free(char **options)
{
    for (size_t i = 0; options != NULL && options[i] != NULL; i++)
        free(options[i]);
    free(options);
}
