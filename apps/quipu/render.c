/* A conversation on a screen. A message is a line with author and time, and its text after a
 * margin. A tool call is one line with its answer beside it, even when the answer is several
 * messages later. Changes of the history (deleted, compacted, forked, interrupted) are marked.
 *
 * Owns: no state besides app_render, which the caller keeps from page to page. Prints through
 * text.c only, so that message text cannot control the terminal. The pairing of calls and answers
 * is for display only. */
#include "render.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "render_parts.h"
#include "tree.h"

#define RENDER_MARGIN_MAX 16
#define RENDER_BESIDE_MIN 60 /* narrower screens print an answer below its call */
#define RENDER_DAY_S 86400
#define RENDER_NOTE_SIZE 160
#define RENDER_ZONE_SIZE 32         /* the name of a time zone */
#define RENDER_POP "{\"pop\":true}" /* `extra` of a message that removes the newest before it */
#define RENDER_HELD_BACK 16         /* messages left for the next page, which may begin with such */

const char *app_role_name(quipu_role role)
{
    static const char *const names[] = {"?",        "user",  "assistant", "tool",
                                        "function", "model", "system"};

    return role >= QUIPU_ROLE_USER && role <= QUIPU_ROLE_SYSTEM ? names[role] : names[0];
}

int app_render_columns(void)
{
    const int columns = app_columns();

    return columns < APP_RENDER_COLUMNS_MAX ? columns : APP_RENDER_COLUMNS_MAX;
}

/* --utc; set once, before a verb runs. */
static bool render_utc;

void app_times_utc(bool utc)
{
    render_utc = utc;
}

/* The time with the zone's offset added, so that the rest need not know of zones. *ret_zone (or
 * NULL) is the zone's name. */
static quipu_time render_local(quipu_time time, char ret_zone[RENDER_ZONE_SIZE])
{
    const time_t s = (time_t)time.s;
    struct tm parts;

    if (ret_zone != NULL) {
        (void)snprintf(ret_zone, RENDER_ZONE_SIZE, "UTC");
    }
    if (!render_utc && localtime_r(&s, &parts) != NULL) {
        time.s += parts.tm_gmtoff;
        if (ret_zone != NULL && parts.tm_zone != NULL) {
            (void)snprintf(ret_zone, RENDER_ZONE_SIZE, "%s", parts.tm_zone);
        }
    }
    return time;
}

void app_time_text(quipu_time time, char *ret_text, size_t size)
{
    app_time_text_utc(render_local(time, NULL), ret_text, size);
}

/* Times before year 1 or after 9999 show "?". */
void app_time_text_utc(quipu_time time, char *ret_text, size_t size)
{
    char text[QUIPU_TIME_TEXT_SIZE] = "";

    if (quipu_time_format(time, text) != QUIPU_OK) {
        memcpy(text, "?", 2);
    }
    text[19] = '\0'; /* without decimals and the offset */
    snprintf(ret_text, size, "%s", text);
}

/* A colour for each role. */
static app_look render_look(quipu_role role)
{
    switch (role) {
    case QUIPU_ROLE_USER:
        return APP_GREEN;
    case QUIPU_ROLE_TOOL:
    case QUIPU_ROLE_FUNCTION:
        return APP_YELLOW;
    case QUIPU_ROLE_SYSTEM:
        return APP_MAGENTA;
    default:
        return APP_CYAN;
    }
}

static const char *render_style(const app_render *render, app_look look)
{
    return app_style(render->colours, look);
}

/* The margin of a message's text: aligned with the author's name. */
static const char *render_margin(const app_render *render)
{
    static const char spaces[RENDER_MARGIN_MAX + 1] = "                ";
    const int width = render->number_columns + 2;

    return spaces + (RENDER_MARGIN_MAX - (width < RENDER_MARGIN_MAX ? width : RENDER_MARGIN_MAX));
}

/* ---- marks -----------------------------------------------------------------------------------
 */

/* A horizontal rule with a text in it; only the text where the screen is too narrow. */
static void render_rule(app_render *render, const char *text)
{
    int used = app_width(quipu_cstr(text)) + 4;

    fprintf(render->out, "\n%s", render_style(render, APP_DIM));
    if (used > render->columns) {
        app_put_wrapped(render->out, quipu_cstr(text), "", render->columns);
    } else {
        fputs("── ", render->out);
        app_put(render->out, quipu_cstr(text));
        fputc(' ', render->out);
        for (; used < render->columns; used++) {
            fputs("─", render->out);
        }
        fputc('\n', render->out);
    }
    fputs(render_style(render, APP_PLAIN), render->out);
}

