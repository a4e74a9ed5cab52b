package quipu

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/adk/v2/platform"
	"google.golang.org/adk/v2/session"
	"google.golang.org/genai"
)

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("this system has no /proc/self/fd to count descriptors in")
	}
	return len(entries)
}

// closeHoldingSessions opens and closes a store so many times, while what its sessions hold is kept.
func closeHoldingSessions(t *testing.T, uri string, rounds int) {
	t.Helper()
	var held []session.Session
	before := descriptors(t)
	for i := range rounds {
		store, service := openService(t, uri, ServiceOptions{})
		live := create(t, service, fmt.Sprint(i))
		mustAppend(t, service, live, say("here"))
		held = append(held, live)
		if err := errors.Join(service.Close(), store.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors before %d rounds, %d after", before, rounds, after)
	}
	for _, live := range held {
		if got := texts(live); !reflect.DeepEqual(got, []string{"here"}) {
			t.Fatalf("a session that outlives its store has %q", got)
		}
	}
	runtime.KeepAlive(held)
}

func TestCloseReleasesTheFileWhileSessionsAreHeld(t *testing.T) {
	closeHoldingSessions(t, storePath(t), 50)
}

func TestEveryCallAfterCloseFailsAndWritesNothing(t *testing.T) {
	everyCallAfterCloseFails(t, storePath)
}

func TestEveryCallAfterCloseFailsAndWritesNothingToAServer(t *testing.T) {
	everyCallAfterCloseFails(t, func(t *testing.T) string { return postgres(t, "") })
}

// everyCallAfterCloseFails checks it on fresh stores; place says where they are.
func everyCallAfterCloseFails(t *testing.T, place func(t *testing.T) string) {
	for _, closed := range []string{"store", "session service"} {
		t.Run(closed, func(t *testing.T) {
			path := place(t)
			store, service := openService(t, path, ServiceOptions{})
			live := create(t, service, "s")
			listed, err := service.List(t.Context(), &session.ListRequest{AppName: "app"})
			if err != nil {
				t.Fatal(err)
			}
			if closed == "store" {
				err = store.Close()
			} else {
				err = service.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			_, created := service.Create(t.Context(), &session.CreateRequest{AppName: "app", UserID: "user"})
			_, got := service.Get(t.Context(), &session.GetRequest{AppName: "app", UserID: "user", SessionID: "s"})
			_, all := service.List(t.Context(), &session.ListRequest{AppName: "app"})
			for _, err := range []error{
				created, got, all,
				service.Delete(t.Context(), &session.DeleteRequest{AppName: "app", UserID: "user", SessionID: "s"}),
				service.AppendEvent(t.Context(), live, say("late")),
				service.AppendEvent(t.Context(), listed.Sessions[0], say("late")),
			} {
				if !errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), closed) {
					t.Errorf("a call after the %s was closed answered %v", closed, err)
				}
			}
			if err := errors.Join(service.Close(), store.Close(), service.Close(), store.Close()); err != nil {
				t.Error(err)
			}
			if again := get(t, newService(t, path, ServiceOptions{}), "s"); again.Events().Len() != 0 {
				t.Error("an append after closing was stored")
			}
		})
	}
}

const lockHolder = `
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("begin immediate")
print("held", flush=True)
sys.stdin.read()
`

// block holds the file's write lock in another process until the test calls what it returns.
func block(t *testing.T, path string) (release func()) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no Python to hold the write lock")
	}
	holder := exec.Command(python, "-c", lockHolder, path)
	input, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(output).ReadString('\n'); err != nil || line != "held\n" {
		t.Fatalf("the lock is not held: %q, %v", line, err)
	}
	return func() {
		_ = input.Close()
		_ = holder.Wait()
	}
}

