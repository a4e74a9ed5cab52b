/* The names of ADK's event, in both spellings, and what lies behind each: names of ADK again, or
 * the user's own, which nobody may rewrite. A name that is not here is not ours to change. */
#include <string.h>

#include "adk/event.h"

/* cache_metadata keeps its snake_case inside in every dialect. */
static const qp_name name_table[] = {
    {"actions", NULL, QP_NAME_MODEL},
    {"agentState", "agent_state", QP_NAME_FREE},
    {"artifactDelta", "artifact_delta", QP_NAME_FREE},
    {"audioOffset", "audio_offset", QP_NAME_FREE},
    {"audioTranscription", "audio_transcription", QP_NAME_MODEL},
    {"avgLogprobs", "avg_logprobs", QP_NAME_FREE},
    {"cacheMetadata", "cache_metadata", QP_NAME_FREE},
    {"cacheTokensDetails", "cache_tokens_details", QP_NAME_MODEL},
    {"cachedContentTokenCount", "cached_content_token_count", QP_NAME_FREE},
    {"candidatesTokenCount", "candidates_token_count", QP_NAME_FREE},
    {"candidatesTokensDetails", "candidates_tokens_details", QP_NAME_MODEL},
    {"chosenCandidates", "chosen_candidates", QP_NAME_MODEL},
    {"citationMetadata", "citation_metadata", QP_NAME_MODEL},
    {"citations", NULL, QP_NAME_MODEL},
    {"codeExecutionResult", "code_execution_result", QP_NAME_MODEL},
    {"compactedContent", "compacted_content", QP_NAME_MODEL},
    {"compaction", NULL, QP_NAME_MODEL},
    {"confidenceScores", "confidence_scores", QP_NAME_FREE},
    {"content", NULL, QP_NAME_MODEL},
    {"customMetadata", "custom_metadata", QP_NAME_FREE},
    {"displayName", "display_name", QP_NAME_FREE},
    {"endIndex", "end_index", QP_NAME_FREE},
    {"endOffset", "end_offset", QP_NAME_FREE},
    {"endOfAgent", "end_of_agent", QP_NAME_FREE},
    {"endTimestamp", "end_timestamp", QP_NAME_FREE},
    {"environmentId", "environment_id", QP_NAME_FREE},
    {"errorCode", "error_code", QP_NAME_FREE},
    {"errorMessage", "error_message", QP_NAME_FREE},
    {"executableCode", "executable_code", QP_NAME_MODEL},
    {"fileData", "file_data", QP_NAME_MODEL},
    {"fileUri", "file_uri", QP_NAME_FREE},
    {"finishReason", "finish_reason", QP_NAME_FREE},
    {"functionCall", "function_call", QP_NAME_MODEL},
    {"functionResponse", "function_response", QP_NAME_MODEL},
    {"goAway", "go_away", QP_NAME_MODEL},
    {"googleMapsWidgetContextToken", "google_maps_widget_context_token", QP_NAME_FREE},
    {"groundingChunkIndices", "grounding_chunk_indices", QP_NAME_FREE},
    {"groundingChunks", "grounding_chunks", QP_NAME_MODEL},
    {"groundingMetadata", "grounding_metadata", QP_NAME_MODEL},
    {"groundingSupports", "grounding_supports", QP_NAME_MODEL},
    {"imageSearchQueries", "image_search_queries", QP_NAME_FREE},
    {"inlineData", "inline_data", QP_NAME_BLOB},
    {"inputTranscription", "input_transcription", QP_NAME_MODEL},
    {"interactionId", "interaction_id", QP_NAME_FREE},
    {"interactionStatus", "interaction_status", QP_NAME_FREE},
    {"interruptId", "interrupt_id", QP_NAME_FREE},
    {"invocationId", "invocation_id", QP_NAME_FREE},
    {"isolationScope", "isolation_scope", QP_NAME_FREE},
    {"languageCode", "language_code", QP_NAME_FREE},
    {"lastConsumedClientMessageIndex", "last_consumed_client_message_index", QP_NAME_FREE},
    {"liveSessionId", "live_session_id", QP_NAME_FREE},
    {"liveSessionResumptionUpdate", "live_session_resumption_update", QP_NAME_MODEL},
    {"logProbability", "log_probability", QP_NAME_FREE},
    {"logProbabilitySum", "log_probability_sum", QP_NAME_FREE},
    {"logprobsResult", "logprobs_result", QP_NAME_MODEL},
    {"longRunningToolIds", "long_running_tool_ids", QP_NAME_FREE},
    {"mediaProcessing", "media_processing", QP_NAME_MODEL},
    {"mediaResolution", "media_resolution", QP_NAME_MODEL},
    {"messageAsOutput", "message_as_output", QP_NAME_FREE},
    {"mimeType", "mime_type", QP_NAME_FREE},
    {"modelVersion", "model_version", QP_NAME_FREE},
    {"newHandle", "new_handle", QP_NAME_FREE},
    {"nodeInfo", "node_info", QP_NAME_MODEL},
    {"numTokens", "num_tokens", QP_NAME_FREE},
    {"outputFor", "output_for", QP_NAME_FREE},
    {"outputTranscription", "output_transcription", QP_NAME_MODEL},
    {"partIndex", "part_index", QP_NAME_FREE},
    {"partMetadata", "part_metadata", QP_NAME_FREE},
    {"partialArgs", "partial_args", QP_NAME_MODEL},
    {"parts", NULL, QP_NAME_MODEL},
    {"promptTokenCount", "prompt_token_count", QP_NAME_FREE},
    {"promptTokensDetails", "prompt_tokens_details", QP_NAME_MODEL},
    {"publicationDate", "publication_date", QP_NAME_FREE},
    {"renderUiWidgets", "render_ui_widgets", QP_NAME_MODEL},
    {"renderedContent", "rendered_content", QP_NAME_FREE},
    {"requestedAuthConfigs", "requested_auth_configs", QP_NAME_FREE},
    {"requestedInput", "requested_input", QP_NAME_MODEL},
    {"requestedToolConfirmations", "requested_tool_confirmations", QP_NAME_MAP},
    {"responseSchema", "response_schema", QP_NAME_FREE},
    {"retrievalMetadata", "retrieval_metadata", QP_NAME_MODEL},
    {"retrievalQueries", "retrieval_queries", QP_NAME_FREE},
    {"retrievedContext", "retrieved_context", QP_NAME_MODEL},
    {"rewindBeforeInvocationId", "rewind_before_invocation_id", QP_NAME_FREE},
    {"sdkBlob", "sdk_blob", QP_NAME_BYTES},
    {"searchEntryPoint", "search_entry_point", QP_NAME_MODEL},
    {"segment", NULL, QP_NAME_MODEL},
    {"sessionResumptionHandle", "session_resumption_handle", QP_NAME_FREE},
    {"setModelResponse", "set_model_response", QP_NAME_FREE},
    {"skipSummarization", "skip_summarization", QP_NAME_FREE},
    {"sourceFlaggingUris", "source_flagging_uris", QP_NAME_MODEL},
    {"speakerLabel", "speaker_label", QP_NAME_FREE},
    {"speechMetadata", "speech_metadata", QP_NAME_MODEL},
    {"startIndex", "start_index", QP_NAME_FREE},
    {"startOffset", "start_offset", QP_NAME_FREE},
    {"startTimestamp", "start_timestamp", QP_NAME_FREE},
    {"stateDelta", "state_delta", QP_NAME_FREE},
    {"thoughtSignature", "thought_signature", QP_NAME_BYTES},
    {"thoughtsTokenCount", "thoughts_token_count", QP_NAME_FREE},
    {"timeLeft", "time_left", QP_NAME_FREE},
    {"tokenCount", "token_count", QP_NAME_FREE},
    {"tokenId", "token_id", QP_NAME_FREE},
    {"toolCall", "tool_call", QP_NAME_MODEL},
    {"toolResponse", "tool_response", QP_NAME_MODEL},
    {"toolType", "tool_type", QP_NAME_FREE},
    {"toolUsePromptTokenCount", "tool_use_prompt_token_count", QP_NAME_FREE},
    {"toolUsePromptTokensDetails", "tool_use_prompt_tokens_details", QP_NAME_MODEL},
    {"topCandidates", "top_candidates", QP_NAME_MODEL},
    {"candidates", NULL, QP_NAME_MODEL},
    {"totalTokenCount", "total_token_count", QP_NAME_FREE},
    {"trafficType", "traffic_type", QP_NAME_FREE},
    {"transferReason", "transfer_reason", QP_NAME_FREE},
    {"transferToAgent", "transfer_to_agent", QP_NAME_FREE},
    {"turnComplete", "turn_complete", QP_NAME_FREE},
    {"turnCompleteReason", "turn_complete_reason", QP_NAME_FREE},
    {"usageMetadata", "usage_metadata", QP_NAME_MODEL},
    {"videoMetadata", "video_metadata", QP_NAME_MODEL},
    {"voiceActivity", "voice_activity", QP_NAME_MODEL},
    {"voiceActivityType", "voice_activity_type", QP_NAME_FREE},
    {"web", NULL, QP_NAME_MODEL},
    {"webSearchQueries", "web_search_queries", QP_NAME_FREE},
    {"willContinue", "will_continue", QP_NAME_FREE},
    {"words", NULL, QP_NAME_MODEL},
};

#define NAME_COUNT (sizeof(name_table) / sizeof(name_table[0]))

static bool name_is(const char *name, quipu_str text)
{
    return name != NULL && strncmp(name, text.p, text.n) == 0 && name[text.n] == '\0';
}

const qp_name *qp_name_find(quipu_str text, bool *ret_snake)
{
    for (size_t i = 0; i < NAME_COUNT; i++) {
        const qp_name *name = &name_table[i];

        if (name->camel[0] != text.p[0]) {
            continue;
        }
        if (name_is(name->camel, text)) {
            if (name->snake != NULL) {
                *ret_snake = false;
            }
            return name;
        }
        if (name_is(name->snake, text)) {
            *ret_snake = true;
            return name;
        }
    }
    return NULL;
}

bool qp_key_is(qp_json_node key, quipu_str text)
{
    const qp_json_token *token = &key.doc->tokens[key.at];
    const char *p = key.doc->text.p + token->start + 1;

    return token->escaped != 0 ? qp_json_text_is(key, text)
                               : (size_t)(token->end - token->start - 2) == text.n &&
                                     memcmp(p, text.p, text.n) == 0;
}
