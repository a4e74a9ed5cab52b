/* The generator of random events. */
#include "lib/t.h"

#include "contract/adk_gen.h"

#define GEN_DEPTH_MAX 4

typedef struct gen {
    uint64_t *random;
    qp_buf *buf;
    bool snake;
    bool wild; /* this event may break rules */
} gen;

static uint64_t gen_below(gen *g, uint64_t bound)
{
    return t_random_below(g->random, bound);
}

static bool gen_odds(gen *g, uint64_t of)
{
    return gen_below(g, of) == 0;
}

static void gen_text(gen *g, uint64_t size_max)
{
    static const char *const pieces[] = {"a",
                                         "b",
                                         " ",
                                         "word",
                                         "\\n",
                                         "\\\"",
                                         "\\\\",
                                         "\\u0000",
                                         "\\ud800",
                                         "\\udc00",
                                         "\\ud83d\\ude00",
                                         "\xc3\xbc",
                                         "\xf0\x9f\x8c\xa6",
                                         "\xef\xbf\xbd",
                                         "\\u00fc",
                                         "\\/",
                                         "\\t",
                                         "{",
                                         "}",
                                         "0",
                                         "\\u0001",
                                         "\xea\xb5\xad"};
    uint64_t n = gen_below(g, size_max + 1);

    qp_buf_putc(g->buf, '"');
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = gen_below(g, sizeof(pieces) / sizeof(pieces[0]));

        if (at >= 7 && at <= 9 && !g->wild && !gen_odds(g, 20)) {
            at = 0;
        }
        qp_buf_puts(g->buf, pieces[at]);
    }
    qp_buf_putc(g->buf, '"');
}

static void gen_number(gen *g)
{
    static const char *const numbers[] = {"0",
                                          "-0",
                                          "1",
                                          "42",
                                          "-7",
                                          "9007199254740993",
                                          "123456789012345678901234567890",
                                          "1e3",
                                          "-0.0",
                                          "1.50",
                                          "0.30000000000000004",
                                          "1E-400",
                                          "1e400",
                                          "2.5",
                                          "1767225603.000001"};

    qp_buf_puts(g->buf, numbers[gen_below(g, sizeof(numbers) / sizeof(numbers[0]))]);
}

static void gen_value(gen *g, int depth);

static void gen_object(gen *g, int depth)
{
    uint64_t n = gen_below(g, 4);

    qp_buf_putc(g->buf, '{');
    for (uint64_t i = 0; i < n; i++) {
        qp_buf_puts(g->buf, i > 0 ? "," : "");
        gen_text(g, 3);
        qp_buf_puts(g->buf, gen_odds(g, 4) ? ": " : ":");
        gen_value(g, depth + 1);
    }
    qp_buf_putc(g->buf, '}');
}

static void gen_value(gen *g, int depth)
{
    uint64_t n;

    switch (gen_below(g, depth < GEN_DEPTH_MAX ? 8 : 6)) {
    case 0:
        qp_buf_puts(g->buf, "null");
        break;
    case 1:
        qp_buf_puts(g->buf, gen_odds(g, 2) ? "true" : "false");
        break;
    case 2:
    case 3:
        gen_number(g);
        break;
    case 4:
    case 5:
        gen_text(g, 6);
        break;
    case 6:
        n = gen_below(g, 4);
        qp_buf_putc(g->buf, '[');
        for (uint64_t i = 0; i < n; i++) {
            qp_buf_puts(g->buf, i > 0 ? "," : "");
            gen_value(g, depth + 1);
        }
        qp_buf_putc(g->buf, ']');
        break;
    default:
        gen_object(g, depth);
        break;
    }
}

/* A member's name, in the event's spelling or, in a wild event, sometimes in the other one. */
static void gen_key(gen *g, bool *first, const char *camel, const char *snake)
{
    bool other = g->wild && gen_odds(g, 6);

    qp_buf_puts(g->buf, *first ? "\"" : ",\"");
    qp_buf_puts(g->buf, g->snake != other ? snake : camel);
    qp_buf_puts(g->buf, "\":");
    *first = false;
}

/* Whether a wild event puts anything at all in the place of a value. */
static bool gen_wrong(gen *g)
{
    if (g->wild && gen_odds(g, 12)) {
        gen_value(g, 2);
        return true;
    }
    return false;
}

static void gen_string(gen *g, bool *first, const char *camel, const char *snake, uint64_t max)
{
    gen_key(g, first, camel, snake);
    if (!gen_wrong(g)) {
        gen_text(g, max);
    }
}

