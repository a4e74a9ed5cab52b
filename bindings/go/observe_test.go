package quipu

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/adk/v2/session"
	"google.golang.org/genai"
)

// talk is a store with a session of Ada's, whose key it returns, and what she said in it.
func talk(t *testing.T, texts ...string) (*Store, *SessionService, session.Session, string) {
	t.Helper()
	store, err := Open(filepath.Join(t.TempDir(), "a.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	service, err := NewSessionService(store, ServiceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = service.Close()
		_ = store.Close()
	})
	made := said(t, service, "ada", texts...)
	return store, service, made, "adk:app/ada/" + made.ID()
}

func memories(t *testing.T, store *Store, query MemoryQuery) []Memory {
	t.Helper()
	found, err := store.Memories(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestWorkerObservesWhatWasSaidOnce(t *testing.T) {
	store, _, _, name := talk(t, "Always answer in French.", "It rains.")
	ran, err := store.RunMemory(t.Context(), WorkerOptions{AppName: "app", UserID: "ada"})
	if err != nil || ran.Messages != 2 || ran.Observations != 1 {
		t.Fatalf("%+v %v", ran, err)
	}
	again, err := store.RunMemory(t.Context(), WorkerOptions{})
	if err != nil || again.Messages != 0 {
		t.Fatalf("%+v %v", again, err)
	}
	found := memories(t, store, MemoryQuery{Kind: Observation, SessionKey: name})
	if len(found) != 1 || found[0].Content != "Always answer in French." ||
		found[0].Priority != Standing || found[0].SourceStart != 1 || found[0].Times != 1 ||
		found[0].Scope != "adk:app/ada/" || found[0].SaidAt.IsZero() || found[0].CreatedAt.IsZero() {
		t.Fatalf("%+v", found)
	}
	status, more, err := store.MemoryStatus(t.Context(), WorkerOptions{SessionKey: name})
	if err != nil || more || len(status) != 1 || status[0].Watermark != 2 ||
		status[0].PendingMessages != 0 || status[0].Generation != 1 || status[0].Observations != 1 {
		t.Fatalf("%+v %v", status, err)
	}
	if _, err := store.RunMemory(t.Context(), WorkerOptions{SessionKey: "nobody"}); !errors.Is(err, NotFound) {
		t.Fatalf("%v", err)
	}
	if _, err := store.RunMemory(t.Context(), WorkerOptions{Lease: -1}); !errors.Is(err, Misuse) {
		t.Fatalf("%v", err)
	}
}

func TestMemoryIsSavedCorrectedRetiredAndDeleted(t *testing.T) {
	store, _, _, name := talk(t)
	when := time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC)
	saved, err := store.SaveMemory(t.Context(), Memory{
		Kind: Observation, SessionKey: name, Content: "I live in Rome.", Priority: High,
		Subject: "home", SaidAt: when, SourceStart: 3, SourceEnd: 4, Origin: "test/1",
	})
	if err != nil || saved.ID == (MemoryID{}) || !saved.SaidAt.Equal(when) || saved.Subject != "home" ||
		saved.SourceEnd != 4 || saved.Origin != "test/1" || len(saved.ID.String()) != 36 {
		t.Fatalf("%+v %v", saved, err)
	}
	oslo := "I live in Oslo."
	edited, err := store.UpdateMemory(t.Context(), MemoryPatch{
		Kind: Observation, ID: saved.ID, Content: &oslo, Who: "Bo", Why: "she moved",
	})
	if err != nil || edited.Content != oslo || edited.EditedBy != "Bo" || edited.EditedWhy != "she moved" {
		t.Fatalf("%+v %v", edited, err)
	}
	newer, err := store.SaveMemory(t.Context(), Memory{
		Kind: Observation, SessionKey: name, Content: "I live in Bergen.", Supersedes: saved.ID,
	})
	if err != nil || newer.Supersedes != saved.ID {
		t.Fatalf("%+v %v", newer, err)
	}
	if _, err := store.UpdateMemory(t.Context(), MemoryPatch{Kind: Observation, ID: newer.ID, Retire: true,
		Why: "enough"}); err != nil {
		t.Fatal(err)
	}
	if active := memories(t, store, MemoryQuery{Kind: Observation, SessionKey: name}); len(active) != 0 {
		t.Fatalf("%+v", active)
	}
	all := memories(t, store, MemoryQuery{Kind: Observation, SessionKey: name, Retired: true, Scope: true})
	if len(all) != 2 || all[1].RetiredWhy != "enough" || all[0].RetiredAt.IsZero() {
		t.Fatalf("%+v", all)
	}
	removed, err := store.DeleteMemories(t.Context(), MemoryQuery{Kind: Observation,
		IDs: []MemoryID{saved.ID, newer.ID}})
	if err != nil || removed != 2 {
		t.Fatalf("%d %v", removed, err)
	}
	if _, err := store.UpdateMemory(t.Context(), MemoryPatch{Kind: Observation, ID: newer.ID, Retire: true}); !errors.Is(err, NotFound) {
		t.Fatalf("%v", err)
	}
	if _, err := store.SaveMemory(t.Context(), Memory{Kind: 7, SessionKey: name, Content: "x"}); !errors.Is(err, Misuse) {
		t.Fatalf("%v", err)
	}
}

func TestPromptBeginsWithTheOneBeforeAndHasWhatIsKnown(t *testing.T) {
	store, service, made, name := talk(t, "Always answer in French.")
	if _, err := store.RunMemory(t.Context(), WorkerOptions{}); err != nil {
		t.Fatal(err)
	}
	options := PromptOptions{
		System: "Be kind.", Model: "gemini-2.5-flash", Provider: "gemini", Log: true,
		Tools: []*genai.FunctionDeclaration{{Name: "find", Description: "finds",
			ParametersJsonSchema: map[string]any{"type": "object"}}},
	}
	first, err := store.Prompt(t.Context(), name, options)
	if err != nil || first.Reason != "first" || len(first.Contents) != 1 ||
		first.System.Parts[0].Text != "Be kind." || !strings.Contains(string(first.Tools), `"find"`) {
		t.Fatalf("%+v %v", first, err)
	}
	event := session.NewEvent(t.Context(), "i")
	event.Author = "agent"
	event.LLMResponse.Content = &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{
		{FunctionCall: &genai.FunctionCall{ID: "c1", Name: "find", Args: map[string]any{"n": 1.0}}}}}
	if err := service.AppendEvent(t.Context(), made, event); err != nil {
		t.Fatal(err)
	}
	event = session.NewEvent(t.Context(), "i")
	event.Author = "agent"
	event.LLMResponse.Content = &genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{
		{FunctionResponse: &genai.FunctionResponse{ID: "c1", Name: "find",
			Response: map[string]any{"ok": true}}}}}
	if err := service.AppendEvent(t.Context(), made, event); err != nil {
		t.Fatal(err)
	}
	appendText(t, service, made, "And now?")
	options.Usage, options.ReportedInput, options.ReportedCached = true, 50, 40
	second, err := store.Prompt(t.Context(), name, options)
	if err != nil || second.Reason != "" || second.PrefixHash != first.PromptHash || len(second.Contents) != 4 {
		t.Fatalf("%+v %v", second, err)
	}
	call, result := second.Contents[1].Parts[0].FunctionCall, second.Contents[2].Parts[0].FunctionResponse
	if call == nil || call.ID != "c1" || call.Args["n"] != 1.0 || result == nil || result.Response["ok"] != true {
		t.Fatalf("%+v %+v", call, result)
	}
	all := second.Block + second.Tail
	for _, content := range second.Contents {
		all += content.Parts[0].Text
	}
	if !strings.Contains(all, "- Always answer in French.") {
		t.Fatalf("nothing is known in %q", all)
	}
	past, err := store.Prompt(t.Context(), name, PromptOptions{At: first.LastSeq})
	if err != nil || !past.Exact || past.PromptHash != first.PromptHash || past.ReportedInput != 50 ||
		past.ReportedCached != 40 || past.Model != "gemini-2.5-flash" {
		t.Fatalf("%+v %v", past, err)
	}
	if _, err := store.Prompt(t.Context(), "nobody", PromptOptions{}); !errors.Is(err, NotFound) {
		t.Fatalf("%v", err)
	}
}

