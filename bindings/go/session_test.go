package quipu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"sync"
	"testing"
	"time"

	"google.golang.org/adk/v2/platform"
	"google.golang.org/adk/v2/session"
	"google.golang.org/genai"
)

func storePath(t *testing.T) string {
	return filepath.Join(t.TempDir(), "agents.db")
}

func say(text string) *session.Event {
	event := session.NewEvent(context.Background(), "inv")
	event.Author = "agent"
	event.Content = genai.NewContentFromText(text, genai.RoleModel)
	return event
}

func create(t *testing.T, service session.Service, id string) session.Session {
	t.Helper()
	made, err := service.Create(t.Context(), &session.CreateRequest{AppName: "app", UserID: "user", SessionID: id})
	if err != nil {
		t.Fatal(err)
	}
	return made.Session
}

func get(t *testing.T, service session.Service, id string) session.Session {
	t.Helper()
	found, err := service.Get(t.Context(), &session.GetRequest{AppName: "app", UserID: "user", SessionID: id})
	if err != nil {
		t.Fatal(err)
	}
	return found.Session
}

func mustAppend(t *testing.T, service session.Service, to session.Session, event *session.Event) {
	t.Helper()
	if err := service.AppendEvent(t.Context(), to, event); err != nil {
		t.Fatal(err)
	}
}

func texts(of session.Session) (all []string) {
	for event := range of.Events().All() {
		all = append(all, event.Content.Parts[0].Text)
	}
	return all
}

func TestConversationSurvivesARestart(t *testing.T) {
	path := storePath(t)
	first := newService(t, path, ServiceOptions{})
	live := create(t, first, "s")
	event := say("remember me")
	event.Actions.StateDelta["user:name"] = "Ada"
	mustAppend(t, first, live, event)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again := get(t, newService(t, path, ServiceOptions{}), "s")
	if got := texts(again); !reflect.DeepEqual(got, []string{"remember me"}) {
		t.Errorf("events after the restart: %q", got)
	}
	if name, err := again.State().Get("user:name"); err != nil || name != "Ada" {
		t.Errorf("state after the restart: %v, %v", name, err)
	}
}

func TestSecondWriterGetsATypedStaleError(t *testing.T) {
	service := newService(t, storePath(t), ServiceOptions{})
	create(t, service, "s")
	one, two := get(t, service, "s"), get(t, service, "s")
	mustAppend(t, service, one, say("first"))
	err := service.AppendEvent(t.Context(), two, say("second"))
	if !errors.Is(err, ErrStale) || !errors.Is(err, Conflict) {
		t.Fatalf("a stale append answered %v", err)
	}
	if two.Events().Len() != 0 {
		t.Error("the failed event is in the session")
	}
	if got := texts(get(t, service, "s")); !reflect.DeepEqual(got, []string{"first"}) {
		t.Errorf("stored: %q", got)
	}
}

func TestRebaseAppendsBehindTheOthersAndCatchesUp(t *testing.T) {
	service := newService(t, storePath(t), ServiceOptions{Rebase: true})
	create(t, service, "s")
	one, two := get(t, service, "s"), get(t, service, "s")
	mustAppend(t, service, one, say("first"))
	mustAppend(t, service, two, say("second"))
	if got := texts(two); !reflect.DeepEqual(got, []string{"first", "second"}) {
		t.Errorf("the session that caught up has %q", got)
	}
}

func TestTempStateStaysInTheEventAndInTheSessionOnly(t *testing.T) {
	service := newService(t, storePath(t), ServiceOptions{})
	live := create(t, service, "s")
	event := say("hello")
	event.Actions.StateDelta["temp:plan"] = "secret"
	event.Actions.StateDelta["kept"] = true
	mustAppend(t, service, live, event)
	if event.Actions.StateDelta["temp:plan"] != "secret" {
		t.Error("the caller's event was changed")
	}
	if value, err := live.State().Get("temp:plan"); err != nil || value != "secret" {
		t.Errorf("temp state in the session: %v, %v", value, err)
	}
	again := get(t, service, "s")
	if _, err := again.State().Get("temp:plan"); !errors.Is(err, session.ErrStateKeyNotExist) {
		t.Errorf("temp state after a reload: %v", err)
	}
	if value, err := again.State().Get("kept"); err != nil || value != true {
		t.Errorf("kept state after a reload: %v, %v", value, err)
	}
	if _, there := again.Events().At(0).Actions.StateDelta["temp:plan"]; there {
		t.Error("temp state was stored with the event")
	}
}

func TestCreateTakesItsIdFromTheContextsProvider(t *testing.T) {
	service := newService(t, storePath(t), ServiceOptions{})
	ctx := platform.WithUUIDProvider(t.Context(), func() string { return "fixed" })
	made, err := service.Create(ctx, &session.CreateRequest{AppName: "app", UserID: "user"})
	if err != nil || made.Session.ID() != "fixed" {
		t.Fatalf("created %v, %v", made, err)
	}
}

func TestErrorsHaveACodeAndASentence(t *testing.T) {
	service := newService(t, storePath(t), ServiceOptions{})
	create(t, service, "s")
	_, err := service.Create(t.Context(), &session.CreateRequest{AppName: "app", UserID: "user", SessionID: "s"})
	var failure *Error
	if !errors.Is(err, Exists) || !errors.As(err, &failure) || failure.Message == "" {
		t.Errorf("a second create answered %v", err)
	}
	_, err = service.Get(t.Context(), &session.GetRequest{AppName: "app", UserID: "user", SessionID: "none"})
	if !errors.Is(err, NotFound) {
		t.Errorf("a missing session answered %v", err)
	}
	if _, err = Open(filepath.Join(t.TempDir(), "none.db"), Options{MustExist: true}); !errors.Is(err, NotFound) {
		t.Errorf("a missing file answered %v", err)
	}
}

