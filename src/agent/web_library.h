/*
 * web_library.h - libmicrohttpd, which is loaded when somebody wants HTTP, so that an agent without HTTP does not need it.
 * For who speaks HTTP: web_server.c.
 */
#ifndef SOCKFUSE_AGENT_WEB_LIBRARY_H
#define SOCKFUSE_AGENT_WEB_LIBRARY_H

#include <microhttpd.h>
#include <stdbool.h>

#define WEB_LIBRARY_FUNCTIONS(DO)                                                                                      \
    DO(MHD_start_daemon)                                                                                               \
    DO(MHD_stop_daemon)                                                                                                \
    DO(MHD_quiesce_daemon)                                                                                             \
    DO(MHD_run)                                                                                                        \
    DO(MHD_get_timeout)                                                                                                \
    DO(MHD_get_daemon_info)                                                                                            \
    DO(MHD_get_connection_info)                                                                                        \
    DO(MHD_create_response_from_buffer)                                                                                \
    DO(MHD_create_response_from_callback)                                                                              \
    DO(MHD_destroy_response)                                                                                           \
    DO(MHD_queue_response)                                                                                             \
    DO(MHD_add_response_header)                                                                                        \
    DO(MHD_lookup_connection_value)                                                                                    \
    DO(MHD_suspend_connection)                                                                                         \
    DO(MHD_resume_connection)

#define WEB_LIBRARY_MEMBER(function) __typeof__(&(function)) function;

/* Its functions by their own names: httpd.MHD_run(…). */
struct web_library {
    WEB_LIBRARY_FUNCTIONS(WEB_LIBRARY_MEMBER)
};
extern struct web_library httpd;

/* False, after a message with the remedy: it is not here. */
bool web_library_load(void);

#endif