// until waits for something that a worker does beside the program.
func until(t *testing.T, holds func() bool) {
	t.Helper()
	for !holds() {
		select {
		case <-t.Context().Done():
			t.Fatal("it never held")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func TestWorkerBesideTheProgramObservesUntilItIsStopped(t *testing.T) {
	store, service, made, name := talk(t)
	if err := store.StartMemory(WorkerOptions{Name: "beside"}); err != nil {
		t.Fatal(err)
	}
	if err := store.StartMemory(WorkerOptions{}); !errors.Is(err, Exists) {
		t.Fatalf("%v", err)
	}
	appendText(t, service, made, "I prefer trains.")
	until(t, func() bool {
		return len(memories(t, store, MemoryQuery{Kind: Observation, SessionKey: name})) == 1
	})
	ran, err := store.StopMemory()
	if err != nil || ran.Observations != 1 || ran.Messages != 1 {
		t.Fatalf("%+v %v", ran, err)
	}
	if ran, err := store.StopMemory(); err != nil || ran.Messages != 0 {
		t.Fatalf("%+v %v", ran, err)
	}
	// Closing the store stops one, too.
	if err := store.StartMemory(WorkerOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := store.StartMemory(WorkerOptions{}); !errors.Is(err, ErrClosed) {
		t.Fatalf("%v", err)
	}
}

func TestWorkerThatFollowsEndsWithItsContext(t *testing.T) {
	store, service, made, name := talk(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan MemoryRan)
	go func() {
		ran, err := store.FollowMemory(ctx, WorkerOptions{})
		if err != nil {
			t.Error(err)
		}
		ended <- ran
	}()
	appendText(t, service, made, "I prefer trains.")
	until(t, func() bool {
		return len(memories(t, store, MemoryQuery{Kind: Observation, SessionKey: name})) == 1
	})
	cancel()
	if ran := <-ended; ran.Observations != 1 {
		t.Fatalf("%+v", ran)
	}
	if _, err := store.FollowMemory(context.Background(), WorkerOptions{}); !errors.Is(err, Misuse) {
		t.Fatalf("%v", err)
	}
}
