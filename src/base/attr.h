/* Compiler hints behind macros, so that the code itself stays plain C11. QP_INLINE is for the few
 * functions whose call would cost more than their work; QP_NOINLINE keeps rare paths out of hot
 * loops; QP_LIKELY and QP_UNLIKELY state what a measurement has shown. None changes what the code
 * means. */
#ifndef QP_BASE_ATTR_H
#define QP_BASE_ATTR_H

#if defined(__GNUC__) || defined(__clang__)
#define QP_INLINE static inline __attribute__((always_inline))
#define QP_NOINLINE __attribute__((noinline, cold))
#define QP_UNUSED __attribute__((unused))
#define QP_LIKELY(x) __builtin_expect(!!(x), 1)
#define QP_UNLIKELY(x) __builtin_expect(!!(x), 0)
#else
#define QP_INLINE static inline
#define QP_NOINLINE
#define QP_UNUSED
#define QP_LIKELY(x) (x)
#define QP_UNLIKELY(x) (x)
#endif

/* Inlined where speed is asked for; a build for size (-Os, -Oz) calls it, as many callers do. */
#if defined(__OPTIMIZE_SIZE__)
#define QP_INLINE_FAST static inline QP_UNUSED
#else
#define QP_INLINE_FAST QP_INLINE
#endif

#endif
