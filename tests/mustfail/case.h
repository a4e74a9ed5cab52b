/* What every must-not-compile case sees: the generated header and things to make calls with.
 * Nothing here is ever linked. */
#ifndef MUSTFAIL_CASE_H
#define MUSTFAIL_CASE_H

#include "chat.h"

extern ent_db *db;
extern quipu_arena *arena;
extern quipu_error *err;

extern const char *name;
extern quipu_str text;
extern quipu_time instant;
extern quipu_uuid uuid;
extern int64_t number;
extern bool flag;
extern message_role role;
extern message_state state;

extern const session *session_row;
extern const message *message_row;
extern session_list sessions;
extern message_list messages;

quipu_status planted(void);

#endif
