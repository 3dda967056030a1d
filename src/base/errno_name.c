/*
 * errno_name.c - libc's names of errors. See errno_name.h.
 */
#include "base/errno_name.h"

#include <stddef.h>

/* Since glibc 2.32; weak, so that what is built on an older one links, and writes numbers. A look into a table. */
const char *strerrorname_np(int error) __attribute__((weak));

const char *errno_name(int error)
{
    const char *name = error != 0 && strerrorname_np ? strerrorname_np(error) : NULL;

    return name ? name : error == 0 ? "" : "unknown";
}

void text_add_errno(struct text *text, int error)
{
    const char *name = errno_name(error);
    if (name[0] == 'E') {
        text_add(text, name);
    } else {
        text_add(text, "errno ");
        text_add_signed(text, error);
    }
}
