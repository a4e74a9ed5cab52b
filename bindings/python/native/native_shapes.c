/* The structs of the library that Python fills in and reads, member by member, with the names that
 * Python gives them. The compiler finds offset, size and type; a member without a line is not part of
 * the Python interface. native_fields.c moves values by these tables. */
#include "native_shapes.h"

#define SHAPE_TYPE(type, member)                                                                   \
    _Generic(((type *)0)->member,                                                                  \
        int64_t: QUIPU_FIELD_INT,                                                                  \
        int32_t: QUIPU_FIELD_INT,                                                                  \
        uint32_t: QUIPU_FIELD_INT, /* enums, too */                                                \
        double: QUIPU_FIELD_FLOAT,                                                                 \
        bool: QUIPU_FIELD_BOOL,                                                                    \
        quipu_str: QUIPU_FIELD_TEXT,                                                               \
        quipu_json: QUIPU_FIELD_JSON,                                                              \
        quipu_bytes: QUIPU_FIELD_BYTES,                                                            \
        quipu_time: QUIPU_FIELD_TIME,                                                              \
        quipu_uuid: QUIPU_FIELD_UUID,                                                              \
        char *: SHAPE_CHARS,                                                                       \
        uint8_t *: SHAPE_HASH)

#define SHAPE_MEMBER(type_, member, ...)                                                           \
    {.offset = offsetof(type_, member), .size = sizeof(((type_ *)0)->member), __VA_ARGS__}

#define SHOW_AS(type_, member, name_)                                                              \
    SHAPE_MEMBER(type_, member, .name = (name_), .type = SHAPE_TYPE(type_, member),                \
                 .has_offset = QUIPU_FIELD_NO_HAS)
#define SHOW(type_, member) SHOW_AS(type_, member, #member)

/* A member with a bool beside it that says whether it is there. */
#define SHOW_IF(type_, member, has)                                                                \
    SHAPE_MEMBER(type_, member, .name = #member, .type = SHAPE_TYPE(type_, member),                \
                 .has_offset = offsetof(type_, has))

/* A member of a patch, with a bit that says that it is given. */
#define SHOW_SET(type_, member, name_, bit_)                                                       \
    SHAPE_MEMBER(type_, member, .name = (name_), .type = SHAPE_TYPE(type_, member),                \
                 .has_offset = QUIPU_FIELD_NO_HAS, .bit_offset = offsetof(type_, set),             \
                 .bit = (bit_))

/* A bit of `member` that Python knows as a truth. */
#define FLAG(type_, member, name_, bit_)                                                           \
    SHAPE_MEMBER(type_, member, .name = (name_), .type = QPY_TYPE_FLAG,                            \
                 .has_offset = QUIPU_FIELD_NO_HAS, .bit_offset = offsetof(type_, member),          \
                 .bit = (bit_))

/* An enum, by the names of its numbers from 0 on. */
#define ONE_OF(type_, member, names)                                                               \
    SHAPE_MEMBER(type_, member, .name = #member, .type = SHAPE_TYPE(type_, member),                \
                 .choices = (names), .has_offset = QUIPU_FIELD_NO_HAS)

/* Milliseconds that Python gives in seconds. */
#define SECONDS(type_, member, name_)                                                              \
    SHAPE_MEMBER(type_, member, .name = (name_), .type = QPY_TYPE_SECONDS,                         \
                 .has_offset = QUIPU_FIELD_NO_HAS)

#define SHAPE(members) {(members), sizeof(members) / sizeof((members)[0])}

#define ROLES "|user|assistant|tool|function|model|system"

/* ---- opening ----------------------------------------------------------------------------------
 */

static const qpy_member shapes_open_options[] = {
    FLAG(quipu_open_options, flags, "read_only", QUIPU_OPEN_READ_ONLY),
    FLAG(quipu_open_options, flags, "must_exist", QUIPU_OPEN_MUST_EXIST),
    FLAG(quipu_open_options, flags, "feed", QUIPU_OPEN_FEED),
    ONE_OF(quipu_open_options, durability, "full|relaxed"),
    SECONDS(quipu_open_options, deadline_ms, "deadline"),
    SECONDS(quipu_open_options, ttl_ms, "ttl"),
    SHOW(quipu_open_options, tenant),
    SHOW(quipu_open_options, cap_messages),
    SHOW(quipu_open_options, cap_tokens),
    ONE_OF(quipu_open_options, search, "lazy|inline|off"),
    SHOW(quipu_open_options, max_bytes),
};

static const qpy_member shapes_service_options[] = {
    FLAG(quipu_service_options, flags, "adk_rebase", QUIPU_SERVICE_REBASE),
    FLAG(quipu_service_options, flags, "adk_by_time", QUIPU_SERVICE_BY_TIME),
};

/* ---- sessions and messages --------------------------------------------------------------------
 */

/* What the library's own tables leave to the program. */
static const qpy_member shapes_session_new_more[] = {
    SHOW(quipu_session_new, key),
    SECONDS(quipu_session_new, ttl_ms, "ttl"),
};

static const qpy_member shapes_session_patch_more[] = {
    SHAPE_MEMBER(quipu_session_patch, ttl_ms, .name = "ttl", .type = QPY_TYPE_SECONDS,
                 .has_offset = QUIPU_FIELD_NO_HAS, .bit_offset = offsetof(quipu_session_patch, set),
                 .bit = QUIPU_SET_TTL),
    SHOW_SET(quipu_session_patch, expected_revision, "if_revision", QUIPU_SET_IF_REVISION),
};

