package quipu

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/ebitengine/purego"
	"google.golang.org/adk/v2/memory"
	"google.golang.org/adk/v2/session"
	"google.golang.org/genai"

	"quipu/bindings/go/internal/lib"
)

const (
	memoryApp      = "quipu-memory:" // what other session services hand over stands under such an app
	memoryQueryMax = 65536           // bytes of a query that are read
	memoryHits     = 100             // messages that are looked at
	memoryResults  = 10              // memories of one answer
)

// Scope says where to look for an answer: in one session, in the sessions of an app or of one of its
// users, or in everything.
type Scope struct {
	SessionKey string // excludes the others
	AppName    string
	UserID     string // needs AppName
	Everything bool
}

// RecallOptions of a question. The scope is required.
type RecallOptions struct {
	Scope    Scope
	Limit    int64 // 0: 10
	Budget   int64 // tokens of all hits together; 0: any
	Memories bool  // observations and reflections, too

	// Meaning counts as well as words: what a worker stored for this model is compared with the
	// question's vector.
	Embedder   Embedder
	EmbedModel string // required with an embedder
}

// Recalled is a message that may answer a question, or a memory: then Memory has what it is, its
// sources and the time that it is about, and number, event id and author are empty. A higher score
// is better; it is the sum of its four parts.
type Recalled struct {
	SessionKey                             string
	Seq                                    int64
	EventID, Author, Content               string
	FromUser                               bool
	Timestamp                              time.Time
	Tokens                                 int64
	Score                                  float64
	FromWords, FromNeighbours, FromSession float64
	FromVector                             float64 // by its meaning; 0 without an embedder
	Memory                                 *Memory // nil: a message
}

// Recall finds the messages that may answer a question, best first.
func (s *Store) Recall(ctx context.Context, question string, options RecallOptions) ([]Recalled, error) {
	if err := s.gate.enter(); err != nil {
		return nil, err
	}
	defer s.gate.leave()
	if (options.Embedder == nil) != (options.EmbedModel == "") {
		return nil, errEmbedder
	}
	embeds := newAsker(ctx, nil, options.Embedder)
	defer embeds.end()
	var results unsafe.Pointer
	err := withCall(ctx, time.Time{}, func(call uintptr) error {
		var pins runtime.Pinner
		defer pins.Unpin()
		to := &lib.RecallOptions{Limit: options.Limit, Budget: options.Budget}
		to.StructSize = uint32(unsafe.Sizeof(*to))
		put := func(into *lib.Str, text string) {
			*into = lib.Of(text)
			pins.Pin(into.P)
		}
		put(&to.Question, question)
		if options.Scope.SessionKey != "" {
			put(&to.SessionKey, options.Scope.SessionKey)
		}
		if options.Scope.AppName != "" {
			put(&to.AppName, options.Scope.AppName)
		}
		if options.Scope.UserID != "" {
			put(&to.UserID, options.Scope.UserID)
		}
		put(&to.EmbedModel, options.EmbedModel)
		to.Embedder = embeds.embedder()
		if options.Scope.Everything {
			to.Flags = lib.RecallAll
		}
		if options.Memories {
			to.Flags |= lib.RecallMemories
		}
		failure := &lib.Error{}
		status, _, _ := purego.SyscallN(lib.Call.Recall, s.handle, uintptr(unsafe.Pointer(to)), call,
			uintptr(unsafe.Pointer(&results)), uintptr(unsafe.Pointer(failure)))
		return check(status, failure)
	})
	if err != nil {
		return nil, err
	}
	defer purego.SyscallN(lib.Call.Free, uintptr(results))
	hits := &(*lib.RecallResults)(results).Hits
	found := make([]Recalled, hits.Count)
	for i := range found {
		hit := (*lib.RecallHit)(hits.At(uintptr(i)))
		found[i] = Recalled{
			SessionKey: hit.SessionKey.String(), Seq: hit.Seq, EventID: hit.EventID.String(),
			Author: hit.Author.String(), Content: hit.Content.String(),
			FromUser: hit.Role == lib.RoleUser, Timestamp: timeOf(hit.Timestamp), Tokens: hit.Tokens,
			Score: hit.Score, FromWords: hit.FromWords, FromNeighbours: hit.FromNeighbours,
			FromSession: hit.FromSession, FromVector: hit.FromVector,
		}
		if options.Memories && hit.Memory != nil {
			known := memoryOf(hit.Memory)
			found[i].Memory = &known
		}
	}
	return found, nil
}

// MemoryService is Google ADK's memory service on a store. Sessions of a SessionService on the same
// store are found as they are, at once; nothing is copied. Sessions of other services are copied in
// when they are added. All goroutines may share it.
type MemoryService struct {
	store    *Store
	sessions *SessionService
	options  MemoryServiceOptions
}

// MemoryServiceOptions of a MemoryService.
type MemoryServiceOptions struct {
	// Queries find what is said in other words, too, as with Store.Recall. RunMemory makes the
	// vectors.
	Embedder   Embedder
	EmbedModel string // required with an embedder
}

var _ memory.Service = (*MemoryService)(nil)

// NewMemoryService returns a service on a store. It may be closed before or after the store.
func NewMemoryService(store *Store) (*MemoryService, error) {
	return NewMemoryServiceWith(store, MemoryServiceOptions{})
}

