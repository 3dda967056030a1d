/*
 * overrides.h - which -o the last `run` of a policy gave, remembered beside its segment.
 *
 * The circuits belong to the policy whatever its -o, and overrides are in no file: without this note `status` could
 * not say what the circuits behave by. The note is only for people's eyes; no circuit depends on it.
 */
#ifndef SOCKFUSE_CLI_OVERRIDES_H
#define SOCKFUSE_CLI_OVERRIDES_H

/*
 * Notes the NULL-terminated list of "KEY=VALUE" for a segment's file; an empty list or NULL takes the note away.
 * Failure is no harm.
 */
void overrides_remember(const char *segment_file, const char *const *options);

/* The noted list, NULL-terminated; NULL: none. Free it with overrides_free. */
char **overrides_recall(const char *segment_file);
void overrides_free(char **options);

#endif
