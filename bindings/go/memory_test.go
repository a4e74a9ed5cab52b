package quipu

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/adk/v2/memory"
	"google.golang.org/adk/v2/session"
	"google.golang.org/genai"
)

func newMemory(t *testing.T, path string) (*Store, *MemoryService) {
	t.Helper()
	store, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	service, err := NewMemoryService(store)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = service.Close()
		_ = store.Close()
	})
	return store, service
}

// said is a new session of a service with events of these texts.
func said(t *testing.T, service session.Service, user string, texts ...string) session.Session {
	t.Helper()
	made, err := service.Create(t.Context(), &session.CreateRequest{AppName: "app", UserID: user})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		appendText(t, service, made.Session, text)
	}
	return made.Session
}

func appendText(t *testing.T, service session.Service, to session.Session, text string) {
	t.Helper()
	event := session.NewEvent(t.Context(), "i")
	event.Author = "user"
	event.LLMResponse.Content = genai.NewContentFromText(text, genai.RoleUser)
	if err := service.AppendEvent(t.Context(), to, event); err != nil {
		t.Fatal(err)
	}
}

func found(t *testing.T, service memory.Service, user, query string) string {
	t.Helper()
	response, err := service.SearchMemory(t.Context(),
		&memory.SearchRequest{AppName: "app", UserID: user, Query: query})
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, entry := range response.Memories {
		if entry.ID == "" || entry.Author != "user" || time.Since(entry.Timestamp) > time.Hour {
			t.Errorf("entry %+v", entry)
		}
		texts = append(texts, entry.Content.Parts[0].Text)
	}
	return strings.Join(texts, "|")
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAQuestionFindsItsAnswerForItsUserOnly(t *testing.T) {
	store, service := newMemory(t, filepath.Join(t.TempDir(), "agents.db"))
	sessions, err := NewSessionService(store, ServiceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer sessions.Close()
	own := said(t, sessions, "ana", "I redeemed a coupon at Target", "What did you buy?")
	said(t, sessions, "bob", "the coupon of bob")
	expect(t, found(t, service, "ana", "Where did I redeem the coupons?"), "I redeemed a coupon at Target")
	appendText(t, sessions, own, "another coupon, a moment ago")
	expect(t, found(t, service, "ana", "a moment ago"), "another coupon, a moment ago")
	expect(t, found(t, service, "eve", "coupon"), "")
	expect(t, found(t, service, "ana", "?!"), "")
	expect(t, found(t, service, "ana", strings.Repeat("redeem ", 20000)), "I redeemed a coupon at Target")
	// Adding what the store holds copies nothing.
	if err := service.AddSessionToMemory(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	expect(t, found(t, service, "ana", "redeem"), "I redeemed a coupon at Target")
}

func TestSessionsOfOtherServicesAreCopiedOnce(t *testing.T) {
	_, service := newMemory(t, filepath.Join(t.TempDir(), "agents.db"))
	other := session.InMemoryService()
	given := said(t, other, "ana", "figs and dates")
	for range 2 {
		got, err := other.Get(t.Context(), &session.GetRequest{
			AppName: "app", UserID: "ana", SessionID: given.ID()})
		if err != nil {
			t.Fatal(err)
		}
		if err := service.AddSessionToMemory(t.Context(), got.Session); err != nil {
			t.Fatal(err)
		}
		appendText(t, other, got.Session, "more figs")
	}
	expect(t, found(t, service, "ana", "figs"), "more figs|figs and dates")
	expect(t, found(t, service, "bob", "figs"), "")
}

func TestNoAppHasTheNameOfAnothersMemory(t *testing.T) {
	store, service := newMemory(t, filepath.Join(t.TempDir(), "m.db"))
	sessions, err := NewSessionService(store, ServiceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer sessions.Close()
	_, err = sessions.Create(t.Context(), &session.CreateRequest{AppName: "quipu-memory:app", UserID: "u"})
	if !errors.Is(err, Invalid) {
		t.Fatalf("created: %v", err)
	}
	foreign := session.InMemoryService()
	if err := service.AddSessionToMemory(t.Context(), said(t, foreign, "u", "I like tea")); err != nil {
		t.Fatal(err)
	}
	if got := found(t, service, "u", "tea"); got != "I like tea" {
		t.Fatalf("found %q", got)
	}
}

func TestAtMostTenMemoriesComeBack(t *testing.T) {
	_, service := newMemory(t, filepath.Join(t.TempDir(), "agents.db"))
	var texts []string
	for i := range 25 {
		texts = append(texts, "grape "+string(rune('a'+i)))
	}
	if err := service.AddSessionToMemory(t.Context(), said(t, session.InMemoryService(), "ana", texts...)); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(found(t, service, "ana", "grape"), "|"); got != 9 {
		t.Errorf("%d memories", got+1)
	}
}

func TestRecallFindsWhatIsKnownWhenItIsAskedFor(t *testing.T) {
	store, service := newMemory(t, filepath.Join(t.TempDir(), "agents.db"))
	ctx := t.Context()
	said(t, service.sessions, "ana", "Shall we take the train?")
	said(t, service.sessions, "eve", "I take the bus.")
	question := "When does the train leave?"
	scope := Scope{AppName: "app", UserID: "ana"}
	plain, err := store.Recall(ctx, question, RecallOptions{Scope: scope})
	if err != nil || len(plain) != 1 || plain[0].Memory != nil {
		t.Fatalf("%+v, %v", plain, err)
	}
	about := time.Date(2023, 5, 9, 0, 0, 0, 0, time.UTC)
	known, err := store.SaveMemory(ctx, Memory{Kind: Observation, SessionKey: plain[0].SessionKey,
		Content: "The train leaves at nine.", SourceStart: 1, SourceEnd: 1, AboutFrom: about})
	if err != nil {
		t.Fatal(err)
	}
	hits, err := store.Recall(ctx, question, RecallOptions{Scope: scope, Memories: true})
	if err != nil || len(hits) != 2 || hits[0].Memory == nil || hits[1].Memory != nil {
		t.Fatalf("%+v, %v", hits, err)
	}
	first := hits[0]
	if *first.Memory != known || !first.Memory.AboutFrom.Equal(about) || first.Memory.SourceEnd != 1 {
		t.Errorf("%+v is not %+v", *first.Memory, known)
	}
	if first.Seq != 0 || first.FromUser || first.EventID != "" || first.Content != known.Content {
		t.Errorf("%+v", first)
	}
	hits, err = store.Recall(ctx, question,
		RecallOptions{Scope: Scope{AppName: "app", UserID: "eve"}, Memories: true})
	if err != nil || len(hits) != 0 {
		t.Errorf("another user sees %+v, %v", hits, err)
	}
}

func TestARecallNeedsAScope(t *testing.T) {
	store, service := newMemory(t, filepath.Join(t.TempDir(), "agents.db"))
	if _, err := store.Recall(t.Context(), "x", RecallOptions{}); !errors.Is(err, Misuse) {
		t.Errorf("no scope: %v", err)
	}
	if _, err := service.SearchMemory(t.Context(), &memory.SearchRequest{Query: "x"}); err == nil {
		t.Error("no user was no error")
	}
	said(t, service.sessions, "ana", "an apple")
	hits, err := store.Recall(t.Context(), "apples", RecallOptions{Scope: Scope{Everything: true}})
	if err != nil || len(hits) != 1 || hits[0].Content != "an apple" || !hits[0].FromUser {
		t.Errorf("%+v, %v", hits, err)
	}
}

// Each question gets an answer: what it asks for, nothing, or an error that says what would do.
func TestAnyTextIsAQuestion(t *testing.T) {
	store, service := newMemory(t, filepath.Join(t.TempDir(), "agents.db"))
	made := said(t, service.sessions, "ana", "figs from Paracas", "Was it yours?")
	said(t, service.sessions, "eve", "figs of eve")
	own := RecallOptions{Scope: Scope{AppName: "app", UserID: "ana"}}
	for _, question := range []string{
		`"figs`, "figs*", "^figs", "-figs", "NEAR(figs)", "content:figs", "figs AND", "AND OR NOT figs",
		"((((figs", "figs'; DROP TABLE messages; --", "figs%_\\", "figs\x00and dates", "figs\x01\x1b[31m",
		"figs 無花果 инжир تين 🍇", "\xff\xfe figs", "\xed\xa0\x80 figs", // half of a surrogate pair
		strings.Repeat("figs ", 13000),
	} {
		hits, err := store.Recall(t.Context(), question, own)
		if err != nil || len(hits) == 0 || hits[0].Content != "figs from Paracas" {
			t.Errorf("%.40q: %+v, %v", question, hits, err)
		}
		for _, hit := range hits {
			if strings.Contains(hit.Content, "eve") {
				t.Errorf("%.40q found what another user said", question)
			}
		}
	}
	for _, question := range []string{"", " \t\n", "\x00", "?!*\"", "((", "🍇", "\xff"} {
		hits, err := store.Recall(t.Context(), question, own)
		if err != nil || len(hits) != 0 {
			t.Errorf("%q: %+v, %v", question, hits, err)
		}
		expect(t, found(t, service, "ana", question), "")
	}
	expect(t, found(t, service, "ana", "was it"), "Was it yours?") // stop words alone
	million := strings.Repeat("figs ", 200000)
	if _, err := store.Recall(t.Context(), million, own); !errors.Is(err, Limit) || !strings.Contains(err.Error(), "65536") {
		t.Errorf("a question of 1 MB: %v", err)
	}
	expect(t, found(t, service, "ana", million), "figs from Paracas")
	for _, scope := range []Scope{{AppName: "nobody"}, {AppName: "app", UserID: "' OR 1=1 --"}} {
		if hits, err := store.Recall(t.Context(), "figs", RecallOptions{Scope: scope}); err != nil || len(hits) != 0 {
			t.Errorf("%+v: %+v, %v", scope, hits, err)
		}
	}
	for scope, want := range map[Scope]error{
		{SessionKey: made.ID() + "?"}:              NotFound,
		{UserID: "ana"}:                            Misuse,
		{SessionKey: made.ID(), Everything: true}:  Misuse,
		{AppName: "app", Everything: true}:         Misuse,
		{AppName: "app\xff", UserID: "ana"}:        Invalid,
		{AppName: "app", UserID: "an\xed\xa0\x80"}: Invalid,
	} {
		if _, err := store.Recall(t.Context(), "figs", RecallOptions{Scope: scope}); !errors.Is(err, want) {
			t.Errorf("%+v: %v", scope, err)
		}
	}
	if _, err := store.Recall(t.Context(), "figs", RecallOptions{Scope: own.Scope, Limit: 1001}); !errors.Is(err, Limit) {
		t.Errorf("a limit of 1001: %v", err)
	}
}

// The same of an exact search: signs of query languages are no syntax errors.
func TestAnyTextIsAQuery(t *testing.T) {
	store, service := newMemory(t, filepath.Join(t.TempDir(), "agents.db"))
	said(t, service.sessions, "ana", "figs from Paracas", "Was it yours?")
	said(t, service.sessions, "eve", "figs of eve")
	own := SearchOptions{AppName: "app", UserID: "ana"}
	for _, query := range []string{
		`"figs`, "figs*", "^figs", "NEAR(figs)", "content:figs", "figs AND", "AND OR NOT figs", "((((figs",
		"figs'; DROP TABLE messages; --", "figs%_\\", "figs\x00and dates", "figs 無花果 инжир تين 🍇",
		"\xff\xfe figs", "\xed\xa0\x80 figs", strings.Repeat("figs ", 819),
	} {
		found, err := store.Search(t.Context(), query, own)
		if err != nil {
			t.Errorf("%.40q: %v", query, err)
			continue
		}
		for _, hit := range found.Hits {
			if strings.Contains(hit.Snippet, "eve") {
				t.Errorf("%.40q found what another user said", query)
			}
		}
	}
	for _, query := range []string{"", " \t\n", "\x00", "?!*\"", "((", "🍇", "\xff"} {
		if found, err := store.Search(t.Context(), query, own); err != nil || len(found.Hits) != 0 {
			t.Errorf("%q: %+v, %v", query, found, err)
		}
	}
	if found, err := store.Search(t.Context(), "was it", own); err != nil || len(found.Hits) != 1 {
		t.Errorf("stop words: %+v, %v", found, err)
	}
	_, err := store.Search(t.Context(), strings.Repeat("figs ", 200000), own)
	if !errors.Is(err, Limit) || !strings.Contains(err.Error(), "4096") {
		t.Errorf("a query of 1 MB: %v", err)
	}
	if _, err := store.Search(t.Context(), "figs", SearchOptions{SessionKey: "nobody"}); !errors.Is(err, NotFound) {
		t.Errorf("an unknown session: %v", err)
	}
	if _, err := store.Search(t.Context(), "after:yesterday figs", own); !errors.Is(err, Invalid) {
		t.Errorf("a wrong filter: %v", err)
	}
}
