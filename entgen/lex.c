/* Turning .ent text into tokens: one pass, whole file, so that the parser can look ahead freely. */
#include "entgen/lex.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "entgen/run.h"

#define LEX_NUMBER_MAX 63 /* bytes of a number */
#define LEX_SHOWN_MAX 40  /* bytes of a token that a message shows */

/* The byte order mark that some editors write in front of UTF-8. */
static const char lex_bom[] = {'\xef', '\xbb', '\xbf'};

typedef struct lex_state {
    eg_run *run;
    const char *p;
    const char *end;
    eg_pos pos;
    bool first;
    qp_buf doc;        /* `##` lines that wait for their token */
    uint32_t doc_line; /* the last of them */
    eg_token *items;
    size_t n;
    size_t cap;
} lex_state;

static bool lex_is_alpha(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool lex_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char lex_peek(const lex_state *lex, size_t ahead)
{
    return (size_t)(lex->end - lex->p) > ahead ? lex->p[ahead] : '\0';
}

/* Step over `size` bytes of one line; columns count characters. */
static void lex_step(lex_state *lex, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (((unsigned char)lex->p[i] & 0xc0U) != 0x80U) {
            lex->pos.col++;
        }
    }
    lex->p += size;
}

static void lex_newline(lex_state *lex)
{
    lex->p++;
    lex->pos.line++;
    lex->pos.col = 1;
    lex->first = true;
}

static eg_token *lex_add(lex_state *lex, eg_token_kind kind, size_t size)
{
    eg_token *token;

    if (lex->n == lex->cap) {
        size_t cap = lex->cap == 0 ? 256 : lex->cap * 2;
        eg_token *items = eg_alloc(lex->run, cap * sizeof(*items));
        if (lex->n > 0) {
            memcpy(items, lex->items, lex->n * sizeof(*items));
        }
        lex->items = items;
        lex->cap = cap;
    }
    token = &lex->items[lex->n++];
    token->kind = kind;
    token->pos = lex->pos;
    token->source = (quipu_str){lex->p, size};
    token->first = lex->first;
    if (lex->doc.n > 0) {
        /* A comment that stands apart from what follows belongs to nobody. */
        if (lex->first && lex->doc_line + 1 == lex->pos.line) {
            token->doc = eg_copy(lex->run, qp_buf_str(&lex->doc));
        }
        qp_buf_reset(&lex->doc);
    }
    lex->first = false;
    lex_step(lex, size);
    return token;
}

static void lex_comment(lex_state *lex)
{
    const char *eol = memchr(lex->p, '\n', (size_t)(lex->end - lex->p));
    quipu_str line = {lex->p, (size_t)((eol != NULL ? eol : lex->end) - lex->p)};

    if (lex->first && line.n >= 2 && line.p[1] == '#') {
        size_t start = 2;
        size_t stop = line.n;
        while (start < stop && (line.p[start] == ' ' || line.p[start] == '#')) {
            start++;
        }
        while (stop > start && (line.p[stop - 1] == ' ' || line.p[stop - 1] == '\r')) {
            stop--;
        }
        if (lex->doc.n > 0 && lex->doc_line + 1 != lex->pos.line) {
            qp_buf_reset(&lex->doc);
        }
        if (lex->doc.n > 0) {
            qp_buf_putc(&lex->doc, ' ');
        }
        qp_buf_put(&lex->doc, (quipu_str){line.p + start, stop - start});
        lex->doc_line = lex->pos.line;
    }
    lex_step(lex, line.n);
}

static size_t lex_digits(const lex_state *lex, size_t n)
{
    while (lex_is_digit(lex_peek(lex, n))) {
        n++;
    }
    return n;
}

