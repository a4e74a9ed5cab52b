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
    SHOW(quipu_list_options, parent),
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
    SHOW(quipu_search_hit, session_key),   SHOW(quipu_search_hit, seq),
    ONE_OF(quipu_search_hit, role, ROLES), SHOW(quipu_search_hit, author),
    SHOW(quipu_search_hit, timestamp),     SHOW(quipu_search_hit, snippet),
    SHOW(quipu_search_hit, rank),
};

static const qpy_member shapes_recall_options[] = {
    SHOW(quipu_recall_options, question),
    FLAG(quipu_recall_options, flags, "everything", QUIPU_RECALL_EVERYTHING),
    FLAG(quipu_recall_options, flags, "memories", QUIPU_RECALL_MEMORIES),
    SHOW(quipu_recall_options, app_name),
    SHOW(quipu_recall_options, user_id),
    SHOW_AS(quipu_recall_options, session_key, "key"),
    SHOW_AS(quipu_recall_options, from_seq, "since"),
    SHOW_AS(quipu_recall_options, before_seq, "before"),
    SHOW(quipu_recall_options, limit),
    SHOW(quipu_recall_options, budget),
    SHOW(quipu_recall_options, embed_model),
};

static const qpy_member shapes_recall_hit[] = {
    SHOW(quipu_recall_hit, session_key),     SHOW(quipu_recall_hit, seq),
    ONE_OF(quipu_recall_hit, role, ROLES),   SHOW(quipu_recall_hit, author),
    SHOW(quipu_recall_hit, timestamp),       SHOW(quipu_recall_hit, content),
    SHOW(quipu_recall_hit, event_id),        SHOW(quipu_recall_hit, tokens),
    SHOW(quipu_recall_hit, score),           SHOW(quipu_recall_hit, from_words),
    SHOW(quipu_recall_hit, from_neighbours), SHOW(quipu_recall_hit, from_session),
    SHOW(quipu_recall_hit, from_vector),
};

/* ---- maintenance ------------------------------------------------------------------------------
 */

static const qpy_member shapes_export_options[] = {
    SHOW(quipu_export_options, key),
    FLAG(quipu_export_options, flags, "flat", QUIPU_EXPORT_FLAT),
    FLAG(quipu_export_options, flags, "heads", QUIPU_EXPORT_HEADS),
};

static const qpy_member shapes_import_options[] = {
    FLAG(quipu_import_options, flags, "must_be_new", QUIPU_IMPORT_MUST_BE_NEW),
};

static const qpy_member shapes_transfer[] = {
    SHOW(quipu_transfer, lines),  SHOW(quipu_transfer, sessions), SHOW(quipu_transfer, messages),
    SHOW(quipu_transfer, states), SHOW(quipu_transfer, memories), SHOW(quipu_transfer, skipped),
};

/* The library's own list; the names are separated, so the first begins behind a separator. */
#define SHAPES_SOURCE(name, number, text) "|" text
#define SHAPES_SOURCES (&(QUIPU_SOURCE_MAP(SHAPES_SOURCE))[1])

static const qpy_member shapes_source_options[] = {
    ONE_OF(quipu_source_options, kind, SHAPES_SOURCES),
    FLAG(quipu_source_options, flags, "dry_run", QUIPU_SOURCE_DRY_RUN),
    ONE_OF(quipu_source_options, on_conflict, "fail|skip|rename"),
    SHOW(quipu_source_options, prefix),
};

static const qpy_member shapes_source_report[] = {
    ONE_OF(quipu_source_report, kind, SHAPES_SOURCES),
    SHOW(quipu_source_report, sessions),
    SHOW(quipu_source_report, messages),
    SHOW(quipu_source_report, states),
    SHOW(quipu_source_report, memories),
    SHOW(quipu_source_report, skipped),
    SHOW(quipu_source_report, orphans),
};

