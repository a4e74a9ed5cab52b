package quipu

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/adk/v2/memory"
	"google.golang.org/adk/v2/session"
)

// meanings embeds: two words that mean the same have one place.
func meanings(_ context.Context, texts []string) ([][]float32, error) {
	words := [][]string{{"puppy", "hound"}, {"railway", "locomotive"}}
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		vectors[i] = make([]float32, len(words))
		for place, some := range words {
			if slices.ContainsFunc(some, func(word string) bool { return strings.Contains(text, word) }) {
				vectors[i][place] = 1
			}
		}
	}
	return vectors, nil
}

func embedding(with Embedder) WorkerOptions {
	return WorkerOptions{Embedder: with, EmbedModel: "m", EmbedOnly: true}
}

func TestWithAnEmbedderOtherWordsAreFound(t *testing.T) {
	store, plain := newMemory(t, filepath.Join(t.TempDir(), "agents.db"))
	service, err := NewMemoryServiceWith(store, MemoryServiceOptions{Embedder: meanings, EmbedModel: "m"})
	if err != nil {
		t.Fatal(err)
	}
	defer service.Close()
	foreign := session.InMemoryService()
	for _, given := range []session.Session{
		said(t, foreign, "ana", "my puppy chewed the sofa", "the railway is slow"),
		said(t, foreign, "bob", "a locomotive of bob"),
	} {
		if err := service.AddSessionToMemory(t.Context(), given); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, found(t, service, "ana", "locomotives"), "") // nothing has a vector
	ran, err := store.RunMemory(t.Context(), embedding(meanings))
	if err != nil || ran.Embedded != 3 || ran.Observations != 0 {
		t.Fatalf("%+v %v", ran, err)
	}
	first, _, _ := strings.Cut(found(t, service, "ana", "locomotives"), "|")
	expect(t, first, "the railway is slow")
	if got := found(t, service, "ana", "locomotives"); strings.Contains(got, "bob") {
		t.Errorf("bob's words for ana: %q", got)
	}
	expect(t, found(t, plain, "ana", "locomotives"), "")
	hits, err := store.Recall(t.Context(), "locomotives", RecallOptions{
		Scope: Scope{Everything: true}, Embedder: meanings, EmbedModel: "m"})
	if err != nil || len(hits) == 0 || hits[0].FromVector <= 0 {
		t.Fatalf("%+v %v", hits, err)
	}
	hits, err = store.Recall(t.Context(), "hounds", RecallOptions{
		Scope: Scope{Everything: true}, Embedder: meanings, EmbedModel: "another"})
	if err != nil || len(hits) != 0 {
		t.Errorf("vectors of another model: %+v %v", hits, err)
	}
	if len(askers) != 0 {
		t.Errorf("%d functions are kept", len(askers))
	}
}