/* Digits, a hexadecimal number, a fraction or an exponent; "1..5" is the number 1 and two dots. */
static size_t lex_number_size(const lex_state *lex, bool *ret_float)
{
    size_t n = lex_peek(lex, 0) == '-' ? 1 : 0;
    bool hex = lex_peek(lex, n) == '0' && lex_peek(lex, n + 1) == 'x';

    *ret_float = false;
    n = lex_digits(lex, n);
    if (lex_peek(lex, n) == '.' && lex_is_digit(lex_peek(lex, n + 1))) {
        *ret_float = true;
        n = lex_digits(lex, n + 1);
    }
    if (!hex && (lex_peek(lex, n) == 'e' || lex_peek(lex, n) == 'E')) {
        *ret_float = true;
        n++;
        n += lex_peek(lex, n) == '-' || lex_peek(lex, n) == '+' ? 1 : 0;
    }
    /* Letters that stick to it belong to it, so that 12ab is one mistake. */
    while (lex_is_digit(lex_peek(lex, n)) || lex_is_alpha(lex_peek(lex, n))) {
        n++;
    }
    return n;
}

static void lex_number(lex_state *lex)
{
    char text[LEX_NUMBER_MAX + 1];
    char *stop = text;
    bool is_float;
    size_t size = lex_number_size(lex, &is_float);
    eg_token *token = lex_add(lex, is_float ? EG_FLOAT : EG_INT, size);

    if (size > LEX_NUMBER_MAX) {
        eg_error(lex->run, token->pos, "a number of %zu characters, expected at most %d", size,
                 LEX_NUMBER_MAX);
        return;
    }
    memcpy(text, token->source.p, size);
    text[size] = '\0';
    errno = 0;
    if (is_float) {
        token->f = strtod(text, &stop);
        if (stop != text + size || !isfinite(token->f)) {
            eg_error(lex->run, token->pos, "'%s' is no number, expected one such as -1.5e3", text);
            token->f = 0;
        }
        return;
    }
    token->i = strtoll(text, &stop, strstr(text, "0x") != NULL ? 16 : 10);
    token->f = (double)token->i;
    if (stop != text + size) {
        eg_error(lex->run, token->pos, "'%s' is no number, expected one such as 42 or 0x2a", text);
    } else if (errno == ERANGE) {
        eg_error(lex->run, token->pos, "%s does not fit 64 bits", text);
    }
}

/* The character that a backslash and `c` mean, or 0. */
static char lex_escape(char c)
{
    switch (c) {
    case 'n':
        return '\n';
    case 't':
        return '\t';
    case 'r':
        return '\r';
    case '"':
    case '\\':
        return c;
    default:
        return '\0';
    }
}

/* The bytes of a string up to its closing quote, or up to the end of the line when there is none.
 * *ret_fault names the fault, or is NULL. */
static size_t lex_string_size(const lex_state *lex, const char **ret_fault)
{
    size_t n = 1;

    *ret_fault = NULL;
    while (lex_peek(lex, n) != '"') {
        unsigned char c = (unsigned char)lex_peek(lex, n);
        if (lex->p + n == lex->end || c == '\n' || c == '\r') {
            *ret_fault = lex->p + n == lex->end ? "end of file" : "end of line";
            return n;
        }
        if (c < 0x20 || c == 0x7f) {
            *ret_fault = "a control character";
        }
        n += c == '\\' && (lex_peek(lex, n + 1) == '"' || lex_peek(lex, n + 1) == '\\') ? 2 : 1;
    }
    return n + 1;
}

static void lex_string(lex_state *lex)
{
    const char *fault;
    size_t size = lex_string_size(lex, &fault);
    eg_token *token = lex_add(lex, EG_STRING, size);
    char *text = eg_alloc(lex->run, size + 1);
    size_t length = 0;
    eg_pos pos = token->pos;

    token->text = text;
    if (fault != NULL) {
        eg_error(lex->run, pos, "%s in a string, expected text and '\"' to end it", fault);
        return;
    }
    for (size_t i = 1; i + 1 < size; i++) {
        char c = token->source.p[i];
        pos.col += ((unsigned char)c & 0xc0U) != 0x80U ? 1 : 0;
        if (c == '\\') {
            i++;
            c = lex_escape(token->source.p[i]);
            if (c == '\0') {
                eg_error(lex->run, pos, "an unknown escape, expected one of \\\" \\\\ \\n \\t \\r");
                return;
            }
            pos.col++;
        }
        text[length++] = c;
    }
}

