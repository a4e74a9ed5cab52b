/* The page at "/": constant bytes that the build embedded. The page asks /v1 for everything that it
 * shows, with its reader's token; its files hold no data and need no token. Owns: the lookup of a
 * file and its headers; the bytes are cmake/embed.cmake's. Called by: the table of routes
 * (route.c), on the loop's thread. Locks: none. On return the call has its answer: a file, 304 for
 * one that the client has, or 404. */
#include "server/page.h"

#include <string.h>

#include "base/error.h"
#include "server/route.h"

/* Some twenty files: a walk is enough. */
static const qp_asset *page_find(quipu_str name)
{
    for (const qp_asset *asset = qp_assets; asset->name != NULL; asset++) {
        if (quipu_str_eq(name, quipu_cstr(asset->name))) {
            return asset;
        }
    }
    return NULL;
}

/* The files are kept compressed only; every browser takes gzip. A client that has the file with
 * this ETag gets 304 and no bytes. */
static quipu_status page_answer(qp_call *call, quipu_str name, quipu_error *reterr)
{
    const quipu_str codings = qp_http_header(call->request, "accept-encoding");
    const qp_asset *asset = page_find(name);

    if (asset == NULL) {
        return qp_error_set(reterr, QUIPU_NOT_FOUND, "the page has no such file");
    }
    /* A client that names no coding takes any. */
    if (codings.p != NULL && !qp_call_holds(codings, "gzip") && !qp_call_holds(codings, "*")) {
        qp_reply_error(&call->answer, 406, "UNSUPPORTED",
                       "the page is sent compressed: ask with Accept-Encoding: gzip");
        return QUIPU_OK;
    }
    call->answer.asset = asset;
    call->answer.type = asset->type;
    call->answer.status =
        qp_call_holds(qp_http_header(call->request, "if-none-match"), asset->etag) ? 304 : 200;
    return QUIPU_OK;
}

/* No token: the page holds no data. It asks for them with the token of its reader. */
quipu_status qp_route_page(qp_call *call, quipu_error *reterr)
{
    return page_answer(call, QUIPU_STR("index.html"), reterr);
}

/* Only names that the build embedded exist; nothing is looked up in a file system. */
quipu_status qp_route_page_file(qp_call *call, quipu_error *reterr)
{
    return page_answer(call, call->key, reterr);
}
