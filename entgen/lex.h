/* Turning .ent text into tokens. */
#ifndef ENTGEN_LEX_H
#define ENTGEN_LEX_H

#include "entgen/model.h"

typedef enum eg_token_kind {
    EG_END = 0,
    EG_WORD,
    EG_INT,
    EG_FLOAT,
    EG_STRING,
    EG_OPEN,   /* { */
    EG_CLOSE,  /* } */
    EG_LEFT,   /* ( */
    EG_RIGHT,  /* ) */
    EG_COMMA,  /* , */
    EG_ASK,    /* ? */
    EG_EQUALS, /* = */
    EG_MANY,   /* [] */
    EG_DOT,    /* . */
    EG_DOTS,   /* .. */
    EG_TO,     /* -> */
    EG_FROM,   /* <- */
} eg_token_kind;

typedef struct eg_token {
    eg_token_kind kind;
    eg_pos pos;
    quipu_str source; /* as it stands in the file */
    const char *text; /* word: itself; string: what it means */
    const char *doc;  /* `##` lines directly above, joined, or NULL */
    int64_t i;
    double f;
    bool first; /* nothing but space stands before it on its line */
} eg_token;

typedef struct eg_tokens {
    eg_token *items; /* the last one is EG_END */
    size_t n;
} eg_tokens;

/* Read all tokens of file number `file`. Other text is reported and left out. */
eg_tokens eg_lex(eg_run *run, uint32_t file, quipu_str text);

/* A token as a message names it: 'word', "text", end of file. */
const char *eg_token_name(eg_run *run, const eg_token *token);

#endif
