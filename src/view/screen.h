/*
 * screen.h - a page that is shown again and again on a terminal.
 *
 * Nothing of the terminal's settings is changed, so that nothing need be restored, however the command ends.
 */
#ifndef SOCKFUSE_VIEW_SCREEN_H
#define SOCKFUSE_VIEW_SCREEN_H

/*
 * Shows the text from the upper left corner on, cut to the terminal's width and height; of what does not fit it is said
 * how many lines that are. The text's own bytes are safe to print, and of the sequences that a terminal acts on it has
 * colours alone (table.h).
 */
void screen_show(const char *text);

#endif