/* A rule with the date before the first message of each day. Division rounds down, also before
 * 1970. */
static void render_day(app_render *render, const quipu_message *message)
{
    const int64_t s = render_local(message->timestamp, NULL).s;
    const int64_t day = s / RENDER_DAY_S - (s % RENDER_DAY_S < 0);
    char text[QUIPU_TIME_TEXT_SIZE];

    if (!render->begun || day != render->day) {
        app_time_text(message->timestamp, text, 11); /* the date only */
        render_rule(render, text);
    }
    render->begun = true;
    render->day = day;
}

/* A rule after the last message that is shared with the parent. */
static void render_fork(app_render *render, const quipu_message *message)
{
    char text[RENDER_NOTE_SIZE];

    if (render->fork_seq > 0 && message->seq > render->fork_seq) {
        snprintf(text, sizeof(text), "forked here, 1 to %" PRId64 " are shared", render->fork_seq);
        render_rule(render, text);
        render->fork_seq = 0;
    }
}

/* ---- tool calls ------------------------------------------------------------------------------
 */

/* Whether a message makes calls, rather than answering some. */
static bool render_calls(const quipu_message *message)
{
    return message->calls.count > 0 &&
           (message->role == QUIPU_ROLE_ASSISTANT || message->role == QUIPU_ROLE_MODEL);
}

/* Whether a message answers calls: a tool's, or a user's that carries outputs, as ADK writes
 * them. */
static bool render_answers(const quipu_message *message)
{
    if (message->role == QUIPU_ROLE_TOOL || message->role == QUIPU_ROLE_FUNCTION) {
        return true;
    }
    return message->role == QUIPU_ROLE_USER && message->calls.count > 0 &&
           quipu_tool_call_at(message->calls, 0)->output.p != NULL;
}

/* Remembers that an answer was printed beside its call. */
static void render_fold(app_render *render, int64_t seq)
{
    for (size_t i = 0; i < APP_RENDER_FOLDED_MAX; i++) {
        if (render->folded[i].seq == seq) {
            render->folded[i].count++;
            return;
        }
    }
    render->folded[render->folded_next] = (app_folded){seq, 1};
    render->folded_next = (render->folded_next + 1) % APP_RENDER_FOLDED_MAX;
}

/* How many answers of a message were printed already. */
static size_t render_folded(const app_render *render, int64_t seq)
{
    for (size_t i = 0; i < APP_RENDER_FOLDED_MAX; i++) {
        if (render->folded[i].seq == seq) {
            return render->folded[i].count;
        }
    }
    return 0;
}

/* An answer: its text, and the message that carries it. */
typedef struct render_answer {
    quipu_str text;
    const quipu_message *message; /* NULL: the call itself has it, or it is missing */
} render_answer;

/* Whether an answer belongs to a call: by id, or, where one has no id, by its position among the
 * answers that directly follow the calls. */
static bool render_fits(const quipu_tool_call *call, quipu_str id, bool at_once, size_t *turn,
                        size_t number)
{
    if (call->id.n > 0 && id.n > 0) {
        return quipu_str_eq(call->id, id);
    }
    return at_once && (*turn)++ == number;
}

/* The answer of the first message's call `number` among the messages that follow it. */
static render_answer render_find(quipu_messages list, size_t number)
{
    const quipu_tool_call *call = quipu_tool_call_at(quipu_message_at(list, 0)->calls, number);
    bool at_once = true;
    size_t turn = 0;

    if (call->output.p != NULL) {
        return (render_answer){call->output, NULL};
    }
    for (size_t i = 1; i < list.count && (at_once || call->id.n > 0); i++) {
        const quipu_message *message = quipu_message_at(list, i);
        const bool answers = render_answers(message);

        at_once = at_once && answers;
        if (answers && message->calls.count == 0 &&
            render_fits(call, (quipu_str){NULL, 0}, at_once, &turn, number)) {
            return (render_answer){message->content, message};
        }
        for (size_t c = 0; answers && c < message->calls.count; c++) {
            const quipu_tool_call *answer = quipu_tool_call_at(message->calls, c);

            if (answer->output.p != NULL && render_fits(call, answer->id, at_once, &turn, number)) {
                return (render_answer){answer->output, message};
            }
        }
    }
    return (render_answer){{NULL, 0}, NULL};
}