static const qpy_member shapes_range[] = {
    FLAG(quipu_range, flags, "header", QUIPU_RANGE_HEADER),
    FLAG(quipu_range, flags, "newest", QUIPU_RANGE_LAST),
    FLAG(quipu_range, flags, "view", QUIPU_RANGE_VIEW),
    SHOW_AS(quipu_range, after_seq, "after"),
    SHOW_AS(quipu_range, before_seq, "before"),
    SHOW(quipu_range, limit),
};

static const qpy_member shapes_list_options[] = {
    FLAG(quipu_list_options, flags, "oldest_first", QUIPU_LIST_OLDEST_FIRST),
    FLAG(quipu_list_options, flags, "expired", QUIPU_LIST_EXPIRED),
    SHOW(quipu_list_options, app_name),
    SHOW(quipu_list_options, user_id),
    SHOW(quipu_list_options, agent_id),
    SHOW(quipu_list_options, metadata_name),
    SHOW(quipu_list_options, metadata_text),
    SHOW(quipu_list_options, after),
    SHOW(quipu_list_options, limit),
};

static const qpy_member shapes_append_options[] = {
    FLAG(quipu_append_options, flags, "create", QUIPU_APPEND_CREATE),
    SHOW_AS(quipu_append_options, expected_revision, "if_revision"),
};

static const qpy_member shapes_appended[] = {
    SHOW(quipu_appended, first_seq),
    SHOW(quipu_appended, revision),
    SHOW(quipu_appended, repeated),
};

static const qpy_member shapes_history[] = {
    SHOW(quipu_history, more_before),
    SHOW(quipu_history, more_after),
};

static const qpy_member shapes_window_options[] = {
    SHOW(quipu_window_options, token_budget),
    FLAG(quipu_window_options, flags, "cut", QUIPU_WINDOW_CUT),
};

static const qpy_member shapes_window[] = {
    SHOW(quipu_window, tokens),
    SHOW(quipu_window, more_before),
    SHOW(quipu_window, over_budget),
    SHOW(quipu_window, cut),
};

/* ---- search and recall ------------------------------------------------------------------------
 */

static const qpy_member shapes_search_options[] = {
    SHOW(quipu_search_options, query),
    SHOW(quipu_search_options, app_name),
    SHOW(quipu_search_options, user_id),
    SHOW_AS(quipu_search_options, session_key, "key"),
    SHOW(quipu_search_options, author),
    ONE_OF(quipu_search_options, role, ROLES),
    SHOW_IF(quipu_search_options, after, has_after),
    SHOW_IF(quipu_search_options, before, has_before),
    SHOW(quipu_search_options, limit),
    SHOW(quipu_search_options, offset),
    SHOW(quipu_search_options, mark_before),
    SHOW(quipu_search_options, mark_after),
};

static const qpy_member shapes_search_hit[] = {
    SHOW(quipu_search_hit, session_key), SHOW(quipu_search_hit, seq),
    ONE_OF(quipu_search_hit, role, ROLES), SHOW(quipu_search_hit, author),
    SHOW(quipu_search_hit, timestamp),   SHOW(quipu_search_hit, snippet),
    SHOW(quipu_search_hit, rank),
};

static const qpy_member shapes_recall_options[] = {
    SHOW(quipu_recall_options, question),
    FLAG(quipu_recall_options, flags, "everything", QUIPU_RECALL_EVERYTHING),
    SHOW(quipu_recall_options, app_name),
    SHOW(quipu_recall_options, user_id),
    SHOW_AS(quipu_recall_options, session_key, "key"),
    SHOW_AS(quipu_recall_options, from_seq, "since"),
    SHOW_AS(quipu_recall_options, before_seq, "before"),
    SHOW(quipu_recall_options, limit),
    SHOW(quipu_recall_options, budget),
};

static const qpy_member shapes_recall_hit[] = {
    SHOW(quipu_recall_hit, session_key),
    SHOW(quipu_recall_hit, seq),
    ONE_OF(quipu_recall_hit, role, ROLES),
    SHOW(quipu_recall_hit, author),
    SHOW(quipu_recall_hit, timestamp),
    SHOW(quipu_recall_hit, content),
    SHOW(quipu_recall_hit, event_id),
    SHOW(quipu_recall_hit, tokens),
    SHOW(quipu_recall_hit, score),
    SHOW(quipu_recall_hit, from_words),
    SHOW(quipu_recall_hit, from_neighbours),
    SHOW(quipu_recall_hit, from_session),
};

/* ---- all --------------------------------------------------------------------------------------
 */

const qpy_shape qpy_shapes[QPY_SHAPES] = {
    [QPY_SESSION_NEW_MORE] = SHAPE(shapes_session_new_more),
    [QPY_SESSION_PATCH_MORE] = SHAPE(shapes_session_patch_more),
    [QPY_OPEN_OPTIONS] = SHAPE(shapes_open_options),
    [QPY_SERVICE_OPTIONS] = SHAPE(shapes_service_options),
    [QPY_RANGE] = SHAPE(shapes_range),
    [QPY_LIST_OPTIONS] = SHAPE(shapes_list_options),
    [QPY_APPEND_OPTIONS] = SHAPE(shapes_append_options),
    [QPY_APPENDED] = SHAPE(shapes_appended),
    [QPY_HISTORY] = SHAPE(shapes_history),
    [QPY_WINDOW_OPTIONS] = SHAPE(shapes_window_options),
    [QPY_WINDOW_RESULT] = SHAPE(shapes_window),
    [QPY_SEARCH_OPTIONS] = SHAPE(shapes_search_options),
    [QPY_SEARCH_HIT] = SHAPE(shapes_search_hit),
    [QPY_RECALL_OPTIONS] = SHAPE(shapes_recall_options),
    [QPY_RECALL_HIT] = SHAPE(shapes_recall_hit),
};
