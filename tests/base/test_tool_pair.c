/* The rule that pairs responses with tool calls: every short sequence against a naive oracle, and
 * what a reader that sees only the end of a sequence may rely on. */
#include "lib/t.h"

#include <stdio.h>

#include "base/tool_pair.h"

#define PAIR_LENGTH 6
#define PAIR_FAR 1000
#define PAIR_TEXT 32

/* The letters that sequences are made of. */
static const qp_tool_item pair_letters[] = {
    {.kind = QP_TOOL_TURN},
    {.kind = QP_TOOL_CALL, .id = {"a", 1}, .name = {"f", 1}},
    {.kind = QP_TOOL_CALL, .name = {"f", 1}},
    {.kind = QP_TOOL_CALL, .id = {"call_g", 6}, .name = {"g", 1}},
    {.kind = QP_TOOL_RESPONSE, .id = {"a", 1}, .name = {"f", 1}},
    {.kind = QP_TOOL_RESPONSE, .id = {"call_f", 6}, .name = {"f", 1}},
    {.kind = QP_TOOL_RESPONSE, .name = {"g", 1}},
    {.kind = QP_TOOL_RESPONSE, .id = {"b", 1}, .name = {"f", 1}},
    {.kind = QP_TOOL_RESPONSE},
};

#define PAIR_LETTERS (sizeof(pair_letters) / sizeof(pair_letters[0]))

/* ---- the oracle: every candidate is weighed, nothing is skipped ------------------------------ */

static void pair_full_id(const qp_tool_item *item, char text[PAIR_TEXT])
{
    if (item->id.n > 0) {
        (void)snprintf(text, PAIR_TEXT, "%.*s", (int)item->id.n, item->id.p);
    } else {
        (void)snprintf(text, PAIR_TEXT, "call_%.*s", (int)item->name.n,
                       item->name.n > 0 ? item->name.p : "");
    }
}

static bool pair_own_id(const qp_tool_item *item)
{
    char made[PAIR_TEXT];
    qp_tool_item bare = *item;

    bare.id.n = 0;
    pair_full_id(&bare, made);
    return item->id.n > 0 && !quipu_str_eq(item->id, quipu_cstr(made));
}

static int pair_level(const qp_tool_item *call, const qp_tool_item *response)
{
    char left[PAIR_TEXT];
    char right[PAIR_TEXT];

    if (response->id.n == 0 && response->name.n == 0) {
        return 1;
    }
    pair_full_id(call, left);
    pair_full_id(response, right);
    if (strcmp(left, right) == 0) {
        return 3;
    }
    return (!pair_own_id(call) || !pair_own_id(response)) &&
                   quipu_str_eq(call->name, response->name)
               ? 2
               : 0;
}

/* The number of the step that item i belongs to, and of the turn. */
static size_t pair_step(const qp_tool_item *items, size_t i)
{
    size_t step = 0;

    for (size_t k = 1; k <= i; k++) {
        step += items[k].kind == QP_TOOL_CALL && items[k - 1].kind != QP_TOOL_CALL ? 1 : 0;
    }
    return step;
}

static size_t pair_turn(const qp_tool_item *items, size_t i)
{
    size_t turn = 0;

    for (size_t k = 0; k <= i; k++) {
        turn += items[k].kind == QP_TOOL_TURN ? 1 : 0;
    }
    return turn;
}

/* Whether call j may be chosen by a response that names nothing: it is of the turn's last step. */
static bool pair_is_last_step(const qp_tool_item *items, size_t j, size_t at)
{
    for (size_t k = j; k < at; k++) {
        if (items[k].kind == QP_TOOL_CALL && pair_step(items, k) != pair_step(items, j)) {
            return false;
        }
    }
    return pair_turn(items, j) == pair_turn(items, at);
}

