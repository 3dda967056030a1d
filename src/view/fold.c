/*
 * fold.c - sentences that go on below. See fold.h.
 */
#include "view/fold.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "view/output.h"

void fold_words(FILE *out, const char *text, struct fold fold)
{
    for (bool first = true; *text != '\0'; first = false) {
        const size_t bytes = strcspn(text, " ");
        char *word = format_text("%.*s", (int)bytes, text);
        const size_t length = utf8_count(word), gap = first ? fold.owed : 1;
        if (fold.at + gap + length > fold.room && fold.at > fold.indent) {
            fprintf(out, "\n%*s%s", (int)fold.indent, "", word);
            fold.at = fold.indent + length;
        } else {
            fprintf(out, "%*s%s", (int)gap, "", word);
            fold.at += gap + length;
        }
        free(word);
        text += bytes;
        text += strspn(text, " ");
    }
}