func TestContextMayWaitLongerThanTheStoresDeadline(t *testing.T) {
	path := storePath(t)
	store, err := Open(path, Options{Deadline: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	service, err := NewSessionService(store, ServiceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer service.Close()
	live := create(t, service, "s")
	release := block(t, path)
	if err := service.AppendEvent(t.Context(), live, say("never")); !errors.Is(err, Busy) {
		t.Errorf("the store's own deadline answered %v", err)
	}
	time.AfterFunc(300*time.Millisecond, release)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := service.AppendEvent(ctx, live, say("waits")); err != nil {
		t.Errorf("a context of a minute answered %v", err)
	}
}

func TestContextThatEndsWhileACallWaitsSaysSo(t *testing.T) {
	path := storePath(t)
	service := newService(t, path, ServiceOptions{})
	live := create(t, service, "s")
	release := block(t, path)
	defer release()
	for _, wait := range []time.Duration{300 * time.Microsecond, 30 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		err := service.AppendEvent(ctx, live, say("never"))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a context of %v answered %v", wait, err)
		}
		cancel()
	}
}

func TestDurationBelowAMillisecondIsNotTheDefault(t *testing.T) {
	path := storePath(t)
	store, err := Open(path, Options{TTL: time.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	made, err := store.CreateSession(t.Context(), "soon gone", SessionNew{})
	if err != nil {
		t.Fatal(err)
	}
	if made.ExpiresAt.IsZero() {
		t.Error("a time to live of 1 us never ends")
	}
	hasty, err := Open(path, Options{Deadline: time.Microsecond, MustExist: true})
	if err != nil {
		t.Fatal(err)
	}
	defer hasty.Close()
	release := block(t, path)
	late := time.AfterFunc(10*time.Second, release) // the default is 30 seconds: it would succeed
	if _, err := hasty.CreateSession(context.Background(), "late", SessionNew{}); !errors.Is(err, Busy) {
		t.Errorf("a deadline of 1 us answered %v", err)
	}
	if late.Stop() {
		release()
	}
}

func TestNegativeDurationsAreRefused(t *testing.T) {
	for _, options := range []Options{{Deadline: -time.Second}, {TTL: -time.Nanosecond}} {
		if _, err := Open(storePath(t), options); !errors.Is(err, Misuse) {
			t.Errorf("%+v answered %v", options, err)
		}
	}
	store, err := Open(storePath(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := NewSessionService(store, ServiceOptions{TTL: -time.Second}); !errors.Is(err, Misuse) {
		t.Errorf("a service's negative time to live answered %v", err)
	}
}

func TestEmptyArgumentsAndResponsesStayEmptyObjects(t *testing.T) {
	service := newService(t, storePath(t), ServiceOptions{})
	live := create(t, service, "s")
	event := say("called")
	event.Content.Parts = []*genai.Part{
		{FunctionCall: &genai.FunctionCall{ID: "1", Name: "now", Args: map[string]any{}}},
		{FunctionResponse: &genai.FunctionResponse{ID: "1", Name: "now", Response: map[string]any{}}},
		{FunctionResponse: &genai.FunctionResponse{ID: "2", Name: "none"}},
	}
	mustAppend(t, service, live, event)
	for name, read := range map[string]session.Session{"live": live, "read again": get(t, service, "s")} {
		parts := read.Events().At(0).Content.Parts
		if parts[0].FunctionCall.Args == nil || parts[1].FunctionResponse.Response == nil {
			t.Errorf("%s: arguments %v, response %v", name, parts[0].FunctionCall.Args, parts[1].FunctionResponse.Response)
		}
		if parts[2].FunctionResponse.Response != nil {
			t.Errorf("%s: an absent response became %v", name, parts[2].FunctionResponse.Response)
		}
	}
}

func TestAppendedEventIsTheOneInTheSession(t *testing.T) {
	service := newService(t, storePath(t), ServiceOptions{})
	live := create(t, service, "s")
	event := say("with Go's own types")
	event.Actions.StateDelta["count"] = 7
	event.Actions.StateDelta["temp:x"] = 1
	mustAppend(t, service, live, event)
	if count := live.Events().At(0).Actions.StateDelta["count"]; count != 7 {
		t.Errorf("the live session's event has %T %v", count, count)
	}
	if _, there := live.Events().At(0).Actions.StateDelta["temp:x"]; there {
		t.Error("a temp: name stayed in the session's event")
	}
	if event.Actions.StateDelta["temp:x"] != 1 {
		t.Error("the caller's event was changed")
	}
}

func TestRebaseCatchesUpWithTheOthersState(t *testing.T) {
	service := newService(t, storePath(t), ServiceOptions{Rebase: true})
	create(t, service, "s")
	one, two := get(t, service, "s"), get(t, service, "s")
	if err := two.State().Set("mine", "not stored yet"); err != nil {
		t.Fatal(err)
	}
	event := say("first")
	event.Actions.StateDelta["theirs"] = "new"
	event.Actions.StateDelta["user:name"] = "Ada"
	mustAppend(t, service, one, event)
	own := say("second")
	own.Actions.StateDelta["own"] = "kept"
	own.Actions.StateDelta["temp:own"] = "seen"
	mustAppend(t, service, two, own)
	for name, want := range map[string]any{
		"theirs": "new", "user:name": "Ada", "own": "kept", "temp:own": "seen", "mine": "not stored yet",
	} {
		if got, err := two.State().Get(name); err != nil || got != want {
			t.Errorf("after catching up %q is %v, %v", name, got, err)
		}
	}
	if got := texts(two); !reflect.DeepEqual(got, []string{"first", "second"}) {
		t.Errorf("events after catching up: %q", got)
	}
}

func TestRebaseOntoARecreatedSessionShowsTheNewOne(t *testing.T) {
	service := newService(t, storePath(t), ServiceOptions{Rebase: true})
	live := create(t, service, "s")
	for i := range 3 {
		mustAppend(t, service, live, say(fmt.Sprint("old ", i)))
	}
	if err := service.Delete(t.Context(), &session.DeleteRequest{AppName: "app", UserID: "user", SessionID: "s"}); err != nil {
		t.Fatal(err)
	}
	create(t, service, "s")
	mustAppend(t, service, live, say("new"))
	if got := texts(live); !reflect.DeepEqual(got, []string{"new"}) {
		t.Errorf("the session has %q", got)
	}
}

func TestCreateTakesItsTimeFromTheContextsProvider(t *testing.T) {
	path := storePath(t)
	service := newService(t, path, ServiceOptions{})
	at := time.Date(2001, 2, 3, 4, 5, 6, 789000, time.UTC)
	ctx := platform.WithTimeProvider(t.Context(), func() time.Time { return at })
	made, err := service.Create(ctx, &session.CreateRequest{AppName: "app", UserID: "user", SessionID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	listed, err := service.List(t.Context(), &session.ListRequest{AppName: "app"})
	if err != nil {
		t.Fatal(err)
	}
	for name, it := range map[string]session.Session{
		"created": made.Session, "read": get(t, service, "s"), "listed": listed.Sessions[0],
	} {
		if !it.LastUpdateTime().Equal(at) {
			t.Errorf("%s: last updated %v, the provider says %v", name, it.LastUpdateTime(), at)
		}
	}
}

func TestListedSessionTakesEvents(t *testing.T) {
	service := newService(t, storePath(t), ServiceOptions{})
	live := create(t, service, "s")
	mustAppend(t, service, live, say("before"))
	list := func() session.Session {
		listed, err := service.List(t.Context(), &session.ListRequest{AppName: "app", UserID: "user"})
		if err != nil || len(listed.Sessions) != 1 {
			t.Fatal(listed, err)
		}
		return listed.Sessions[0]
	}
	one, two := list(), list()
	event := say("from the list")
	event.Actions.StateDelta["k"] = "v"
	mustAppend(t, service, one, event)
	mustAppend(t, service, one, say("once more"))
	if got := texts(one); !reflect.DeepEqual(got, []string{"from the list", "once more"}) {
		t.Errorf("the listed session has %q", got)
	}
	if value, err := one.State().Get("k"); err != nil || value != "v" {
		t.Errorf("its state has %v, %v", value, err)
	}
	if !one.LastUpdateTime().Equal(get(t, service, "s").LastUpdateTime()) {
		t.Errorf("its time is %v", one.LastUpdateTime())
	}
	if err := service.AppendEvent(t.Context(), two, say("stale")); !errors.Is(err, ErrStale) {
		t.Errorf("a stale listed session answered %v", err)
	}
	if got := texts(get(t, service, "s")); !reflect.DeepEqual(got, []string{"before", "from the list", "once more"}) {
		t.Errorf("stored: %q", got)
	}
}

func TestListedSessionThatWasRecreatedIsStale(t *testing.T) {
	service := newService(t, storePath(t), ServiceOptions{})
	create(t, service, "s")
	listed, err := service.List(t.Context(), &session.ListRequest{AppName: "app", UserID: "user"})
	if err != nil {
		t.Fatal(err)
	}
	if err := service.Delete(t.Context(), &session.DeleteRequest{AppName: "app", UserID: "user", SessionID: "s"}); err != nil {
		t.Fatal(err)
	}
	create(t, service, "s")
	if err := service.AppendEvent(t.Context(), listed.Sessions[0], say("stale")); !errors.Is(err, ErrStale) {
		t.Errorf("answered %v", err)
	}
}

func TestSecondCreateSaysThatTheSessionAlreadyExists(t *testing.T) {
	service := newService(t, storePath(t), ServiceOptions{})
	create(t, service, "s")
	_, err := service.Create(t.Context(), &session.CreateRequest{AppName: "app", UserID: "user", SessionID: "s"})
	if !errors.Is(err, Exists) || !strings.Contains(err.Error(), "session s already exists") {
		t.Errorf("answered %v", err)
	}
}

func TestNumbersThatGoCannotHoldAreKept(t *testing.T) {
	path := storePath(t)
	service := newService(t, path, ServiceOptions{})
	const beyond = int64(1)<<53 + 1
	made, err := service.Create(t.Context(), &session.CreateRequest{
		AppName: "app", UserID: "user", SessionID: "s",
		State: map[string]any{
			"id": beyond, "huge": json.Number("1e400"), "deep": []any{map[string]any{"id": -beyond}},
			"largest": beyond - 1, "half": 0.5, "text": "9007199254740993", "list": []any{1, 2},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	event := say("numbers")
	event.Content.Parts = append(event.Content.Parts, &genai.Part{FunctionCall: &genai.FunctionCall{
		Name: "find", Args: map[string]any{"id": beyond, "n": 3, "huge": json.Number("-2E+999")},
	}})
	event.Actions.StateDelta["last"] = beyond
	event.CustomMetadata = map[string]any{"ids": []any{beyond}}
	mustAppend(t, service, made.Session, event)

	listed, err := service.List(t.Context(), &session.ListRequest{AppName: "app"})
	if err != nil {
		t.Fatal(err)
	}
	again := get(t, service, "s")
	kept := json.Number("9007199254740993")
	for name, read := range map[string]session.Session{"listed": listed.Sessions[0], "read": again} {
		want := map[string]any{
			"id": kept, "huge": json.Number("1e400"),
			"deep":    []any{map[string]any{"id": json.Number("-9007199254740993")}},
			"largest": float64(beyond - 1), "half": 0.5, "text": "9007199254740993",
			"list": []any{1.0, 2.0}, "last": kept,
		}
		for key, value := range want {
			if got, err := read.State().Get(key); err != nil || !reflect.DeepEqual(got, value) {
				t.Errorf("%s: %q is %T %v, %v", name, key, got, got, err)
			}
		}
	}
	stored := again.Events().At(0)
	args := stored.Content.Parts[1].FunctionCall.Args
	if args["id"] != kept || args["n"] != 3.0 || args["huge"] != json.Number("-2E+999") {
		t.Errorf("arguments came back as %v (%s)", args, stored.ErrorMessage)
	}
	if got := stored.CustomMetadata["ids"]; !reflect.DeepEqual(got, []any{kept}) {
		t.Errorf("metadata came back as %v", got)
	}
	if stored.Actions.StateDelta["last"] != kept {
		t.Errorf("the delta came back as %v", stored.Actions.StateDelta)
	}
}