static const qpy_member shapes_copied[] = {
    SHOW(quipu_copied, lines),          SHOW_AS(quipu_copied, bytes, "size"),
    SHOW(quipu_copied, sha256),         SHOW(quipu_copied, sessions),
    SHOW(quipu_copied, messages),       SHOW(quipu_copied, states),
    SHOW(quipu_copied, memories),       SHOW(quipu_copied, added_sessions),
    SHOW(quipu_copied, added_messages), SHOW(quipu_copied, added_states),
    SHOW(quipu_copied, added_memories), SHOW(quipu_copied, skipped),
};

static const qpy_member shapes_stats[] = {
    SHOW(quipu_stats, sessions),
    SHOW(quipu_stats, forks),
    SHOW(quipu_stats, messages),
    SHOW(quipu_stats, tokens),
    SHOW(quipu_stats, largest_messages),
    SHOW(quipu_stats, largest_key),
    SHOW(quipu_stats, file_bytes),
    SHOW(quipu_stats, free_bytes),
    SHOW(quipu_stats, log_bytes),
    SHOW(quipu_stats, readers),
    SHOW(quipu_stats, commits),
    SHOW(quipu_stats, writes),
    SHOW(quipu_stats, largest_commit),
    SHOW(quipu_stats, unindexed),
    SHOW(quipu_stats, expired),
    SHOW(quipu_stats, durability_level),
    SHOW(quipu_stats, engine),
    ONE_OF(quipu_stats, checksums, "off|on|stale"),
    SHOW(quipu_stats, syncs),
    SHOW(quipu_stats, jobs_pending),
    SHOW(quipu_stats, jobs_leased),
    SHOW(quipu_stats, jobs_failed),
};

static const qpy_member shapes_problem[] = {
    ONE_OF(quipu_problem, kind,
           "|file|seq|next_seq|count|totals|message|view|fork|state|search|deleted|session|memory|"
           "feed|factor|counter|hash|lost"),
    SHOW(quipu_problem, tenant),
    SHOW(quipu_problem, session_key),
    SHOW(quipu_problem, seq),
    SHOW(quipu_problem, text),
    SHOW(quipu_problem, repaired),
};

static const qpy_member shapes_verified[] = {
    SHOW(quipu_verified, sessions),
    SHOW(quipu_verified, messages),
    SHOW(quipu_verified, repaired),
    SHOW(quipu_verified, unhashed),
};

static const qpy_member shapes_compared[] = {
    SHOW(quipu_compared, sessions), SHOW(quipu_compared, proved),  SHOW(quipu_compared, pruned),
    SHOW(quipu_compared, unhashed), SHOW(quipu_compared, removed),
};

static const qpy_member shapes_erase_options[] = {
    SHOW(quipu_erase_options, key),
    SHOW(quipu_erase_options, user_id),
    SHOW(quipu_erase_options, app_name),
    FLAG(quipu_erase_options, flags, "quick", QUIPU_ERASE_QUICK),
};

static const qpy_member shapes_erasure[] = {
    SHOW(quipu_erasure, hidden),
    SHOW(quipu_erasure, messages),
    SHOW(quipu_erasure, states),
    SHOW(quipu_erasure, memories),
};

static const qpy_member shapes_factor[] = {
    SHOW(quipu_model_factor, ppm),
    SHOW(quipu_model_factor, samples),
};

/* ---- memories and prompts ---------------------------------------------------------------------
 */

static const qpy_member shapes_memory_kind[] = {
    ONE_OF(quipu_memory, kind, QPY_MEMORY_KINDS),
};

static const qpy_member shapes_memory_patch[] = {
    ONE_OF(quipu_memory_patch, kind, QPY_MEMORY_KINDS),
    SHOW(quipu_memory_patch, id),
    SHOW_SET(quipu_memory_patch, content, "content", QUIPU_MEMORY_SET_CONTENT),
    SHAPE_MEMBER(quipu_memory_patch, priority, .name = "priority", .type = QUIPU_FIELD_INT,
                 .choices = "|standing|high|medium|low|done", .has_offset = QUIPU_FIELD_NO_HAS,
                 .bit_offset = offsetof(quipu_memory_patch, set), .bit = QUIPU_MEMORY_SET_PRIORITY),
    SHOW_SET(quipu_memory_patch, subject, "subject", QUIPU_MEMORY_SET_SUBJECT),
    FLAG(quipu_memory_patch, set, "retire", QUIPU_MEMORY_SET_RETIRED),
    SHOW(quipu_memory_patch, why),
    SHOW(quipu_memory_patch, who),
};

