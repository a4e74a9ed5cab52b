/* The JSON writer. Only quotes, backslashes and control characters are escaped; all other UTF-8
 * goes out as it came.
 *
 * Owns: nothing but the state of one text; the buffer is the caller's.
 * Called by: every room that writes JSON. Order of calls is the caller's duty and asserted; data
 * that cannot be written (invalid UTF-8, NaN, too deep) fails the buffer instead.
 * On return from qp_jsonw_end() the text is complete, or the buffer's status says why not.
 *
 *   {  "a":  1  ,  "b":  [  2  ]  }
 *   comma: false behind a bracket that opens, true behind a value and a bracket that closes
 *   keyed: true between a key and its value
 *
 * Locks: none; a writer has one user at a time. */
#include "base/jsonw.h"

#include <assert.h>
#include <string.h>

#include "base/attr.h"
#include "base/json_scan.h"
#include "base/str.h"
#include "base/time.h"

/* Writes behind what the buffer holds, so that several texts can share one buffer. */
void qp_jsonw_begin(qp_jsonw *writer, qp_buf *buf)
{
    assert(writer != NULL && buf != NULL);
    memset(writer, 0, sizeof(*writer));
    writer->buf = buf;
}

/* Every container has been closed, unless the buffer failed. `comma` is set behind the first value:
 * an empty text is not JSON. */
quipu_status qp_jsonw_end(const qp_jsonw *writer)
{
    quipu_status status = qp_buf_status(writer->buf);

    assert(writer != NULL);
    assert(status != QUIPU_OK || (writer->depth == 0 && writer->comma));
    return status;
}

/* Whether the innermost open container is an object. Only assertions ask, which a release build
 * leaves out. */
QP_UNUSED static bool jsonw_in_object(const qp_jsonw *writer)
{
    uint32_t level = writer->depth - 1;

    return writer->depth != 0 && (writer->objects[level / 64] >> (level % 64) & 1) != 0;
}

/* Writes what precedes a value; false after an earlier error. Inside of an object a value follows
 * its key, without a comma between. */
static bool jsonw_value(qp_jsonw *writer)
{
    if (qp_buf_status(writer->buf) != QUIPU_OK) {
        return false;
    }
    assert(jsonw_in_object(writer) == writer->keyed);
    assert(writer->depth != 0 || !writer->comma);
    if (writer->comma && !writer->keyed) {
        qp_buf_putc(writer->buf, ',');
    }
    writer->comma = true;
    writer->keyed = false;
    return true;
}

/* Opens a container. One bit a level remembers whether it is an object; the fixed array of bits is
 * why the depth has a limit. */
static void jsonw_open(qp_jsonw *writer, char bracket, bool object)
{
    uint32_t level = writer->depth;
    uint64_t bit = UINT64_C(1) << (level % 64);

    if (!jsonw_value(writer)) {
        return;
    }
    if (level == QP_JSON_DEPTH_MAX) {
        qp_buf_fail(writer->buf, QUIPU_LIMIT);
        return;
    }
    writer->objects[level / 64] &= ~bit;
    writer->objects[level / 64] |= object ? bit : 0;
    writer->depth++;
    writer->comma = false;
    qp_buf_putc(writer->buf, bracket);
}

/* Closes the innermost container. The bracket matches the one that opened, which only an assertion
 * checks: it is the caller's order of calls. */
static void jsonw_close(qp_jsonw *writer, char bracket, bool object)
{
    if (qp_buf_status(writer->buf) != QUIPU_OK) {
        return;
    }
    assert(writer->depth != 0 && !writer->keyed && jsonw_in_object(writer) == object);
    (void)object;
    writer->depth--;
    writer->comma = true;
    qp_buf_putc(writer->buf, bracket);
}

/* Members follow: key, value, key, value. */
void qp_jsonw_object(qp_jsonw *writer)
{
    jsonw_open(writer, '{', true);
}

/* The caller closes what it opened last; the kind is asserted. */
void qp_jsonw_object_end(qp_jsonw *writer)
{
    jsonw_close(writer, '}', true);
}

/* Values follow. */
void qp_jsonw_array(qp_jsonw *writer)
{
    jsonw_open(writer, '[', false);
}

/* The same for an array. */
void qp_jsonw_array_end(qp_jsonw *writer)
{
    jsonw_close(writer, ']', false);
}

/* The short escapes where JSON has them, otherwise \u00XX. Called for quotes, backslashes and
 * control characters only. */
static void jsonw_escape(qp_buf *buf, unsigned char c)
{
    static const char digits[] = "0123456789abcdef";
    static const char letters[32] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
    char letter = c < 32 ? letters[c] : (char)c;
    char text[6] = {'\\', letter, '0', '0', digits[c >> 4], digits[c & 15]};

    if (letter == 0) {
        text[1] = 'u';
        qp_buf_put(buf, (quipu_str){text, 6});
        return;
    }
    qp_buf_put(buf, (quipu_str){text, 2});
}

