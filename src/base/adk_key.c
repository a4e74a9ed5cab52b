/* Escaping in keys of sessions; the head of adk_key.h has the form. Owns no state and takes no
 * lock: any thread may call any of it.
 * Called by the rooms that the header names.
 *
 *   "a/b"    a%2Fb      the separator
 *   "50%"    50%25      the escape character; everything else stays as it is
 */
#include "base/adk_key.h"

#include <assert.h>
#include <string.h>

#define ADK_KEY_SLASH "%2F"
#define ADK_KEY_PERCENT "%25"
#define ADK_KEY_ESCAPE (sizeof(ADK_KEY_SLASH) - 1) /* bytes of either */

/* Only the separator and the escape character itself: keys stay readable, and two names never give
 * one key. */
void qp_key_escape(quipu_str name, qp_buf *buf)
{
    for (size_t i = 0; i < name.n; i++) {
        if (name.p[i] == '/') {
            qp_buf_puts(buf, ADK_KEY_SLASH);
        } else if (name.p[i] == '%') {
            qp_buf_puts(buf, ADK_KEY_PERCENT);
        } else {
            qp_buf_putc(buf, name.p[i]);
        }
    }
}

/* The prefix that all sessions of a user share. It ends with a slash, so that the sessions of "ann"
 * do not have the beginning of "anna". */
void qp_key_put_user(quipu_str app_name, quipu_str user_id, qp_buf *buf)
{
    qp_buf_puts(buf, QP_KEY_OF_USER);
    qp_key_escape(app_name, buf);
    qp_buf_putc(buf, '/');
    qp_key_escape(user_id, buf);
    qp_buf_putc(buf, '/');
}

/* Only the two escapes that qp_key_escape() writes, in upper case: another spelling of a name would
 * be a second key of the same session. 0: it is neither. */
size_t qp_key_byte(const char *p, size_t n, char *ret)
{
    assert(n > 0);
    *ret = *p;
    if (*p != '%') {
        return 1;
    }
    if (n >= ADK_KEY_ESCAPE && memcmp(p, ADK_KEY_SLASH, ADK_KEY_ESCAPE) == 0) {
        *ret = '/';
        return ADK_KEY_ESCAPE;
    }
    return n >= ADK_KEY_ESCAPE && memcmp(p, ADK_KEY_PERCENT, ADK_KEY_ESCAPE) == 0 ? ADK_KEY_ESCAPE
                                                                                  : 0;
}

/* False for a text that qp_key_escape() cannot have written: another program made the key. */
bool qp_key_unescape(quipu_str name, char *ret_text, size_t *ret_length)
{
    size_t length = 0;

    for (size_t i = 0; i < name.n; length++) {
        char byte;
        const size_t taken = qp_key_byte(name.p + i, name.n - i, &byte);

        if (taken == 0) {
            return false;
        }
        if (ret_text != NULL) {
            ret_text[length] = byte;
        }
        i += taken;
    }
    assert(length <= name.n);
    *ret_length = length;
    return true;
}

/* Exactly three names with a slash between them. The names are slices of the key and still escaped;
 * a name may be empty. */
bool qp_key_split(quipu_str key, quipu_str ret_names[QP_KEY_NAMES])
{
    const size_t head = sizeof(QP_KEY_OF_USER) - 1;
    const char *end = key.p + key.n;
    const char *at = key.p + head;

    if (key.n < head || memcmp(key.p, QP_KEY_OF_USER, head) != 0) {
        return false;
    }
    for (size_t i = 0; i + 1 < QP_KEY_NAMES; i++) {
        const char *slash = memchr(at, '/', (size_t)(end - at));

        if (slash == NULL) {
            return false;
        }
        assert(slash >= at && slash < end);
        ret_names[i] = (quipu_str){at, (size_t)(slash - at)};
        at = slash + 1;
    }
    ret_names[QP_KEY_NAMES - 1] = (quipu_str){at, (size_t)(end - at)};
    return memchr(at, '/', (size_t)(end - at)) == NULL;
}