/* Whether all calls of list[0] are answered among the messages after it. */
static bool render_is_whole(quipu_messages list)
{
    const quipu_message *first = quipu_message_at(list, 0);
    bool whole = true;

    for (size_t i = 0; render_calls(first) && i < first->calls.count && whole; i++) {
        whole = render_find(list, i).text.p != NULL;
    }
    return whole;
}

/* A call with its arguments and answer in full. */
static void render_unfolded(const app_render *render, const quipu_tool_call *call, quipu_str answer)
{
    const char *margin = render_margin(render);
    const int room = render->columns - (int)strlen(margin);

    fprintf(render->out, "%s%s▸ ", margin, render_style(render, APP_YELLOW));
    app_put_cut(render->out, call->name, room - 2);
    fprintf(render->out, "%s\n", render_style(render, APP_PLAIN));
    app_put_wrapped(render->out, call->input, margin, room);
    if (answer.p != NULL) {
        fprintf(render->out, "%s%s←%s\n", margin, render_style(render, APP_YELLOW),
                render_style(render, APP_PLAIN));
        app_put_wrapped(render->out, answer, margin, room);
    }
}

/* A call and its answer on one line, or on two on a narrow screen; both are cut to fit. */
static void render_folded_call(const app_render *render, const quipu_tool_call *call,
                               quipu_str answer)
{
    const char *margin = render_margin(render);
    const bool beside = render->columns >= RENDER_BESIDE_MIN && answer.p != NULL;
    const int room = render->columns - (int)strlen(margin) - 2;
    int used;

    fprintf(render->out, "%s%s▸ ", margin, render_style(render, APP_YELLOW));
    used = app_put_cut(render->out, call->name, room / 2);
    fprintf(render->out, "%s%s ", render_style(render, APP_PLAIN), render_style(render, APP_DIM));
    used++;
    used += app_put_cut(render->out, call->input, beside ? room / 2 - used : room - used);
    if (beside) {
        fputs(" ← ", render->out);
        app_put_cut(render->out, answer, room - used - 3);
    } else if (answer.p != NULL) {
        fprintf(render->out, "\n%s  ← ", margin);
        app_put_cut(render->out, answer, room - 2);
    }
    fprintf(render->out, "%s\n", render_style(render, APP_PLAIN));
}

/* One call. An unanswered call is marked, unless answers may still come. */
static void render_call(const app_render *render, const quipu_tool_call *call, quipu_str answer)
{
    if (answer.p == NULL && !render->live) {
        answer = QUIPU_STR("(no answer)");
    }
    if (render->unfold) {
        render_unfolded(render, call, answer);
    } else {
        render_folded_call(render, call, answer);
    }
}

/* A call of the first message; an answer found is remembered, so that it is not printed again. */
static void render_one_call(app_render *render, quipu_messages list, size_t number)
{
    const quipu_tool_calls calls = quipu_message_at(list, 0)->calls;

    if (number < calls.count) {
        const render_answer answer = render_find(list, number);

        render_call(render, quipu_tool_call_at(calls, number), answer.text);
        if (answer.message != NULL) {
            render_fold(render, answer.message->seq);
        }
    }
}

/* An answer whose call is not on this page, on a line of its own. */
static void render_lone_answer(app_render *render, quipu_messages list, size_t number)
{
    const quipu_tool_calls calls = quipu_message_at(list, 0)->calls;
    const char *margin = render_margin(render);

    if (number < calls.count) {
        const quipu_tool_call *call = quipu_tool_call_at(calls, number);

        fprintf(render->out, "%s%s← ", margin, render_style(render, APP_YELLOW));
        int used = app_put_cut(render->out, call->name, render->columns / 3);
        fprintf(render->out, "%s%s ", render_style(render, APP_PLAIN),
                render_style(render, APP_DIM));
        app_put_cut(render->out, call->output.p != NULL ? call->output : call->input,
                    render->columns - (int)strlen(margin) - used - 3);
        fprintf(render->out, "%s\n", render_style(render, APP_PLAIN));
    }
}

/* ---- messages --------------------------------------------------------------------------------
 */

