/* One migration that uses everything, for the crash tests: notes are rebuilt by a step, lines
 * cascade from them, a table, a column, indexes and a search index come new. Nothing in it depends
 * on the time or on chance, so any two files of it have the same content. */
#ifndef T_CRASH_FAMILY_H
#define T_CRASH_FAMILY_H

#include "crash/model.h"

#define FAMILY_ID 0x51495055u

void family_old(model *m);
void family_new(model *m);

/* Make a file of the old schema with rows in it, in WAL mode and checkpointed. */
void family_make(const char *path);

/* Open and migrate with the step; `vfs` may be NULL. */
model_opened family_migrate(const char *path, const model *m, const char *vfs);

/* The content without what differs from run to run (the journal). */
char *family_content(const char *path);

/* Check every backup beside the file: sound, and with this content. Gives their number. */
int family_check_backups(const char *path, const char *content);

#endif
