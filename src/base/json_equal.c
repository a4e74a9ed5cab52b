/* Equality of JSON trees by meaning: order of members and escapes do not count. Depth is bounded by
 * the parser, so it may recurse; small objects are compared in place, larger ones by sorting their
 * members, so that no input takes square time.
 *
 * Owns: nothing; the arrays to sort are freed before a function returns.
 * Called by: src/store/message_read.c, when an event id repeats: is it the same message? And by the
 * server, for the members of bodies.
 * Locks: none; both trees are only read. */
#include "base/json.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define JSON_EQUAL_FEW 8 /* objects up to this size are compared in place */

/* One member of an object that is sorted; both are slices of the source. */
typedef struct json_equal_member {
    qp_json_node key;
    qp_json_node value;
} json_equal_member;

static quipu_status json_equal_run(qp_json_node a, qp_json_node b, bool *ret_equal);

/* The last member whose key means the same. When the key does not occur, `doc` is NULL, whose kind
 * differs from any value's. */
static qp_json_node json_equal_find(qp_json_node object, qp_json_node key)
{
    qp_json_iter iter = qp_json_each(object);
    qp_json_node found = {NULL, 0};

    while (qp_json_next(&iter)) {
        if (qp_json_text_cmp(iter.key, key) == 0) {
            found = iter.value;
        }
    }
    return found;
}

/* How many different keys. A member counts where it is the last of its key, as qp_json_get() reads
 * it. */
static size_t json_equal_keys(qp_json_node object)
{
    qp_json_iter iter = qp_json_each(object);
    size_t count = 0;

    while (qp_json_next(&iter)) {
        count += json_equal_find(object, iter.key).at == iter.value.at ? 1 : 0;
    }
    return count;
}

/* Objects of at most JSON_EQUAL_FEW members, without allocating. Square in the number of members,
 * at most 8 * 8 comparisons. Equal counts of keys, and each key of `a` in `b`, make the sets
 * equal. */
static quipu_status json_equal_few(qp_json_node a, qp_json_node b, bool *ret_equal)
{
    qp_json_iter iter = qp_json_each(a);
    quipu_status status = QUIPU_OK;
    bool equal = json_equal_keys(a) == json_equal_keys(b);
    qp_json_node other;

    while (equal && status == QUIPU_OK && qp_json_next(&iter)) {
        if (json_equal_find(a, iter.key).at != iter.value.at) {
            continue; /* a later duplicate wins */
        }
        other = json_equal_find(b, iter.key);
        status = json_equal_run(iter.value, other, &equal);
    }
    *ret_equal = equal;
    return status;
}

/* By key; of one key the last in the text comes first, so that the others can be skipped. */
static int json_equal_order(const void *a, const void *b)
{
    const json_equal_member *ma = a;
    const json_equal_member *mb = b;
    int order = qp_json_text_cmp(ma->key, mb->key);

    return order != 0 ? order : (ma->key.at < mb->key.at) - (ma->key.at > mb->key.at);
}

/* Fills `members`, which has room for all, sorted by key and without the duplicates that lose;
 * returns how many stay. */
static size_t json_equal_sort(qp_json_node object, json_equal_member *members)
{
    qp_json_iter iter = qp_json_each(object);
    size_t count = 0;
    size_t kept = 0;

    while (qp_json_next(&iter)) {
        members[count++] = (json_equal_member){iter.key, iter.value};
    }
    qsort(members, count, sizeof(*members), json_equal_order);
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || qp_json_text_cmp(members[kept - 1].key, members[i].key) != 0) {
            members[kept++] = members[i];
        }
    }
    return kept;
}

/* The same for larger objects: sorted, two objects are equal where they are equal member by member.
 * n log n comparisons and two arrays on the heap; QUIPU_NOMEM leaves *ret_equal as it was. */
