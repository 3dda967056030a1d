/*
 * stage.h - the places that a play's attempts go to, its strangers, its peers. For player.c; the operations use
 * player.h.
 */
#ifndef SOCKFUSE_TESTS_PRELOAD_STAGE_H
#define SOCKFUSE_TESTS_PRELOAD_STAGE_H

/* Opens everything that is there from the start. */
void stage_set(void);
/* Removes what would stay. */
void stage_clear(void);

#endif
