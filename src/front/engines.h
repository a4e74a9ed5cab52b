/* The engines that quipu_open() chooses from: one table, the only place where an engine is
 * registered. An entry says which URIs are the engine's, what a store on it may ask for, and how a
 * connection is opened.
 *
 * Called by: open_store.c. Tests link a table of their own in place of engines.c, with one engine
 * more (tests/engine_strict). No locks: the table is constant. */
#ifndef QP_FRONT_ENGINES_H
#define QP_FRONT_ENGINES_H

#include <ent/ent.h>
#include <quipu/maintain.h>

#include "base/log.h"

/* The settings of one store's connections. Written until the store exists, read by any thread from
 * then on. */
typedef struct qp_place {
    const struct qp_engine_entry *engine;
    char *name; /* a path, or the whole URI where the engine has a scheme */
    bool read_only;
    bool must_exist;
    bool repair; /* a file that Lango has rebuilt is adopted again */
    bool opened; /* the first connection succeeded: later ones wait for a server that is down */
    int32_t busy_ms;
    quipu_durability durability;
    char missing[QUIPU_LAYOUT_SIZE]; /* what an upgrade would add to a file opened read-only */
    quipu_str tenant;                /* the tenant whose rows row security shows, or absent */
    quipu_arena arena;
    qp_log log;
    struct qp_keys *keys; /* of an encrypted file (src/ent_sqlite/crypt_keys.h), or NULL */
} qp_place;

typedef struct qp_engine_entry {
    const char *name; /* in log entries */
    /* How its URIs begin, NULL behind the last. Only one engine has none: it gets the paths. */
    const char *schemes[3];
    bool has_distribution; /* QUIPU_OPEN_DISTRIBUTE, and distribute=citus in a URI */
    bool has_row_security; /* QUIPU_OPEN_ROW_SECURITY, and row_security=on in a URI */
    bool has_size_cap;     /* quipu_open_options.max_bytes */
    bool has_encryption;   /* quipu_open_options.key */
    quipu_status (*open)(const qp_place *place, bool read_only, ent_db **ret_db,
                         quipu_error *reterr);
} qp_engine_entry;

extern const qp_engine_entry qp_engine_postgres; /* engine_open.c */
extern const qp_engine_entry qp_engine_sqlite;

/* The table, NULL behind the last; engines.c. */
extern const qp_engine_entry *const qp_engines[];

/* The engine whose URI this is; that of paths when no scheme fits. */
const qp_engine_entry *qp_engine_of(const char *uri);

/* The file that a URI names, as a part of the URI. QUIPU_UNSUPPORTED: it names a server, or a store
 * in memory. open_store.c. */
QUIPU_MUST_USE quipu_status qp_place_file(const char *uri, const char **ret_path,
                                          quipu_error *reterr);

/* Encrypts the store that a URI names, unless it is with this key: QUIPU_OPEN_ENCRYPT. The options
 * are checked and complete. encrypt_store.c. */
QUIPU_MUST_USE quipu_status qp_encrypt_store(const char *uri, const quipu_open_options *options,
                                             quipu_error *reterr);

#endif