static long pair_weight(const qp_tool_item *items, size_t j, size_t at, bool waits)
{
    const int level = pair_level(&items[j], &items[at]);
    const long order = waits ? PAIR_LENGTH - (long)j : (long)j;

    if (level == 0 || (level == 1 && (!waits || !pair_is_last_step(items, j, at)))) {
        return 0;
    }
    /* A call that waits comes first, then the level, then the step when it waits, the place. */
    return (waits ? 100000 : 0) + level * 10000 +
           (waits ? (long)pair_step(items, j) * 100 + order : order) + 1;
}

static void pair_oracle(qp_tool_item *items, size_t count, int64_t reach)
{
    for (size_t i = 0; i < count; i++) {
        long best = 0;

        items[i].pair = QP_TOOL_PAIR_NONE;
        items[i].repeats = false;
        for (size_t j = 0; items[i].kind == QP_TOOL_RESPONSE && j < i; j++) {
            const bool waits = items[j].pair == QP_TOOL_PAIR_NONE;
            const bool near = items[i].message - items[j].message <= reach;
            const long weight =
                items[j].kind == QP_TOOL_CALL && near ? pair_weight(items, j, i, waits) : 0;

            if (weight > best) {
                best = weight;
                items[i].pair = j;
                items[i].repeats = !waits;
            }
        }
        if (best > 0 && !items[i].repeats) {
            items[items[i].pair].pair = i;
        }
    }
}

/* ---- all sequences --------------------------------------------------------------------------- */

/* Sequence number `n` of this length; two items share a message. */
static void pair_make(uint64_t n, size_t length, qp_tool_item *ret)
{
    for (size_t i = 0; i < length; i++) {
        ret[i] = pair_letters[n % PAIR_LETTERS];
        ret[i].message = (int64_t)(i + 2) / 2;
        n /= PAIR_LETTERS;
    }
}

static uint64_t pair_count(size_t length)
{
    uint64_t count = 1;

    for (size_t i = 0; i < length; i++) {
        count *= PAIR_LETTERS;
    }
    return count;
}

static void pair_check(const qp_tool_item *got, const qp_tool_item *want, size_t length, uint64_t n)
{
    for (size_t i = 0; i < length; i++) {
        if (got[i].pair != want[i].pair || got[i].repeats != want[i].repeats) {
            fail_msg("sequence %llu of %zu: item %zu has pair %zd (repeats %d), not %zd (%d)",
                     (unsigned long long)n, length, i, (ssize_t)got[i].pair, got[i].repeats,
                     (ssize_t)want[i].pair, want[i].repeats);
        }
    }
}

static void every_short_sequence_is_paired_as_the_oracle_says(void **state)
{
    static const int64_t reaches[] = {PAIR_FAR, 1, 0};

    (void)state;
    for (size_t r = 0; r < sizeof(reaches) / sizeof(reaches[0]); r++) {
        for (size_t length = 0; length <= (r == 0 ? PAIR_LENGTH : PAIR_LENGTH - 1); length++) {
            for (uint64_t n = 0; n < pair_count(length); n++) {
                qp_tool_item got[PAIR_LENGTH];
                qp_tool_item want[PAIR_LENGTH];

                pair_make(n, length, got);
                pair_make(n, length, want);
                qp_tool_pair_match(got, length, reaches[r]);
                pair_oracle(want, length, reaches[r]);
                pair_check(got, want, length, n);
            }
        }
    }
}

/* Pairs are one to one, point back in time, and only repeats share a call. */
static void every_call_is_answered_once_and_after_it_was_made(void **state)
{
    (void)state;
    for (uint64_t n = 0; n < pair_count(PAIR_LENGTH - 1); n++) {
        qp_tool_item items[PAIR_LENGTH];

        pair_make(n, PAIR_LENGTH - 1, items);
        qp_tool_pair_match(items, PAIR_LENGTH - 1, PAIR_FAR);
        for (size_t i = 0; i < PAIR_LENGTH - 1; i++) {
            const size_t pair = items[i].pair;

            if (pair == QP_TOOL_PAIR_NONE) {
                continue;
            }
            assert_true(items[i].kind == QP_TOOL_CALL ? pair > i : pair < i);
            assert_true(items[i].kind != items[pair].kind);
            assert_true(items[i].repeats ? items[pair].pair < i : items[pair].pair == i);
        }
    }
}

