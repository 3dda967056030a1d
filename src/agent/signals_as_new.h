/*
 * signals_as_new.h - a child's signals as a program expects them at its start: none is ignored, none is held back.
 */
#ifndef SOCKFUSE_AGENT_SIGNALS_AS_NEW_H
#define SOCKFUSE_AGENT_SIGNALS_AS_NEW_H

/* For between fork and exec. Async-signal-safe. */
void signals_as_new(void);

#endif