func TestAWorkerEmbedsBesideTheProgram(t *testing.T) {
	store, service := newMemory(t, filepath.Join(t.TempDir(), "agents.db"))
	sessions, err := NewSessionService(store, ServiceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer sessions.Close()
	if err := store.StartMemory(embedding(meanings)); err != nil {
		t.Fatal(err)
	}
	said(t, sessions, "ana", "the railway is slow", "my puppy chewed the sofa")
	until(t, func() bool {
		hits, err := store.Recall(t.Context(), "locomotive", RecallOptions{
			Scope: Scope{AppName: "app", UserID: "ana"}, Embedder: meanings, EmbedModel: "m"})
		return err == nil && len(hits) > 0 && hits[0].Content == "the railway is slow"
	})
	if ran, err := store.StopMemory(); err != nil || ran.Embedded < 1 {
		t.Fatalf("%+v %v", ran, err)
	}
	expect(t, found(t, service, "ana", "locomotive"), "")
}

func TestAnEmbedderThatFailsIsAnErrorThatSaysWhy(t *testing.T) {
	store, service := newMemory(t, filepath.Join(t.TempDir(), "agents.db"))
	said(t, service.sessions, "ana", "the railway is slow", "my puppy")
	if _, err := store.RunMemory(t.Context(), embedding(meanings)); err != nil {
		t.Fatal(err)
	}
	of := func(vectors ...[]float32) Embedder {
		return func(context.Context, []string) ([][]float32, error) { return vectors, nil }
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for name, wrong := range map[string]struct {
		embedder Embedder
		says     string
	}{
		"error": {func(context.Context, []string) ([][]float32, error) {
			return nil, errors.New("no such host")
		}, "no such host"},
		"panic":    {func(context.Context, []string) ([][]float32, error) { panic("oh") }, "panic: oh"},
		"none":     {of(), "0 vectors came back for 1 texts"},
		"too many": {of([]float32{1}, []float32{2}), "2 vectors came back for 1 texts"},
		"empty":    {of([]float32{}), ""},
		"nan":      {of([]float32{nan, 1}), ""},
		"infinite": {of([]float32{inf, 1}), ""},
		"long":     {of(make([]float32, 1<<20)), ""},
	} {
		t.Run(name, func(t *testing.T) {
			hits, err := store.Recall(t.Context(), "locomotive", RecallOptions{
				Scope: Scope{Everything: true}, Embedder: wrong.embedder, EmbedModel: "m"})
			if err == nil || !strings.Contains(err.Error(), wrong.says) {
				t.Errorf("%d hits, %v", len(hits), err)
			}
		})
	}
	ran, err := store.RunMemory(t.Context(), WorkerOptions{EmbedModel: "m2", EmbedOnly: true,
		Embedder: func(_ context.Context, texts []string) ([][]float32, error) {
			made := make([][]float32, len(texts))
			for i := range made {
				made[i] = make([]float32, i+1)
			}
			return made, nil
		}})
	if ran.Embedded != 0 || ran.Failed != 1 && err == nil {
		t.Errorf("different lengths: %+v %v", ran, err)
	}
}

func TestAnEmbedderAndItsModelBelongTogether(t *testing.T) {
	store, _ := newMemory(t, filepath.Join(t.TempDir(), "agents.db"))
	scope := Scope{Everything: true}
	_, alone := store.Recall(t.Context(), "x", RecallOptions{Scope: scope, Embedder: meanings})
	_, model := store.Recall(t.Context(), "x", RecallOptions{Scope: scope, EmbedModel: "m"})
	_, service := NewMemoryServiceWith(store, MemoryServiceOptions{EmbedModel: "m"})
	_, worker := store.RunMemory(t.Context(), WorkerOptions{Embedder: meanings})
	start := store.StartMemory(WorkerOptions{EmbedModel: "m"})
	for i, err := range []error{alone, model, service, worker, start} {
		if !errors.Is(err, Misuse) || !strings.Contains(err.Error(), "belong together") {
			t.Errorf("%d: %v", i, err)
		}
	}
	if _, _, err := store.MemoryStatus(t.Context(), embedding(meanings)); err != nil {
		t.Errorf("status of a worker that embeds: %v", err)
	}
	_, err := store.Recall(t.Context(), "x", RecallOptions{Scope: scope, Embedder: meanings,
		EmbedModel: strings.Repeat("m", 129)})
	if err == nil {
		t.Error("a model's name of 129 bytes")
	}
}

func TestAnEmbedderEndsWithTheCallersContext(t *testing.T) {
	store, service := newMemory(t, filepath.Join(t.TempDir(), "agents.db"))
	said(t, service.sessions, "ana", "the railway is slow")
	waits := func(ctx context.Context, _ []string) ([][]float32, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	slow, err := NewMemoryServiceWith(store, MemoryServiceOptions{Embedder: waits, EmbedModel: "m"})
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	_, err = slow.SearchMemory(ctx, &memory.SearchRequest{AppName: "app", UserID: "ana", Query: "train"})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestHostileQuestionsWithAnEmbedder(t *testing.T) {
	store, service := newMemory(t, filepath.Join(t.TempDir(), "agents.db"))
	service, err := NewMemoryServiceWith(store, MemoryServiceOptions{Embedder: meanings, EmbedModel: "m"})
	if err != nil {
		t.Fatal(err)
	}
	defer service.Close()
	said(t, service.sessions, "ana", "the railway is slow")
	if _, err := store.RunMemory(t.Context(), embedding(meanings)); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{"", " \t\n", "a\x00b", "what is the", "NEAR( ^x:* \"", "\u3000",
		strings.Repeat("x", 1<<20), strings.Repeat("é", 1<<19), "\xff\xfe", "a\xc3"} {
		found(t, service, "ana", query)
	}
}

func TestManyGoroutinesEmbedAtTheSameTime(t *testing.T) {
	store, service := newMemory(t, filepath.Join(t.TempDir(), "agents.db"))
	said(t, service.sessions, "ana", "the railway is slow", "my puppy")
	if _, err := store.RunMemory(t.Context(), embedding(meanings)); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				hits, err := store.Recall(t.Context(), "hound", RecallOptions{
					Scope: Scope{Everything: true}, Embedder: meanings, EmbedModel: "m"})
				if err != nil || len(hits) == 0 || hits[0].Content != "my puppy" {
					t.Errorf("%+v %v", hits, err)
				}
			}
		})
	}
	all.Wait()
}
