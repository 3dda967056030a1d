/*
 * command_words.h - a command as a policy has it: words with single blanks between them, and no shell. Private to
 * src/policy, but for who executes it.
 */
#ifndef SOCKFUSE_POLICY_COMMAND_WORDS_H
#define SOCKFUSE_POLICY_COMMAND_WORDS_H

#include <stdbool.h>
#include <stddef.h>

/* Where a command is looked for whose name has no slash. */
#define COMMAND_FOLDERS "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* Single blanks between words, none around them; the rest of `value` is zeros. False: it is too long. */
bool words_copy(char *value, size_t size, const char *text);

/* The words of a value that words_copy has made, each ended in place, behind them NULL; `most` with it. */
void words_split(char *value, char **words, size_t most);

#endif
