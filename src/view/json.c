/*
 * json.c - a small JSON writer over stdio.
 *
 * See json.h.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "view/output.h"
#include "view/json.h"

void json_text(const char *value, FILE *out)
{
    /* In the worst case every byte becomes \u00XX. */
    size_t size = strlen(value) * 6 + sizeof "\"\"";
    char *buffer = allocate(size, 1);
    struct text text;
    text_start(&text, buffer, size);
    text_add_json(&text, value);
    fwrite(text.at, 1, text.length, out);
    free(buffer);
}

static void new_line(struct json *json)
{
    if (json->is_flat)
        return;
    fprintf(json->out, "\n%*s", (int)(2 * json->depth), "");
}

/* What stands before each value: comma, indent, key. */
static void begin_value(struct json *json, const char *key)
{
    if (json->depth > 0) {
        if (!json->empty)
            fputc(',', json->out);
        new_line(json);
    }
    json->empty = false;
    if (key != NULL) {
        json_text(key, json->out);
        fputs(json->is_flat ? ":" : ": ", json->out);
    }
}

void json_start(struct json *json, FILE *out)
{
    *json = (struct json){.out = out, .empty = true};
}

void json_start_line(struct json *json, FILE *out)
{
    *json = (struct json){.out = out, .empty = true, .is_flat = true};
}

void json_open(struct json *json, const char *key, char bracket)
{
    begin_value(json, key);
    fputc(bracket, json->out);
    json->depth++;
    json->empty = true;
}

void json_close(struct json *json, char bracket)
{
    json->depth--;
    if (!json->empty)
        new_line(json);
    fputc(bracket, json->out);
    if (json->depth == 0)
        fputc('\n', json->out);
    json->empty = false;
}

void json_string(struct json *json, const char *key, const char *value)
{
    begin_value(json, key);
    if (value == NULL)
        fputs("null", json->out);
    else
        json_text(value, json->out);
}

void json_unsigned(struct json *json, const char *key, uint64_t value)
{
    begin_value(json, key);
    fprintf(json->out, "%" PRIu64, value);
}

void json_tenths(struct json *json, const char *key, uint64_t tenths)
{
    begin_value(json, key);
    fprintf(json->out, "%" PRIu64 ".%" PRIu64, tenths / 10, tenths % 10);
}

void json_bool(struct json *json, const char *key, bool value)
{
    begin_value(json, key);
    fputs(value ? "true" : "false", json->out);
}

void json_null(struct json *json, const char *key)
{
    json_string(json, key, NULL);
}

void json_written(struct json *json, const char *key, const char *value)
{
    begin_value(json, key);
    fputs(value, json->out);
}

void json_numbers(struct json *json, const char *key, const uint64_t *values, size_t count)
{
    begin_value(json, key);
    fputc('[', json->out);
    for (size_t i = 0; i < count; i++)
        fprintf(json->out, "%s%" PRIu64, i > 0 ? "," : "", values[i]);
    fputc(']', json->out);
}
