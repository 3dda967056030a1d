/*
 * web_page.h - the live page: that of `sockfuse report`, which fetches its data from where it was had.
 */
#ifndef SOCKFUSE_AGENT_WEB_PAGE_H
#define SOCKFUSE_AGENT_WEB_PAGE_H

#include <stddef.h>

/* Stands until web_page_free. NULL: it is not here, which was said once. */
const char *web_page(size_t *length);
void web_page_free(void);

#endif
