/* libpq, loaded when the first PostgreSQL store is opened: its many libraries would make every
 * program that links libquipu start late, and most never open such a store. The room uses libpq
 * through this header only, under the usual names. */
#ifndef QP_ENT_POSTGRES_LIBPQ_H
#define QP_ENT_POSTGRES_LIBPQ_H

#include <libpq-fe.h>

#include <quipu/base.h>

/* Every function that the room calls: result, name, parameters. */
#define QP_LIBPQ_MAP(X)                                                                            \
    X(int, PQcancel, (PGcancel * cancel, char *errbuf, int errbufsize))                            \
    X(void, PQclear, (PGresult * res))                                                             \
    X(char *, PQcmdStatus, (PGresult * res))                                                       \
    X(char *, PQcmdTuples, (PGresult * res))                                                       \
    X(PostgresPollingStatusType, PQconnectPoll, (PGconn * conn))                                   \
    X(PGconn *, PQconnectStartParams,                                                              \
      (const char *const *keywords, const char *const *values, int expand_dbname))                 \
    X(PGconn *, PQconnectdbParams,                                                                 \
      (const char *const *keywords, const char *const *values, int expand_dbname))                 \
    X(void, PQconninfoFree, (PQconninfoOption * options))                                          \
    X(PQconninfoOption *, PQconninfoParse, (const char *conninfo, char **errmsg))                  \
    X(int, PQconsumeInput, (PGconn * conn))                                                        \
    X(int, PQenterPipelineMode, (PGconn * conn))                                                   \
    X(char *, PQerrorMessage, (const PGconn *conn))                                                \
    X(int, PQexitPipelineMode, (PGconn * conn))                                                    \
    X(void, PQfinish, (PGconn * conn))                                                             \
    X(int, PQflush, (PGconn * conn))                                                               \
    X(void, PQfreeCancel, (PGcancel * cancel))                                                     \
    X(void, PQfreemem, (void *ptr))                                                                \
    X(Oid, PQftype, (const PGresult *res, int field_num))                                          \
    X(PGcancel *, PQgetCancel, (PGconn * conn))                                                    \
    X(PGresult *, PQgetResult, (PGconn * conn))                                                    \
    X(int, PQgetisnull, (const PGresult *res, int tup_num, int field_num))                         \
    X(int, PQgetlength, (const PGresult *res, int tup_num, int field_num))                         \
    X(char *, PQgetvalue, (const PGresult *res, int tup_num, int field_num))                       \
    X(char *, PQhost, (const PGconn *conn))                                                        \
    X(char *, PQhostaddr, (const PGconn *conn))                                                    \
    X(int, PQisBusy, (PGconn * conn))                                                              \
    X(int, PQlibVersion, (void))                                                                   \
    X(int, PQntuples, (const PGresult *res))                                                       \
    X(const char *, PQparameterStatus, (const PGconn *conn, const char *name))                     \
    X(PGPing, PQpingParams,                                                                        \
      (const char *const *keywords, const char *const *values, int expand_dbname))                 \
    X(int, PQpipelineSync, (PGconn * conn))                                                        \
    X(char *, PQport, (const PGconn *conn))                                                        \
    X(char *, PQresultErrorField, (const PGresult *res, int fieldcode))                            \
    X(size_t, PQresultMemorySize, (const PGresult *res))                                           \
    X(ExecStatusType, PQresultStatus, (const PGresult *res))                                       \
    X(int, PQsendPrepare,                                                                          \
      (PGconn * conn, const char *statement, const char *query, int count, const Oid *types))      \
    X(int, PQsendQuery, (PGconn * conn, const char *query))                                        \
    X(int, PQsendQueryParams,                                                                      \
      (PGconn * conn, const char *command, int count, const Oid *types, const char *const *values, \
       const int *lengths, const int *formats, int result_format))                                 \
    X(int, PQsendQueryPrepared,                                                                    \
      (PGconn * conn, const char *statement, int count, const char *const *values,                 \
       const int *lengths, const int *formats, int result_format))                                 \
    X(int, PQserverVersion, (const PGconn *conn))                                                  \
    X(PGVerbosity, PQsetErrorVerbosity, (PGconn * conn, PGVerbosity verbosity))                    \
    X(PQnoticeReceiver, PQsetNoticeReceiver, (PGconn * conn, PQnoticeReceiver proc, void *arg))    \
    X(int, PQsetnonblocking, (PGconn * conn, int arg))                                             \
    X(int, PQsocket, (const PGconn *conn))                                                         \
    X(ConnStatusType, PQstatus, (const PGconn *conn))                                              \
    X(PGTransactionStatusType, PQtransactionStatus, (const PGconn *conn))

