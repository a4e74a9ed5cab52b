/* Reading the option structs that grow from version to version. */
#include "base/option.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"

quipu_status qp_options_read(void *ret, size_t size, const void *given, const char *name,
                             quipu_error *reterr)
{
    uint32_t given_size = 0;

    assert(size <= QP_OPTIONS_SIZE_MAX);
    if (given == NULL) {
        return QUIPU_OK;
    }
    memcpy(&given_size, given, sizeof(given_size));
    if (given_size < sizeof(given_size) || given_size > QP_OPTIONS_SIZE_MAX) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "%s.struct_size is %u; start from the _INIT macro of the struct", name,
                            (unsigned)given_size);
    }
    for (size_t i = size; i < given_size; i++) {
        if (((const char *)given)[i] != 0) {
            return qp_error_set(reterr, QUIPU_MISUSE,
                                "%s asks for something that this version does not know; upgrade "
                                "the library",
                                name);
        }
    }
    memcpy(ret, given, given_size < size ? given_size : size);
    return QUIPU_OK;
}