static quipu_status json_equal_many(qp_json_node a, size_t a_count, qp_json_node b, size_t b_count,
                                    bool *ret_equal)
{
    json_equal_member *ma = qp_calloc(a_count + 1, sizeof(*ma));
    json_equal_member *mb = qp_calloc(b_count + 1, sizeof(*mb));
    quipu_status status = QUIPU_NOMEM;
    bool equal;

    if (ma == NULL || mb == NULL) {
        goto done;
    }
    status = QUIPU_OK;
    a_count = json_equal_sort(a, ma);
    b_count = json_equal_sort(b, mb);
    equal = a_count == b_count;
    for (size_t i = 0; i < a_count && equal && status == QUIPU_OK; i++) {
        equal = qp_json_text_cmp(ma[i].key, mb[i].key) == 0;
        if (equal) {
            status = json_equal_run(ma[i].value, mb[i].value, &equal);
        }
    }
    *ret_equal = equal;

done:
    qp_free(mb);
    qp_free(ma);
    return status;
}

/* Order counts. A longer array differs as soon as one of the iterators ends before the other. */
static quipu_status json_equal_arrays(qp_json_node a, qp_json_node b, bool *ret_equal)
{
    qp_json_iter ia = qp_json_each(a);
    qp_json_iter ib = qp_json_each(b);
    quipu_status status = QUIPU_OK;
    bool equal = true;

    while (equal && status == QUIPU_OK) {
        bool more = qp_json_next(&ia);
        equal = qp_json_next(&ib) == more;
        if (!more) {
            break;
        }
        if (equal) {
            status = json_equal_run(ia.value, ib.value, &equal);
        }
    }
    *ret_equal = equal;
    return status;
}

/* Two values of any kind. Numbers are compared by spelling, because 1, 1.0 and 1e0 are different
 * texts to the program that stored them; the recursion is at most QP_JSON_DEPTH_CAP deep. */
static quipu_status json_equal_run(qp_json_node a, qp_json_node b, bool *ret_equal)
{
    qp_json_kind kind = qp_json_kind_of(a);
    size_t a_count;
    size_t b_count;

    if (kind != qp_json_kind_of(b)) {
        *ret_equal = false;
        return QUIPU_OK;
    }
    switch (kind) {
    case QP_JSON_OBJECT:
        a_count = qp_json_count(a);
        b_count = qp_json_count(b);
        if (a_count <= JSON_EQUAL_FEW && b_count <= JSON_EQUAL_FEW) {
            return json_equal_few(a, b, ret_equal);
        }
        return json_equal_many(a, a_count, b, b_count, ret_equal);
    case QP_JSON_ARRAY:
        return json_equal_arrays(a, b, ret_equal);
    case QP_JSON_STRING:
        *ret_equal = qp_json_text_cmp(a, b) == 0;
        return QUIPU_OK;
    case QP_JSON_NUMBER:
        *ret_equal = quipu_str_eq(qp_json_raw(a), qp_json_raw(b));
        return QUIPU_OK;
    default:
        *ret_equal = true; /* null, true, false, or no value on either side */
        return QUIPU_OK;
    }
}

/* *ret_equal is written on success only. */
quipu_status qp_json_equal(qp_json_node a, qp_json_node b, bool *ret_equal)
{
    bool equal = false;
    quipu_status status = json_equal_run(a, b, &equal);

    if (status == QUIPU_OK) {
        *ret_equal = equal;
    }
    return status;
}

/* Quadratic for few members, which most objects have; sorted for many, so that a hostile object
 * costs no more than its size times a logarithm. */
quipu_status qp_json_repeats(qp_json_node object, bool *ret_repeats)
{
    size_t count = qp_json_kind_of(object) == QP_JSON_OBJECT ? qp_json_count(object) : 0;
    json_equal_member *members;

    if (count <= JSON_EQUAL_FEW) {
        *ret_repeats = count > 0 && json_equal_keys(object) < count;
        return QUIPU_OK;
    }
    members = qp_calloc(count, sizeof(*members));
    if (members == NULL) {
        return QUIPU_NOMEM;
    }
    *ret_repeats = json_equal_sort(object, members) < count;
    qp_free(members);
    return QUIPU_OK;
}