static void gen_any(gen *g, bool *first, const char *camel, const char *snake)
{
    gen_key(g, first, camel, snake);
    gen_value(g, 1);
}

static void gen_signature(gen *g, bool *first)
{
    static const char *const texts[] = {
        "\"__77AHNpZw==\"", "\"//77AHNpZw==\"", "\"AAAA\"",      "\"\"",
        "\"AA\"",           "\"AB\"",           "\"-+\"",        "\"!\"",
        "\"AA=\"",          "\"_w==\"",         "\"\\u0041AAA\""};

    gen_key(g, first, "thoughtSignature", "thought_signature");
    if (!gen_wrong(g)) {
        qp_buf_puts(g->buf, texts[gen_below(g, sizeof(texts) / sizeof(texts[0]))]);
    }
}

static void gen_call(gen *g, bool *first, bool response)
{
    bool inner = true;

    gen_key(g, first, response ? "functionResponse" : "functionCall",
            response ? "function_response" : "function_call");
    if (gen_wrong(g)) {
        return;
    }
    qp_buf_putc(g->buf, '{');
    if (!gen_odds(g, 4)) {
        gen_string(g, &inner, "id", "id", 5);
    }
    if (!gen_odds(g, 8)) {
        gen_string(g, &inner, "name", "name", 4);
    }
    if (!gen_odds(g, 8)) {
        gen_key(g, &inner, response ? "response" : "args", response ? "response" : "args");
        if (!gen_wrong(g)) {
            gen_object(g, 1);
        }
    }
    if (gen_odds(g, 5)) {
        gen_any(g, &inner, "willContinue", "will_continue");
    }
    if (g->wild && gen_odds(g, 8)) {
        gen_string(g, &inner, "id", "id", 2);
    }
    qp_buf_putc(g->buf, '}');
}

static void gen_part(gen *g)
{
    bool first = true;

    if (gen_wrong(g)) {
        return;
    }
    qp_buf_putc(g->buf, '{');
    if (!gen_odds(g, 3)) {
        gen_string(g, &first, "text", "text", gen_odds(g, 8) ? 60 : 8);
    }
    if (gen_odds(g, 4)) {
        gen_call(g, &first, false);
    }
    if (gen_odds(g, 4)) {
        gen_call(g, &first, true);
    }
    if (gen_odds(g, 4)) {
        gen_key(g, &first, "thought", "thought");
        qp_buf_puts(g->buf, gen_odds(g, 3) ? "false" : "true");
    }
    if (gen_odds(g, 4)) {
        gen_signature(g, &first);
    }
    if (gen_odds(g, 6)) {
        gen_any(g, &first, "inlineData", "inline_data");
    }
    if (gen_odds(g, 8)) {
        gen_any(g, &first, "partMetadata", "part_metadata");
    }
    if (g->wild && gen_odds(g, 10)) {
        gen_string(g, &first, "text", "text", 3);
    }
    if (g->wild && gen_odds(g, 10)) {
        gen_any(g, &first, "quipu", "adk");
    }
    qp_buf_putc(g->buf, '}');
}

static void gen_content(gen *g, bool *first)
{
    static const char *const roles[] = {"\"user\"",   "\"model\"", "\"function\"",  "\"tool\"",
                                        "\"system\"", "\"\"",      "\"assistant\"", "\"narrator\""};
    bool inner = true;
    uint64_t n = gen_odds(g, 2) ? 1 : gen_below(g, 5);

    gen_key(g, first, "content", "content");
    if (gen_wrong(g)) {
        return;
    }
    qp_buf_putc(g->buf, '{');
    if (!gen_odds(g, 8)) {
        gen_key(g, &inner, "role", "role");
        if (!gen_wrong(g)) {
            qp_buf_puts(g->buf, roles[gen_below(g, gen_odds(g, 3) ? 8 : 2)]);
        }
    }
    if (!gen_odds(g, 10)) {
        gen_key(g, &inner, "parts", "parts");
        if (!gen_wrong(g)) {
            qp_buf_putc(g->buf, '[');
            for (uint64_t i = 0; i < n; i++) {
                qp_buf_puts(g->buf, i > 0 ? "," : "");
                gen_part(g);
            }
            qp_buf_putc(g->buf, ']');
        }
    }
    if (g->wild && gen_odds(g, 6)) {
        gen_any(g, &inner, "role", "unknown");
    }
    qp_buf_putc(g->buf, '}');
}

