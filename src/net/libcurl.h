/* libcurl, loaded when the first request is made: its many libraries would make every program that
 * links libquipu start late, and most never speak to a server (decision 14). The room uses libcurl
 * through this header only, under the usual names. */
#ifndef QP_NET_LIBCURL_H
#define QP_NET_LIBCURL_H

#define CURL_DISABLE_TYPECHECK /* its macros would hide the pointers below */
#include <curl/curl.h>

#include <quipu/base.h>

#undef curl_easy_setopt
#undef curl_easy_getinfo

/* Every function that the room calls: result, name, parameters. */
#define QP_LIBCURL_MAP(X)                                                                          \
    X(void, curl_easy_cleanup, (CURL * easy))                                                      \
    X(CURLcode, curl_easy_getinfo, (CURL * easy, CURLINFO info, ...))                              \
    X(CURL *, curl_easy_init, (void))                                                              \
    X(void, curl_easy_reset, (CURL * easy))                                                        \
    X(CURLcode, curl_easy_setopt, (CURL * easy, CURLoption option, ...))                           \
    X(const char *, curl_easy_strerror, (CURLcode code))                                           \
    X(time_t, curl_getdate, (const char *text, const time_t *unused))                              \
    X(CURLcode, curl_global_init, (long flags))                                                    \
    X(CURLMcode, curl_multi_add_handle, (CURLM * multi, CURL * easy))                              \
    X(CURLMcode, curl_multi_cleanup, (CURLM * multi))                                              \
    X(CURLMsg *, curl_multi_info_read, (CURLM * multi, int *left))                                 \
    X(CURLM *, curl_multi_init, (void))                                                            \
    X(CURLMcode, curl_multi_perform, (CURLM * multi, int *running))                                \
    X(CURLMcode, curl_multi_poll,                                                                  \
      (CURLM * multi, struct curl_waitfd * more, unsigned count, int ms, int *ready))              \
    X(CURLMcode, curl_multi_remove_handle, (CURLM * multi, CURL * easy))                           \
    X(const char *, curl_multi_strerror, (CURLMcode code))                                         \
    X(struct curl_slist *, curl_slist_append, (struct curl_slist * list, const char *text))        \
    X(void, curl_slist_free_all, (struct curl_slist * list))                                       \
    X(char *, curl_version, (void))

typedef struct qp_libcurl_table {
#define QP_LIBCURL_MEMBER(result, name, parameters) result(*p_##name) parameters;
    QP_LIBCURL_MAP(QP_LIBCURL_MEMBER)
#undef QP_LIBCURL_MEMBER
} qp_libcurl_table;

/* Filled by qp_libcurl_load(), once, before any other function of the room runs. */
extern qp_libcurl_table qp_libcurl;

/* Load libcurl unless it is loaded, and initialize it. QUIPU_UNSUPPORTED: it is not installed;
 * QUIPU_IO: it does not start. */
QUIPU_MUST_USE quipu_status qp_libcurl_load(quipu_error *reterr);

#define curl_easy_cleanup qp_libcurl.p_curl_easy_cleanup
#define curl_easy_getinfo qp_libcurl.p_curl_easy_getinfo
#define curl_easy_init qp_libcurl.p_curl_easy_init
#define curl_easy_reset qp_libcurl.p_curl_easy_reset
#define curl_easy_setopt qp_libcurl.p_curl_easy_setopt
#define curl_easy_strerror qp_libcurl.p_curl_easy_strerror
#define curl_getdate qp_libcurl.p_curl_getdate
#define curl_global_init qp_libcurl.p_curl_global_init
#define curl_multi_add_handle qp_libcurl.p_curl_multi_add_handle
#define curl_multi_cleanup qp_libcurl.p_curl_multi_cleanup
#define curl_multi_info_read qp_libcurl.p_curl_multi_info_read
#define curl_multi_init qp_libcurl.p_curl_multi_init
#define curl_multi_perform qp_libcurl.p_curl_multi_perform
#define curl_multi_poll qp_libcurl.p_curl_multi_poll
#define curl_multi_remove_handle qp_libcurl.p_curl_multi_remove_handle
#define curl_multi_strerror qp_libcurl.p_curl_multi_strerror
#define curl_slist_append qp_libcurl.p_curl_slist_append
#define curl_slist_free_all qp_libcurl.p_curl_slist_free_all
#define curl_version qp_libcurl.p_curl_version

#endif
