/*
 * errno_name.h - errors by the names that the manual has them under. Async-signal-safe.
 */
#ifndef SOCKFUSE_BASE_ERRNO_NAME_H
#define SOCKFUSE_BASE_ERRNO_NAME_H

#include "base/text.h"

/* "ECONNREFUSED" and so on; "" for 0, "unknown" for what is none. Never NULL. */
const char *errno_name(int error);
/* Its name; of one without a name its number, so that nothing that was seen is lost. */
void text_add_errno(struct text *text, int error);

#endif
