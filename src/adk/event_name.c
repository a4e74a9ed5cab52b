/* The names of ADK's events in snake_case, and what lies behind each: names of ADK again, or the
 * user's own. Only listed names are ever rewritten. In camelCase a name is the same letters without
 * underscores.
 *
 * Owns: constant tables; pure functions, for any thread, without a lock. On return a name is the
 * table's own text, and one that is not listed is not there.
 * Called by: event_convert.c for names and kinds, the codec for comparing keys. To follow a new
 * version of ADK, add its names to the list of their kind; tests/contract/test_adk_event.c covers
 * each kind. A name that is missing here keeps its spelling, which loses nothing but shows the
 * other runtime a name that it does not know. */
#include <string.h>

#include "adk/event.h"

/* A name of ADK in snake_case, and what is rewritten behind it. The table does not say which object
 * a name belongs to: it has one kind wherever ADK's names may stand. */
typedef struct name_entry {
    const char *name;
    qp_name_kind kind;
} name_entry;

/* Sorted by their bytes, for the search; contract.adk_event finds each of them.
 *
 *   FREE   scalars, and subtrees with the user's names. cache_metadata is one because ADK keeps it
 *          in snake_case in every dialect
 *   MODEL  objects, or lists of objects, whose names are ADK's
 *   MAP    an object with the user's names (ids of calls) over objects with ADK's
 *   BLOB   an object with a member "data" in base64
 *   BYTES  strings in base64 */
static const name_entry name_table[] = {
    {"actions", QP_NAME_MODEL},
    {"agent_state", QP_NAME_FREE},
    {"artifact_delta", QP_NAME_FREE},
    {"audio_offset", QP_NAME_FREE},
    {"audio_transcription", QP_NAME_MODEL},
    {"avg_logprobs", QP_NAME_FREE},
    {"cache_metadata", QP_NAME_FREE},
    {"cache_tokens_details", QP_NAME_MODEL},
    {"cached_content_token_count", QP_NAME_FREE},
    {"candidates", QP_NAME_MODEL},
    {"candidates_token_count", QP_NAME_FREE},
    {"candidates_tokens_details", QP_NAME_MODEL},
    {"chosen_candidates", QP_NAME_MODEL},
    {"citation_metadata", QP_NAME_MODEL},
    {"citations", QP_NAME_MODEL},
    {"code_execution_result", QP_NAME_MODEL},
    {"compacted_content", QP_NAME_MODEL},
    {"compaction", QP_NAME_MODEL},
    {"confidence_scores", QP_NAME_FREE},
    {"content", QP_NAME_MODEL},
    {"custom_metadata", QP_NAME_FREE},
    {"display_name", QP_NAME_FREE},
    {"end_index", QP_NAME_FREE},
    {"end_of_agent", QP_NAME_FREE},
    {"end_offset", QP_NAME_FREE},
    {"end_timestamp", QP_NAME_FREE},
    {"environment_id", QP_NAME_FREE},
    {"error_code", QP_NAME_FREE},
    {"error_message", QP_NAME_FREE},
    {"executable_code", QP_NAME_MODEL},
    {"file_data", QP_NAME_MODEL},
    {"file_uri", QP_NAME_FREE},
    {"finish_reason", QP_NAME_FREE},
    {"function_call", QP_NAME_MODEL},
    {"function_response", QP_NAME_MODEL},
    {"go_away", QP_NAME_MODEL},
    {"google_maps_widget_context_token", QP_NAME_FREE},
    {"grounding_chunk_indices", QP_NAME_FREE},
    {"grounding_chunks", QP_NAME_MODEL},
    {"grounding_metadata", QP_NAME_MODEL},
    {"grounding_supports", QP_NAME_MODEL},
    {"image_search_queries", QP_NAME_FREE},
    {"inline_data", QP_NAME_BLOB},
    {"input_transcription", QP_NAME_MODEL},
    {"interaction_id", QP_NAME_FREE},
    {"interaction_status", QP_NAME_FREE},
    {"interrupt_id", QP_NAME_FREE},
    {"invocation_id", QP_NAME_FREE},
    {"isolation_scope", QP_NAME_FREE},
    {"language_code", QP_NAME_FREE},
    {"last_consumed_client_message_index", QP_NAME_FREE},
    {"live_session_id", QP_NAME_FREE},
    {"live_session_resumption_update", QP_NAME_MODEL},
    {"log_probability", QP_NAME_FREE},
    {"log_probability_sum", QP_NAME_FREE},
    {"logprobs_result", QP_NAME_MODEL},
    {"long_running_tool_ids", QP_NAME_FREE},
    {"media_processing", QP_NAME_MODEL},
    {"media_resolution", QP_NAME_MODEL},
    {"message_as_output", QP_NAME_FREE},
    {"mime_type", QP_NAME_FREE},
    {"model_version", QP_NAME_FREE},
    {"new_handle", QP_NAME_FREE},
    {"node_info", QP_NAME_MODEL},
    {"num_tokens", QP_NAME_FREE},
    {"output_for", QP_NAME_FREE},
    {"output_transcription", QP_NAME_MODEL},
    {"part_index", QP_NAME_FREE},
    {"part_metadata", QP_NAME_FREE},
    {"partial_args", QP_NAME_MODEL},
    {"parts", QP_NAME_MODEL},
    {"prompt_token_count", QP_NAME_FREE},
    {"prompt_tokens_details", QP_NAME_MODEL},
    {"publication_date", QP_NAME_FREE},
    {"render_ui_widgets", QP_NAME_MODEL},
    {"rendered_content", QP_NAME_FREE},
    {"requested_auth_configs", QP_NAME_FREE},
    {"requested_input", QP_NAME_MODEL},
    {"requested_tool_confirmations", QP_NAME_MAP},
    {"response_schema", QP_NAME_FREE},
    {"retrieval_metadata", QP_NAME_MODEL},
    {"retrieval_queries", QP_NAME_FREE},
    {"retrieved_context", QP_NAME_MODEL},
    {"rewind_before_invocation_id", QP_NAME_FREE},
    {"sdk_blob", QP_NAME_BYTES},
    {"search_entry_point", QP_NAME_MODEL},
    {"segment", QP_NAME_MODEL},
    {"session_resumption_handle", QP_NAME_FREE},
    {"set_model_response", QP_NAME_FREE},
    {"skip_summarization", QP_NAME_FREE},
    {"source_flagging_uris", QP_NAME_MODEL},
    {"speaker_label", QP_NAME_FREE},
    {"speech_metadata", QP_NAME_MODEL},
    {"start_index", QP_NAME_FREE},
    {"start_offset", QP_NAME_FREE},
    {"start_timestamp", QP_NAME_FREE},
    {"state_delta", QP_NAME_FREE},
    {"thought_signature", QP_NAME_BYTES},
    {"thoughts_token_count", QP_NAME_FREE},
    {"time_left", QP_NAME_FREE},
    {"token_count", QP_NAME_FREE},
    {"token_id", QP_NAME_FREE},
    {"tool_call", QP_NAME_MODEL},
    {"tool_response", QP_NAME_MODEL},
    {"tool_type", QP_NAME_FREE},
    {"tool_use_prompt_token_count", QP_NAME_FREE},
    {"tool_use_prompt_tokens_details", QP_NAME_MODEL},
    {"top_candidates", QP_NAME_MODEL},
    {"total_token_count", QP_NAME_FREE},
    {"traffic_type", QP_NAME_FREE},
    {"transfer_reason", QP_NAME_FREE},
    {"transfer_to_agent", QP_NAME_FREE},
    {"turn_complete", QP_NAME_FREE},
    {"turn_complete_reason", QP_NAME_FREE},
    {"usage_metadata", QP_NAME_MODEL},
    {"video_metadata", QP_NAME_MODEL},
    {"voice_activity", QP_NAME_MODEL},
    {"voice_activity_type", QP_NAME_FREE},
    {"web", QP_NAME_MODEL},
    {"web_search_queries", QP_NAME_FREE},
    {"will_continue", QP_NAME_FREE},
    {"words", QP_NAME_MODEL},
};

