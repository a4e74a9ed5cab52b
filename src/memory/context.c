/* The bytes of a memory block and of a tail. The head of context.h has the picture.
 *
 *   ## Conversation Memory
 *
 *   ### Standing
 *   - (what holds in every turn)
 *
 *   ### Summary
 *   (reflections)
 *
 *   ### Recent Observations
 *   - (observations)
 *
 * Headings are Lango's, so that prompts of both programs look the same; "Standing" is ours. A
 * section without lines has no heading. Lines stand in the order of their creation, recent ones of
 * high priority before those of medium.
 *
 * A memory is material from anybody: it is written as one line without characters that nobody sees
 * (base/visible.h), so that none begins a section, ends the block or the tail, or passes for two.
 * Owns: these bytes. Called by src/agent/turn_context.c and context.c. Locks: none; pure but for
 * the caller's arena. */
#include "memory/context.h"

#include <assert.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"
#include "base/visible.h"

#define CONTEXT_HEAD "## Conversation Memory"
#define CONTEXT_TAIL_HEAD "To keep in mind from now on:\n"
#define CONTEXT_LINE_TOKENS 2 /* of a line besides its content */
#define CONTEXT_TAIL_PART 4   /* lines that do not stand leave one part in so many to later tails */
#define CONTEXT_TEXT_MAX ((size_t)64 << 20) /* bytes of a text; lines are far fewer */

/* The sections of a block, in their order. */
static const struct context_section {
    qp_context_section number;
    const char *heading;
    const char *bullet;
} context_sections[] = {
    {QP_CONTEXT_STANDING, "### Standing", "- "},
    {QP_CONTEXT_SUMMARY, "### Summary", ""},
    {QP_CONTEXT_RECENT, "### Recent Observations", "- "},
};

#define CONTEXT_SECTIONS (sizeof(context_sections) / sizeof(context_sections[0]))

static quipu_status context_nomem(quipu_error *reterr)
{
    return qp_error_set(reterr, QUIPU_NOMEM, "no room for the text of memories");
}

/* ---- bytes ------------------------------------------------------------------------------------
 */

/* The lines as a row of the log names them. */
static quipu_status context_pack(const qp_context_lines *lines, quipu_arena *arena,
                                 quipu_bytes *ret)
{
    uint8_t *bytes;

    *ret = (quipu_bytes){NULL, 0};
    if (lines->count == 0) {
        return QUIPU_OK;
    }
    assert(lines->marks != NULL);
    bytes = qp_arena_take(arena, lines->count * QP_CONTEXT_LINE_SIZE);
    if (bytes == NULL) {
        return QUIPU_NOMEM;
    }
    for (size_t i = 0; i < lines->count; i++) {
        uint8_t *at = bytes + i * QP_CONTEXT_LINE_SIZE;

        at[0] = lines->marks[i];
        memcpy(at + 1, lines->items[i].id.b, sizeof(lines->items[i].id.b));
    }
    *ret = (quipu_bytes){bytes, lines->count * QP_CONTEXT_LINE_SIZE};
    return QUIPU_OK;
}

/* Hands a text over, with all that is known of it. */
static quipu_status context_give(const qp_context_lines *lines, qp_buf *text, quipu_arena *arena,
                                 qp_context_text *ret, quipu_error *reterr)
{
    qp_context_text made = {.text = QP_STR_ABSENT};
    quipu_status status = qp_buf_status(text);

    if (status == QUIPU_OK && text->n > 0) {
        status = quipu_arena_copy(arena, qp_buf_str(text), &made.text);
    }
    if (status == QUIPU_OK) {
        status = context_pack(lines, arena, &made.lines);
    }
    qp_buf_free(text);
    if (status != QUIPU_OK) {
        return context_nomem(reterr);
    }
    made.tokens = quipu_token_estimate(made.text);
    qp_sha256_of(made.text.p, made.text.n, made.hash);
    *ret = made;
    return QUIPU_OK;
}

/* A block from lines that are chosen. The same lines give the same bytes, so that a past block can
 * be compared by its hash. Sections stand in the order of the table, lines in the order of
 * `lines`. */
