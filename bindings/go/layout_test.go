package quipu

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"unsafe"

	"quipu/bindings/go/internal/lib"
)

// The headers are two folders up in the repository.
const headers = "../../include"

// offsets of a struct: "name size offset offset ...".
func offsets(name string, size uintptr, members ...uintptr) string {
	line := fmt.Sprintf("%s %d", name, size)
	for _, member := range members {
		line += fmt.Sprintf(" %d", member)
	}
	return line + "\n"
}

func TestStructsLieAsTheHeadersSay(t *testing.T) {
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler to ask")
	}
	var open lib.OpenOptions
	var service lib.ServiceOptions
	var get lib.GetOptions
	var entry lib.Entry
	var identity lib.Identity
	var page lib.Page
	var failure lib.Error
	var call lib.CallOptions
	var field lib.Field
	var between lib.Range
	var patch lib.Patch
	var history lib.History
	var recall lib.RecallOptions
	var hit lib.RecallHit
	var recalled lib.RecallResults
	var known lib.MemoryHead
	var list lib.List
	var query lib.MemoryQuery
	var change lib.MemoryPatch
	var worker lib.MemoryOptions
	var ran lib.MemoryRan
	var progress lib.MemoryProgress
	var part lib.Part
	var content lib.Content
	var tool lib.Tool
	var request lib.Request
	var usage lib.Usage
	var prompt lib.ContextOptions
	var made lib.Context
	var provider lib.Provider
	var params lib.ModelParams
	var message lib.ModelMessage
	var sink lib.Sink
	var embed lib.EmbedRequest
	var vectors lib.Embeddings
	var delta lib.Delta
	var stored lib.MessageHead
	var toolCall lib.ToolCall
	var appending lib.AppendOptions
	var appended lib.Appended
	var stateChange lib.StateChange
	var stateEvent lib.StateEvent
	var stateEntry lib.StateEntry
	var compactOptions lib.CompactOptions
	var windowOptions lib.WindowOptions
	var window lib.Window
	var listing lib.ListOptions
	var sessions lib.SessionPage
	var searching lib.SearchOptions
	var searchHit lib.SearchHit
	var searched lib.SearchResults
	var usageQuery lib.UsageQuery
	var usageRow lib.UsageRow
	var usageReport lib.UsageReport
	var looking lib.LiveQuery
	var held lib.Snapshot
	var changing lib.StorePatch
	var deleting lib.DeleteOptions
	var erasing lib.EraseOptions
	var erased lib.Erasure
	// Sized structs and the items of sized slices may grow: only the offsets of members matter.
	want := offsets("quipu_open_options", 0, unsafe.Offsetof(open.Durability),
		unsafe.Offsetof(open.TTLMS), unsafe.Offsetof(open.Tenant), unsafe.Offsetof(open.MaxBytes),
		unsafe.Offsetof(open.Key), unsafe.Offsetof(open.KeyCtx)) +
		offsets("quipu_service_options", 0, unsafe.Offsetof(service.TTLMS),
			unsafe.Offsetof(service.KeyCase), unsafe.Offsetof(service.Time)) +
		offsets("quipu_get_options", 0, unsafe.Offsetof(get.NumRecent),
			unsafe.Offsetof(get.After)) +
		offsets("quipu_service_list", 0, unsafe.Offsetof(page.Sessions)) +
		offsets("quipu_service_entries", unsafe.Sizeof(page.Sessions),
			unsafe.Offsetof(page.Sessions.Count), unsafe.Offsetof(page.Sessions.ItemSize)) +
		offsets("quipu_service_entry", 0, unsafe.Offsetof(entry.State),
			unsafe.Offsetof(entry.LastUpdateTime), unsafe.Offsetof(entry.Revision),
			unsafe.Offsetof(entry.UID)) +
		offsets("quipu_live_identity", 0, unsafe.Offsetof(identity.Ref), unsafe.Offsetof(identity.UID),
			unsafe.Offsetof(identity.Revision), unsafe.Offsetof(identity.LastUpdateTime)) +
		offsets("quipu_error", unsafe.Sizeof(failure), unsafe.Offsetof(failure.Rule),
			unsafe.Offsetof(failure.Message)) +
		offsets("quipu_call_options", 0, unsafe.Offsetof(call.Cancel), unsafe.Offsetof(call.Now)) +
		offsets("quipu_arena", unsafe.Sizeof(lib.Arena{})) +
		offsets("quipu_field", 0, unsafe.Offsetof(field.Name), unsafe.Offsetof(field.Has),
			unsafe.Offsetof(field.Bit), unsafe.Offsetof(field.Size)) +
		offsets("quipu_range", 0, unsafe.Offsetof(between.Flags), unsafe.Offsetof(between.Limit)) +
		offsets("quipu_session_patch", 0, unsafe.Offsetof(patch.Set)) +
		offsets("quipu_history", 0, unsafe.Offsetof(history.Session)) +
		offsets("quipu_recall_options", 0, unsafe.Offsetof(recall.Question),
			unsafe.Offsetof(recall.UserID), unsafe.Offsetof(recall.Budget),
			unsafe.Offsetof(recall.Embedder), unsafe.Offsetof(recall.EmbedModel)) +
		offsets("quipu_recall_hit", 0, unsafe.Offsetof(hit.Role), unsafe.Offsetof(hit.EventID),
			unsafe.Offsetof(hit.Timestamp), unsafe.Offsetof(hit.Content),
			unsafe.Offsetof(hit.FromSession), unsafe.Offsetof(hit.FromVector),
			unsafe.Offsetof(hit.Memory)) +
		offsets("quipu_recall_results", 0, unsafe.Offsetof(recalled.Hits)) +
		offsets("quipu_memory", 0, unsafe.Offsetof(known.Kind)) +
		offsets("quipu_memory_list", 0, unsafe.Offsetof(list.Items)) +
		offsets("quipu_memory_status_list", 0, unsafe.Offsetof(list.Items), unsafe.Offsetof(list.More)) +
		offsets("quipu_memory_query", 0, unsafe.Offsetof(query.Kind), unsafe.Offsetof(query.SessionKey), unsafe.Offsetof(query.IDs), unsafe.Offsetof(query.IDCount), unsafe.Offsetof(query.Recent), unsafe.Offsetof(query.Flags), unsafe.Offsetof(query.FromSeq), unsafe.Offsetof(query.ToSeq)) +
		offsets("quipu_memory_patch", 0, unsafe.Offsetof(change.Set), unsafe.Offsetof(change.Kind), unsafe.Offsetof(change.ID), unsafe.Offsetof(change.Content), unsafe.Offsetof(change.Priority), unsafe.Offsetof(change.Subject), unsafe.Offsetof(change.Why), unsafe.Offsetof(change.Who)) +
		offsets("quipu_memory_options", 0, unsafe.Offsetof(worker.SessionKey), unsafe.Offsetof(worker.UserID), unsafe.Offsetof(worker.ChangedAfter), unsafe.Offsetof(worker.ObserveTokens), unsafe.Offsetof(worker.LeaseMS), unsafe.Offsetof(worker.Worker), unsafe.Offsetof(worker.Provider), unsafe.Offsetof(worker.AskTokens), unsafe.Offsetof(worker.Flags), unsafe.Offsetof(worker.PassCtx), unsafe.Offsetof(worker.Embedder), unsafe.Offsetof(worker.ObservePrompt), unsafe.Offsetof(worker.ReflectPrompt)) +
		offsets("quipu_memory_ran", 0, unsafe.Offsetof(ran.More), unsafe.Offsetof(ran.Sessions), unsafe.Offsetof(ran.Repeats), unsafe.Offsetof(ran.Lost), unsafe.Offsetof(ran.Failed), unsafe.Offsetof(ran.Reflections), unsafe.Offsetof(ran.ModelCalls), unsafe.Offsetof(ran.Embedded)) +
		offsets("quipu_memory_progress", 0, unsafe.Offsetof(progress.Scope), unsafe.Offsetof(progress.Watermark), unsafe.Offsetof(progress.ObserveTokens), unsafe.Offsetof(progress.StandingTokens), unsafe.Offsetof(progress.Owner), unsafe.Offsetof(progress.LeaseUntil), unsafe.Offsetof(progress.Fence), unsafe.Offsetof(progress.NextAt), unsafe.Offsetof(progress.ReflectError), unsafe.Offsetof(progress.ModelUnpriced)) +
		offsets("quipu_part", 0, unsafe.Offsetof(part.Text), unsafe.Offsetof(part.ID), unsafe.Offsetof(part.Name), unsafe.Offsetof(part.JSON), unsafe.Offsetof(part.Mime), unsafe.Offsetof(part.Data), unsafe.Offsetof(part.Thought), unsafe.Offsetof(part.Redacted), unsafe.Offsetof(part.Signature)) +
		offsets("quipu_content", 0, unsafe.Offsetof(content.Parts)) +
		offsets("quipu_tool", 0, unsafe.Offsetof(tool.Description), unsafe.Offsetof(tool.Schema), unsafe.Offsetof(tool.Parameters), unsafe.Offsetof(tool.Strict)) +
		offsets("quipu_model_request", 0, unsafe.Offsetof(request.Choice), unsafe.Offsetof(request.Model), unsafe.Offsetof(request.Contents), unsafe.Offsetof(request.System), unsafe.Offsetof(request.Tools), unsafe.Offsetof(request.ResponseSchema)) +
		offsets("quipu_model_usage", 0, unsafe.Offsetof(usage.Input), unsafe.Offsetof(usage.Cached), unsafe.Offsetof(usage.CacheWrite), unsafe.Offsetof(usage.Thoughts)) +
		offsets("quipu_context_options", 0, unsafe.Offsetof(prompt.Flags), unsafe.Offsetof(prompt.Key), unsafe.Offsetof(prompt.Request), unsafe.Offsetof(prompt.Provider), unsafe.Offsetof(prompt.TokenBudget), unsafe.Offsetof(prompt.MemoryTokens), unsafe.Offsetof(prompt.Models), unsafe.Offsetof(prompt.AtSeq), unsafe.Offsetof(prompt.Usage)) +
		offsets("quipu_context", 0, unsafe.Offsetof(made.Contents), unsafe.Offsetof(made.Block), unsafe.Offsetof(made.Tools), unsafe.Offsetof(made.Provider), unsafe.Offsetof(made.Reason), unsafe.Offsetof(made.MoreBefore), unsafe.Offsetof(made.Exact), unsafe.Offsetof(made.FirstSeq), unsafe.Offsetof(made.Tokens), unsafe.Offsetof(made.ExpectedCached), unsafe.Offsetof(made.ReportedCached), unsafe.Offsetof(made.PrefixHash), unsafe.Offsetof(made.PromptHash)) +
		offsets("quipu_provider", 0, unsafe.Offsetof(provider.Ctx), unsafe.Offsetof(provider.ID), unsafe.Offsetof(provider.Generate), unsafe.Offsetof(provider.Embed), unsafe.Offsetof(provider.Done)) +
		offsets("quipu_embed_request", 0, unsafe.Offsetof(embed.Model), unsafe.Offsetof(embed.Texts), unsafe.Offsetof(embed.TextCount)) +
		offsets("quipu_embeddings", 0, unsafe.Offsetof(vectors.Values), unsafe.Offsetof(vectors.Dimensions), unsafe.Offsetof(vectors.Count)) +
		offsets("quipu_model_params", 0, unsafe.Offsetof(params.Model), unsafe.Offsetof(params.Messages), unsafe.Offsetof(params.Stream)) +
		offsets("quipu_model_message", 0, unsafe.Offsetof(message.Content)) +
		offsets("quipu_sink", unsafe.Sizeof(sink), unsafe.Offsetof(sink.Put)) +
		offsets("quipu_delta", 0, unsafe.Offsetof(delta.Kind), unsafe.Offsetof(delta.Index), unsafe.Offsetof(delta.Text), unsafe.Offsetof(delta.Signature), unsafe.Offsetof(delta.Usage), unsafe.Offsetof(delta.Finish)) +
		offsets("quipu_history", 0, unsafe.Offsetof(history.Messages), unsafe.Offsetof(history.MoreBefore), unsafe.Offsetof(history.MoreAfter), unsafe.Offsetof(history.State), unsafe.Offsetof(history.LastEventAt)) +
		offsets("quipu_message", 0, unsafe.Offsetof(stored.Role), unsafe.Offsetof(stored.HasTimestamp)) +
		offsets("quipu_tool_call", 0, unsafe.Offsetof(toolCall.Name), unsafe.Offsetof(toolCall.Input), unsafe.Offsetof(toolCall.Output), unsafe.Offsetof(toolCall.Thought), unsafe.Offsetof(toolCall.ThoughtSignature)) +
		offsets("quipu_append_options", 0, unsafe.Offsetof(appending.Flags), unsafe.Offsetof(appending.ExpectedRevision), unsafe.Offsetof(appending.Settings), unsafe.Offsetof(appending.Event), unsafe.Offsetof(appending.UID)) +
		offsets("quipu_appended", 0, unsafe.Offsetof(appended.Repeated), unsafe.Offsetof(appended.FirstSeq), unsafe.Offsetof(appended.Revision), unsafe.Offsetof(appended.Time)) +
		offsets("quipu_state_change", 0, unsafe.Offsetof(stateChange.Name), unsafe.Offsetof(stateChange.Value)) +
		offsets("quipu_state_event", 0, unsafe.Offsetof(stateEvent.Changes), unsafe.Offsetof(stateEvent.EventID), unsafe.Offsetof(stateEvent.Author), unsafe.Offsetof(stateEvent.Time)) +
		offsets("quipu_state_entry", 0, unsafe.Offsetof(stateEntry.Name), unsafe.Offsetof(stateEntry.Value), unsafe.Offsetof(stateEntry.SetAt), unsafe.Offsetof(stateEntry.SetBy), unsafe.Offsetof(stateEntry.SetSeq), unsafe.Offsetof(stateEntry.SetIn)) +
		offsets("quipu_compact_options", 0, unsafe.Offsetof(compactOptions.CoversTo), unsafe.Offsetof(compactOptions.Summary)) +
		offsets("quipu_window_options", 0, unsafe.Offsetof(windowOptions.TokenBudget)) +
		offsets("quipu_window", 0, unsafe.Offsetof(window.Messages), unsafe.Offsetof(window.Tokens), unsafe.Offsetof(window.MoreBefore), unsafe.Offsetof(window.OverBudget), unsafe.Offsetof(window.Cut)) +
		offsets("quipu_list_options", 0, unsafe.Offsetof(listing.AppName), unsafe.Offsetof(listing.AgentID), unsafe.Offsetof(listing.MetadataName), unsafe.Offsetof(listing.MetadataText), unsafe.Offsetof(listing.After), unsafe.Offsetof(listing.Limit), unsafe.Offsetof(listing.Parent)) +
		offsets("quipu_session_page", 0, unsafe.Offsetof(sessions.Sessions), unsafe.Offsetof(sessions.Next)) +
		offsets("quipu_search_options", 0, unsafe.Offsetof(searching.Query), unsafe.Offsetof(searching.AppName), unsafe.Offsetof(searching.UserID), unsafe.Offsetof(searching.SessionKey), unsafe.Offsetof(searching.Author), unsafe.Offsetof(searching.Role), unsafe.Offsetof(searching.HasAfter), unsafe.Offsetof(searching.HasBefore), unsafe.Offsetof(searching.After), unsafe.Offsetof(searching.Before), unsafe.Offsetof(searching.Limit), unsafe.Offsetof(searching.Offset), unsafe.Offsetof(searching.MarkBefore), unsafe.Offsetof(searching.MarkAfter)) +
		offsets("quipu_search_hit", 0, unsafe.Offsetof(searchHit.Seq), unsafe.Offsetof(searchHit.Role), unsafe.Offsetof(searchHit.Author), unsafe.Offsetof(searchHit.Timestamp), unsafe.Offsetof(searchHit.Snippet), unsafe.Offsetof(searchHit.Rank)) +
		offsets("quipu_search_results", 0, unsafe.Offsetof(searched.Hits), unsafe.Offsetof(searched.More)) +
		offsets("quipu_usage_query", 0, unsafe.Offsetof(usageQuery.Key), unsafe.Offsetof(usageQuery.UserID), unsafe.Offsetof(usageQuery.FromDay), unsafe.Offsetof(usageQuery.ToDay), unsafe.Offsetof(usageQuery.After), unsafe.Offsetof(usageQuery.Limit)) +
		offsets("quipu_usage_row", 0, unsafe.Offsetof(usageRow.Model), unsafe.Offsetof(usageRow.Day), unsafe.Offsetof(usageRow.PromptTokens), unsafe.Offsetof(usageRow.AnswerTokens), unsafe.Offsetof(usageRow.Answers), unsafe.Offsetof(usageRow.Cost), unsafe.Offsetof(usageRow.Unpriced)) +
		offsets("quipu_usage_report", 0, unsafe.Offsetof(usageReport.Rows), unsafe.Offsetof(usageReport.Sessions), unsafe.Offsetof(usageReport.Next)) +
		offsets("quipu_live_query", 0, unsafe.Offsetof(looking.First), unsafe.Offsetof(looking.Name), unsafe.Offsetof(looking.RootAgent)) +
		offsets("quipu_snapshot", 0, unsafe.Offsetof(held.Identity), unsafe.Offsetof(held.Count), unsafe.Offsetof(held.Events), unsafe.Offsetof(held.State), unsafe.Offsetof(held.ViewTokens)) +
		offsets("quipu_store_patch", 0, unsafe.Offsetof(changing.Key), unsafe.Offsetof(changing.KeyCtx)) +
		offsets("quipu_delete_options", 0, unsafe.Offsetof(deleting.Flags)) +
		offsets("quipu_erase_options", 0, unsafe.Offsetof(erasing.Key), unsafe.Offsetof(erasing.UserID), unsafe.Offsetof(erasing.AppName)) +
		offsets("quipu_erasure", 0, unsafe.Offsetof(erased.Forks), unsafe.Offsetof(erased.Backups), unsafe.Offsetof(erased.Hidden), unsafe.Offsetof(erased.Memories), unsafe.Offsetof(erased.Kept)) +
		offsets("numbers", lib.ServiceGo, lib.ServiceRebase, lib.KeysCamel, lib.BytesStd,
			lib.TimesRFC3339, lib.GetAfter, lib.OpenReadOnly, lib.OpenMustExist, lib.OpenPassphrase,
			lib.RecallAll, lib.RecallMemories, lib.RoleUser, lib.RoleAssistant, lib.RoleModel, lib.MemoryRetired,
			lib.MemoryScope, lib.MemoryFollow, lib.MemoryEmbedOnly, lib.SetContent, lib.SetPriority, lib.SetSubject,
			lib.SetRetired, lib.ContextLog, lib.ContextAsBefore, lib.PartText, lib.PartThought,
			lib.PartCall, lib.PartResponse, lib.PartData, uintptr(Reflection), uintptr(Standing),
			uintptr(Done), uintptr(len(promptReasons)-1), lib.RoleSystem, lib.DeltaText,
			lib.DeltaFinish, lib.FinishStop, lib.RangeHeader, lib.RangeLast, lib.RangeView, lib.AppendCreate,
			lib.WindowCut, lib.ListOldestFirst, lib.ListExpired, lib.UsageBySession, lib.UsageByModel,
			lib.UsageByDay, lib.EraseQuick, uintptr(RoleSystem), uintptr(MarkTimeout))
	folder := t.TempDir()
	source := filepath.Join(folder, "ask.c")
	if err := os.WriteFile(source, []byte(ask), 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(folder, "ask")
	if out, err := exec.Command(compiler, "-I", headers, source, "-o", program).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got, err := exec.Command(program).Output()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, []byte(want)) {
		t.Errorf("the headers say\n%sthe bindings say\n%s", got, want)
	}
}

