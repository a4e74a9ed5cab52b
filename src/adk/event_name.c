/* The names of ADK's events in snake_case, and what lies behind each: names of ADK again, or the
 * user's own. Only listed names are ever rewritten. In camelCase a name is the same letters without
 * underscores.
 *
 * Owns: constant tables; pure functions.
 * Called by: event_convert.c for names and kinds, the codec for comparing keys. To follow a new
 * version of ADK, add its names to the list of their kind; tests/contract/test_adk_event.c covers
 * each kind. A name that is missing here keeps its spelling, which loses nothing but shows the
 * other runtime a name that it does not know. */
#include <string.h>

#include "adk/event.h"

/* Scalars, and subtrees with the user's names. cache_metadata is here because ADK keeps it in
 * snake_case in every dialect. */
static const char *const name_free[] = {"agent_state",
                                        "artifact_delta",
                                        "audio_offset",
                                        "avg_logprobs",
                                        "cache_metadata",
                                        "cached_content_token_count",
                                        "candidates_token_count",
                                        "confidence_scores",
                                        "custom_metadata",
                                        "display_name",
                                        "end_index",
                                        "end_of_agent",
                                        "end_offset",
                                        "end_timestamp",
                                        "environment_id",
                                        "error_code",
                                        "error_message",
                                        "file_uri",
                                        "finish_reason",
                                        "google_maps_widget_context_token",
                                        "grounding_chunk_indices",
                                        "image_search_queries",
                                        "interaction_id",
                                        "interaction_status",
                                        "interrupt_id",
                                        "invocation_id",
                                        "isolation_scope",
                                        "language_code",
                                        "last_consumed_client_message_index",
                                        "live_session_id",
                                        "log_probability",
                                        "log_probability_sum",
                                        "long_running_tool_ids",
                                        "message_as_output",
                                        "mime_type",
                                        "model_version",
                                        "new_handle",
                                        "num_tokens",
                                        "output_for",
                                        "part_index",
                                        "part_metadata",
                                        "prompt_token_count",
                                        "publication_date",
                                        "rendered_content",
                                        "requested_auth_configs",
                                        "response_schema",
                                        "retrieval_queries",
                                        "rewind_before_invocation_id",
                                        "session_resumption_handle",
                                        "set_model_response",
                                        "skip_summarization",
                                        "speaker_label",
                                        "start_index",
                                        "start_offset",
                                        "start_timestamp",
                                        "state_delta",
                                        "thoughts_token_count",
                                        "time_left",
                                        "token_count",
                                        "token_id",
                                        "tool_type",
                                        "tool_use_prompt_token_count",
                                        "total_token_count",
                                        "traffic_type",
                                        "transfer_reason",
                                        "transfer_to_agent",
                                        "turn_complete",
                                        "turn_complete_reason",
                                        "voice_activity_type",
                                        "web_search_queries",
                                        "will_continue",
                                        NULL};
/* Objects, or lists of objects, whose names are ADK's. */
static const char *const name_model[] = {"actions",
                                         "audio_transcription",
                                         "cache_tokens_details",
                                         "candidates",
                                         "candidates_tokens_details",
                                         "chosen_candidates",
                                         "citation_metadata",
                                         "citations",
                                         "code_execution_result",
                                         "compacted_content",
                                         "compaction",
                                         "content",
                                         "executable_code",
                                         "file_data",
                                         "function_call",
                                         "function_response",
                                         "go_away",
                                         "grounding_chunks",
                                         "grounding_metadata",
                                         "grounding_supports",
                                         "input_transcription",
                                         "live_session_resumption_update",
                                         "logprobs_result",
                                         "media_processing",
                                         "media_resolution",
                                         "node_info",
                                         "output_transcription",
                                         "partial_args",
                                         "parts",
                                         "prompt_tokens_details",
                                         "render_ui_widgets",
                                         "requested_input",
                                         "retrieval_metadata",
                                         "retrieved_context",
                                         "search_entry_point",
                                         "segment",
                                         "source_flagging_uris",
                                         "speech_metadata",
                                         "tool_call",
                                         "tool_response",
                                         "tool_use_prompt_tokens_details",
                                         "top_candidates",
                                         "usage_metadata",
                                         "video_metadata",
                                         "voice_activity",
                                         "web",
                                         "words",
                                         NULL};
/* An object with the user's names (ids of calls) over objects with ADK's. */
static const char *const name_map[] = {"requested_tool_confirmations", NULL};
/* An object with a member "data" in base64. */
static const char *const name_blob[] = {"inline_data", NULL};
/* Strings in base64. */
static const char *const name_bytes[] = {"sdk_blob", "thought_signature", NULL};

/* By qp_name_kind. Each list is sorted for the reader; the search does not need it. */
static const char *const *const name_lists[] = {[QP_NAME_FREE] = name_free,
                                                [QP_NAME_MODEL] = name_model,
                                                [QP_NAME_MAP] = name_map,
                                                [QP_NAME_BLOB] = name_blob,
                                                [QP_NAME_BYTES] = name_bytes};

#define NAME_KINDS (sizeof(name_lists) / sizeof(name_lists[0]))

/* Converts either spelling to snake_case; false for a mix of both, or a name longer than any of
 * ADK's. A mix is the user's own name: ADK writes one spelling or the other. */
static bool name_snake(quipu_str text, char ret[QP_NAME_SIZE])
{
    bool bars = false;
    bool humps = false;
    size_t n = 0;

    for (size_t i = 0; i < text.n; i++) {
        const char c = text.p[i];
        const bool upper = c >= 'A' && c <= 'Z';

        if (n + 2 >= QP_NAME_SIZE) {
            return false;
        }
        bars = bars || c == '_';
        humps = humps || upper;
        if (upper) {
            ret[n++] = '_';
        }
        ret[n++] = upper ? (char)(c - 'A' + 'a') : c;
    }
    ret[n] = '\0';
    return !bars || !humps;
}

/* A linear search: about 120 names, and the first letter rejects most. It runs only for events that
 * are converted. */
const char *qp_name_find(quipu_str text, qp_name_kind *ret_kind)
{
    char snake[QP_NAME_SIZE];

    if (!name_snake(text, snake)) {
        return NULL;
    }
    for (size_t kind = 0; kind < NAME_KINDS; kind++) {
        for (const char *const *name = name_lists[kind]; *name != NULL; name++) {
            if ((*name)[0] == snake[0] && strcmp(*name, snake) == 0) {
                *ret_kind = (qp_name_kind)kind;
                return *name;
            }
        }
    }
    return NULL;
}

/* The reverse of name_snake(); `snake` comes from the tables, so no underscore is last. */
quipu_str qp_name_camel(const char *snake, char ret[QP_NAME_SIZE])
{
    size_t n = 0;

    for (; *snake != '\0'; snake++) {
        if (*snake == '_') {
            snake++;
            ret[n++] = (char)(*snake - 'a' + 'A');
        } else {
            ret[n++] = *snake;
        }
    }
    return (quipu_str){ret, n};
}

/* Compares a parsed key; the bytes are compared directly unless the key has escapes. Asked for
 * every member of every event: no copy is made, and most keys differ in length. */
bool qp_key_is(qp_json_node key, quipu_str text)
{
    const qp_json_token *token = &key.doc->tokens[key.at];
    const char *p = key.doc->text.p + token->start + 1;

    return token->escaped != 0 ? qp_json_text_is(key, text)
                               : (size_t)(token->end - token->start - 2) == text.n &&
                                     memcmp(p, text.p, text.n) == 0;
}