typedef struct qp_libpq_table {
#define QP_LIBPQ_MEMBER(result, name, parameters) result(*p_##name) parameters;
    QP_LIBPQ_MAP(QP_LIBPQ_MEMBER)
#undef QP_LIBPQ_MEMBER
} qp_libpq_table;

/* Filled by qp_libpq_load(), once, before any other function of the room runs. */
extern qp_libpq_table qp_libpq;

/* Load libpq unless it is loaded. QUIPU_UNSUPPORTED: it is not installed. */
quipu_status qp_libpq_load(quipu_error *reterr);

#define PQcancel qp_libpq.p_PQcancel
#define PQclear qp_libpq.p_PQclear
#define PQcmdStatus qp_libpq.p_PQcmdStatus
#define PQcmdTuples qp_libpq.p_PQcmdTuples
#define PQconnectPoll qp_libpq.p_PQconnectPoll
#define PQconnectStartParams qp_libpq.p_PQconnectStartParams
#define PQconnectdbParams qp_libpq.p_PQconnectdbParams
#define PQconninfoFree qp_libpq.p_PQconninfoFree
#define PQconninfoParse qp_libpq.p_PQconninfoParse
#define PQconsumeInput qp_libpq.p_PQconsumeInput
#define PQenterPipelineMode qp_libpq.p_PQenterPipelineMode
#define PQerrorMessage qp_libpq.p_PQerrorMessage
#define PQexitPipelineMode qp_libpq.p_PQexitPipelineMode
#define PQfinish qp_libpq.p_PQfinish
#define PQflush qp_libpq.p_PQflush
#define PQfreeCancel qp_libpq.p_PQfreeCancel
#define PQfreemem qp_libpq.p_PQfreemem
#define PQftype qp_libpq.p_PQftype
#define PQgetCancel qp_libpq.p_PQgetCancel
#define PQgetResult qp_libpq.p_PQgetResult
#define PQgetisnull qp_libpq.p_PQgetisnull
#define PQgetlength qp_libpq.p_PQgetlength
#define PQgetvalue qp_libpq.p_PQgetvalue
#define PQhost qp_libpq.p_PQhost
#define PQhostaddr qp_libpq.p_PQhostaddr
#define PQisBusy qp_libpq.p_PQisBusy
#define PQlibVersion qp_libpq.p_PQlibVersion
#define PQntuples qp_libpq.p_PQntuples
#define PQparameterStatus qp_libpq.p_PQparameterStatus
#define PQpingParams qp_libpq.p_PQpingParams
#define PQpipelineSync qp_libpq.p_PQpipelineSync
#define PQport qp_libpq.p_PQport
#define PQresultErrorField qp_libpq.p_PQresultErrorField
#define PQresultMemorySize qp_libpq.p_PQresultMemorySize
#define PQresultStatus qp_libpq.p_PQresultStatus
#define PQsendPrepare qp_libpq.p_PQsendPrepare
#define PQsendQuery qp_libpq.p_PQsendQuery
#define PQsendQueryParams qp_libpq.p_PQsendQueryParams
#define PQsendQueryPrepared qp_libpq.p_PQsendQueryPrepared
#define PQserverVersion qp_libpq.p_PQserverVersion
#define PQsetErrorVerbosity qp_libpq.p_PQsetErrorVerbosity
#define PQsetNoticeReceiver qp_libpq.p_PQsetNoticeReceiver
#define PQsetnonblocking qp_libpq.p_PQsetnonblocking
#define PQsocket qp_libpq.p_PQsocket
#define PQstatus qp_libpq.p_PQstatus
#define PQtransactionStatus qp_libpq.p_PQtransactionStatus

#endif