/* The right end of a message's first line: tokens and time, or only the time. */
static void render_note(const app_render *render, const quipu_message *message,
                        char ret_note[RENDER_NOTE_SIZE])
{
    char time[QUIPU_TIME_TEXT_SIZE];

    app_time_text(message->timestamp, time, sizeof(time));
    if (render->columns < RENDER_BESIDE_MIN) {
        snprintf(ret_note, RENDER_NOTE_SIZE, "%.5s", strlen(time) > 11 ? time + 11 : time);
    } else {
        snprintf(ret_note, RENDER_NOTE_SIZE, "%" PRId64 " token%s  %s", message->tokens,
                 message->tokens == 1 ? "" : "s", strlen(time) > 11 ? time + 11 : time);
    }
}

/* A message's first line: number, author, role, and the note at the right. */
static void render_line(app_render *render, const quipu_message *message)
{
    const char *role = app_role_name(message->role);
    const bool named = message->author.n > 0 && !quipu_str_eq(message->author, quipu_cstr(role));
    char note[RENDER_NOTE_SIZE];
    int room;

    render_note(render, message, note);
    room = render->columns - render->number_columns - 2 - (int)strlen(note) - 2;
    fprintf(render->out, "\n%s%*" PRId64 "%s  %s%s", render_style(render, APP_DIM),
            render->number_columns, message->seq, render_style(render, APP_PLAIN),
            render_style(render, APP_BOLD), render_style(render, render_look(message->role)));
    room -= app_put_cut(render->out, named ? message->author : quipu_cstr(role), room);
    fputs(render_style(render, APP_PLAIN), render->out);
    if (named && room > (int)strlen(role) + 3) {
        room -= fprintf(render->out, " (%s)", role);
    }
    if (message->mark == QUIPU_MARK_TIMEOUT && room > 10) {
        room -= fprintf(render->out, " cut off");
    }
    fprintf(render->out, "%*s  %s%s%s\n", room > 0 ? room : 0, "", render_style(render, APP_DIM),
            note, render_style(render, APP_PLAIN));
}

/* A compaction: a rule that names the covered messages, and the summary. */
static void render_summary(app_render *render, const quipu_message *message)
{
    const char *margin = render_margin(render);
    char text[RENDER_NOTE_SIZE];

    if (message->replaces > 0) {
        snprintf(text, sizeof(text),
                 "%" PRId64 "  summary of %" PRId64 " to %" PRId64 ", in place of %" PRId64,
                 message->seq, message->covers_from, message->covers_to, message->replaces);
    } else {
        snprintf(text, sizeof(text), "%" PRId64 "  summary of %" PRId64 " to %" PRId64,
                 message->seq, message->covers_from, message->covers_to);
    }
    render_rule(render, text);
    app_put_wrapped(render->out, message->content, margin, render->columns - (int)strlen(margin));
}

/* Text, then calls or answers: what the columns of a message hold. */
static void render_columns(app_render *render, quipu_messages list, bool answered)
{
    const quipu_message *message = quipu_message_at(list, 0);
    const bool calls = render_calls(message);
    const char *margin = render_margin(render);

    if (!render_answers(message) || message->calls.count == 0) {
        app_put_wrapped(render->out, message->content, margin,
                        render->columns - (int)strlen(margin));
    }
    for (size_t i = 0; i < message->calls.count && !answered; i++) {
        if (calls) {
            render_one_call(render, list, i);
        } else {
            render_lone_answer(render, list, i);
        }
    }
}

/* The contents of a message. `answered`: its answers were printed beside their calls. */
static void render_body(app_render *render, quipu_messages list, const app_parts *parts,
                        bool answered)
{
    const quipu_message *message = quipu_message_at(list, 0);
    const app_parts_how how = {.margin = render_margin(render),
                               .call = render_one_call,
                               .answer = answered ? NULL : render_lone_answer};

    if (parts->odd) {
        app_parts_print(render, list, parts, &how);
    } else {
        render_columns(render, list, answered);
    }
    app_parts_facts(render, message, parts, how.margin);
}

