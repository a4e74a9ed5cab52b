package adk1

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"google.golang.org/adk/model"
	"google.golang.org/adk/session"
	"google.golang.org/adk/session/session_test"
	"google.golang.org/adk/tool/toolconfirmation"
	session2 "google.golang.org/adk/v2/session"
	"google.golang.org/genai"

	quipu "quipu/bindings/go"
)

func open(t *testing.T, path string) *SessionService {
	t.Helper()
	store, err := quipu.Open(path, quipu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	service, err := NewSessionService(store, quipu.ServiceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(service.Close(), store.Close()) })
	return service
}

func TestVersion1sOwnSuite(t *testing.T) {
	options := session_test.SuiteOptions{SupportsUserProvidedSessionID: true}
	session_test.RunServiceTests(t, options, func(t *testing.T) session.Service {
		return open(t, filepath.Join(t.TempDir(), "agents.db"))
	})
}

// full is an event with every member of version 1's set.
func full() *session.Event {
	event := session.NewEvent("inv")
	event.LLMResponse = model.LLMResponse{
		Content:          genai.NewContentFromText("hello", genai.RoleModel),
		CitationMetadata: &genai.CitationMetadata{Citations: []*genai.Citation{{Title: "t"}}},
		GroundingMetadata: &genai.GroundingMetadata{
			WebSearchQueries: []string{"q"},
		},
		UsageMetadata:      &genai.GenerateContentResponseUsageMetadata{PromptTokenCount: 3},
		CustomMetadata:     map[string]any{"a": "b"},
		LogprobsResult:     &genai.LogprobsResult{ChosenCandidates: []*genai.LogprobsResultCandidate{{Token: "x"}}},
		InputTranscription: &genai.Transcription{Text: "in"}, OutputTranscription: &genai.Transcription{Text: "out"},
		ModelVersion: "m", TurnComplete: true, Interrupted: true, SessionResumptionHandle: "h",
		ErrorCode: "c", ErrorMessage: "e", FinishReason: "STOP", AvgLogprobs: -0.5,
	}
	event.Timestamp = time.Date(2026, 3, 1, 12, 0, 0, 1000, time.UTC)
	event.Author, event.Branch, event.LongRunningToolIDs = "bot", "a.b", []string{"call"}
	event.Actions = session.EventActions{
		StateDelta: map[string]any{"k": "v"}, ArtifactDelta: map[string]int64{"f": 2},
		RequestedToolConfirmations: map[string]toolconfirmation.ToolConfirmation{"c": {Hint: "sure?", Confirmed: true}},
		SkipSummarization:          true, TransferToAgent: "other", Escalate: true,
	}
	return event
}

func TestEveryMemberOfAVersion1EventComesBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agents.db")
	ctx, event := context.Background(), full()
	for _, of := range []reflect.Value{reflect.ValueOf(event).Elem(), reflect.ValueOf(event.LLMResponse), reflect.ValueOf(event.Actions)} {
		for i := range of.NumField() {
			if name := of.Type().Field(i).Name; of.Field(i).IsZero() && name != "Partial" {
				t.Fatalf("%s is not set: this test has to", name)
			}
		}
	}
	service := open(t, path)
	made, err := service.Create(ctx, &session.CreateRequest{AppName: "app", UserID: "user", SessionID: "s", State: map[string]any{"user:x": 1.5}})
	if err != nil {
		t.Fatal(err)
	}
	if err := service.AppendEvent(ctx, made.Session, event); err != nil {
		t.Fatal(err)
	}
	if made.Session.Events().At(0) != event {
		t.Error("the session does not have the event that was appended")
	}
	got, err := open(t, path).Get(ctx, &session.GetRequest{AppName: "app", UserID: "user", SessionID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	read := got.Session.Events().At(0)
	if !reflect.DeepEqual(read, event) {
		t.Errorf("%+v came back, not %+v", read, event)
	}
	if got.Session.Events().At(0) != read || got.Session.Events().At(1) != nil || got.Session.Events().At(-1) != nil {
		t.Error("an event is not itself, or there is one too many")
	}
	if _, err := got.Session.State().Get("none"); !errors.Is(err, session.ErrStateKeyNotExist) {
		t.Errorf("a missing name answered %v", err)
	}
}

func TestBothVersionsShareASession(t *testing.T) {
	path, ctx := filepath.Join(t.TempDir(), "agents.db"), context.Background()
	store, err := quipu.Open(path, quipu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	two, err := quipu.NewSessionService(store, quipu.ServiceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer two.Close()
	made, err := two.Create(ctx, &session2.CreateRequest{AppName: "app", UserID: "user", SessionID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	event := session2.NewEvent(ctx, "inv")
	event.Author, event.Output = "bot", "what version 1 has no member for"
	event.Content = genai.NewContentFromText("from version 2", genai.RoleModel)
	if err := two.AppendEvent(ctx, made.Session, event); err != nil {
		t.Fatal(err)
	}
	one := open(t, path)
	got, err := one.Get(ctx, &session.GetRequest{AppName: "app", UserID: "user", SessionID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	if text := got.Session.Events().At(0).Content.Parts[0].Text; text != "from version 2" {
		t.Errorf("version 1 reads %q", text)
	}
	answer := session.NewEvent("inv")
	answer.Content = genai.NewContentFromText("from version 1", genai.RoleUser)
	if err := one.AppendEvent(ctx, got.Session, answer); err != nil {
		t.Fatal(err)
	}
	if err := two.AppendEvent(ctx, made.Session, session2.NewEvent(ctx, "late")); !errors.Is(err, quipu.ErrStale) {
		t.Errorf("a stale session of version 2 answered %v", err)
	}
	again, err := two.Get(ctx, &session2.GetRequest{AppName: "app", UserID: "user", SessionID: "s"})
	if err != nil || again.Session.Events().Len() != 2 || again.Session.Events().At(0).Output != event.Output {
		t.Errorf("version 2 reads %v, %v", again, err)
	}
}

func TestSessionsOfOtherServicesAndNothingAreRefused(t *testing.T) {
	ctx, service := context.Background(), open(t, filepath.Join(t.TempDir(), "agents.db"))
	made, err := session.InMemoryService().Create(ctx, &session.CreateRequest{AppName: "a", UserID: "u"})
	if err != nil {
		t.Fatal(err)
	}
	if err := service.AppendEvent(ctx, made.Session, full()); err == nil {
		t.Error("a session of another service took an event")
	}
	if err := service.AppendEvent(ctx, nil, nil); err == nil {
		t.Error("nothing took nothing")
	}
	_, create := service.Create(ctx, nil)
	_, get := service.Get(ctx, nil)
	_, list := service.List(ctx, nil)
	for _, err := range []error{create, get, list, service.Delete(ctx, nil)} {
		if err == nil {
			t.Error("a request that is nil was accepted")
		}
	}
}
