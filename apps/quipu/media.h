/* Media that stand in the parts of an event: their type and size, and as files. For show. */
#ifndef APPS_QUIPU_MEDIA_H
#define APPS_QUIPU_MEDIA_H

#include "app.h"
#include "tree.h"

#define APP_MEDIA_NAME_SIZE 128 /* a file's name, with its NUL */

/* The bytes that base64 text stands for, in either alphabet, with or without padding. */
int64_t app_media_bytes(quipu_str base64);

/* The file's name for number `number` (from 1) of the media of message `seq`: its own name behind
 * the two numbers, or a suffix by its type. Letters, digits, '.', '_' and '-' only, so that it
 * names a file in the folder and nothing else. */
void app_media_name(int64_t seq, int number, quipu_str mime, quipu_str name,
                    char ret_name[APP_MEDIA_NAME_SIZE]);

/* A folder that media are written to. */
typedef struct app_media_folder {
    const app_call *call;
    const char *path;
    int fd; /* -1: not open */
    int64_t written;
    int64_t same; /* that were there already, byte for byte */
    int64_t kept; /* files of these names with other bytes: never overwritten */
} app_media_folder;

/* Opens the folder, which is created when it is missing. Returns an exit code. */
int app_media_open(const app_call *call, const char *path, app_media_folder *ret_folder);

/* Writes the media of an event. Returns an exit code. */
int app_media_save(app_media_folder *folder, int64_t seq, const app_tree *event);

/* Says what was written; returns APP_CONFLICT when a file was in the way. NULL is fine. */
int app_media_close(app_media_folder *folder);

#endif