#define NAME_COUNT (sizeof(name_table) / sizeof(name_table[0]))

/* Converts either spelling to snake_case; false for a mix of both, or a name longer than any of
 * ADK's. A mix is the user's own name: ADK writes one spelling or the other.
 *
 *   "invocationId"    ─▶ "invocation_id"
 *   "invocation_id"   ─▶ the same
 *   "content", "id"   ─▶ the same, in both spellings
 *   "user_Data"       ─▶ false */
static bool name_snake(quipu_str text, char ret[QP_NAME_SIZE])
{
    bool bars = false;
    bool humps = false;
    size_t n = 0;

    /* Room for an underscore, the letter and the NUL. */
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

/* Whether a name comes before, at (0) or behind another. Written out: most pairs differ in their
 * first letters, and a call for each would cost more than the comparison. */
static int name_compare(const char *a, const char *b)
{
    while (*a == *b && *a != '\0') {
        a++;
        b++;
    }
    return (int)(unsigned char)*a - (int)(unsigned char)*b;
}

/* A binary search: every member of every event that is converted comes here, and most keys of an
 * event are not in the table, so that a search through all of it cost an eighth of a request that
 * reads a session over ADK's REST. The result is the table's own text, in snake_case; NULL, and
 * *ret_kind untouched, for any other name. */
const char *qp_name_find(quipu_str text, qp_name_kind *ret_kind)
{
    char snake[QP_NAME_SIZE];
    size_t low = 0;
    size_t high = NAME_COUNT;

    /* A mix of both spellings is a key of the user's data. */
    if (!name_snake(text, snake)) {
        return NULL;
    }
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = name_compare(snake, name_table[middle].name);

        if (order == 0) {
            *ret_kind = name_table[middle].kind;
            return name_table[middle].name;
        }
        /* Below: the name would stand in the lower half. */
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return NULL;
}

/* The reverse of name_snake(); `snake` comes from the tables, so no underscore is last. `ret` has
 * no NUL; the result is a slice of it. */
quipu_str qp_name_camel(const char *snake, char ret[QP_NAME_SIZE])
{
    size_t n = 0;

    for (; *snake != '\0'; snake++) {
        if (*snake == '_') {
            snake++;
            /* Behind an underscore there is a small letter. */
            ret[n++] = (char)(*snake - 'a' + 'A');
        } else {
            ret[n++] = *snake;
        }
    }
    return (quipu_str){ret, n};
}

/* Compares a parsed key; the bytes are compared directly unless the key has escapes. Asked for
 * every member of every event: no copy is made, and most keys differ in length. Both quotes of the
 * key are part of its token. */
bool qp_key_is(qp_json_node key, quipu_str text)
{
    const qp_json_token *token = &key.doc->tokens[key.at];
    const char *p = key.doc->text.p + token->start + 1;

    return token->escaped != 0 ? qp_json_text_is(key, text)
                               : (size_t)(token->end - token->start - 2) == text.n &&
                                     memcmp(p, text.p, text.n) == 0;
}