// NewMemoryServiceWith returns a service with options.
func NewMemoryServiceWith(store *Store, options MemoryServiceOptions) (*MemoryService, error) {
	if (options.Embedder == nil) != (options.EmbedModel == "") {
		return nil, errEmbedder
	}
	sessions, err := NewSessionService(store, ServiceOptions{Rebase: true})
	if err != nil {
		return nil, err
	}
	sessions.shelf = true
	return &MemoryService{store: store, sessions: sessions, options: options}, nil
}

// Close closes the service: later calls fail.
func (m *MemoryService) Close() error {
	return m.sessions.Close()
}

// AddSessionToMemory implements memory.Service. It may be called again for a session that grew.
func (m *MemoryService) AddSessionToMemory(ctx context.Context, added session.Session) error {
	if added == nil {
		return errors.New("quipu: the session is required")
	}
	if live, ok := added.(*liveSession); ok {
		if here, err := m.holds(ctx, live); here || err != nil {
			return err
		}
	}
	shelf, err := m.shelf(ctx, added)
	if err != nil {
		return err
	}
	for event := range added.Events().All() {
		if event.LLMResponse.Content == nil || len(event.LLMResponse.Content.Parts) == 0 {
			continue
		}
		err := m.sessions.AppendEvent(ctx, shelf, event)
		if err != nil && !errors.Is(err, Exists) { // the first word stands
			return err
		}
	}
	return nil
}

// holds says whether a session lies in this service's store.
func (m *MemoryService) holds(ctx context.Context, live *liveSession) (bool, error) {
	if live.service == m.sessions {
		return true, nil
	}
	stored, err := m.sessions.Get(ctx, &session.GetRequest{
		AppName: live.AppName(), UserID: live.UserID(), SessionID: live.ID(), NumRecentEvents: 1,
	})
	if errors.Is(err, NotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return stored.Session.(*liveSession).life() == live.life(), nil
}

// life is the session's uid: a deleted session that is created again has another one.
func (s *liveSession) life() [16]byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.uid
}

// shelf is the memory's own session for the events of another one, created when it is missing.
func (m *MemoryService) shelf(ctx context.Context, of session.Session) (session.Session, error) {
	app := memoryApp + of.AppName()
	for {
		got, err := m.sessions.Get(ctx, &session.GetRequest{
			AppName: app, UserID: of.UserID(), SessionID: of.ID(),
		})
		if err == nil {
			return got.Session, nil
		}
		if !errors.Is(err, NotFound) {
			return nil, err
		}
		made, err := m.sessions.Create(ctx, &session.CreateRequest{
			AppName: app, UserID: of.UserID(), SessionID: of.ID(),
		})
		if err == nil {
			return made.Session, nil
		}
		if !errors.Is(err, Exists) {
			return nil, err
		}
	}
}

// SearchMemory implements memory.Service: the query is a question in plain words. A message is a
// memory by its own words or meaning. Content is its text; other parts stay in the session.
func (m *MemoryService) SearchMemory(ctx context.Context, req *memory.SearchRequest) (*memory.SearchResponse, error) {
	if req == nil {
		return nil, errors.New("quipu: the request is required")
	}
	if err := required("AppName", req.AppName, "UserID", req.UserID); err != nil {
		return nil, err
	}
	// Any text is a question: NUL and broken UTF-8 stand between words, like a sign.
	question := strings.ReplaceAll(strings.ToValidUTF8(req.Query, "?"), "\x00", " ")
	if len(question) > memoryQueryMax {
		end := memoryQueryMax
		for end > 0 && !utf8.RuneStart(question[end]) {
			end--
		}
		question = question[:end]
	}
	var found []Recalled
	for _, app := range []string{req.AppName, memoryApp + req.AppName} {
		hits, err := m.store.Recall(ctx, question, RecallOptions{
			Scope: Scope{AppName: app, UserID: req.UserID}, Limit: memoryHits,
			Embedder: m.options.Embedder, EmbedModel: m.options.EmbedModel,
		})
		if err != nil {
			return nil, fmt.Errorf("quipu: searching the memory of %q: %w", req.UserID, err)
		}
		found = append(found, hits...)
	}
	slices.SortStableFunc(found, func(a, b Recalled) int {
		switch {
		case a.Score > b.Score:
			return -1
		case a.Score < b.Score:
			return 1
		}
		return 0
	})
	response := &memory.SearchResponse{}
	seen := map[string]bool{}
	for _, hit := range found {
		if (hit.FromWords > 0 || hit.FromVector > 0) && !seen[hit.EventID] && len(response.Memories) < memoryResults {
			seen[hit.EventID] = true
			response.Memories = append(response.Memories, hit.entry())
		}
	}
	return response, nil
}

func (r *Recalled) entry() memory.Entry {
	role := genai.Role(genai.RoleModel)
	if r.FromUser {
		role = genai.RoleUser
	}
	return memory.Entry{
		ID:             r.EventID,
		Content:        genai.NewContentFromText(r.Content, role),
		Author:         r.Author,
		Timestamp:      r.Timestamp,
		CustomMetadata: map[string]any{"session_key": r.SessionKey},
	}
}