/* A reader of the newest messages may stop where the rule says that the rest changes nothing. */
static void what_is_final_at_the_end_of_a_sequence_is_so_in_all_of_it(void **state)
{
    const size_t length = PAIR_LENGTH - 1;
    size_t stopped = 0;

    (void)state;
    for (uint64_t n = 0; n < pair_count(length); n++) {
        qp_tool_item all[PAIR_LENGTH];

        pair_make(n, length, all);
        qp_tool_pair_match(all, length, PAIR_FAR);
        for (size_t from = 1; from < length; from++) {
            qp_tool_item end[PAIR_LENGTH];

            memcpy(end, all + from, (length - from) * sizeof(*end));
            qp_tool_pair_match(end, length - from, PAIR_FAR);
            for (int64_t place = end[0].message; place <= all[length - 1].message; place++) {
                if (!qp_tool_pair_is_final(end, length - from, place)) {
                    continue;
                }
                stopped++;
                for (size_t i = from; i < length; i++) {
                    const size_t pair = end[i - from].pair;

                    if (all[i].kind == QP_TOOL_RESPONSE && all[i].message >= place) {
                        assert_int_equal(all[i].repeats, end[i - from].repeats);
                        assert_int_equal(all[i].pair,
                                         pair == QP_TOOL_PAIR_NONE ? pair : pair + from);
                    }
                }
            }
        }
    }
    assert_true(stopped > 1000);
}

static void cut_is_one_between_a_call_and_its_response_of_one_turn(void **state)
{
    qp_tool_item items[] = {{.kind = QP_TOOL_CALL, .message = 1, .id = {"x", 1}},
                            {.kind = QP_TOOL_TURN, .message = 2},
                            {.kind = QP_TOOL_CALL, .message = 3, .id = {"a", 1}},
                            {.kind = QP_TOOL_RESPONSE, .message = 5, .id = {"a", 1}},
                            {.kind = QP_TOOL_RESPONSE, .message = 6, .id = {"a", 1}},
                            {.kind = QP_TOOL_RESPONSE, .message = 7, .id = {"x", 1}}};
    const size_t count = sizeof(items) / sizeof(items[0]);

    (void)state;
    qp_tool_pair_match(items, count, PAIR_FAR);
    assert_int_equal(items[5].pair, 0); /* a pair, but of two turns */
    assert_true(items[4].repeats);
    for (int64_t place = 1; place <= 8; place++) {
        assert_int_equal(qp_tool_pair_is_cut(items, count, place), place >= 4 && place <= 6);
    }
}

static void reach_is_counted_in_messages(void **state)
{
    qp_tool_item items[] = {{.kind = QP_TOOL_CALL, .message = 1, .id = {"a", 1}},
                            {.kind = QP_TOOL_RESPONSE, .message = 8, .id = {"a", 1}}};

    (void)state;
    qp_tool_pair_match(items, 2, 7);
    assert_int_equal(items[1].pair, 0);
    qp_tool_pair_match(items, 2, 6);
    assert_int_equal(items[1].pair, QP_TOOL_PAIR_NONE);
    assert_int_equal(items[0].pair, QP_TOOL_PAIR_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_short_sequence_is_paired_as_the_oracle_says),
        cmocka_unit_test(every_call_is_answered_once_and_after_it_was_made),
        cmocka_unit_test(what_is_final_at_the_end_of_a_sequence_is_so_in_all_of_it),
        cmocka_unit_test(cut_is_one_between_a_call_and_its_response_of_one_turn),
        cmocka_unit_test(reach_is_counted_in_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
