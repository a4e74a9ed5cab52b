/* Functions that fill a caller's error struct, and the version. No function here allocates, so that
 * an error can always be reported. Called by: every room. Texts never hold what a message says:
 * they name entities, fields and limits. A message is formatted aside and cut at a whole character,
 * so that a long key or path leaves valid UTF-8. On return the struct is complete, or untouched
 * where the caller passed NULL. Owns: nothing but the text of the version. Locks: none, and nothing
 * thread-local. */
#include "base/error.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

static_assert(sizeof(quipu_error) == 512, "the error struct is part of the ABI");

const char *quipu_version(void)
{
    return QUIPU_VERSION_TEXT;
}

/* Copies as much as fits, whole characters only. */
static void error_copy(char *to, size_t to_size, const char *from)
{
    quipu_str text = quipu_cstr(from);
    size_t n = qp_utf8_cut(text, to_size - 1);

    assert(to_size > 0);
    if (n != 0) {
        memcpy(to, text.p, n);
    }
    to[n] = '\0';
}

QUIPU_PRINTF(2, 0)
/* Formats into a buffer of its own first: error_copy() then cuts at a whole character, which
 * vsnprintf() does not. */
static void error_message(quipu_error *error, const char *format, va_list args)
{
    /* One byte more than fits shows where the cut falls. */
    char text[sizeof(error->message) + 1];

    if (vsnprintf(text, sizeof(text), format, args) < 0) {
        text[0] = '\0';
    }
    error_copy(error->message, sizeof(error->message), text);
}

/* Returns the status, for `return qp_error_set(...)`. */
quipu_status qp_error_set(quipu_error *reterr, quipu_status status, const char *format, ...)
{
    va_list args;

    assert(format != NULL);
    if (reterr != NULL) {
        memset(reterr, 0, sizeof(*reterr));
        reterr->status = (int32_t)status;
        va_start(args, format);
        error_message(reterr, format, args);
        va_end(args);
    }
    return status;
}

/* The same about an entity, a field or a rule; each may be NULL. */
quipu_status qp_error_field(quipu_error *reterr, quipu_status status, const char *entity,
                            const char *field, const char *rule, const char *format, ...)
{
    va_list args;

    assert(format != NULL);
    if (reterr != NULL) {
        memset(reterr, 0, sizeof(*reterr));
        reterr->status = (int32_t)status;
        error_copy(reterr->entity, sizeof(reterr->entity), entity);
        error_copy(reterr->field, sizeof(reterr->field), field);
        error_copy(reterr->rule, sizeof(reterr->rule), rule);
        va_start(args, format);
        error_message(reterr, format, args);
        va_end(args);
    }
    return status;
}

/* A closed list of what a request can be wrong about or refused for; a status of a later version is
 * taken for a fault. */
bool qp_error_is_fault(quipu_status status)
{
    switch (status) {
    case QUIPU_OK:
    case QUIPU_NOT_FOUND:
    case QUIPU_EXISTS:
    case QUIPU_EXPIRED:
    case QUIPU_CONFLICT:
    case QUIPU_INVALID:
    case QUIPU_MISUSE:
    case QUIPU_LIMIT:
    case QUIPU_UNSUPPORTED:
        return false;
    default:
        return true;
    }
}