func TestCancelledContextWritesNothing(t *testing.T) {
	service := newService(t, storePath(t), ServiceOptions{})
	live := create(t, service, "s")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := service.AppendEvent(ctx, live, say("never")); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled append answered %v", err)
	}
	if live.Events().Len() != 0 || get(t, service, "s").Events().Len() != 0 {
		t.Error("the cancelled event is there")
	}
}

func TestGoroutinesShareOneSessionAndLoseNothing(t *testing.T) {
	service := newService(t, storePath(t), ServiceOptions{})
	live := create(t, service, "s")
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 25 {
				if err := service.AppendEvent(t.Context(), live, say(fmt.Sprintf("%d-%d", g, i))); err != nil {
					t.Error(err)
				}
				_ = live.Events().At(live.Events().Len() - 1)
			}
		})
	}
	all.Wait()
	seen := map[string]bool{}
	next := map[int]int{}
	for _, text := range texts(get(t, service, "s")) {
		var g, i int
		if _, err := fmt.Sscanf(text, "%d-%d", &g, &i); err != nil || seen[text] || next[g] != i {
			t.Fatalf("event %q out of order or twice", text)
		}
		seen[text] = true
		next[g]++
	}
	if len(seen) != 200 {
		t.Errorf("%d events of 200", len(seen))
	}
}

// The child of TestProcessesShareOneFile.
func TestMain(m *testing.M) {
	path := os.Getenv("QUIPU_TEST_WRITER")
	if path == "" {
		os.Exit(m.Run())
	}
	store, err := Open(path, Options{Relaxed: true})
	if err == nil {
		err = write(store, os.Getenv("QUIPU_TEST_NAME"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const writes = 50

func write(store *Store, name string) error {
	service, err := NewSessionService(store, ServiceOptions{Rebase: true})
	if err != nil {
		return err
	}
	ctx := context.Background()
	found, err := service.Get(ctx, &session.GetRequest{AppName: "app", UserID: "user", SessionID: "s", NumRecentEvents: 1})
	if err != nil {
		return err
	}
	for i := range writes {
		if err := service.AppendEvent(ctx, found.Session, say(fmt.Sprintf("%s-%d", name, i))); err != nil {
			return err
		}
	}
	return errors.Join(service.Close(), store.Close())
}

func TestProcessesShareOneFile(t *testing.T) {
	path := storePath(t)
	service := newService(t, path, ServiceOptions{})
	create(t, service, "s")
	var writers []*exec.Cmd
	for i := range 4 {
		writer := exec.Command(os.Args[0])
		writer.Env = append(os.Environ(), "QUIPU_TEST_WRITER="+path, fmt.Sprintf("QUIPU_TEST_NAME=%d", i))
		writer.Stderr = os.Stderr
		if err := writer.Start(); err != nil {
			t.Fatal(err)
		}
		writers = append(writers, writer)
	}
	for _, writer := range writers {
		if err := writer.Wait(); err != nil {
			t.Error(err)
		}
	}
	if n := get(t, service, "s").Events().Len(); n != 4*writes {
		t.Errorf("%d events of %d", n, 4*writes)
	}
}

func TestEveryFieldOfAnEventComesBack(t *testing.T) {
	service := newService(t, storePath(t), ServiceOptions{})
	live := create(t, service, "s")
	event := say("all of it")
	event.Branch = "root.sub"
	event.ModelVersion = "model-1"
	event.FinishReason = genai.FinishReasonStop
	event.AvgLogprobs = -0.25
	event.LongRunningToolIDs = []string{"call-1"}
	event.UsageMetadata = &genai.GenerateContentResponseUsageMetadata{PromptTokenCount: 7, TotalTokenCount: 9}
	event.CustomMetadata = map[string]any{"odd": []any{nil, 1.5, "\u0000"}}
	event.Content.Parts = append(event.Content.Parts,
		&genai.Part{FunctionCall: &genai.FunctionCall{ID: "call-1", Name: "find", Args: map[string]any{"q": "x"}}},
		&genai.Part{Text: "thinking", Thought: true, ThoughtSignature: []byte{0, 255, 62, 63}})
	event.Timestamp = time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
	mustAppend(t, service, live, event)
	want, err := json.Marshal(event)
	if err != nil {
		t.Fatal(err)
	}
	for _, read := range []session.Session{live, get(t, service, "s")} {
		got, err := json.Marshal(read.Events().At(0))
		if err != nil || string(got) != string(want) {
			t.Errorf("came back as\n%s, %v\nwent in as\n%s", got, err, want)
		}
	}
}

func TestSessionsThatNobodyHoldsAreFreed(t *testing.T) {
	service := newService(t, storePath(t), ServiceOptions{})
	create(t, service, "s")
	for range 200 {
		get(t, service, "s")
	}
	held := math.MaxInt
	for range 100 {
		runtime.GC()
		time.Sleep(time.Millisecond)
		held = int(service.refs.Load()) - 1
		if held == 0 {
			return
		}
	}
	t.Errorf("%d sessions are still held", held)
}

func TestReadSessionOutlivesTheService(t *testing.T) {
	store, service := openService(t, storePath(t), ServiceOptions{})
	live := create(t, service, "s")
	mustAppend(t, service, live, say("still here"))
	if err := errors.Join(service.Close(), store.Close()); err != nil {
		t.Fatal(err)
	}
	if got := texts(live); !reflect.DeepEqual(got, []string{"still here"}) {
		t.Errorf("after closing: %q", got)
	}
	if _, err := service.Get(t.Context(), &session.GetRequest{AppName: "app", UserID: "user", SessionID: "s"}); err == nil {
		t.Error("a closed service answers")
	}
}
