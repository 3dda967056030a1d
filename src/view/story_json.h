/*
 * story_json.h - a story as members of a JSON object, for the page of `sockfuse report` (src/report/README.md).
 */
#ifndef SOCKFUSE_VIEW_STORY_JSON_H
#define SOCKFUSE_VIEW_STORY_JSON_H

#include "view/json.h"
#include "view/story_model.h"

/*
 * Writes from_ms and to_ms (since 1970), calls_told and calls_drawn, processes, outcomes, and circuits, whose times are
 * milliseconds since from_ms. Of very many calls only a part is drawn, failures before others.
 */
void story_json(struct json *json, const struct story *story);

#endif