static void lex_symbol(lex_state *lex)
{
    static const struct {
        const char *text;
        eg_token_kind kind;
    } symbols[] = {{"->", EG_TO},   {"<-", EG_FROM}, {"..", EG_DOTS},  {"[]", EG_MANY},
                   {"{", EG_OPEN},  {"}", EG_CLOSE}, {"(", EG_LEFT},   {")", EG_RIGHT},
                   {",", EG_COMMA}, {"?", EG_ASK},   {"=", EG_EQUALS}, {".", EG_DOT}};
    uint32_t point;
    size_t size;

    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        size = strlen(symbols[i].text);
        if ((size_t)(lex->end - lex->p) >= size && memcmp(lex->p, symbols[i].text, size) == 0) {
            (void)lex_add(lex, symbols[i].kind, size);
            return;
        }
    }
    size = qp_utf8_step((const unsigned char *)lex->p, (const unsigned char *)lex->end, &point);
    assert(size > 0);
    if (point < 0x20 || point == 0x7f) {
        eg_error(lex->run, lex->pos, "a control character, expected text");
    } else {
        eg_error(lex->run, lex->pos, "the character '%.*s', which has no meaning here", (int)size,
                 lex->p);
    }
    lex->first = false;
    lex_step(lex, size);
}

static void lex_one(lex_state *lex)
{
    char c = *lex->p;

    if (c == '\n') {
        lex_newline(lex);
    } else if (c == ' ' || c == '\t' || c == '\r') {
        lex_step(lex, 1);
    } else if (c == '#') {
        lex_comment(lex);
    } else if (lex_is_alpha(c)) {
        size_t n = 1;
        eg_token *token;
        while (lex_is_alpha(lex_peek(lex, n)) || lex_is_digit(lex_peek(lex, n))) {
            n++;
        }
        token = lex_add(lex, EG_WORD, n);
        token->text = eg_copy(lex->run, token->source);
    } else if (lex_is_digit(c) || (c == '-' && lex_is_digit(lex_peek(lex, 1)))) {
        lex_number(lex);
    } else if (c == '"') {
        lex_string(lex);
    } else {
        lex_symbol(lex);
    }
}

/* Whether the bytes are text at all; reports where they stop being it. */
static bool lex_check_text(lex_state *lex, quipu_str text)
{
    size_t offset = 0;
    qp_text_fault fault = qp_text_check(text, &offset);

    if (fault == QP_TEXT_OK) {
        return true;
    }
    for (size_t i = 0; i < offset; i++) {
        if (text.p[i] == '\n') {
            lex->pos.line++;
            lex->pos.col = 1;
        } else if (((unsigned char)text.p[i] & 0xc0U) != 0x80U) {
            lex->pos.col++;
        }
    }
    eg_error(lex->run, lex->pos, "%s, expected UTF-8 text",
             fault == QP_TEXT_NUL ? "a NUL byte" : "a byte that is no part of valid UTF-8");
    return false;
}

eg_tokens eg_lex(eg_run *run, uint32_t file, quipu_str text)
{
    lex_state lex = {.run = run, .p = text.p, .end = text.p + text.n, .first = true};
    eg_tokens tokens;

    lex.pos = (eg_pos){.file = file, .line = 1, .col = 1};
    qp_buf_init(&lex.doc, EG_SOURCE_MAX);
    if (lex_check_text(&lex, text)) {
        if (text.n >= sizeof(lex_bom) && memcmp(text.p, lex_bom, sizeof(lex_bom)) == 0) {
            lex.p += sizeof(lex_bom);
        }
        while (lex.p < lex.end) {
            lex_one(&lex);
        }
    }
    (void)lex_add(&lex, EG_END, 0);
    qp_buf_free(&lex.doc);
    tokens.items = lex.items;
    tokens.n = lex.n;
    return tokens;
}

const char *eg_token_name(eg_run *run, const eg_token *token)
{
    quipu_str shown = token->source;

    if (token->kind == EG_END) {
        return "end of file";
    }
    if (shown.n > LEX_SHOWN_MAX) {
        shown.n = qp_utf8_cut(shown, LEX_SHOWN_MAX);
        return eg_format(run, "%.*s...", (int)shown.n, shown.p);
    }
    return eg_format(run, token->kind == EG_STRING ? "%.*s" : "'%.*s'", (int)shown.n, shown.p);
}
