/* Writing events and answers down. */
#include "provider/note.h"

#include "base/base64.h"

static void note_usage(qp_buf *out, const quipu_model_usage *usage)
{
    qp_buf_printf(
        out, "usage input %lld output %lld total %lld cached %lld written %lld thoughts %lld",
        (long long)usage->input, (long long)usage->output, (long long)usage->total,
        (long long)usage->cached, (long long)usage->cache_write, (long long)usage->thoughts);
}

quipu_status note_event(void *ctx, const quipu_model_event *event)
{
    static const char *const finishes[] = {"none", "stop", "length", "tools", "filter", "other"};
    qp_buf *out = ctx;

    switch (event->kind) {
    case QUIPU_MODEL_TEXT:
    case QUIPU_MODEL_THOUGHT:
        qp_buf_puts(out, event->kind == QUIPU_MODEL_TEXT ? "text~ " : "thought~ ");
        qp_buf_put(out, event->text);
        break;
    case QUIPU_MODEL_TOOL:
        qp_buf_puts(out, event->partial ? "tool~ " : "tool ");
        qp_buf_put(out, event->call->id);
        qp_buf_putc(out, ' ');
        qp_buf_put(out, event->call->name);
        qp_buf_putc(out, ' ');
        qp_buf_put(out, event->call->json.text);
        break;
    case QUIPU_MODEL_USAGE:
        note_usage(out, event->usage);
        break;
    case QUIPU_MODEL_DONE:
        qp_buf_printf(out, "done %s", finishes[event->response->finish]);
        break;
    case QUIPU_MODEL_ERROR:
        qp_buf_printf(out, "error %s %s: %s", quipu_status_name(event->status), event->error->rule,
                      event->error->message);
        break;
    }
    qp_buf_putc(out, '\n');
    return QUIPU_OK;
}

void note_response(qp_buf *out, const quipu_model_response *response)
{
    static const char *const kinds[] = {"?",        "text", "thought", "call",
                                        "response", "data", "other"};

    for (size_t i = 0; i < response->parts.count; i++) {
        const quipu_part *part = quipu_part_at(response->parts, i);

        qp_buf_printf(out, "part %s%s ", kinds[part->kind], part->redacted ? " redacted" : "");
        qp_buf_put(out, part->kind == QUIPU_PART_CALL || part->kind == QUIPU_PART_OTHER
                            ? part->json.text
                            : part->text);
        if (part->signature.n > 0) {
            qp_buf_puts(out, " signed ");
            qp_base64_put(out, part->signature);
        }
        qp_buf_putc(out, '\n');
    }
    qp_buf_puts(out, "model ");
    qp_buf_put(out, response->model);
    qp_buf_puts(out, " id ");
    qp_buf_put(out, response->id);
    qp_buf_putc(out, '\n');
}
