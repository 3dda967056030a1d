/*
 * quorum.h - how many hosts of a fleet must have a circuit open: a number, or a share of those that called it lately.
 * Private to src/policy, but for who counts them.
 */
#ifndef SOCKFUSE_POLICY_QUORUM_H
#define SOCKFUSE_POLICY_QUORUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QUORUM_HOSTS_MAX 100000u
/* With this bit it is so many thousandths. */
#define QUORUM_SHARE 0x80000000u

/* False: `why` says what is expected. */
bool quorum_parse(uint32_t *quorum, const char *text, char *why, size_t why_size);
void quorum_format(uint32_t quorum, char *text, size_t size);
bool quorum_is_sane(uint32_t quorum);

#endif
