/* The page of a running server, opened for the person at this terminal. For serve and demo. */
#ifndef APPS_QUIPU_PAGE_H
#define APPS_QUIPU_PAGE_H

#include <sys/types.h>

#include "library.h"

#define APP_PAGE_NOTE_SIZE 64

/* Files that were made for the run, and are removed with it. */
typedef struct app_page {
    const app_http *http;
    const char *token_file;
    char note[APP_PAGE_NOTE_SIZE]; /* of the token: names this process */
    char file[APP_PATH_MAX];       /* leads the browser to the address; "": none */
    pid_t browser;                 /* 0: none */
} app_page;

/* Makes a token for this run, prints the page's address with it, and opens a browser where there is
 * one. `url` is where the server is reached. False: reported. */
bool app_page_open(const app_call *call, const app_http *http, const char *token_file,
                   const char *url, app_page *ret_page);

/* Removes the token and the file. */
void app_page_close(app_page *page);

#endif
