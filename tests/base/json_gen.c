/* The random JSON of json_gen.h. */
#include "lib/t.h"

#include "base/json_gen.h"
#include "base/str.h"

static void json_gen_space(qp_buf *buf, uint64_t *seed)
{
    if (t_random_below(seed, 6) == 0) {
        for (uint64_t n = t_random_below(seed, 4); n > 0; n--) {
            qp_buf_putc(buf, " \t\n\r"[t_random_below(seed, 4)]);
        }
    }
}

static void json_gen_string(qp_buf *buf, uint64_t *seed)
{
    static const char *const escapes[] = {"\\\"", "\\\\", "\\/", "\\b", "\\f", "\\n", "\\r", "\\t"};
    char put[4];

    qp_buf_putc(buf, '"');
    for (uint64_t n = t_random_below(seed, 12); n > 0; n--) {
        uint32_t point = (uint32_t)t_random_below(seed, 0x110000);
        switch (t_random_below(seed, 10)) {
        case 0:
            qp_buf_puts(buf, escapes[t_random_below(seed, 8)]);
            break;
        case 1:
            qp_buf_printf(buf, t_random_below(seed, 2) ? "\\u%04x" : "\\u%04X",
                          (unsigned)t_random_below(seed, 0x300));
            break;
        case 2:
            qp_buf_printf(buf, "\\u%04x", (unsigned)t_random_below(seed, 0x10000));
            break;
        case 3: /* a proper pair */
            qp_buf_printf(buf, "\\ud8%02x\\udc%02x", (unsigned)t_random_below(seed, 256),
                          (unsigned)t_random_below(seed, 256));
            break;
        case 4:
            point = point >= 0xd800 && point < 0xe000 ? 0xac00 : point;
            point = point < 0x20 || point == '"' || point == '\\' ? 'x' : point;
            qp_buf_put(buf, (quipu_str){put, qp_utf8_put(point, put)});
            break;
        default:
            qp_buf_putc(buf, "abcdefgh 0123{}[]:,/"[t_random_below(seed, 20)]);
        }
    }
    qp_buf_putc(buf, '"');
}

static void json_gen_digits(qp_buf *buf, uint64_t *seed, uint64_t most)
{
    for (uint64_t n = 1 + t_random_below(seed, most); n > 0; n--) {
        qp_buf_putc(buf, (char)('0' + t_random_below(seed, 10)));
    }
}

static void json_gen_number(qp_buf *buf, uint64_t *seed)
{
    if (t_random_below(seed, 3) == 0) {
        qp_buf_putc(buf, '-');
    }
    if (t_random_below(seed, 4) == 0) {
        qp_buf_putc(buf, '0');
    } else {
        qp_buf_putc(buf, (char)('1' + t_random_below(seed, 9)));
        if (t_random_below(seed, 2) == 0) {
            json_gen_digits(buf, seed, t_random_below(seed, 8) == 0 ? 40 : 5);
        }
    }
    if (t_random_below(seed, 3) == 0) {
        qp_buf_putc(buf, '.');
        json_gen_digits(buf, seed, 6);
    }
    if (t_random_below(seed, 4) == 0) {
        qp_buf_putc(buf, "eE"[t_random_below(seed, 2)]);
        if (t_random_below(seed, 2) == 0) {
            qp_buf_putc(buf, "+-"[t_random_below(seed, 2)]);
        }
        json_gen_digits(buf, seed, 2);
    }
}

static void json_gen_container(qp_buf *buf, uint64_t *seed, int depth, bool object)
{
    uint64_t n = t_random_below(seed, 12) == 0 ? 12 : t_random_below(seed, 5);

    qp_buf_putc(buf, object ? '{' : '[');
    json_gen_space(buf, seed);
    for (uint64_t i = 0; i < n; i++) {
        if (i != 0) {
            qp_buf_putc(buf, ',');
        }
        if (object) {
            json_gen_space(buf, seed);
            if (t_random_below(seed, 2) == 0) {
                json_gen_string(buf, seed);
            } else {
                qp_buf_printf(buf, "\"%c\"", "abcd"[t_random_below(seed, 4)]); /* duplicates */
            }
            json_gen_space(buf, seed);
            qp_buf_putc(buf, ':');
        }
        t_json_value(buf, seed, depth - 1);
    }
    qp_buf_putc(buf, object ? '}' : ']');
}

void t_json_value(qp_buf *buf, uint64_t *seed, int depth)
{
    uint64_t kind = t_random_below(seed, depth > 0 ? 12 : 7);

    json_gen_space(buf, seed);
    if (kind >= 7) {
        json_gen_container(buf, seed, depth, kind % 2 == 0);
    } else if (kind >= 5) {
        json_gen_number(buf, seed);
    } else if (kind >= 3) {
        json_gen_string(buf, seed);
    } else {
        static const char *const words[] = {"true", "false", "null"};
        qp_buf_puts(buf, words[kind]);
    }
    json_gen_space(buf, seed);
}

size_t t_json_damage(char *text, size_t size, size_t size_max, uint64_t *seed)
{
    static const char interesting[] =
        "\"\\{}[]:,0123456789-+.eEtrufalsn/ \t\n\x01\x1f\x7f\x80\xc3\xed";
    size_t at;
    char c;

    for (uint64_t n = 1 + t_random_below(seed, 3); n > 0 && size > 0; n--) {
        at = (size_t)t_random_below(seed, size);
        c = interesting[t_random_below(seed, sizeof(interesting) - 1)];
        switch (t_random_below(seed, 5)) {
        case 0:
            text[at] = c;
            break;
        case 1:
            memmove(text + at, text + at + 1, size - at - 1);
            size--;
            break;
        case 2:
            if (size < size_max) {
                memmove(text + at + 1, text + at, size - at);
                text[at] = c;
                size++;
            }
            break;
        case 3:
            text[at] = text[t_random_below(seed, size)];
            break;
        default:
            size = t_random_below(seed, 4) == 0 ? at : size;
        }
    }
    return size;
}
