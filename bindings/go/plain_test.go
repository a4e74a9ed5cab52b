package quipu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func plainStore(t *testing.T) *Store {
	t.Helper()
	return fieldsStore(t)
}

// put appends messages, and makes the session.
func put(t *testing.T, store *Store, name string, messages ...Message) Appended {
	t.Helper()
	made, err := store.Append(t.Context(), name, AppendOptions{Create: true}, messages...)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func contents(messages []Message) (all []string) {
	for _, one := range messages {
		all = append(all, one.Content)
	}
	return all
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s is %#v, not %#v", what, got, want)
	}
}

func TestEveryMemberOfAMessageComesBack(t *testing.T) {
	store := plainStore(t)
	output := ""
	sent := Message{
		Role: RoleAssistant, Content: "a\x00b, größer", Author: "bot", Branch: "a.b",
		Timestamp: time.Date(2026, 3, 1, 12, 30, 0, 123456789, time.UTC), EventID: "e1",
		InvocationID: "inv", Extra: []byte(`{"a":[1,2]}`), Mark: MarkTimeout,
		Calls: []ToolCall{
			{ID: "c1", Name: "search", Input: `{"q":"x"}`, Thought: true, ThoughtSignature: []byte{0, 1, 255}},
			{ID: "c1", Name: "search", Output: &output},
		},
		Model: "m-1", PromptTokens: 10, CachedTokens: 4, AnswerTokens: 3,
	}
	made := put(t, store, "talk", sent)
	same(t, "what was appended", made.FirstSeq, int64(1))
	got, err := store.Get(t.Context(), "talk", Range{})
	if err != nil {
		t.Fatal(err)
	}
	sent.Seq, sent.Tokens, sent.TokensTotal = 1, got.Messages[0].Tokens, got.Messages[0].TokensTotal
	same(t, "the message", got.Messages, []Message{sent})
	same(t, "the session's count", got.Session.MessageCount, int64(1))
	again := put(t, store, "talk", sent)
	same(t, "the repeat", again.Repeated, true)
}

func TestRangesReadPagesAndTheNewest(t *testing.T) {
	store := plainStore(t)
	for _, text := range []string{"a", "b", "c", "d"} {
		put(t, store, "talk", Say(RoleUser, text))
	}
	for _, one := range []struct {
		which  Range
		want   string
		before bool
		after  bool
	}{
		{Range{}, "abcd", false, false},
		{Range{Limit: 2, Last: true}, "cd", true, false},
		{Range{After: 1, Limit: 2}, "bc", true, true},
		{Range{Before: 3}, "ab", false, true},
	} {
		got, err := store.Get(t.Context(), "talk", one.which)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(contents(got.Messages), "")
		same(t, fmt.Sprint(one.which), []any{text, got.MoreBefore, got.MoreAfter}, []any{one.want, one.before, one.after})
	}
}

func TestAppendsCheckTheRevisionAndChangeSettingsAndState(t *testing.T) {
	store := plainStore(t)
	first := put(t, store, "talk", Say(RoleUser, "hi"))
	old := first.Revision - 1
	_, err := store.Append(t.Context(), "talk", AppendOptions{IfRevision: &old}, Say(RoleUser, "late"))
	if !errors.Is(err, Conflict) {
		t.Errorf("an old revision answered %v", err)
	}
	title := "A talk"
	made, err := store.Append(t.Context(), "talk", AppendOptions{
		IfRevision: &first.Revision, Settings: &SessionPatch{Title: &title}, State: map[string]any{"mood": "good"},
	}, Say(RoleAssistant, "hello"))
	if err != nil {
		t.Fatal(err)
	}
	session, err := store.Session(t.Context(), "talk")
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the session", []any{session.Title, session.Revision, session.MessageCount}, []any{title, made.Revision, int64(2)})
	state, err := store.State(t.Context(), "talk")
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the state", state, map[string]any{"mood": "good"})
}

func TestAMissingSessionIsNotMadeUnlessAsked(t *testing.T) {
	store := plainStore(t)
	if _, err := store.Append(t.Context(), "none", AppendOptions{}, Say(RoleUser, "hi")); !errors.Is(err, NotFound) {
		t.Errorf("an append answered %v", err)
	}
	if _, err := store.Append(t.Context(), "none", AppendOptions{Create: true}); !errors.Is(err, Misuse) {
		t.Errorf("an append of nothing answered %v", err)
	}
	for _, role := range []Role{0, 7, -1} {
		_, err := store.Append(t.Context(), "none", AppendOptions{Create: true}, Say(role, "hi"))
		if !errors.Is(err, Invalid) {
			t.Errorf("role %d answered %v", role, err)
		}
	}
}

