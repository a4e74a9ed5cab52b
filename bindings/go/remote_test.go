package quipu

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/session/sessiontestsuite"
)

const tokensVariable = "QUIPU_TEST_TOKENS"

func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(os.Getenv("QUIPU_BINARY_DIR"), "bin", "quipu")
	if _, err := os.Stat(path); err != nil {
		t.Skip("the program quipu is not built")
	}
	return path
}

// serve starts a `quipu serve` of its own and gives its address.
func serve(t *testing.T) string {
	t.Helper()
	server := exec.Command(program(t), "serve", "--store", filepath.Join(t.TempDir(), "store.db"),
		"--tokens", os.Getenv(tokensVariable), "--listen", "127.0.0.1:0", "--log", "error")
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(strings.TrimPrefix(line, "quipu serves "))
}

// again runs the test in a process that has a token in its environment: without cgo the library
// does not see what os.Setenv changes.
func again(t *testing.T) bool {
	t.Helper()
	if os.Getenv(tokensVariable) != "" {
		return false
	}
	tokens := filepath.Join(t.TempDir(), "tokens")
	token, err := exec.Command(program(t), "token", "new", "--tokens", tokens).Output()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	child.Env = append(os.Environ(), tokensVariable+"="+tokens,
		"QUIPU_TOKEN="+strings.TrimSpace(string(token)))
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return true
}

func TestADKsOwnSuiteOverAnAddress(t *testing.T) {
	if again(t) {
		return
	}
	options := sessiontestsuite.SuiteOptions{SupportsUserProvidedSessionID: true}
	sessiontestsuite.RunServiceTests(t, options, func(t *testing.T) session.Service {
		return newService(t, serve(t), ServiceOptions{})
	})
}

func TestTwoServicesOverAnAddressSeeEachOther(t *testing.T) {
	if again(t) {
		return
	}
	address := serve(t)
	one := newService(t, address, ServiceOptions{})
	two := newService(t, address, ServiceOptions{})
	live := create(t, one, "s")
	mustAppend(t, one, live, say("here"))
	got, err := two.Get(t.Context(), &session.GetRequest{AppName: "app", UserID: "user", SessionID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	if heard := texts(got.Session); len(heard) != 1 || heard[0] != "here" {
		t.Fatalf("the other service has %q", heard)
	}
}

// remoteTalk is a store behind a server with a session of two messages, which used a model.
func remoteTalk(t *testing.T) *Store {
	t.Helper()
	store, err := Open(serve(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	app, user := "app", "ana"
	if _, err := store.CreateSession(t.Context(), "talk", SessionNew{AppName: &app, UserID: &user}); err != nil {
		t.Fatal(err)
	}
	messages := []Message{
		{Role: RoleUser, Content: "I like trains."},
		{Role: RoleAssistant, Content: "Noted.", Model: "m", PromptTokens: 7, AnswerTokens: 3},
	}
	if _, err := store.Append(t.Context(), "talk", AppendOptions{}, messages...); err != nil {
		t.Fatal(err)
	}
	return store
}

func TestMemoriesOverAnAddressAreSavedCorrectedAndDeleted(t *testing.T) {
	if again(t) {
		return
	}
	store := remoteTalk(t)
	saved, err := store.SaveMemory(t.Context(), Memory{
		Kind: Observation, SessionKey: "talk", Content: "likes trains", Subject: "Ana", SourceStart: 1, SourceEnd: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	changed, err := store.UpdateMemory(t.Context(), MemoryPatch{Kind: Observation, ID: saved.ID, Retire: true, Who: "Eva"})
	if err != nil || changed.RetiredAt.IsZero() || changed.EditedBy != "Eva" {
		t.Fatalf("it is %+v, %v", changed, err)
	}
	found, err := store.Memories(t.Context(), MemoryQuery{Kind: Observation, SessionKey: "talk", Retired: true})
	if err != nil || len(found) != 1 || found[0].Content != "likes trains" || found[0].Subject != "Ana" {
		t.Fatalf("there are %+v, %v", found, err)
	}
	progress, more, err := store.MemoryStatus(t.Context(), WorkerOptions{SessionKey: "talk"})
	if err != nil || more || len(progress) != 1 || progress[0].LastSeq != 2 {
		t.Fatalf("the progress is %+v, %v", progress, err)
	}
	removed, err := store.DeleteMemories(t.Context(), MemoryQuery{Kind: Observation, IDs: []MemoryID{saved.ID}})
	if err != nil || removed != 1 {
		t.Fatalf("%d are removed, %v", removed, err)
	}
	if _, err := store.RunMemory(t.Context(), WorkerOptions{}); err == nil ||
		!strings.Contains(err.Error(), "works beside the data") {
		t.Fatalf("a worker over an address: %v", err)
	}
}

func TestAPromptOverAnAddressIsMadeAndBuiltAgain(t *testing.T) {
	if again(t) {
		return
	}
	store := remoteTalk(t)
	if _, err := store.SaveMemory(t.Context(), Memory{Kind: Observation, SessionKey: "talk", Content: "likes trains", Priority: Standing}); err != nil {
		t.Fatal(err)
	}
	asks := Message{Role: RoleUser, Content: "Which one?"}
	if _, err := store.Append(t.Context(), "talk", AppendOptions{}, asks); err != nil {
		t.Fatal(err)
	}
	made, err := store.Prompt(t.Context(), "talk", PromptOptions{Log: true, Model: "m"})
	if err != nil || len(made.Contents) != 3 || !strings.Contains(made.Tail, "likes trains") {
		t.Fatalf("the prompt is %+v, %v", made, err)
	}
	built, err := store.Prompt(t.Context(), "talk", PromptOptions{At: 3})
	if err != nil || !built.Exact || built.PromptHash != made.PromptHash {
		t.Fatalf("built again it is %+v, %v", built, err)
	}
}

func TestCompactionPruneAndUsageOverAnAddress(t *testing.T) {
	if again(t) {
		return
	}
	store := remoteTalk(t)
	seq, err := store.Compact(t.Context(), "talk", 1, "They met.")
	if err != nil || seq != 3 {
		t.Fatalf("the summary is message %d, %v", seq, err)
	}
	if err := store.Uncompact(t.Context(), "talk"); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Compact(t.Context(), "talk", 1, "They met."); err != nil {
		t.Fatal(err)
	}
	removed, err := store.Prune(t.Context(), "talk")
	if err != nil || removed != 1 {
		t.Fatalf("%d messages are removed, %v", removed, err)
	}
	report, err := store.Usage(t.Context(), UsageOptions{SessionKey: "talk", ByModel: true})
	if err != nil || len(report.Rows) != 1 || report.Rows[0].Model != "m" || report.Rows[0].PromptTokens != 7 {
		t.Fatalf("the usage is %+v, %v", report, err)
	}
}
