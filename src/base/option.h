/* The option structs of the public headers, whose first member is struct_size: they may grow from
 * version to version without an ABI break. */
#ifndef QP_BASE_OPTION_H
#define QP_BASE_OPTION_H

#include <stddef.h>

#include <quipu/base.h>

#define QP_OPTIONS_SIZE_MAX 4096 /* no struct of ours is larger */

/* Copy an option struct whose first member is struct_size over *ret, which holds the defaults.
 * `given` may be NULL; members that this version does not know must be zero. QUIPU_MISUSE. */
QUIPU_MUST_USE quipu_status qp_options_read(void *ret, size_t size, const void *given,
                                            const char *name, quipu_error *reterr);

#endif