/* One message, unless all that is in it was printed already. */
static void render_one(app_render *render, quipu_messages list)
{
    const quipu_message *message = quipu_message_at(list, 0);
    const size_t answers = message->calls.count > 0 ? message->calls.count : 1;
    const bool answered = render_answers(message) && render_folded(render, message->seq) >= answers;
    app_parts parts;

    app_parts_read(list, &parts);
    if (!answered || parts.more) {
        render_fork(render, message);
        if (message->mark == QUIPU_MARK_COMPACTION) {
            render_summary(render, message);
        } else {
            render_day(render, message);
            render_line(render, message);
            render_body(render, list, &parts, answered);
        }
    }
    app_parts_free(&parts);
}

/* ---- pages -----------------------------------------------------------------------------------
 */

/* Whether a message removes the newest one before it: pop_item() of a session of OpenAI Agents. */
static bool render_pops(const quipu_message *message)
{
    return quipu_str_eq(message->extra.text, QUIPU_STR(RENDER_POP));
}

/* Sets, for each message, whether it is shown, and returns how many are not: a mark takes away the
 * newest message before it that is still there. A mark is shown when its message is not on this
 * page. */
static size_t render_removed(quipu_messages messages, bool *shown)
{
    size_t marks = 0;
    size_t removed = 0;

    for (size_t i = messages.count; i-- > 0;) {
        const bool pops = render_pops(quipu_message_at(messages, i));

        shown[i] = !pops && marks == 0;
        marks = pops ? marks + 1 : marks - (marks > 0);
        removed += !shown[i];
    }
    for (size_t i = 0; i < messages.count && marks > 0; i++) {
        if (render_pops(quipu_message_at(messages, i))) {
            shown[i] = true;
            marks--;
            removed--;
        }
    }
    return removed;
}

/* Prints the first `count` of the messages, oldest first; returns how many were printed. */
static size_t render_list(app_render *render, quipu_messages messages, size_t count, bool more)
{
    /* A view begins with a summary whose number is higher than those after it, so a page cannot
     * continue from it. */
    const bool summary =
        messages.count > 0 && quipu_message_at(messages, 0)->mark == QUIPU_MARK_COMPACTION;
    const size_t least = summary ? 2 : 1;
    size_t done = 0;

    while (done < messages.count && (done < count || done < least) &&
           (done < least || !more || render_is_whole(quipu_messages_from(messages, done)))) {
        render_one(render, quipu_messages_from(messages, done));
        done++;
    }
    return done;
}

/* Prints what is left of the first `count` messages when those that are removed are not there;
 * returns how many were passed. Without memory it prints all, which is what the store holds. */
static size_t render_left(app_render *render, quipu_messages messages, size_t count, bool more)
{
    bool *shown = calloc(messages.count + 1, sizeof(*shown));
    quipu_message *left = calloc(messages.count + 1, sizeof(*left));
    size_t *from = calloc(messages.count + 1, sizeof(*from)); /* where each was */
    size_t done = count;

    if (shown == NULL || left == NULL || from == NULL || render_removed(messages, shown) == 0) {
        done = render_list(render, messages, count, more);
    } else {
        size_t made = 0;
        size_t wanted = 0;

        for (size_t i = 0; i < messages.count; i++) {
            if (shown[i]) {
                left[made] = *quipu_message_at(messages, i);
                from[made++] = i;
                wanted += i < count;
            }
        }
        const size_t printed = render_list(render, quipu_messages_of(left, made), wanted, more);

        done = printed < made ? from[printed] : messages.count;
    }
    free(shown);
    free(left);
    free(from);
    return done;
}

/* At least one message is passed for each call, so that paging always advances. */
size_t app_render_messages(app_render *render, quipu_messages messages, bool more)
{
    const bool held = more && messages.count > RENDER_HELD_BACK + 1;
    const size_t count = held ? messages.count - RENDER_HELD_BACK : messages.count;

    return render_left(render, messages, count, more);
}

/* ---- head ------------------------------------------------------------------------------------
 */

/* A name and its value; empty values are left out. */
static void render_fact(app_render *render, const char *name, quipu_str value)
{
    if (value.n > 0) {
        fprintf(render->out, "%s%-10s%s", render_style(render, APP_DIM), name,
                render_style(render, APP_PLAIN));
        app_put_cut(render->out, value, render->columns - 10);
        fputc('\n', render->out);
    }
}

static void render_instant(app_render *render, const char *name, quipu_time time)
{
    char text[QUIPU_TIME_TEXT_SIZE];
    char line[RENDER_NOTE_SIZE];
    char zone[RENDER_ZONE_SIZE];

    app_time_text_utc(render_local(time, zone), text, sizeof(text));
    snprintf(line, sizeof(line), "%s %s", text, zone);
    render_fact(render, name, quipu_cstr(line));
}