quipu_status qp_context_block_again(const qp_context_lines *lines, quipu_arena *arena,
                                    qp_context_text *ret_block, quipu_error *reterr)
{
    qp_buf text;

    qp_buf_init(&text, CONTEXT_TEXT_MAX);
    if (lines->count > 0) {
        qp_buf_puts(&text, CONTEXT_HEAD);
    }
    for (size_t s = 0; s < CONTEXT_SECTIONS; s++) {
        const struct context_section *section = &context_sections[s];
        bool begun = false;

        for (size_t i = 0; i < lines->count; i++) {
            if (lines->marks[i] >> 4 != (unsigned)section->number) {
                continue;
            }
            if (!begun) {
                qp_buf_puts(&text, "\n\n");
                qp_buf_puts(&text, section->heading);
                begun = true;
            }
            qp_buf_putc(&text, '\n');
            qp_buf_puts(&text, section->bullet);
            qp_visible_put(&text, lines->items[i].content);
        }
    }
    return context_give(lines, &text, arena, ret_block, reterr);
}

/* A blank line ends the tail, so that the message behind it begins a paragraph. */
quipu_status qp_context_tail_make(const qp_context_lines *lines, quipu_arena *arena,
                                  qp_context_text *ret_tail, quipu_error *reterr)
{
    qp_buf text;

    qp_buf_init(&text, CONTEXT_TEXT_MAX);
    if (lines->count > 0) {
        qp_buf_puts(&text, CONTEXT_TAIL_HEAD);
    }
    for (size_t i = 0; i < lines->count; i++) {
        qp_buf_puts(&text, "- ");
        qp_visible_put(&text, lines->items[i].content);
        qp_buf_putc(&text, '\n');
    }
    if (lines->count > 0) {
        qp_buf_putc(&text, '\n');
    }
    return context_give(lines, &text, arena, ret_tail, reterr);
}

/* ---- lines ------------------------------------------------------------------------------------
 */

/* A block under way. */
typedef struct context_choice {
    quipu_str key;
    int64_t from_seq;
    int64_t tokens; /* that are left */
    quipu_memory *items;
    uint8_t *marks;
    size_t count;
} context_choice;

/* Whether the prompt shows the messages that it was made of. */
static bool context_is_shown(const context_choice *choice, const quipu_memory *memory)
{
    return choice->from_seq > 0 && memory->source_start >= choice->from_seq &&
           quipu_str_eq(memory->session_key, choice->key);
}

/* Estimated tokens of a line at most, bullet and newline included: the estimate of a text is
 * rounded down, that of a line in a longer text is not. */
static int64_t context_needs(const quipu_memory *memory)
{
    return quipu_token_estimate(memory->content) + CONTEXT_LINE_TOKENS;
}

/* The tokens that a block of this size has left for its lines: headings count, too. */
static int64_t context_room(int64_t tokens)
{
    int64_t headings = quipu_token_estimate(QUIPU_STR(CONTEXT_HEAD)) + 1;

    for (size_t i = 0; i < CONTEXT_SECTIONS; i++) {
        headings += quipu_token_estimate(quipu_cstr(context_sections[i].heading)) + 1;
    }
    return tokens > headings ? tokens - headings : 0;
}

static void context_take(context_choice *choice, const quipu_memory *memory,
                         qp_context_section section, int64_t needs)
{
    choice->tokens -= needs;
    choice->marks[choice->count] = QP_CONTEXT_MARK(memory->kind, section);
    choice->items[choice->count++] = *memory;
}

/* Lines from number `begun` on were chosen from the newest on: back into the order of creation. */
static void context_turn_round(context_choice *choice, size_t begun)
{
    for (size_t low = begun, high = choice->count; low + 1 < high; low++, high--) {
        const quipu_memory swap = choice->items[low];
        const uint8_t mark = choice->marks[low];

        choice->items[low] = choice->items[high - 1];
        choice->items[high - 1] = swap;
        choice->marks[low] = choice->marks[high - 1];
        choice->marks[high - 1] = mark;
    }
}

/* Adds the newest lines that fit, in the order of their creation. */
static void context_choose(context_choice *choice, const qp_context_lines *lines,
                           qp_context_section section)
{
    const size_t begun = choice->count;

    for (size_t i = lines->count; i > 0 && choice->count < QP_CONTEXT_LINES_MAX; i--) {
        const quipu_memory *memory = &lines->items[i - 1];
        const int64_t needs = context_needs(memory);

        if (needs <= choice->tokens &&
            (section == QP_CONTEXT_STANDING || !context_is_shown(choice, memory))) {
            context_take(choice, memory, section, needs);
        }
    }
    context_turn_round(choice, begun);
}

/* Standing lines first, then summaries, then recent observations by priority, each as long as the
 * budget lasts: what must hold in every turn is never pushed out by what is merely new. */