static const qpy_member shapes_memory_query[] = {
    ONE_OF(quipu_memory_query, kind, QPY_MEMORY_KINDS),
    SHOW_AS(quipu_memory_query, session_key, "key"),
    SHOW(quipu_memory_query, recent),
    FLAG(quipu_memory_query, flags, "retired", QUIPU_MEMORY_FIND_RETIRED),
    FLAG(quipu_memory_query, flags, "scope", QUIPU_MEMORY_FIND_SCOPE),
};

static const qpy_member shapes_memory_options[] = {
    SHOW_AS(quipu_memory_options, session_key, "key"),
    SHOW(quipu_memory_options, app_name),
    SHOW(quipu_memory_options, user_id),
    SHOW(quipu_memory_options, changed_after),
    SHOW(quipu_memory_options, observe_tokens),
    SECONDS(quipu_memory_options, lease_ms, "lease"),
    SHOW(quipu_memory_options, worker),
    SHOW(quipu_memory_options, model),
    SHOW(quipu_memory_options, reflect_tokens),
    SHOW(quipu_memory_options, ask_tokens),
    SHOW(quipu_memory_options, observe_prompt),
    SHOW(quipu_memory_options, reflect_prompt),
    SHOW(quipu_memory_options, embed_model),
    FLAG(quipu_memory_options, flags, "embed_only", QUIPU_MEMORY_RUN_EMBED_ONLY),
    FLAG(quipu_memory_options, flags, "embed_replace", QUIPU_MEMORY_RUN_EMBED_REPLACE),
};

static const qpy_member shapes_memory_ran[] = {
    SHOW(quipu_memory_ran, more),      SHOW(quipu_memory_ran, sessions),
    SHOW(quipu_memory_ran, messages),  SHOW(quipu_memory_ran, observations),
    SHOW(quipu_memory_ran, repeats),   SHOW(quipu_memory_ran, lost),
    SHOW(quipu_memory_ran, failed),    SHOW(quipu_memory_ran, reflections),
    SHOW(quipu_memory_ran, condensed), SHOW(quipu_memory_ran, model_calls),
    SHOW(quipu_memory_ran, embedded),
};

static const qpy_member shapes_memory_progress[] = {
    SHOW(quipu_memory_progress, session_key),
    SHOW(quipu_memory_progress, scope),
    SHOW(quipu_memory_progress, watermark),
    SHOW(quipu_memory_progress, last_seq),
    SHOW(quipu_memory_progress, pending_messages),
    SHOW(quipu_memory_progress, pending_tokens),
    SHOW(quipu_memory_progress, observe_tokens),
    SHOW(quipu_memory_progress, generation),
    SHOW(quipu_memory_progress, observations),
    SHOW(quipu_memory_progress, reflections),
    SHOW(quipu_memory_progress, standing_tokens),
    SHOW(quipu_memory_progress, owner),
    SHOW_IF(quipu_memory_progress, lease_until, has_lease_until),
    SHOW(quipu_memory_progress, fence),
    SHOW(quipu_memory_progress, tries),
    SHOW_IF(quipu_memory_progress, next_at, has_next_at),
    SHOW(quipu_memory_progress, last_error),
    SHOW(quipu_memory_progress, reflect_error),
    SHOW(quipu_memory_progress, model_calls),
    SHOW(quipu_memory_progress, model_input),
    SHOW(quipu_memory_progress, model_output),
    SHOW(quipu_memory_progress, model_cost),
    SHOW(quipu_memory_progress, model_unpriced),
};

static const qpy_member shapes_context_options[] = {
    SHOW(quipu_context_options, key),
    SHOW(quipu_context_options, model),
    SHOW(quipu_context_options, provider),
    SHOW(quipu_context_options, token_budget),
    SHOW(quipu_context_options, memory_tokens),
    SHOW_AS(quipu_context_options, at_seq, "at"),
    FLAG(quipu_context_options, flags, "log", QUIPU_CONTEXT_LOG),
    FLAG(quipu_context_options, flags, "as_before", QUIPU_CONTEXT_AS_BEFORE),
};