func TestWindowsForksAndCompactions(t *testing.T) {
	ctx, store := t.Context(), plainStore(t)
	for i := range 20 {
		put(t, store, "talk", Say(RoleUser, fmt.Sprintf("question %d %s", i, strings.Repeat("word ", 40))), Say(RoleAssistant, "answer"))
	}
	window, err := store.Window(ctx, "talk", 200, WindowOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !window.MoreBefore || window.Tokens > 200 || len(window.Messages) == 0 || window.Messages[0].Role != RoleUser {
		t.Errorf("a window of 200 tokens has %d, %d messages", window.Tokens, len(window.Messages))
	}
	if _, err := store.Window(ctx, "talk", 0, WindowOptions{}); !errors.Is(err, Misuse) && !errors.Is(err, Invalid) && !errors.Is(err, Limit) {
		t.Errorf("a budget of 0 answered %v", err)
	}
	fork, err := store.Fork(ctx, "talk", 4, "fork", SessionNew{})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the fork", []any{fork.IsFork, fork.ForkSeq, fork.ParentKey}, []any{true, int64(4), "talk"})
	seq, err := store.Compact(ctx, "talk", 20, "they talked")
	if err != nil {
		t.Fatal(err)
	}
	view, err := store.Get(ctx, "talk", Range{View: true})
	if err != nil {
		t.Fatal(err)
	}
	first := view.Messages[0]
	same(t, "the summary", []any{first.Seq, first.Mark, first.CoversFrom, first.CoversTo}, []any{seq, MarkCompaction, int64(1), int64(20)})
	if err := store.Uncompact(ctx, "talk"); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Compact(ctx, "talk", 20, "they talked"); err != nil {
		t.Fatal(err)
	}
	pruned, err := store.Prune(ctx, "talk")
	same(t, "what was pruned", []any{pruned, err}, []any{int64(20), nil})
	forked, err := store.Get(ctx, "fork", Range{})
	same(t, "what the fork has", []any{len(forked.Messages), err}, []any{4, nil})
	removed, err := store.DeleteTree(ctx, "talk")
	same(t, "what was deleted", []any{removed, err}, []any{int64(2), nil})
}

func TestSearchFindsWhatWasSaidAndListsGoThroughPages(t *testing.T) {
	ctx, store := t.Context(), plainStore(t)
	for i := range 7 {
		put(t, store, fmt.Sprintf("s%d", i), Message{Role: RoleUser, Content: fmt.Sprintf("the blue whale %d", i), Author: "ada"})
	}
	found, err := store.Search(ctx, "whale", SearchOptions{Limit: 5, MarkBefore: "<", MarkAfter: ">", Author: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the hits", []any{len(found.Hits), found.More}, []any{5, true})
	if !strings.Contains(found.Hits[0].Snippet, "<whale>") {
		t.Errorf("the snippet is %q", found.Hits[0].Snippet)
	}
	one, err := store.Search(ctx, "whale", SearchOptions{SessionKey: "s3"})
	if err != nil || len(one.Hits) != 1 || one.Hits[0].SessionKey != "s3" {
		t.Errorf("a search of one session found %v, %v", one, err)
	}
	var keys []string
	for session, err := range store.Sessions(ctx, ListOptions{Limit: 2, OldestFirst: true}) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, session.Key)
	}
	slices.Sort(keys)
	same(t, "the sessions", keys, []string{"s0", "s1", "s2", "s3", "s4", "s5", "s6"})
	for range store.Sessions(ctx, ListOptions{}) {
		break
	}
	for _, err := range store.Sessions(ctx, ListOptions{After: "nonsense"}) {
		if !errors.Is(err, Invalid) {
			t.Errorf("a cursor that is none answered %v", err)
		}
	}
	recalled, err := store.Recall(ctx, "which whale?", RecallOptions{Scope: Scope{SessionKey: "s2"}})
	if err != nil || len(recalled) != 1 || recalled[0].Content != "the blue whale 2" {
		t.Errorf("recalled %v, %v", recalled, err)
	}
}

func TestStateIsSetSharedAndRemoved(t *testing.T) {
	ctx, store := t.Context(), plainStore(t)
	app, user := "app", "ada"
	for _, name := range []string{"one", "two"} {
		if _, err := store.CreateSession(ctx, name, SessionNew{AppName: &app, UserID: &user, SessionID: &name}); err != nil {
			t.Fatal(err)
		}
	}
	big := "9007199254740993"
	err := store.SetState(ctx, "one", map[string]any{
		"own": []any{1.5, "x", nil}, "user:name": "Ada", "app:limit": 3, "none": nil,
		"big": int64(9007199254740993),
	})
	if err != nil {
		t.Fatal(err)
	}
	state, err := store.State(ctx, "two")
	same(t, "what another session of the user sees", []any{state, err}, []any{map[string]any{"user:name": "Ada", "app:limit": 3.0}, nil})
	state, err = store.State(ctx, "one")
	if err != nil {
		t.Fatal(err)
	}
	same(t, "a large integer", fmt.Sprint(state["big"]), big)
	value, there := state["none"]
	same(t, "a null", []any{value, there}, []any{nil, true})
	if err := store.SetState(ctx, "one", map[string]any{"own": Removed, "user:name": Removed}); err != nil {
		t.Fatal(err)
	}
	state, err = store.State(ctx, "one")
	_, there = state["own"]
	same(t, "what was removed", []any{there, err}, []any{false, nil})
	if err := store.SetState(ctx, "one", map[string]any{"temp:x": 1}); !errors.Is(err, Misuse) {
		t.Errorf("a temp: name answered %v", err)
	}
	if err := store.SetState(ctx, "one", map[string]any{"f": func() {}}); err == nil {
		t.Error("a function was stored")
	}
	if err := store.SetState(ctx, "missing", map[string]any{"a": 1}); !errors.Is(err, NotFound) {
		t.Errorf("a missing session answered %v", err)
	}
}

func TestUsageSumsUpAnswersByModelAndDay(t *testing.T) {
	ctx, store := t.Context(), plainStore(t)
	day := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i := range 3 {
		put(t, store, "talk", Message{
			Role: RoleAssistant, Content: "x", Model: "m", Timestamp: day.AddDate(0, 0, i),
			PromptTokens: 100, AnswerTokens: 7,
		})
	}
	all, err := store.Usage(ctx, UsageOptions{})
	if err != nil || len(all.Rows) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	same(t, "the sum", []int64{all.Rows[0].PromptTokens, all.Rows[0].AnswerTokens, all.Rows[0].Answers}, []int64{300, 21, 3})
	days, err := store.Usage(ctx, UsageOptions{ByDay: true, ByModel: true, From: day, To: day.AddDate(0, 0, 1)})
	if err != nil || len(days.Rows) != 2 {
		t.Fatalf("%v, %v", days, err)
	}
	same(t, "the first day", []any{days.Rows[0].Day, days.Rows[0].Model}, []any{day.Truncate(24 * time.Hour), "m"})
}

func TestErasureLeavesAReceiptAndNoText(t *testing.T) {
	ctx, store := t.Context(), plainStore(t)
	put(t, store, "secret", Say(RoleUser, "the password is xyzzy"))
	if _, err := store.Fork(ctx, "secret", 1, "copy", SessionNew{}); err != nil {
		t.Fatal(err)
	}
	receipt, err := store.Erase(ctx, EraseOptions{SessionKey: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the receipt", []any{receipt.Sessions, receipt.Forks, receipt.Messages}, []any{[]string{"secret"}, []string{"copy"}, int64(1)})
	if _, err := store.Get(ctx, "copy", Range{}); !errors.Is(err, NotFound) {
		t.Errorf("a fork of what was erased answered %v", err)
	}
	if _, err := store.Erase(ctx, EraseOptions{}); !errors.Is(err, Misuse) {
		t.Errorf("erasing nothing answered %v", err)
	}
}

func TestATailShowsWhatThereIsAndWhatComes(t *testing.T) {
	store := plainStore(t)
	put(t, store, "talk", Say(RoleUser, "one"), Say(RoleUser, "two"))
	got := make(chan string)
	go func() {
		defer close(got)
		for message, err := range store.Tail(t.Context(), "talk", 1) {
			if err != nil {
				got <- err.Error()
				return
			}
			got <- message.Content
			if message.Content == "four" {
				return
			}
		}
	}()
	same(t, "the first", <-got, "two")
	put(t, store, "talk", Say(RoleUser, "three"))
	same(t, "the next", <-got, "three")
	put(t, store, "talk", Say(RoleUser, "four"))
	same(t, "the last", <-got, "four")
	_, more := <-got
	same(t, "whether more follows", more, false)
	if len(store.tails.open) != 0 {
		t.Error("the tail stays open")
	}
}

// endOf is the error that ends a tail.
func endOf(tail func(yield func(Message, error) bool)) (last error) {
	for _, err := range tail {
		last = err
	}
	return last
}

func TestATailEndsWithItsContextItsSessionAndItsStore(t *testing.T) {
	store := plainStore(t)
	put(t, store, "talk", Say(RoleUser, "one"))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := endOf(store.Tail(ctx, "talk", 0)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a deadline ended it with %v", err)
	}
	time.AfterFunc(20*time.Millisecond, func() { _ = store.DeleteSession(context.Background(), "talk") })
	if err := endOf(store.Tail(t.Context(), "talk", 0)); !errors.Is(err, NotFound) {
		t.Errorf("a deletion ended it with %v", err)
	}
	if err := endOf(store.Tail(t.Context(), "none", 0)); !errors.Is(err, NotFound) {
		t.Errorf("a missing session answered %v", err)
	}
	put(t, store, "talk", Say(RoleUser, "one"))
	time.AfterFunc(20*time.Millisecond, func() { _ = store.Close() })
	if err := endOf(store.Tail(t.Context(), "talk", 0)); !errors.Is(err, ErrClosed) {
		t.Errorf("closing the store ended it with %v", err)
	}
	if err := endOf(store.Tail(t.Context(), "talk", 0)); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed store answered %v", err)
	}
}

func TestAStoreThatIsClosedInsideOfATailsLoopEndsIt(t *testing.T) {
	store := plainStore(t)
	put(t, store, "talk", Say(RoleUser, "one"), Say(RoleUser, "two"))
	var seen []string
	var last error
	for message, err := range store.Tail(t.Context(), "talk", 0) {
		if err != nil {
			last = err
			break
		}
		seen = append(seen, message.Content)
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	same(t, "what was read before", seen, []string{"one", "two"})
	if !errors.Is(last, ErrClosed) {
		t.Errorf("it ended with %v", last)
	}
}

func TestManyTailsAndWritersShareAStore(t *testing.T) {
	store := plainStore(t)
	put(t, store, "talk", Say(RoleUser, "first"))
	const readers, messages = 8, 40
	var wait sync.WaitGroup
	for range readers {
		wait.Go(func() {
			next := int64(1)
			for message, err := range store.Tail(t.Context(), "talk", 0) {
				if err != nil || message.Seq != next {
					t.Errorf("message %d, %v, not %d", message.Seq, err, next)
					return
				}
				if next++; next > messages+1 {
					return
				}
			}
		})
	}
	for i := range messages {
		put(t, store, "talk", Say(RoleUser, fmt.Sprint(i)))
	}
	wait.Wait()
}

// deadlined is a context of somebody's own: it has a deadline and no Done.
type deadlined struct {
	context.Context
	at time.Time
}

func (d deadlined) Deadline() (time.Time, bool) { return d.at, true }

func TestDeadlinesAndCancellationsReachThePlainStore(t *testing.T) {
	path := storePath(t)
	store, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	put(t, store, "talk", Say(RoleUser, "one"))
	release := block(t, path)
	defer release()
	write := func(ctx context.Context) error {
		_, err := store.Append(ctx, "talk", AppendOptions{}, Say(RoleUser, "never"))
		return err
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if err := write(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a deadline answered %v", err)
	}
	if err := write(deadlined{context.Background(), time.Now().Add(30 * time.Millisecond)}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a deadline without Done answered %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(30*time.Millisecond, cancel)
	if err := write(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancellation in the middle answered %v", err)
	}
	if err := write(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended answered %v", err)
	}
}

func TestCancellationsAtAnyMomentStoreAMessageWhollyOrNotAtAll(t *testing.T) {
	store := plainStore(t)
	put(t, store, "talk", Say(RoleUser, "first"))
	stored := map[string]bool{}
	for i := range 300 {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Duration(i%30)*10*time.Microsecond, cancel)
		id := fmt.Sprintf("e%d", i)
		_, err := store.Append(ctx, "talk", AppendOptions{}, Message{Role: RoleUser, Content: id, EventID: id}, Message{Role: RoleUser, Content: id + "b"})
		stored[id] = err == nil
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		cancel()
	}
	got, err := store.Get(t.Context(), "talk", Range{})
	if err != nil {
		t.Fatal(err)
	}
	want := 1
	for _, is := range stored {
		if is {
			want += 2
		}
	}
	same(t, "the number of messages", len(got.Messages), want)
}

func TestHugeValuesComeBackAndLimitsAreErrors(t *testing.T) {
	ctx, store := t.Context(), plainStore(t)
	huge := strings.Repeat("0123456789abcdef", 1<<20) // 16 MiB
	put(t, store, "talk", Say(RoleUser, huge))
	got, err := store.Get(ctx, "talk", Range{})
	if err != nil || got.Messages[0].Content != huge {
		t.Errorf("16 MiB came back as %d bytes, %v", len(got.Messages[0].Content), err)
	}
	if _, err := store.Append(ctx, strings.Repeat("k", 1025), AppendOptions{Create: true}, Say(RoleUser, "x")); !errors.Is(err, Limit) {
		t.Errorf("a key of 1025 bytes answered %v", err)
	}
	put(t, store, strings.Repeat("k", 1024), Say(RoleUser, "x"))
	if _, err := store.Append(ctx, "talk", AppendOptions{}, Say(RoleUser, "\xff")); !errors.Is(err, Invalid) {
		t.Errorf("text that is not UTF-8 answered %v", err)
	}
	if _, err := store.Append(ctx, "talk", AppendOptions{}, Message{Role: RoleUser, Extra: []byte("[1]")}); !errors.Is(err, Invalid) {
		t.Errorf("an extra that is no object answered %v", err)
	}
	if _, err := store.Get(ctx, "", Range{}); err == nil {
		t.Error("an empty key was found")
	}
}

func TestEveryPlainCallAfterCloseFails(t *testing.T) {
	store := plainStore(t)
	put(t, store, "talk", Say(RoleUser, "one"))
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"Append":    func() error { _, err := store.Append(ctx, "talk", AppendOptions{}, Say(RoleUser, "x")); return err },
		"Get":       func() error { _, err := store.Get(ctx, "talk", Range{}); return err },
		"Window":    func() error { _, err := store.Window(ctx, "talk", 10, WindowOptions{}); return err },
		"Fork":      func() error { _, err := store.Fork(ctx, "talk", 1, "f", SessionNew{}); return err },
		"Search":    func() error { _, err := store.Search(ctx, "x", SearchOptions{}); return err },
		"State":     func() error { _, err := store.State(ctx, "talk"); return err },
		"Usage":     func() error { _, err := store.Usage(ctx, UsageOptions{}); return err },
		"Erase":     func() error { _, err := store.Erase(ctx, EraseOptions{SessionKey: "talk"}); return err },
		"Delete":    func() error { return store.DeleteSession(ctx, "talk") },
		"Sweep":     func() error { _, err := store.Sweep(ctx); return err },
		"List":      func() error { _, err := store.ListSessions(ctx, ListOptions{}); return err },
		"Compact":   func() error { _, err := store.Compact(ctx, "talk", 1, "s"); return err },
		"Uncompact": func() error { return store.Uncompact(ctx, "talk") },
	} {
		if err := call(); !errors.Is(err, ErrClosed) {
			t.Errorf("%s answered %v", name, err)
		}
	}
}

// Without a library every first call fails with a sentence, and nothing panics: in a process of its
// own, since a process loads the library once.
func TestAMissingLibraryIsAnErrorOfTheFirstCall(t *testing.T) {
	if os.Getenv("QUIPU_TEST_WITHOUT") != "" {
		_, open := Open("agents.db", Options{})
		_, version := Version()
		fmt.Println(open)
		fmt.Println(version)
		return
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(t.TempDir(), "libquipu.so")
	child := exec.Command(program, "-test.run", "^"+t.Name()+"$")
	child.Env = append(os.Environ(), "QUIPU_TEST_WITHOUT=1", "QUIPU_LIBRARY="+missing)
	out, err := child.CombinedOutput()
	want := "quipu: QUIPU_LIBRARY=" + missing + " cannot be loaded"
	if err != nil || strings.Count(string(out), want) != 2 {
		t.Errorf("%v\n%s", err, out)
	}
}
