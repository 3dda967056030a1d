/*
 * rights.h - doing something with another user's rights.
 *
 * What another user's segment names, a policy's file above all, root reads with that user's rights: else its owner
 * could have root read, and speak of, what he can't read himself. The real and the saved user stay root's, so that the
 * user can send the command no signal meanwhile.
 */
#ifndef SOCKFUSE_VIEW_RIGHTS_H
#define SOCKFUSE_VIEW_RIGHTS_H

#include <stdbool.h>
#include <sys/types.h>

/* Takes that user's rights, with his groups. False: it can't be done, and nothing has changed. */
bool rights_take(uid_t user);

/* Gives them back. What can't be given back ends the program. */
void rights_return(void);

#endif
