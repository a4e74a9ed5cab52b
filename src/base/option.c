/* Reading and writing structs that grow from version to version: each begins with struct_size.
 *
 * Owns: the rule for sizes that differ, in both directions. Pure functions over the caller's
 * memory.
 *   caller's struct    this version's       what happens
 *   shorter            an older program     the missing members keep their defaults
 *   as long            the same             copied
 *   longer             a newer program      its further members must be zero: else UNSUPPORTED
 *
 * Called by: every public function that takes options or fills a result struct, before its work.
 * On return a struct has this version's size, and a member that this version does not know is
 * zero. */
#include "base/option.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"

/* Whether the bytes of an item or struct from `from` to `to` are all zero. */
static bool option_is_zero(const char *bytes, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

/* QUIPU_UNSUPPORTED: ignoring such a member would do something else than the caller asked for. */
static quipu_status option_unknown(const char *name, quipu_error *reterr)
{
    return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                        "%s sets a member that this version does not know; upgrade the library",
                        name);
}

/* Reads struct_size and checks that it is plausible. memcpy(): the first member is a uint32_t in
 * every such struct, but their types differ. */
static quipu_status option_size(const void *given, const char *name, size_t *ret_size,
                                quipu_error *reterr)
{
    uint32_t size = 0;

    memcpy(&size, given, sizeof(size));
    if (size < sizeof(size) || size > QP_OPTIONS_SIZE_MAX) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "%s.struct_size is %u; start from the _INIT macro of the struct", name,
                            (unsigned)size);
    }
    *ret_size = size;
    return QUIPU_OK;
}

/* A smaller struct comes from an older caller: members it lacks keep their defaults. A larger one
 * comes from a newer caller: members we do not know must be zero, or it asks for something we
 * cannot do. */
quipu_status qp_options_read(void *ret, size_t size, const void *given, const char *name,
                             quipu_error *reterr)
{
    const uint32_t own = (uint32_t)size;
    size_t given_size = 0;
    quipu_status status = QUIPU_OK;

    assert(ret != NULL && name != NULL);
    assert(size <= QP_OPTIONS_SIZE_MAX);
    if (given == NULL) {
        return QUIPU_OK;
    }
    status = option_size(given, name, &given_size, reterr);
    if (status == QUIPU_OK && !option_is_zero(given, size, given_size)) {
        status = option_unknown(name, reterr);
    }
    if (status == QUIPU_OK) {
        memcpy(ret, given, given_size < size ? given_size : size);
        memcpy(ret, &own, sizeof(own)); /* the copy has every member of this version */
    }
    return status;
}

/* Called before the work: a struct that cannot be filled must not be found after a commit. */
quipu_status qp_output_check(const void *ret, const char *name, quipu_error *reterr)
{
    size_t size = 0;

    return ret == NULL ? QUIPU_OK : option_size(ret, name, &size, reterr);
}

/* Cannot fail: qp_output_check() has run. An older caller gets the members it knows, a newer one
 * zeros behind them. */
void qp_output_put(void *ret, const void *values, size_t size)
{
    uint32_t given = 0;

    if (ret == NULL) {
        return;
    }
    memcpy(&given, ret, sizeof(given));
    assert(given >= sizeof(given) && given <= QP_OPTIONS_SIZE_MAX);
    if (given > size) {
        memset((char *)ret + size, 0, given - size);
    }
    memcpy(ret, values, given < size ? given : size);
    memcpy(ret, &given, sizeof(given));
}

/* See option.h. The copy is zeroed first, so that members which older items lack read as 0. */
quipu_status qp_slice_convert(const void **items, size_t count, size_t *item_size, size_t size,
                              const char *name, quipu_arena *arena, quipu_error *reterr)
{
    const size_t given = *item_size;
    const char *from = *items;
    char *copy;

    assert(size <= QP_OPTIONS_SIZE_MAX);
    if (from == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "%zu of %s are counted but none is there", count,
                            name);
    }
    if (given == 0 || given > QP_OPTIONS_SIZE_MAX) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "item_size of a slice of %s is %zu; make it with the slice's _of()",
                            name, given);
    }
    copy = count <= SIZE_MAX / size ? qp_arena_take(arena, count * size) : NULL;
    if (copy == NULL) {
        const bool full =
            count <= SIZE_MAX / size && qp_arena_why(arena, count * size) == QUIPU_LIMIT;
        return qp_error_set(reterr, full ? QUIPU_LIMIT : QUIPU_NOMEM, "no memory for %zu of %s",
                            count, name);
    }
    memset(copy, 0, count * size);
    for (size_t i = 0; i < count; i++, from += given) {
        if (!option_is_zero(from, size, given)) {
            return option_unknown(name, reterr);
        }
        memcpy(copy + i * size, from, given < size ? given : size);
    }
    *items = copy;
    *item_size = size;
    return QUIPU_OK;
}