/* Runs without a special character are copied as a whole. An absent text is written as "". */
static void jsonw_quoted(qp_buf *buf, quipu_str text)
{
    const unsigned char *p = (const unsigned char *)(text.p != NULL ? text.p : "");
    const unsigned char *end = p + text.n;
    const unsigned char *plain;

    if (qp_json_is_simple(p, end)) { /* most keys, and most values */
        char *to = qp_buf_room(buf, text.n + 2);

        if (to != NULL) {
            to[0] = '"';
            memcpy(to + 1, p, text.n);
            to[text.n + 1] = '"';
            qp_buf_added(buf, text.n + 2);
        }
        return;
    }
    if (!qp_utf8_valid(text)) {
        qp_buf_fail(buf, QUIPU_INVALID);
        return;
    }
    qp_buf_putc(buf, '"');
    while (p < end) {
        plain = qp_json_plain(p, end);
        qp_buf_put(buf, (quipu_str){(const char *)p, (size_t)(plain - p)});
        p = plain;
        if (p < end) {
            jsonw_escape(buf, *p++);
        }
    }
    qp_buf_putc(buf, '"');
}

/* Writes what precedes a key; false after an earlier error. */
static bool jsonw_member(qp_jsonw *writer)
{
    if (qp_buf_status(writer->buf) != QUIPU_OK) {
        return false;
    }
    assert(jsonw_in_object(writer) && !writer->keyed);
    if (writer->comma) {
        qp_buf_putc(writer->buf, ',');
    }
    writer->keyed = true;
    return true;
}

/* The value must follow before anything else. */
void qp_jsonw_key(qp_jsonw *writer, quipu_str key)
{
    if (jsonw_member(writer)) {
        jsonw_quoted(writer->buf, key);
        qp_buf_putc(writer->buf, ':');
    }
}

/* A key as it stands in a source, quotes and escapes included: copied keys stay byte for byte. */
void qp_jsonw_raw_key(qp_jsonw *writer, quipu_str json)
{
    assert(json.n >= 2 && json.p[0] == '"' && json.p[json.n - 1] == '"');
    if (jsonw_member(writer)) {
        qp_buf_put(writer->buf, json);
        qp_buf_putc(writer->buf, ':');
    }
}

/* A value, or an element of an array. Invalid UTF-8 fails the buffer. */
void qp_jsonw_str(qp_jsonw *writer, quipu_str text)
{
    if (jsonw_value(writer)) {
        jsonw_quoted(writer->buf, text);
    }
}

/* A value that is JSON already. It is not checked: callers pass what the parser has accepted. */
void qp_jsonw_raw(qp_jsonw *writer, quipu_str json)
{
    assert(json.n != 0);
    if (jsonw_value(writer)) {
        qp_buf_put(writer->buf, json);
    }
}

/* In full: readers that keep numbers as doubles lose digits above 2^53, the text does not. */
void qp_jsonw_i64(qp_jsonw *writer, int64_t value)
{
    if (jsonw_value(writer)) {
        qp_buf_i64(writer->buf, value);
    }
}

/* The shortest text that reads back as the same double. NaN and the infinities have no JSON:
 * QUIPU_INVALID. */
void qp_jsonw_double(qp_jsonw *writer, double value)
{
    char text[QP_DOUBLE_TEXT_SIZE];

    if (!qp_double_text(value, text)) {
        qp_buf_fail(writer->buf, QUIPU_INVALID);
        return;
    }
    qp_jsonw_raw(writer, quipu_cstr(text));
}

/* The literals of the grammar. */
void qp_jsonw_bool(qp_jsonw *writer, bool value)
{
    qp_jsonw_raw(writer, value ? QUIPU_STR("true") : QUIPU_STR("false"));
}

/* For a member that is there without a value. */
void qp_jsonw_null(qp_jsonw *writer)
{
    qp_jsonw_raw(writer, QUIPU_STR("null"));
}

/* ---- members ----------------------------------------------------------------------------------
 */

/* The shorthands below write a key and its value. Texts that are absent are left out together with
 * their key. */
void qp_jsonw_put(qp_jsonw *writer, const char *name, const char *text)
{
    qp_jsonw_put_text(writer, name, quipu_cstr(text));
}

/* The same for a text with a length. */
void qp_jsonw_put_text(qp_jsonw *writer, const char *name, quipu_str text)
{
    if (text.p != NULL) {
        qp_jsonw_key(writer, quipu_cstr(name));
        qp_jsonw_str(writer, text);
    }
}

/* A number is always present: 0 is written, too. */
void qp_jsonw_put_i64(qp_jsonw *writer, const char *name, int64_t value)
{
    qp_jsonw_key(writer, quipu_cstr(name));
    qp_jsonw_i64(writer, value);
}

/* NaN and infinities fail the buffer. */
void qp_jsonw_put_double(qp_jsonw *writer, const char *name, double value)
{
    qp_jsonw_key(writer, quipu_cstr(name));
    qp_jsonw_double(writer, value);
}

/* false is written, too: absent would mean that nobody knows. */
void qp_jsonw_put_bool(qp_jsonw *writer, const char *name, bool value)
{
    qp_jsonw_key(writer, quipu_cstr(name));
    qp_jsonw_bool(writer, value);
}

/* RFC 3339 in UTC; a time that does not exist is left out. */
void qp_jsonw_put_time(qp_jsonw *writer, const char *name, quipu_time time)
{
    char text[QP_TIME_RFC3339_SIZE];

    if (qp_time_rfc3339(time, text, NULL) == QUIPU_OK) {
        qp_jsonw_put(writer, name, text);
    }
}