/* Numbers are right-aligned, at least three columns wide. */
void app_render_set(app_render *render, const quipu_session_info *session)
{
    char text[APP_NUMBER_SIZE];

    render->number_columns =
        snprintf(text, sizeof(text), "%" PRId64, session->next_seq > 1 ? session->next_seq - 1 : 1);
    render->number_columns = render->number_columns < 3 ? 3 : render->number_columns;
    render->fork_seq = session->is_fork ? session->fork_seq : 0;
}

/* A line for each: its name, its newest version, and how large that is. */
void app_render_artifacts(app_render *render, quipu_artifacts artifacts)
{
    for (size_t i = 0; i < artifacts.count; i++) {
        const quipu_artifact *artifact = quipu_artifact_at(artifacts, i);
        char size[APP_NUMBER_SIZE];
        char text[QUIPU_ARTIFACT_NAME_MAX + RENDER_NOTE_SIZE];

        app_size_text(artifact->size, size);
        (void)snprintf(text, sizeof(text), "%.*s, version %" PRId64 ", %s", (int)artifact->name.n,
                       artifact->name.p, artifact->version, size);
        render_fact(render, "artifact", quipu_cstr(text));
    }
}

/* The tags of `quipu set --tag`, in a line. */
static void render_tags(app_render *render, quipu_json metadata)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    const app_tree *root = NULL;
    const app_tree *tag = NULL;
    char *text = NULL;
    size_t n = 0;
    FILE *line = metadata.text.n > 0 ? open_memstream(&text, &n) : NULL;

    if (line != NULL && app_tree_read(metadata.text, &arena, &root) == QUIPU_OK) {
        const app_tree *tags = app_tree_get(root, "tags");

        tag = tags != NULL ? tags->first : NULL;
    }
    for (bool first = true; tag != NULL; tag = tag->next, first = false) {
        fputs(first ? "" : ", ", line);
        (void)fwrite(tag->text.n > 0 ? tag->text.p : "", 1, tag->text.n, line);
    }
    if (line != NULL && fclose(line) == 0) {
        render_fact(render, "tags", (quipu_str){text, n});
    }
    free(text);
    quipu_arena_free(&arena);
}

/* Facts that are empty are left out. */
void app_render_head(app_render *render, const quipu_session_info *session)
{
    char text[RENDER_NOTE_SIZE];

    app_render_set(render, session);
    fputs(render_style(render, APP_BOLD), render->out);
    app_put_cut(render->out, session->key, render->columns);
    fprintf(render->out, "%s\n", render_style(render, APP_PLAIN));
    snprintf(text, sizeof(text), "%" PRId64 " message%s, about %" PRId64 " tokens",
             session->message_count, session->message_count == 1 ? "" : "s", session->token_count);
    render_fact(render, "title", session->title);
    render_fact(render, "holds", quipu_cstr(text));
    render_fact(render, "app", session->app_name);
    render_fact(render, "user", session->user_id);
    render_fact(render, "agent", session->agent_id);
    render_fact(render, "model", session->model);
    render_instant(render, "begun", session->created_at);
    render_instant(render, "changed", session->updated_at);
    if (session->has_expiry) {
        render_instant(render, "expires", session->expires_at);
    }
    render_tags(render, session->metadata);
    if (session->answer_count > 0) {
        snprintf(text, sizeof(text),
                 "%" PRId64 " tokens of prompts (%" PRId64 " cached), %" PRId64 " of %" PRId64
                 " answer%s",
                 session->prompt_total, session->cached_total, session->answer_total,
                 session->answer_count, session->answer_count == 1 ? "" : "s");
        render_fact(render, "used", quipu_cstr(text));
    }
    if (session->is_fork) {
        snprintf(text, sizeof(text), "at number %" PRId64 " of %s", session->fork_seq,
                 session->parent_key.p != NULL ? session->parent_key.p : "a deleted session");
        render_fact(render, "fork", quipu_cstr(text));
    }
    if (session->first_seq > 1) {
        snprintf(text, sizeof(text), "messages 1 to %" PRId64, session->first_seq - 1);
        render_fact(render, "removed", quipu_cstr(text));
    }
}
