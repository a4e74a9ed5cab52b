/* The policies of all entities, for engines that keep tenants apart by themselves
 * (ent/row_security.h).
 *
 * Owns the table of policies; called by store.c for every connection that opens, outside of
 * transactions. Every entity of schema/quipu.ent has a line here: one that is missing would be
 * readable by every tenant. Messages, their vectors, state events and the log of what was sent have
 * no tenant of their own; theirs is that of their session. */
#include "store/row_security.h"

#include "gen/quipu.h"

const qp_row_policy qp_store_row_policies[] = {
    {.entity = &qp_session_entity},
    {.entity = &qp_message_entity, .column = "session_messages", .through = &qp_session_entity},
    {.entity = &qp_state_entity},
    {.entity = &qp_state_event_entity, .column = "session_number", .through = &qp_session_entity},
    {.entity = &qp_usage_entity},
    {.entity = &qp_artifact_entity},
    {.entity = &qp_blob_entity},
    {.entity = &qp_observation_entity},
    {.entity = &qp_reflection_entity},
    {.entity = &qp_memory_scope_entity},
    {.entity = &qp_context_log_entity, .column = "session_number", .through = &qp_session_entity},
    {.entity = &qp_vector_entity, .column = "session_number", .through = &qp_session_entity},
    {.entity = &qp_job_entity},
    {.entity = &qp_feed_entity},
    {.entity = &qp_model_factor_entity},
    {.entity = &qp_removal_entity},
};

const size_t qp_store_row_policy_count =
    sizeof(qp_store_row_policies) / sizeof(qp_store_row_policies[0]);
