/* The files of the page. The build embeds them: cmake/embed.cmake writes the table from web/. */
#ifndef QP_SERVER_PAGE_H
#define QP_SERVER_PAGE_H

#include <stddef.h>

/* A file, compressed with gzip when the library was built. */
typedef struct qp_asset {
    const char *name; /* "index.html"; NULL ends the table */
    const char *type; /* Content-Type */
    const char *etag; /* of the file as it is in web/, in quotes */
    const unsigned char *bytes;
    size_t size;
} qp_asset;

extern const qp_asset qp_assets[];

#endif