const ask = `
#include <stddef.h>
#include <stdio.h>
#include <quipu/adk.h>
#include <quipu/agent.h>
#include <quipu/fields.h>
#define AT(type, member) printf(" %zu", offsetof(type, member))
#define BEGIN(type) printf(#type " %zu", sizeof(type))
#define BEGIN_GROWING(type) printf(#type " 0")
#define END() printf("\n")
int main(void)
{
    BEGIN_GROWING(quipu_open_options); AT(quipu_open_options, durability); AT(quipu_open_options, ttl_ms);
    AT(quipu_open_options, tenant); AT(quipu_open_options, max_bytes);
    AT(quipu_open_options, key); AT(quipu_open_options, key_ctx); END();
    BEGIN_GROWING(quipu_service_options); AT(quipu_service_options, ttl_ms);
    AT(quipu_service_options, key_case); AT(quipu_service_options, time); END();
    BEGIN_GROWING(quipu_get_options); AT(quipu_get_options, num_recent); AT(quipu_get_options, after); END();
    BEGIN_GROWING(quipu_service_list); AT(quipu_service_list, sessions); END();
    BEGIN(quipu_service_entries); AT(quipu_service_entries, count); AT(quipu_service_entries, item_size); END();
    BEGIN_GROWING(quipu_service_entry); AT(quipu_service_entry, state);
    AT(quipu_service_entry, last_update_time); AT(quipu_service_entry, revision);
    AT(quipu_service_entry, uid); END();
    BEGIN_GROWING(quipu_live_identity); AT(quipu_live_identity, ref); AT(quipu_live_identity, uid);
    AT(quipu_live_identity, revision); AT(quipu_live_identity, last_update_time); END();
    BEGIN(quipu_error); AT(quipu_error, rule); AT(quipu_error, message); END();
    BEGIN_GROWING(quipu_call_options); AT(quipu_call_options, cancel); AT(quipu_call_options, now); END();
    BEGIN(quipu_arena); END();
    BEGIN_GROWING(quipu_field); AT(quipu_field, name); AT(quipu_field, has_offset);
    AT(quipu_field, bit); AT(quipu_field, size); END();
    BEGIN_GROWING(quipu_range); AT(quipu_range, flags); AT(quipu_range, limit); END();
    BEGIN_GROWING(quipu_session_patch); AT(quipu_session_patch, set); END();
    BEGIN_GROWING(quipu_history); AT(quipu_history, session); END();
    BEGIN_GROWING(quipu_recall_options); AT(quipu_recall_options, question);
    AT(quipu_recall_options, user_id); AT(quipu_recall_options, budget);
    AT(quipu_recall_options, embedder); AT(quipu_recall_options, embed_model); END();
    BEGIN_GROWING(quipu_recall_hit); AT(quipu_recall_hit, role); AT(quipu_recall_hit, event_id);
    AT(quipu_recall_hit, timestamp); AT(quipu_recall_hit, content);
    AT(quipu_recall_hit, from_session); AT(quipu_recall_hit, from_vector);
    AT(quipu_recall_hit, memory); END();
    BEGIN_GROWING(quipu_recall_results); AT(quipu_recall_results, hits); END();
    BEGIN_GROWING(quipu_memory); AT(quipu_memory, kind); END();
    BEGIN_GROWING(quipu_memory_list); AT(quipu_memory_list, memories); END();
    BEGIN_GROWING(quipu_memory_status_list); AT(quipu_memory_status_list, sessions); AT(quipu_memory_status_list, more); END();
    BEGIN_GROWING(quipu_memory_query); AT(quipu_memory_query, kind); AT(quipu_memory_query, session_key); AT(quipu_memory_query, ids); AT(quipu_memory_query, id_count); AT(quipu_memory_query, recent); AT(quipu_memory_query, flags); AT(quipu_memory_query, from_seq); AT(quipu_memory_query, to_seq); END();
    BEGIN_GROWING(quipu_memory_patch); AT(quipu_memory_patch, set); AT(quipu_memory_patch, kind); AT(quipu_memory_patch, id); AT(quipu_memory_patch, content); AT(quipu_memory_patch, priority); AT(quipu_memory_patch, subject); AT(quipu_memory_patch, why); AT(quipu_memory_patch, who); END();
    BEGIN_GROWING(quipu_memory_options); AT(quipu_memory_options, session_key); AT(quipu_memory_options, user_id); AT(quipu_memory_options, changed_after); AT(quipu_memory_options, observe_tokens); AT(quipu_memory_options, lease_ms); AT(quipu_memory_options, worker); AT(quipu_memory_options, provider); AT(quipu_memory_options, ask_tokens); AT(quipu_memory_options, flags); AT(quipu_memory_options, pass_ctx); AT(quipu_memory_options, embedder); AT(quipu_memory_options, observe_prompt); AT(quipu_memory_options, reflect_prompt); END();
    BEGIN_GROWING(quipu_memory_ran); AT(quipu_memory_ran, more); AT(quipu_memory_ran, sessions); AT(quipu_memory_ran, repeats); AT(quipu_memory_ran, lost); AT(quipu_memory_ran, failed); AT(quipu_memory_ran, reflections); AT(quipu_memory_ran, model_calls); AT(quipu_memory_ran, embedded); END();
    BEGIN_GROWING(quipu_memory_progress); AT(quipu_memory_progress, scope); AT(quipu_memory_progress, watermark); AT(quipu_memory_progress, observe_tokens); AT(quipu_memory_progress, standing_tokens); AT(quipu_memory_progress, owner); AT(quipu_memory_progress, lease_until); AT(quipu_memory_progress, fence); AT(quipu_memory_progress, next_at); AT(quipu_memory_progress, reflect_error); AT(quipu_memory_progress, model_unpriced); END();
    BEGIN_GROWING(quipu_part); AT(quipu_part, text); AT(quipu_part, id); AT(quipu_part, name); AT(quipu_part, json); AT(quipu_part, mime); AT(quipu_part, data); AT(quipu_part, thought); AT(quipu_part, redacted); AT(quipu_part, signature); END();
    BEGIN_GROWING(quipu_content); AT(quipu_content, parts); END();
    BEGIN_GROWING(quipu_tool); AT(quipu_tool, description); AT(quipu_tool, schema); AT(quipu_tool, parameters); AT(quipu_tool, strict); END();
    BEGIN_GROWING(quipu_model_request); AT(quipu_model_request, choice); AT(quipu_model_request, model); AT(quipu_model_request, contents); AT(quipu_model_request, system); AT(quipu_model_request, tools); AT(quipu_model_request, response_schema); END();
    BEGIN_GROWING(quipu_model_usage); AT(quipu_model_usage, input); AT(quipu_model_usage, cached); AT(quipu_model_usage, cache_write); AT(quipu_model_usage, thoughts); END();
    BEGIN_GROWING(quipu_context_options); AT(quipu_context_options, flags); AT(quipu_context_options, key); AT(quipu_context_options, request); AT(quipu_context_options, provider); AT(quipu_context_options, token_budget); AT(quipu_context_options, memory_tokens); AT(quipu_context_options, models); AT(quipu_context_options, at_seq); AT(quipu_context_options, usage); END();
    BEGIN_GROWING(quipu_context); AT(quipu_context, contents); AT(quipu_context, block); AT(quipu_context, tools); AT(quipu_context, provider); AT(quipu_context, reason); AT(quipu_context, more_before); AT(quipu_context, exact); AT(quipu_context, first_seq); AT(quipu_context, tokens); AT(quipu_context, expected_cached); AT(quipu_context, reported_cached); AT(quipu_context, prefix_hash); AT(quipu_context, prompt_hash); END();
    BEGIN_GROWING(quipu_provider); AT(quipu_provider, ctx); AT(quipu_provider, id); AT(quipu_provider, generate); AT(quipu_provider, embed); AT(quipu_provider, close); END();
    BEGIN_GROWING(quipu_embed_request); AT(quipu_embed_request, model); AT(quipu_embed_request, texts); AT(quipu_embed_request, text_count); END();
    BEGIN_GROWING(quipu_embeddings); AT(quipu_embeddings, values); AT(quipu_embeddings, dimensions); AT(quipu_embeddings, count); END();
    BEGIN_GROWING(quipu_model_params); AT(quipu_model_params, model); AT(quipu_model_params, messages); AT(quipu_model_params, stream); END();
    BEGIN_GROWING(quipu_model_message); AT(quipu_model_message, content); END();
    BEGIN(quipu_sink); AT(quipu_sink, put); END();
    BEGIN_GROWING(quipu_delta); AT(quipu_delta, kind); AT(quipu_delta, index); AT(quipu_delta, text); AT(quipu_delta, signature); AT(quipu_delta, usage); AT(quipu_delta, finish); END();
    BEGIN_GROWING(quipu_history); AT(quipu_history, messages); AT(quipu_history, more_before); AT(quipu_history, more_after); AT(quipu_history, state); AT(quipu_history, last_event_at); END();
    BEGIN_GROWING(quipu_message); AT(quipu_message, role); AT(quipu_message, has_timestamp); END();
    BEGIN_GROWING(quipu_tool_call); AT(quipu_tool_call, name); AT(quipu_tool_call, input); AT(quipu_tool_call, output); AT(quipu_tool_call, thought); AT(quipu_tool_call, thought_signature); END();
    BEGIN_GROWING(quipu_append_options); AT(quipu_append_options, flags); AT(quipu_append_options, expected_revision); AT(quipu_append_options, settings); AT(quipu_append_options, event); AT(quipu_append_options, uid); END();
    BEGIN_GROWING(quipu_appended); AT(quipu_appended, repeated); AT(quipu_appended, first_seq); AT(quipu_appended, revision); AT(quipu_appended, time); END();
    BEGIN_GROWING(quipu_state_change); AT(quipu_state_change, name); AT(quipu_state_change, value); END();
    BEGIN_GROWING(quipu_state_event); AT(quipu_state_event, changes); AT(quipu_state_event, event_id); AT(quipu_state_event, author); AT(quipu_state_event, time); END();
    BEGIN_GROWING(quipu_state_entry); AT(quipu_state_entry, name); AT(quipu_state_entry, value); AT(quipu_state_entry, set_at); AT(quipu_state_entry, set_by); AT(quipu_state_entry, set_seq); AT(quipu_state_entry, set_in); END();
    BEGIN_GROWING(quipu_compact_options); AT(quipu_compact_options, covers_to); AT(quipu_compact_options, summary); END();
    BEGIN_GROWING(quipu_window_options); AT(quipu_window_options, token_budget); END();
    BEGIN_GROWING(quipu_window); AT(quipu_window, messages); AT(quipu_window, tokens); AT(quipu_window, more_before); AT(quipu_window, over_budget); AT(quipu_window, cut); END();
    BEGIN_GROWING(quipu_list_options); AT(quipu_list_options, app_name); AT(quipu_list_options, agent_id); AT(quipu_list_options, metadata_name); AT(quipu_list_options, metadata_text); AT(quipu_list_options, after); AT(quipu_list_options, limit); AT(quipu_list_options, parent); END();
    BEGIN_GROWING(quipu_session_page); AT(quipu_session_page, sessions); AT(quipu_session_page, next); END();
    BEGIN_GROWING(quipu_search_options); AT(quipu_search_options, query); AT(quipu_search_options, app_name); AT(quipu_search_options, user_id); AT(quipu_search_options, session_key); AT(quipu_search_options, author); AT(quipu_search_options, role); AT(quipu_search_options, has_after); AT(quipu_search_options, has_before); AT(quipu_search_options, after); AT(quipu_search_options, before); AT(quipu_search_options, limit); AT(quipu_search_options, offset); AT(quipu_search_options, mark_before); AT(quipu_search_options, mark_after); END();
    BEGIN_GROWING(quipu_search_hit); AT(quipu_search_hit, seq); AT(quipu_search_hit, role); AT(quipu_search_hit, author); AT(quipu_search_hit, timestamp); AT(quipu_search_hit, snippet); AT(quipu_search_hit, rank); END();
    BEGIN_GROWING(quipu_search_results); AT(quipu_search_results, hits); AT(quipu_search_results, more); END();
    BEGIN_GROWING(quipu_usage_query); AT(quipu_usage_query, key); AT(quipu_usage_query, user_id); AT(quipu_usage_query, from_day); AT(quipu_usage_query, to_day); AT(quipu_usage_query, after); AT(quipu_usage_query, limit); END();
    BEGIN_GROWING(quipu_usage_row); AT(quipu_usage_row, model); AT(quipu_usage_row, day); AT(quipu_usage_row, prompt_tokens); AT(quipu_usage_row, answer_tokens); AT(quipu_usage_row, answers); AT(quipu_usage_row, cost); AT(quipu_usage_row, unpriced); END();
    BEGIN_GROWING(quipu_usage_report); AT(quipu_usage_report, rows); AT(quipu_usage_report, sessions); AT(quipu_usage_report, next); END();
    BEGIN_GROWING(quipu_live_query); AT(quipu_live_query, first); AT(quipu_live_query, name); AT(quipu_live_query, root_agent); END();
    BEGIN_GROWING(quipu_snapshot); AT(quipu_snapshot, identity); AT(quipu_snapshot, count); AT(quipu_snapshot, events); AT(quipu_snapshot, state); AT(quipu_snapshot, view_tokens); END();
    BEGIN_GROWING(quipu_store_patch); AT(quipu_store_patch, key); AT(quipu_store_patch, key_ctx); END();
    BEGIN_GROWING(quipu_delete_options); AT(quipu_delete_options, flags); END();
    BEGIN_GROWING(quipu_erase_options); AT(quipu_erase_options, key); AT(quipu_erase_options, user_id); AT(quipu_erase_options, app_name); END();
    BEGIN_GROWING(quipu_erasure); AT(quipu_erasure, forks); AT(quipu_erasure, backups); AT(quipu_erasure, hidden); AT(quipu_erasure, memories); AT(quipu_erasure, kept); END();
    printf("numbers %d %d %d %d %d %d %d %d %d %d %d %d", (int)QUIPU_SERVICE_GO, (int)QUIPU_SERVICE_REBASE,
           QUIPU_KEYS_CAMEL, QUIPU_BYTES_STD, QUIPU_TIMES_RFC3339, (int)QUIPU_GET_AFTER,
           (int)QUIPU_OPEN_READ_ONLY, (int)QUIPU_OPEN_MUST_EXIST,
           (int)QUIPU_OPEN_PASSPHRASE, (int)QUIPU_RECALL_EVERYTHING, (int)QUIPU_RECALL_MEMORIES,
           QUIPU_ROLE_USER);
    printf(" %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d", QUIPU_ROLE_ASSISTANT,
           QUIPU_ROLE_MODEL, (int)QUIPU_MEMORY_FIND_RETIRED, (int)QUIPU_MEMORY_FIND_SCOPE,
           (int)QUIPU_MEMORY_RUN_FOLLOW, (int)QUIPU_MEMORY_RUN_EMBED_ONLY, (int)QUIPU_MEMORY_SET_CONTENT, (int)QUIPU_MEMORY_SET_PRIORITY,
           (int)QUIPU_MEMORY_SET_SUBJECT, (int)QUIPU_MEMORY_SET_RETIRED, (int)QUIPU_CONTEXT_LOG,
           (int)QUIPU_CONTEXT_AS_BEFORE, QUIPU_PART_TEXT, QUIPU_PART_THOUGHT, QUIPU_PART_CALL,
           QUIPU_PART_RESPONSE, QUIPU_PART_DATA, QUIPU_REFLECTION, QUIPU_PRIORITY_STANDING,
           QUIPU_PRIORITY_DONE, QUIPU_CONTEXT_REASON_PAYS);
    printf(" %d %d %d %d", QUIPU_ROLE_SYSTEM, QUIPU_DELTA_TEXT, QUIPU_DELTA_FINISH,
           QUIPU_FINISH_STOP);
    printf(" %d %d %d %d %d %d %d %d %d %d %d %d %d\n", (int)QUIPU_RANGE_HEADER, (int)QUIPU_RANGE_LAST,
           (int)QUIPU_RANGE_VIEW, (int)QUIPU_APPEND_CREATE, (int)QUIPU_WINDOW_CUT, (int)QUIPU_LIST_OLDEST_FIRST,
           (int)QUIPU_LIST_EXPIRED, (int)QUIPU_USAGE_BY_SESSION, (int)QUIPU_USAGE_BY_MODEL,
           (int)QUIPU_USAGE_BY_DAY, (int)QUIPU_ERASE_QUICK, (int)QUIPU_ROLE_SYSTEM, (int)QUIPU_MARK_TIMEOUT);
    return 0;
}
`
