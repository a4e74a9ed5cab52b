/* Artifacts: named blobs with versions, of a session or of a user. What is the same for one user of
 * an app is stored once. A name that begins with "user:" belongs to the user and shows in all of
 * the user's sessions, as in ADK; any other belongs to its session, is deleted with it, and is
 * neither found nor saved any more once the session has expired. */
#ifndef QUIPU_ARTIFACT_H
#define QUIPU_ARTIFACT_H

#include <quipu/store.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QUIPU_ARTIFACT_BYTES_MAX 33554432      /* 32 MiB, the bytes of one version */
#define QUIPU_ARTIFACT_NAME_MAX 1024           /* bytes of a name */
#define QUIPU_ARTIFACT_MIME_MAX 256            /* bytes of a MIME type */
#define QUIPU_ARTIFACT_METADATA_MAX 65536      /* bytes of metadata */
#define QUIPU_ARTIFACT_VERSIONS_MAX 10000      /* versions of one name */
#define QUIPU_ARTIFACT_LIST_MAX 100000         /* artifacts of one list, and bytes of... */
#define QUIPU_ARTIFACT_LIST_BYTES_MAX 67108864 /* ...their names, types and metadata: 64 MiB */
#define QUIPU_ARTIFACT_USER_PREFIX "user:"     /* of names that belong to the user */

typedef enum quipu_artifact_kind {
    QUIPU_ARTIFACT_DATA = 1, /* a file */
    QUIPU_ARTIFACT_TEXT,     /* a text in UTF-8 */
    QUIPU_ARTIFACT_URI       /* the URI of something elsewhere, in UTF-8 */
} quipu_artifact_kind;

/* One version of an artifact. Input of a save: app_name, user_id, session_key, name, mime_type,
 * metadata, kind and data. */
typedef struct quipu_artifact {
    quipu_str app_name;
    quipu_str user_id;
    quipu_str session_key; /* absent: the user's */
    quipu_str name;
    int64_t version;          /* from 0 */
    quipu_str hash;           /* SHA-256 of its bytes, in hexadecimal digits */
    int64_t size;             /* of its bytes */
    quipu_str mime_type;      /* or absent */
    quipu_json metadata;      /* an object, or absent */
    quipu_artifact_kind kind; /* input: 0 means data */
    quipu_time created_at;
    quipu_bytes data; /* found with QUIPU_ARTIFACT_FIND_BYTES; else absent */
} quipu_artifact;

QUIPU_SLICE(quipu_artifacts, quipu_artifact)

/* Which artifacts a call is about: those of a session and of its user. */
typedef struct quipu_artifact_query {
    uint32_t struct_size;
    uint32_t flags;     /* QUIPU_ARTIFACT_FIND_* */
    quipu_str app_name; /* both absent: those of the session, which must exist */
    quipu_str user_id;
    quipu_str session_key; /* absent: only the user's */
    quipu_str name;        /* absent: every name; required for bytes, and to delete */
    int64_t version;       /* of the bytes: this one; -1: the newest */
} quipu_artifact_query;

#define QUIPU_ARTIFACT_QUERY_INIT QUIPU_INIT_WITH(quipu_artifact_query, version, -1)

#define QUIPU_ARTIFACT_FIND_VERSIONS 1u /* all versions, not the newest of each name */
#define QUIPU_ARTIFACT_FIND_BYTES 2u    /* one version of one name, with its bytes */

typedef struct quipu_artifact_list {
    quipu_artifacts artifacts; /* by name and version */
} quipu_artifact_list;

/**
 * Save the next version of an artifact: a slice of one. Its session need not exist when app_name or
 * user_id is given, as in ADK; otherwise both are the session's. What is saved for the key of a
 * deleted session belongs to the next session of that key.
 *
 * Ownership: free *ret_saved, a list of one without its data, with quipu_free(); it may be NULL.
 * Threads:   any, same store.
 * Errors:    QUIPU_NOT_FOUND and QUIPU_EXPIRED (of the session), QUIPU_INVALID, QUIPU_LIMIT,
 *            QUIPU_UNKNOWN (it may be saved: list the versions), QUIPU_BUSY, QUIPU_FULL, QUIPU_IO,
 *            QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_artifact_save(quipu_store *store,
                                                          quipu_artifacts artifact,
                                                          const quipu_call_options *call,
                                                          quipu_artifact_list **ret_saved,
                                                          quipu_error *reterr);

/**
 * Find artifacts, by name and version, without their bytes: an unknown name has none. With
 * QUIPU_ARTIFACT_FIND_BYTES get one version of one artifact with its bytes, a list of one, which
 * must exist.
 *
 * Ownership: free *ret_list with quipu_free().
 * Threads:   any, same store.
 * Errors:    QUIPU_NOT_FOUND (the session; with its bytes the artifact or its version, too),
 *            QUIPU_EXPIRED, QUIPU_INVALID, QUIPU_LIMIT (also too many, above), QUIPU_BUSY,
 *            QUIPU_IO, QUIPU_CORRUPT (the bytes are gone or damaged), QUIPU_NOMEM, QUIPU_CANCELLED,
 *            QUIPU_MISUSE.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_artifact_find(quipu_store *store,
                                                          const quipu_artifact_query *query,
                                                          const quipu_call_options *call,
                                                          quipu_artifact_list **ret_list,
                                                          quipu_error *reterr);

/**
 * Delete all versions of an artifact; bytes that no other artifact of the user has go with them. A
 * missing one is no error.
 *
 * Ownership: `ret_removed`, how many versions there were, may be NULL.
 * Threads:   any, same store.
 * Errors:    QUIPU_NOT_FOUND and QUIPU_EXPIRED (of the session), QUIPU_INVALID, QUIPU_LIMIT,
 *            QUIPU_UNKNOWN, QUIPU_BUSY, QUIPU_FULL, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM,
 *            QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_artifact_delete(quipu_store *store,
                                                            const quipu_artifact_query *query,
                                                            const quipu_call_options *call,
                                                            int64_t *ret_removed,
                                                            quipu_error *reterr);

#ifdef __cplusplus
}
#endif

#endif
