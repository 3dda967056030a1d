/*
 * incident.h - an outage as a circuit saw it: from its opening to its closing, and what it cost.
 *
 * Everything is reckoned from events alone; what they do not say is marked as unknown, never guessed. What is reckoned
 * how stands in the manual, section of `report`.
 */
#ifndef SOCKFUSE_VIEW_INCIDENT_H
#define SOCKFUSE_VIEW_INCIDENT_H

#include <stdint.h>

#include "view/story_model.h"

/* Sets the circuit's incidents, oldest first. `to_ns` is where the story ends. */
void incidents_find(struct story_circuit *circuit, uint64_t to_ns);
void incidents_free(struct story_circuit *circuit);

#endif