static void gen_timestamp(gen *g, bool *first)
{
    static const char *const times[] = {"1767225601.25",
                                        "1767225604.0",
                                        "1767225604",
                                        "1767225603.000001",
                                        "1731650662.1234567",
                                        "\"2026-01-01T00:00:01.25Z\"",
                                        "\"0001-01-01T00:00:00Z\"",
                                        "\"2026-01-01 00:00:01+09:00\"",
                                        "0.0",
                                        "-0.5",
                                        "-1.0",
                                        "1e9",
                                        "1e300",
                                        "1767225604.1234567891234",
                                        "\"soon\"",
                                        "00.5"};

    gen_key(g, first, "timestamp", "timestamp");
    if (!gen_wrong(g)) {
        qp_buf_puts(g->buf, times[gen_below(g, 15)]);
    }
}

static void gen_actions(gen *g, bool *first)
{
    static const char *const camel =
        "{\"stateDelta\":{},\"artifactDelta\":{},"
        "\"requestedAuthConfigs\":{},\"requestedToolConfirmations\":{}}";
    static const char *const snake = "{\"state_delta\":{},\"artifact_delta\":{},"
                                     "\"requested_auth_configs\":{},"
                                     "\"requested_tool_confirmations\":{}}";
    bool inner = true;

    gen_key(g, first, "actions", "actions");
    switch (gen_below(g, 4)) {
    case 0:
        qp_buf_puts(g->buf, g->snake ? snake : camel);
        break;
    case 1:
        qp_buf_puts(g->buf, g->wild && gen_odds(g, 2) ? snake : "{}");
        break;
    default:
        qp_buf_putc(g->buf, '{');
        gen_key(g, &inner, "stateDelta", "state_delta");
        gen_object(g, 2);
        if (gen_odds(g, 3)) {
            gen_any(g, &inner, "requestedToolConfirmations", "requested_tool_confirmations");
        }
        qp_buf_putc(g->buf, '}');
        break;
    }
}

static void gen_others(gen *g, bool *first)
{
    static const char *const names[][2] = {{"usageMetadata", "usage_metadata"},
                                           {"groundingMetadata", "grounding_metadata"},
                                           {"turnComplete", "turn_complete"},
                                           {"errorMessage", "error_message"},
                                           {"longRunningToolIds", "long_running_tool_ids"},
                                           {"customMetadata", "custom_metadata"},
                                           {"partial", "partial"},
                                           {"output", "output"},
                                           {"quipu", "quipu"},
                                           {"e", "f"},
                                           {"branch", "branch"},
                                           {"i\\u0064", "au\\u0074hor"}};

    while (gen_odds(g, 2)) {
        uint64_t at = gen_below(g, g->wild ? 12 : 8);

        gen_any(g, first, names[at][0], names[at][1]);
    }
}

void gen_event(uint64_t *random, qp_buf *buf)
{
    gen g = {.random = random, .buf = buf};
    bool first = true;

    g.snake = gen_odds(&g, 2);
    g.wild = gen_odds(&g, 4);
    qp_buf_putc(buf, '{');
    if (!gen_odds(&g, 12)) {
        gen_string(&g, &first, "id", "id", 9);
    }
    if (!gen_odds(&g, 8)) {
        gen_timestamp(&g, &first);
    }
    if (!gen_odds(&g, 8)) {
        gen_string(&g, &first, "invocationId", "invocation_id", 6);
    }
    if (!gen_odds(&g, 8)) {
        gen_key(&g, &first, "author", "author");
        if (gen_odds(&g, 2)) {
            qp_buf_puts(buf, "\"user\"");
        } else {
            gen_text(&g, 5);
        }
    }
    if (gen_odds(&g, 4)) {
        gen_string(&g, &first, "branch", "branch", 5);
    }
    if (!gen_odds(&g, 6)) {
        gen_content(&g, &first);
    }
    if (!gen_odds(&g, 5)) {
        gen_actions(&g, &first);
    }
    if (gen_odds(&g, 2)) {
        gen_key(&g, &first, "nodeInfo", "node_info");
        qp_buf_puts(buf, gen_odds(&g, 2) ? "{\"path\":\"\"}" : "{\"path\":\"a\"}");
    }
    if (gen_odds(&g, 2)) {
        gen_others(&g, &first);
    }
    if (g.wild && gen_odds(&g, 8)) {
        gen_string(&g, &first, "id", "id", 3);
    }
    qp_buf_putc(buf, '}');
}