static const qpy_member shapes_usage[] = {
    SHOW(quipu_model_usage, input),       SHOW(quipu_model_usage, output),
    SHOW(quipu_model_usage, total),       SHOW(quipu_model_usage, cached),
    SHOW(quipu_model_usage, cache_write), SHOW(quipu_model_usage, thoughts),
};

static const qpy_member shapes_tool[] = {
    SHOW(quipu_tool, name),
    SHOW(quipu_tool, description),
    SHOW(quipu_tool, schema),
    SHOW(quipu_tool, strict),
};

static const qpy_member shapes_context[] = {
    SHOW(quipu_context, block),
    SHOW(quipu_context, tail),
    SHOW(quipu_context, tools),
    SHOW(quipu_context, model),
    SHOW(quipu_context, provider),
    ONE_OF(quipu_context, reason,
           "|first|model|instructions|memory|idle|compaction|window|history|pays"),
    SHOW(quipu_context, more_before),
    SHOW(quipu_context, exact),
    SHOW(quipu_context, first_seq),
    SHOW(quipu_context, last_seq),
    SHOW(quipu_context, tokens),
    SHOW(quipu_context, block_tokens),
    SHOW(quipu_context, shared),
    SHOW(quipu_context, expected_cached),
    SHOW(quipu_context, reported_input),
    SHOW(quipu_context, reported_cached),
    SHOW(quipu_context, prefix_hash),
    SHOW(quipu_context, prompt_hash),
};

static const qpy_member shapes_content[] = {
    ONE_OF(quipu_content, role, ROLES),
};

static const qpy_member shapes_part[] = {
    ONE_OF(quipu_part, kind, "|text|thought|call|response|data"),
    SHOW(quipu_part, text),
    SHOW(quipu_part, id),
    SHOW(quipu_part, name),
    SHOW(quipu_part, json),
    SHOW(quipu_part, mime),
    SHOW(quipu_part, data),
    SHOW(quipu_part, thought),
    SHOW(quipu_part, redacted),
    SHOW(quipu_part, signature),
};

/* ---- the feed ---------------------------------------------------------------------------------
 */

static const qpy_member shapes_feed_options[] = {
    SHOW(quipu_feed_options, after),
    SHOW(quipu_feed_options, limit),
    SHOW(quipu_feed_options, timeout_ms),
    FLAG(quipu_feed_options, flags, "from_now", QUIPU_FEED_FROM_NOW),
};

static const qpy_member shapes_change[] = {
    ONE_OF(quipu_change, kind, "|created|appended|updated|deleted|forked"),
    SHOW(quipu_change, key),
    SHOW(quipu_change, uid),
    SHOW(quipu_change, at),
    SHOW(quipu_change, revision),
    SHOW(quipu_change, first_seq),
    SHOW(quipu_change, last_seq),
};

/* ---- what answers used, and who set state ------------------------------------------------------
 */

static const qpy_member shapes_usage_query[] = {
    FLAG(quipu_usage_query, flags, "session", QUIPU_USAGE_BY_SESSION),
    FLAG(quipu_usage_query, flags, "model", QUIPU_USAGE_BY_MODEL),
    FLAG(quipu_usage_query, flags, "day", QUIPU_USAGE_BY_DAY),
    SHOW(quipu_usage_query, key),
    SHOW(quipu_usage_query, app_name),
    SHOW(quipu_usage_query, user_id),
    SHOW_AS(quipu_usage_query, from_day, "since"),
    SHOW_AS(quipu_usage_query, to_day, "until"),
    SHOW(quipu_usage_query, after),
    SHOW(quipu_usage_query, limit),
};

static const qpy_member shapes_usage_row[] = {
    SHOW(quipu_usage_row, session_key),   SHOW(quipu_usage_row, model),
    SHOW(quipu_usage_row, day),           SHOW(quipu_usage_row, prompt_tokens),
    SHOW(quipu_usage_row, cached_tokens), SHOW(quipu_usage_row, answer_tokens),
    SHOW(quipu_usage_row, answers),       SHOW(quipu_usage_row, cost),
    SHOW(quipu_usage_row, unpriced),
};

