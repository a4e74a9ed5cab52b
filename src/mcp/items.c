/* Results that keep to a token budget: lists that end before it is used up, and texts that are cut.
 *
 * Owns: the buffer of the item that is being written, from qp_mcp_items_begin() to _end(). Called
 * by: tools and resources. Holds on return: the list is whole JSON; `full` says that something was
 * left out, and the tool reports it.
 * Locks: none. */
#include "mcp/tool.h"

#include <assert.h>
#include <stdio.h>

#include "base/str.h"

#define ITEMS_BYTES_A_TOKEN 6 /* at most: two characters of three bytes */
#define ITEMS_NAME_SIZE 64

/* The budget is the tool's argument max_tokens, which every list has. */
void qp_mcp_items_begin(qp_mcp_items *items, qp_mcp_call *call, const char *name)
{
    *items = (qp_mcp_items){.to = call->out, .left = qp_mcp_argument(call, "max_tokens")->number};
    qp_buf_init(&items->buf, QUIPU_MCP_RESPONSE_MAX);
    qp_jsonw_key(call->out, quipu_cstr(name));
    qp_jsonw_array(call->out);
}

/* An item is written apart first, because its size decides whether it is in the list. */
qp_jsonw *qp_mcp_item_begin(qp_mcp_items *items)
{
    qp_buf_reset(&items->buf);
    qp_jsonw_begin(&items->item, &items->buf);
    qp_jsonw_object(&items->item);
    return &items->item;
}

/* false: the list is full, or failed. The first item is always kept, however large: a list of none
 * would look as if nothing was there. */
bool qp_mcp_item_end(qp_mcp_items *items)
{
    int64_t tokens;
    quipu_status status;

    qp_jsonw_object_end(&items->item);
    status = qp_jsonw_end(&items->item);
    if (status != QUIPU_OK) {
        qp_buf_fail(items->to->buf, status);
        return false;
    }
    tokens = quipu_token_estimate(qp_buf_str(&items->buf));
    if (items->count > 0 && tokens > items->left) {
        items->full = true;
        return false;
    }
    qp_jsonw_raw(items->to, qp_buf_str(&items->buf));
    items->left -= tokens;
    items->count++;
    return true;
}

/* The list of a tool that failed is ended, too: the writer needs whole JSON. */
void qp_mcp_items_end(qp_mcp_items *items)
{
    qp_buf_free(&items->buf);
    qp_jsonw_array_end(items->to);
}

/* Estimates are not linear in bytes: one cut in proportion may not be enough. */
quipu_str qp_mcp_cut(quipu_str text, int64_t tokens)
{
    int64_t has;

    if (tokens < 0) {
        tokens = 0;
    }
    if (text.n / ITEMS_BYTES_A_TOKEN > (size_t)tokens) {
        text.n = qp_utf8_cut(text, (size_t)tokens * ITEMS_BYTES_A_TOKEN);
    }
    has = quipu_token_estimate(text);
    while (has > tokens) {
        /* Shrinks in proportion, and by a character at least. */
        const size_t n = (size_t)((double)text.n * (double)tokens / (double)has);

        text.n = qp_utf8_cut(text, n < text.n ? n : text.n - 1);
        has = quipu_token_estimate(text);
    }
    return text;
}

/* A text that was cut says so in a member of its own, NAME_is_cut: a model must not take a part for
 * the whole. */
void qp_mcp_put_cut(qp_jsonw *out, const char *name, quipu_str text, int64_t tokens)
{
    const quipu_str cut = qp_mcp_cut(text, tokens);
    char is_cut[ITEMS_NAME_SIZE];

    qp_jsonw_put_text(out, name, cut);
    if (cut.n < text.n) {
        (void)snprintf(is_cut, sizeof(is_cut), "%s_is_cut", name);
        qp_jsonw_put_bool(out, is_cut, true);
    }
}
