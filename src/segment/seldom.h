/*
 * seldom.h - a line that many processes have to say is said once a minute by all of a user's together.
 *
 * What a shell's every command would repeat (a policy in /etc with a mistake, a state folder that can't be used). When
 * which line was said last is noted in a file of the state folder, or where that can't be used in one of the places
 * that need no variable; where there is none at all, every process says it. Start-up only: allocates, and touches
 * nothing unless there is something to say.
 */
#ifndef SOCKFUSE_SEGMENT_SELDOM_H
#define SOCKFUSE_SEGMENT_SELDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SELDOM_FILE ".said"

struct seldom {
    int fd; /* of the file, locked; -1: there is none */
    unsigned int entry;
};

/*
 * Whether the line is to be said now (wall clock): if so, say it and call seldom_end, which tells whether that was
 * possible. False: it was said a moment ago, or is being said by another process.
 */
bool seldom_begin(struct seldom *seldom, const char *(*environment)(const char *name), const char *line, size_t length,
                  uint64_t now_ns);
void seldom_end(struct seldom *seldom, bool said);

#endif