static const qpy_member shapes_state_entry[] = {
    ONE_OF(quipu_state_entry, scope, "|app|user|session"),
    SHOW(quipu_state_entry, name),
    SHOW(quipu_state_entry, set_at),
    SHOW(quipu_state_entry, set_by),
    SHOW(quipu_state_entry, set_seq),
    SHOW(quipu_state_entry, set_in),
};

/* ---- artifacts --------------------------------------------------------------------------------
 */

static const qpy_member shapes_artifact_new[] = {
    SHOW_AS(quipu_artifact, session_key, "key"),
    SHOW(quipu_artifact, app_name),
    SHOW(quipu_artifact, user_id),
    SHOW(quipu_artifact, name),
    SHOW(quipu_artifact, mime_type),
    SHOW(quipu_artifact, metadata),
    ONE_OF(quipu_artifact, kind, QPY_ARTIFACT_KINDS),
};

static const qpy_member shapes_artifact_query[] = {
    SHOW_AS(quipu_artifact_query, session_key, "key"),
    SHOW(quipu_artifact_query, app_name),
    SHOW(quipu_artifact_query, user_id),
    SHOW(quipu_artifact_query, name),
    SHOW(quipu_artifact_query, version),
    FLAG(quipu_artifact_query, flags, "versions", QUIPU_ARTIFACT_FIND_VERSIONS),
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
    [QPY_EXPORT_OPTIONS] = SHAPE(shapes_export_options),
    [QPY_IMPORT_OPTIONS] = SHAPE(shapes_import_options),
    [QPY_TRANSFER] = SHAPE(shapes_transfer),
    [QPY_SOURCE_OPTIONS] = SHAPE(shapes_source_options),
    [QPY_SOURCE_REPORT] = SHAPE(shapes_source_report),
    [QPY_COPIED] = SHAPE(shapes_copied),
    [QPY_STATS_RESULT] = SHAPE(shapes_stats),
    [QPY_PROBLEM] = SHAPE(shapes_problem),
    [QPY_VERIFIED] = SHAPE(shapes_verified),
    [QPY_COMPARED] = SHAPE(shapes_compared),
    [QPY_ERASE_OPTIONS] = SHAPE(shapes_erase_options),
    [QPY_ERASURE] = SHAPE(shapes_erasure),
    [QPY_FACTOR_RESULT] = SHAPE(shapes_factor),
    [QPY_MEMORY_KIND] = SHAPE(shapes_memory_kind),
    [QPY_MEMORY_PATCH] = SHAPE(shapes_memory_patch),
    [QPY_MEMORY_QUERY] = SHAPE(shapes_memory_query),
    [QPY_MEMORY_OPTIONS] = SHAPE(shapes_memory_options),
    [QPY_MEMORY_RAN] = SHAPE(shapes_memory_ran),
    [QPY_MEMORY_PROGRESS] = SHAPE(shapes_memory_progress),
    [QPY_CONTEXT_OPTIONS] = SHAPE(shapes_context_options),
    [QPY_USAGE] = SHAPE(shapes_usage),
    [QPY_TOOL] = SHAPE(shapes_tool),
    [QPY_CONTEXT_RESULT] = SHAPE(shapes_context),
    [QPY_CONTENT] = SHAPE(shapes_content),
    [QPY_PART] = SHAPE(shapes_part),
    [QPY_FEED_OPTIONS] = SHAPE(shapes_feed_options),
    [QPY_CHANGE] = SHAPE(shapes_change),
    [QPY_USAGE_QUERY] = SHAPE(shapes_usage_query),
    [QPY_USAGE_ROW] = SHAPE(shapes_usage_row),
    [QPY_STATE_ENTRY] = SHAPE(shapes_state_entry),
    [QPY_ARTIFACT_NEW] = SHAPE(shapes_artifact_new),
    [QPY_ARTIFACT_QUERY] = SHAPE(shapes_artifact_query),
};
