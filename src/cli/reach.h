/*
 * reach.h - whom an operator's word reaches: the processes that are attached to a segment, and what is known of each.
 *
 * For commands. A process that is attached obeys a force with its next call, for the word stands in memory that it has;
 * an edited policy it takes with its next call, and says so in its place. Nothing is told of it that was not seen.
 */
#ifndef SOCKFUSE_CLI_REACH_H
#define SOCKFUSE_CLI_REACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy.h"
#include "segment/processes.h"

struct attached {
    struct process_view view;
    bool is_stopped; /* by a signal (SIGSTOP) or a debugger: it calls nothing until it goes on */
    bool is_waiting; /* a call of its is in flight */
};

struct reach {
    struct attached *at;
    size_t count;
};

/* The living processes that are attached. Free them with reach_free. */
void reach_collect(struct reach *reach, const struct segment *segment);
void reach_free(struct reach *reach);

/* "1 program", "3 programs". The text stands until the seventh such call from now. */
const char *programs(size_t count);

/* A list of processes for people, "pid 12 (curl), 14 (nginx, stopped)", as long as is readable. */
struct naming {
    char *text;
    size_t count, left_out;
};
/* `note` stands beside the program's name; NULL: none. */
void naming_add(struct naming *naming, const struct attached *process, const char *note);
/* The list; frees nothing. "" where nobody was added. */
const char *naming_text(struct naming *naming);
void naming_free(struct naming *naming);

/*
 * Waits, a second at most, until all attached processes that can have taken the edited policy: it was handed over as
 * `number` and has that revision. `*left_ns` is how long may be waited at all; what was waited is taken away. The reach
 * is what was seen last, in `*reach`, to be freed.
 */
void reach_wait_for_reload(struct reach *reach, const struct segment *segment, uint32_t number, uint64_t revision,
                           uint64_t *left_ns);
/* Whether it runs that revision; and if not, why it will not, a text that stands until the next call; NULL: it may. */
bool reach_runs(const struct attached *process, uint64_t revision);
const char *reach_why_not(const struct attached *process, uint32_t number);

#endif