quipu_status qp_context_block_make(const qp_context_offer *offer, quipu_str key, int64_t from_seq,
                                   int64_t tokens, quipu_arena *arena, qp_context_text *ret_block,
                                   quipu_error *reterr)
{
    context_choice choice = {.key = key, .from_seq = from_seq, .tokens = context_room(tokens)};
    qp_context_lines lines;

    assert(tokens >= 0);
    choice.items = qp_arena_take(arena, QP_CONTEXT_LINES_MAX * sizeof(*choice.items));
    choice.marks = qp_arena_take(arena, QP_CONTEXT_LINES_MAX);
    if (choice.items == NULL || choice.marks == NULL) {
        return context_nomem(reterr);
    }
    context_choose(&choice, &offer->standing, QP_CONTEXT_STANDING);
    choice.tokens -= tokens / CONTEXT_TAIL_PART;
    context_choose(&choice, &offer->reflections, QP_CONTEXT_SUMMARY);
    context_choose(&choice, &offer->high, QP_CONTEXT_RECENT);
    context_choose(&choice, &offer->medium, QP_CONTEXT_RECENT);
    lines = (qp_context_lines){.items = choice.items, .marks = choice.marks, .count = choice.count};
    const quipu_status status = qp_context_block_again(&lines, arena, ret_block, reterr);
    assert(status != QUIPU_OK || ret_block->tokens <= tokens);
    return status;
}

/* Whether a memory is among lines. */
static bool context_has(const qp_context_lines *lines, const quipu_memory *memory)
{
    for (size_t i = 0; i < lines->count; i++) {
        if (lines->items[i].kind == memory->kind &&
            memcmp(lines->items[i].id.b, memory->id.b, sizeof(memory->id.b)) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether a memory was sent in the block or with a message since. */
static bool context_was_sent(const qp_context_past *past, const quipu_memory *memory)
{
    bool sent = context_has(&past->lines, memory);

    for (size_t i = 0; i < past->tail_count && !sent; i++) {
        sent = context_has(&past->tails[i].lines, memory);
    }
    return sent;
}

/* The walk is that of context_choose(): the newest first, and one that is too large hides no other.
 * So a line that a new block would have is either sent, or in the tail, or the reason for a new
 * block; and a new block never asks for another one. */
quipu_status qp_context_fresh(const qp_context_past *past, int64_t room, int64_t tokens,
                              quipu_arena *arena, qp_context_lines *ret_lines, bool *ret_fits,
                              quipu_error *reterr)
{
    const qp_context_lines *standing = &past->standing;
    context_choice choice = {.tokens = room - quipu_token_estimate(QUIPU_STR(CONTEXT_TAIL_HEAD))};
    qp_context_lines fresh;
    bool fits = true;

    choice.items = qp_arena_take(arena, (standing->count + 1) * sizeof(*choice.items));
    choice.marks = qp_arena_take(arena, standing->count + 1);
    if (choice.items == NULL || choice.marks == NULL) {
        return context_nomem(reterr);
    }
    tokens = context_room(tokens);
    for (size_t i = standing->count; i > 0; i--) {
        const quipu_memory *memory = &standing->items[i - 1];
        const int64_t needs = context_needs(memory);
        const bool in_block = needs <= tokens;

        tokens -= in_block ? needs : 0;
        if (context_was_sent(past, memory)) {
            continue;
        }
        if (needs <= choice.tokens) {
            context_take(&choice, memory, QP_CONTEXT_STANDING, needs);
        } else {
            fits = fits && !in_block;
        }
    }
    context_turn_round(&choice, 0);
    fresh = (qp_context_lines){.items = choice.items, .marks = choice.marks, .count = choice.count};
    *ret_lines = fresh;
    *ret_fits = fits;
    return QUIPU_OK;
}

/* A line that was retired must leave the prompt at once; so must one that is gone. */
bool qp_context_is_stale(const qp_context_lines *lines)
{
    bool stale = lines->missing || lines->unspoken;

    for (size_t i = 0; i < lines->count; i++) {
        /* A condensed line is as true as its reflection, so it may stay until the block is made
         * anew. */
        stale = stale || (lines->items[i].has_retired_at && !lines->items[i].has_condensed_into);
    }
    return stale;
}

bool qp_context_is_condensed(const qp_context_lines *lines)
{
    bool condensed = false;

    for (size_t i = 0; i < lines->count; i++) {
        condensed = condensed || lines->items[i].has_condensed_into;
    }
    return condensed;
}

/* Whether the bytes are those that were sent then, by their hash. */
bool qp_context_is_same(const qp_context_text *text, quipu_bytes hash)
{
    return hash.n == sizeof(text->hash) && memcmp(hash.p, text->hash, hash.n) == 0;
}
