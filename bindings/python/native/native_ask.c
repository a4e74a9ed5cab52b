/* Models that are functions of Python: a provider of the library whose `generate` calls back with a
 * whole question and gets a whole answer. The interpreter's lock is taken by the callback itself. */
#include <stdio.h>

#include "native_job.h"

#define ASK_WHY_SIZE 400 /* of an exception that is kept */

/* What the callback puts. */
struct qpy_answer {
    qpy_buf text;
    char why[ASK_WHY_SIZE];
};

int qpy_answer_put(qpy_answer *answer, const char *text, size_t size)
{
    qpy_buf_add(&answer->text, text, size);
    return answer->text.failed ? -1 : 0;
}

void qpy_answer_fail(qpy_answer *answer, const char *why)
{
    (void)snprintf(answer->why, sizeof(answer->why), "%s", why);
}

/* The texts of a question, in the order in which Python takes them. */
static void ask_texts(const quipu_model_params *params, quipu_str ret_texts[QPY_ASK_TEXTS])
{
    ret_texts[0] = params->model;
    ret_texts[3] = params->request->response_schema.text;
    for (size_t i = 0; i < params->messages.count; i++) {
        const quipu_model_message *message = quipu_model_message_at(params->messages, i);

        ret_texts[message->role == QUIPU_ROLE_SYSTEM ? 1 : 2] = message->content;
    }
}

/* Passes an answer on in one piece. */
static quipu_status ask_put(const quipu_sink *sink, const qpy_buf *text, quipu_error *reterr)
{
    quipu_delta said = QUIPU_DELTA_INIT;
    quipu_delta end = QUIPU_DELTA_INIT;
    quipu_status status;

    said.kind = QUIPU_DELTA_TEXT;
    said.text = (quipu_str){text->p, text->n};
    end.kind = QUIPU_DELTA_FINISH;
    end.finish = QUIPU_FINISH_STOP;
    status = text->n > 0 ? sink->put(sink->ctx, &said, reterr) : QUIPU_OK;
    return status == QUIPU_OK ? sink->put(sink->ctx, &end, reterr) : status;
}

/* A provider's `generate`. Texts go end to end, as those of a job do. */
static quipu_status ask_call(void *ctx, const quipu_model_params *params,
                             const quipu_call_options *call, const quipu_sink *sink,
                             quipu_error *reterr)
{
    const qpy_asker *asker = ctx;
    quipu_str texts[QPY_ASK_TEXTS] = {{NULL, 0}};
    int64_t lengths[QPY_ASK_TEXTS];
    qpy_answer answer = {.why = ""};
    qpy_buf blob = {.p = NULL};
    quipu_status status = QUIPU_NOMEM;

    ask_texts(params, texts);
    for (size_t i = 0; i < QPY_ASK_TEXTS; i++) {
        lengths[i] = (int64_t)texts[i].n;
        qpy_buf_add(&blob, texts[i].p, texts[i].n);
    }
    if (!blob.failed) {
        if (asker->call(asker->number, blob.p, lengths, call->deadline_ms, &answer) == 0) {
            status = ask_put(sink, &answer.text, reterr);
        } else {
            (void)snprintf(reterr->message, sizeof(reterr->message), "%s", answer.why);
            status = reterr->status = QUIPU_IO;
        }
    }
    qpy_buf_free(&blob);
    qpy_buf_free(&answer.text);
    return status;
}

const quipu_provider *qpy_take_asker(qpy_task *task, qpy_asker *asker)
{
    const int64_t address = qpy_take_number(task);

    *asker = (qpy_asker){.provider = QUIPU_PROVIDER_INIT, .number = qpy_take_number(task)};
    asker->call = (qpy_ask_fn)(intptr_t)address;
    asker->provider.ctx = asker;
    asker->provider.id = "a function";
    asker->provider.generate = ask_call;
    return address != 0 ? &asker->provider : NULL;
}
