/*
 * support_policy.h - loads policies from text, through temporary files, and looks for what they say of it.
 */
#ifndef SOCKFUSE_TESTS_SUPPORT_POLICY_H
#define SOCKFUSE_TESTS_SUPPORT_POLICY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "policy/policy.h"

struct loaded {
    struct policy *policy;
    struct policy_problems problems;
    char path[64]; /* of the temporary file, which is gone when load_bytes returns */
};

/* Loads what a file with these bytes says; `overrides` as policy_load has them. */
void load_bytes(struct loaded *loaded, const void *bytes, size_t count, const char *const *overrides);
void load_text(struct loaded *loaded, const char *text, const char *const *overrides);
void unload(struct loaded *loaded);

/* Loads text in which nothing at all is wrong. */
struct policy *good_policy(const char *text);

/*
 * Loads text and expects exactly one problem, in that line, with every one of the fragments (separated by '|') in
 * its text. The message of a failure shows the text.
 */
void expect_error(const char *text, unsigned int line, const char *fragments);
void expect_warning(const char *text, unsigned int line, const char *fragments);
void expect_problem_of(const struct loaded *loaded, bool is_error, unsigned int line, const char *fragments);

/* The value of a target's key as policy_describe gives it ("" if it does not), and where it came from. */
struct described {
    char value[512], origin[32];
};
struct described described(const struct target *target, const char *key);

/* The pattern's kind of match for a destination given as text. */
struct endpoint endpoint_of(const char *text);

/* Writes a file of these bytes at `path` (a template that mkstemp fills). */
void write_temporary(char *path, const void *bytes, size_t count);

#endif
