/*
 * service.h - what the agent tells the service manager that started it (sd_notify(3), without its library).
 */
#ifndef SOCKFUSE_AGENT_SERVICE_H
#define SOCKFUSE_AGENT_SERVICE_H

#include <ev.h>

/* Reads what the manager has left in the environment, and takes it away, so that nobody else speaks for the agent. */
void service_know(void);
/* Ready; from now on the watchdog, if there is one, hears that the loop goes round. */
void service_ready(struct ev_loop *loop);
void service_reloading(void);
void service_reloaded(void);
void service_stopping(void);
/* One line about how it stands, for `systemctl status`. */
void service_status(const char *text);

#endif
