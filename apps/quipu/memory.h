/* The words of `quipu memory`: cmd_memory.c has list, add and clear; memory_edit.c those about one
 * memory; memory_run.c the worker and its status. Each word is a function of the open store and
 * returns an exit code. */
#ifndef APPS_QUIPU_MEMORY_H
#define APPS_QUIPU_MEMORY_H

#include <quipu/memory.h>

#include "app.h"

/* Singular, as shown. */
const char *memory_kind_name(quipu_memory_kind kind);

/* One memory as a line of JSON, or as facts and its text; or its members alone, into an object that
 * is open. */
void memory_json(const quipu_memory *memory);
void memory_json_members(app_json *json, const quipu_memory *memory);
void memory_print(const app_call *call, const quipu_memory *memory);

/* "standing", "instruction"...; "" for none. */
const char *memory_priority_name(quipu_memory_priority priority);
const char *memory_topic_name(quipu_memory_topic topic);

#define MEMORY_PRIORITIES "standing high medium low done" /* in the order of their values */

#define MEMORY_TEXT_MAX 1048576 /* bytes of a memory that is read from stdin */

/* The text of the third argument, or of stdin without its last newline when that is "-". `buffer`
 * has MEMORY_TEXT_MAX + 1 bytes, and lives as long as the text. Returns an exit code. */
int memory_text(const app_call *call, char *buffer, quipu_str *ret_text);

/* The files of --observer-prompt and --reflector-prompt, whose texts lie in `texts`. Returns an
 * exit code. */
typedef struct memory_prompts {
    char observe[QUIPU_MEMORY_PROMPT_MAX + 1];
    char reflect[QUIPU_MEMORY_PROMPT_MAX + 1];
} memory_prompts;
int memory_prompts_read(const app_call *call, memory_prompts *texts, quipu_memory_options *options);

/* memory_edit.c: the first argument after the word is an id. */
int memory_show(const app_call *call, quipu_store *store);
int memory_edit(const app_call *call, quipu_store *store);
int memory_retire(const app_call *call, quipu_store *store);
int memory_rm(const app_call *call, quipu_store *store);
int memory_source(const app_call *call, quipu_store *store);

/* memory_run.c: a key may follow the word. */
int memory_work(const app_call *call, quipu_store *store);
int memory_status(const app_call *call, quipu_store *store);

#endif
