/*
 * still_hangs.h - whether a call that is beyond its limit hangs, by the kernel's word. Its answer may have come, and the
 * program has only not read it.
 */
#ifndef SOCKFUSE_CONNECTION_STILL_HANGS_H
#define SOCKFUSE_CONNECTION_STILL_HANGS_H

#include <stdbool.h>
#include <stdint.h>

#include "breaker/outcome.h"

/*
 * For struct guard, whose context is the station: before it charges a call of this process as overdue. One that does
 * not hang is put in order. Two system calls; async-signal-safe.
 */
bool still_hangs(uint32_t call, enum phase phase, void *context);

#endif
