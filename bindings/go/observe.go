package quipu

import (
	"context"
	"runtime"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"

	"quipu/bindings/go/internal/lib"
)

// MemoryKind says what a Memory is.
type MemoryKind int32

// Observations are lines that were observed; a reflection condenses several of them.
const (
	Observation MemoryKind = 1 + iota
	Reflection
)

// Priority says how much a memory weighs in a prompt.
type Priority int32

// NoPriority weighs as Medium. A standing line holds until it is retired.
const (
	NoPriority Priority = iota
	Standing
	High
	Medium
	Low
	Done
)

// MemoryID is the id of a memory; zero asks for a new one.
type MemoryID [16]byte

// String is the id in its usual form; empty when it is zero.
func (id MemoryID) String() string { return lib.UUID(id) }

// MemoryQuery names memories: those of a session, or those of the ids.
type MemoryQuery struct {
	Kind       MemoryKind
	SessionKey string
	IDs        []MemoryID
	Recent     int64 // only the newest this many; 0: all
	Retired    bool  // retired ones, too
	Scope      bool  // also what was observed in the user's other sessions
	// Only what was made of messages FromSeq to ToSeq. A deletion then forgets them: it removes
	// both kinds, and no worker observes them later.
	FromSeq, ToSeq int64
}

// MemoryPatch changes a memory: only what is not nil.
type MemoryPatch struct {
	Kind     MemoryKind
	ID       MemoryID
	Content  *string
	Priority *Priority
	Subject  *string
	Retire   bool   // it stays in the history, and is in no prompt
	Why, Who string // may be empty
}

func optionalTime(has bool, t lib.Time) time.Time {
	if !has {
		return time.Time{}
	}
	return timeOf(t)
}

func cTime(t time.Time) lib.Time {
	return lib.Time{S: t.Unix(), NS: uint32(t.Nanosecond())}
}

func memoryOf(at unsafe.Pointer) Memory {
	var made Memory
	made.read(&reader{shape: memoryShape(), at: at})
	return made
}

// memoriesOf reads a list of C's and frees it.
func memoriesOf(list unsafe.Pointer) []Memory {
	items := &(*lib.List)(list).Items
	found := make([]Memory, items.Count)
	for i := range found {
		found[i] = memoryOf(items.At(uintptr(i)))
	}
	purego.SyscallN(lib.Call.Free, uintptr(list))
	return found
}

// optional is a text that is absent when it is empty.
func optional(pins *runtime.Pinner, text string) lib.Str {
	if text == "" {
		return lib.Str{}
	}
	it := lib.Of(text)
	pins.Pin(it.P)
	return it
}

// call runs a function of libquipu on the store: `arguments` gives those between the store and the
// error; call options are one of them.
func (s *Store) call(ctx context.Context, function uintptr,
	arguments func(pins *runtime.Pinner, call uintptr) []uintptr) error {
	return s.callOn(ctx, s.handle, function, arguments)
}

// callOn is call for a function whose first argument is another handle of the store's.
func (s *Store) callOn(ctx context.Context, handle, function uintptr,
	arguments func(pins *runtime.Pinner, call uintptr) []uintptr) error {
	if err := s.gate.enter(); err != nil {
		return err
	}
	defer s.gate.leave()
	return withCall(ctx, time.Time{}, func(call uintptr) error {
		var pins runtime.Pinner
		defer pins.Unpin()
		failure := &lib.Error{}
		pins.Pin(failure)
		all := append([]uintptr{handle}, arguments(&pins, call)...)
		status, _, _ := purego.SyscallN(function, append(all, uintptr(unsafe.Pointer(failure)))...)
		return check(status, failure)
	})
}

// pinned is the address of a struct that C reads or writes during the call.
func pinned[T any](pins *runtime.Pinner, it *T) uintptr {
	pins.Pin(it)
	return uintptr(unsafe.Pointer(it))
}

// SaveMemory saves an observation or a reflection and returns it as it is stored. One with an origin
// is known by its content: saved again in its scope, it is counted. What it supersedes is retired in
// the same transaction.
func (s *Store) SaveMemory(ctx context.Context, given Memory) (Memory, error) {
	if err := s.gate.enter(); err != nil {
		return Memory{}, err
	}
	defer s.gate.leave()
	var list unsafe.Pointer
	err := withCall(ctx, time.Time{}, func(call uintptr) error {
		var pins runtime.Pinner
		defer pins.Unpin()
		one, items := newRecords(memoryShape(), &pins, 1)
		given.write(&items[0])
		(*lib.MemoryHead)(items[0].pointer()).Kind = int32(given.Kind)
		failure := &lib.Error{}
		status := lib.SliceCall(lib.Call.MemorySave, []uintptr{s.handle}, one, call,
			pinned(&pins, &list), pinned(&pins, failure))
		return check(status, failure)
	})
	if err != nil {
		return Memory{}, err
	}
	return memoriesOf(list)[0], nil
}

func (q *MemoryQuery) c(pins *runtime.Pinner) *lib.MemoryQuery {
	it := &lib.MemoryQuery{
		Kind: int32(q.Kind), SessionKey: optional(pins, q.SessionKey), Recent: q.Recent,
		FromSeq: q.FromSeq, ToSeq: q.ToSeq, IDCount: uintptr(len(q.IDs)),
	}
	it.StructSize = uint32(unsafe.Sizeof(*it))
	if len(q.IDs) > 0 {
		it.IDs = unsafe.Pointer(&q.IDs[0])
		pins.Pin(&q.IDs[0])
	}
	if q.Retired {
		it.Flags |= lib.MemoryRetired
	}
	if q.Scope {
		it.Flags |= lib.MemoryScope
	}
	return it
}

// Memories finds observations or reflections, in the order of their creation.
func (s *Store) Memories(ctx context.Context, query MemoryQuery) ([]Memory, error) {
	var list unsafe.Pointer
	err := s.call(ctx, lib.Call.MemoryFind, func(pins *runtime.Pinner, call uintptr) []uintptr {
		return []uintptr{pinned(pins, query.c(pins)), call, pinned(pins, &list)}
	})
	if err != nil {
		return nil, err
	}
	return memoriesOf(list), nil
}

// DeleteMemories deletes what a query names and returns how many there were.
func (s *Store) DeleteMemories(ctx context.Context, query MemoryQuery) (int64, error) {
	var removed int64
	err := s.call(ctx, lib.Call.MemoryDelete, func(pins *runtime.Pinner, call uintptr) []uintptr {
		return []uintptr{pinned(pins, query.c(pins)), call, pinned(pins, &removed)}
	})
	return removed, err
}

// UpdateMemory edits or retires a memory and returns what it is now.
func (s *Store) UpdateMemory(ctx context.Context, patch MemoryPatch) (Memory, error) {
	var list unsafe.Pointer
	err := s.call(ctx, lib.Call.MemoryUpdate, func(pins *runtime.Pinner, call uintptr) []uintptr {
		it := &lib.MemoryPatch{
			Kind: int32(patch.Kind), ID: patch.ID, Why: optional(pins, patch.Why),
			Who: optional(pins, patch.Who),
		}
		it.StructSize = uint32(unsafe.Sizeof(*it))
		if patch.Content != nil {
			it.Set |= lib.SetContent
			it.Content = optional(pins, *patch.Content)
		}
		if patch.Priority != nil {
			it.Set |= lib.SetPriority
			it.Priority = int32(*patch.Priority)
		}
		if patch.Subject != nil {
			it.Set |= lib.SetSubject
			it.Subject = optional(pins, *patch.Subject)
		}
		if patch.Retire {
			it.Set |= lib.SetRetired
		}
		return []uintptr{pinned(pins, it), call, pinned(pins, &list)}
	})
	if err != nil {
		return Memory{}, err
	}
	return memoriesOf(list)[0], nil
}

// WorkerOptions of a worker that observes sessions, by rules unless Ask is set. The zero value
// observes every session as soon as something is said.
type WorkerOptions struct {
	SessionKey    string        // only this session, or...
	AppName       string        // ...only this app's...
	UserID        string        // ...or this user's, with AppName
	ObserveTokens int64         // a session is due from so many on; 0: one, with Ask 4000
	Lease         time.Duration // 0: 30 seconds, with Ask two minutes
	Name          string        // for people

	// Ask asks a model and returns the text of its answer; it also condenses what is known. Its
	// context ends with the lease, and with the worker. Any goroutine, one call at a time.
	Ask           func(ctx context.Context, question Question) (string, error)
	Model         string // required with Ask
	ReflectTokens int64  // condense from so many on; 0: 4000; -1: never
	AskTokens     int64  // of messages in one question; 0: 16000
	// What the model is asked to write down, and how to condense it; empty: the library's words.
	ObservePrompt, ReflectPrompt string

	// Embedder makes the vectors that RecallOptions.Embedder compares, beside observing. Any
	// goroutine, one call at a time.
	Embedder   Embedder
	EmbedModel string // required with an embedder
	EmbedOnly  bool   // vectors only: nothing is observed
}

func (o *WorkerOptions) c(pins *runtime.Pinner, asks *asker) (*lib.MemoryOptions, error) {
	lease, err := milliseconds("WorkerOptions.Lease", o.Lease)
	if err != nil {
		return nil, err
	}
	if (o.Embedder == nil) != (o.EmbedModel == "") {
		return nil, errEmbedder
	}
	it := &lib.MemoryOptions{
		SessionKey: optional(pins, o.SessionKey), AppName: optional(pins, o.AppName),
		UserID: optional(pins, o.UserID), ObserveTokens: o.ObserveTokens,
		LeaseMS: int32(min(lease, 1<<31-1)), Worker: optional(pins, o.Name),
		Provider: asks.provider(), Model: optional(pins, o.Model),
		ReflectTokens: o.ReflectTokens, AskTokens: o.AskTokens,
		ObservePrompt: optional(pins, o.ObservePrompt), ReflectPrompt: optional(pins, o.ReflectPrompt),
		Embedder: asks.embedder(), EmbedModel: optional(pins, o.EmbedModel),
	}
	if o.EmbedOnly {
		it.Flags = lib.MemoryEmbedOnly
	}
	it.StructSize = uint32(unsafe.Sizeof(*it))
	return it, nil
}

// MemoryRan is what a worker did.
type MemoryRan struct {
	More         bool  // the deadline passed before everything was done
	Sessions     int64 // in which something was observed or passed over
	Messages     int64 // that were read, each once
	Observations int64 // that were saved...
	Repeats      int64 // ...or said again
	Lost         int64 // leases that other workers took over
	Failed       int64 // sessions whose work failed; they are tried again later
	Reflections  int64 // that were saved
	Condensed    int64 // observations and reflections that they retired
	ModelCalls   int64 // questions to the model, also those whose answer was refused
	Embedded     int64 // messages whose vectors were stored
}

func ranOf(it *lib.MemoryRan) MemoryRan {
	return MemoryRan{
		More: it.More, Sessions: it.Sessions, Messages: it.Messages, Observations: it.Observations,
		Repeats: it.Repeats, Lost: it.Lost, Failed: it.Failed, Reflections: it.Reflections,
		Condensed: it.Condensed, ModelCalls: it.ModelCalls,
		Embedded: it.Embedded,
	}
}

// newRan is where C writes what was done.
func newRan() *lib.MemoryRan {
	it := &lib.MemoryRan{}
	it.StructSize = uint32(unsafe.Sizeof(*it))
	return it
}

// RunMemory observes what is due and returns when nothing is. Any number of programs may do so at the
// same time.
func (s *Store) RunMemory(ctx context.Context, options WorkerOptions) (MemoryRan, error) {
	return s.runMemory(ctx, options, 0)
}

// FollowMemory observes what is due until the context ends, which is no error, and returns what was
// done in all. Store.Close waits for it.
func (s *Store) FollowMemory(ctx context.Context, options WorkerOptions) (MemoryRan, error) {
	if ctx.Done() == nil {
		return MemoryRan{}, &Error{Code: Misuse, Message: "a worker that follows needs a context that ends"}
	}
	return s.runMemory(ctx, options, lib.MemoryFollow)
}

func (s *Store) runMemory(ctx context.Context, options WorkerOptions, flags uint32) (MemoryRan, error) {
	ran := newRan()
	asks := newAsker(ctx, options.Ask, options.Embedder)
	defer asks.end()
	var wrong error
	err := s.call(ctx, lib.Call.MemoryRun, func(pins *runtime.Pinner, call uintptr) []uintptr {
		it, err := options.c(pins, asks)
		if err != nil {
			wrong, it = err, &lib.MemoryOptions{} // without a size: the call refuses it
		}
		it.Flags |= flags
		if _, has := ctx.Deadline(); flags != 0 && !has && call != 0 {
			(*lib.CallOptions)(*(*unsafe.Pointer)(unsafe.Pointer(&call))).DeadlineMS = -1
		}
		return []uintptr{pinned(pins, it), call, pinned(pins, ran)}
	})
	if wrong != nil {
		return MemoryRan{}, wrong
	}
	return ranOf(ran), err
}

// StartMemory starts a worker beside the program: a thread of the store that observes until
// StopMemory or Close. A store has one at a time; a second start fails with Exists. A store with a
// worker that asks must be closed, or its worker stopped.
func (s *Store) StartMemory(options WorkerOptions) error {
	if err := s.gate.enter(); err != nil {
		return err
	}
	defer s.gate.leave()
	var pins runtime.Pinner
	defer pins.Unpin()
	asks := newAsker(context.Background(), options.Ask, options.Embedder)
	it, err := options.c(&pins, asks)
	if err == nil {
		failure := &lib.Error{}
		s.workerMu.Lock()
		status, _, _ := purego.SyscallN(lib.Call.MemoryStart, s.handle, pinned(&pins, it),
			pinned(&pins, failure))
		if err = check(status, failure); err == nil {
			s.worker, asks = asks, s.worker // a worker that ran before has ended
		}
		s.workerMu.Unlock()
	}
	asks.end()
	return err
}

// endAsking cancels what the worker asks, so that stopping it does not wait for an answer.
func (s *Store) endAsking() {
	s.workerMu.Lock()
	defer s.workerMu.Unlock()
	if s.worker != nil {
		s.worker.cancel()
	}
}

// StopMemory stops the worker of StartMemory and returns what it did. Without one it does nothing.
func (s *Store) StopMemory() (MemoryRan, error) {
	if err := s.gate.enter(); err != nil {
		return MemoryRan{}, err
	}
	defer s.gate.leave()
	s.endAsking()
	var pins runtime.Pinner
	defer pins.Unpin()
	ran := newRan()
	failure := &lib.Error{}
	status, _, _ := purego.SyscallN(lib.Call.MemoryStop, s.handle, pinned(&pins, ran),
		pinned(&pins, failure))
	return ranOf(ran), check(status, failure)
}

// MemoryProgress is how far a session is observed.
type MemoryProgress struct {
	SessionKey, Scope                     string
	Watermark                             int64 // the last message that is observed, or passed over; 0: none
	LastSeq                               int64
	PendingMessages, PendingTokens        int64
	ObserveTokens                         int64 // so many are due
	Generation, Observations, Reflections int64
	StandingTokens                        int64
	Owner                                 string // who works on it; empty: nobody
	LeaseUntil                            time.Time
	Fence, Tries                          int64
	NextAt                                time.Time // when it may be claimed next
	LastError, ReflectError               string
	ModelCalls, ModelInput, ModelOutput   int64
	ModelCost, ModelUnpriced              int64 // millionths of a US dollar; questions without a price
}

// MemoryStatus reports how far sessions are observed: the one of the options, those of an app or a
// user, or all. More says that there are others behind them.
func (s *Store) MemoryStatus(ctx context.Context, options WorkerOptions) (found []MemoryProgress, more bool, err error) {
	var list unsafe.Pointer
	err = s.call(ctx, lib.Call.MemoryStatus, func(pins *runtime.Pinner, call uintptr) []uintptr {
		options.Lease = 0 // no lease is taken
		it, _ := options.c(pins, nil)
		return []uintptr{pinned(pins, it), call, pinned(pins, &list)}
	})
	if err != nil {
		return nil, false, err
	}
	defer purego.SyscallN(lib.Call.Free, uintptr(list))
	items := &(*lib.List)(list).Items
	for i := range items.Count {
		it := lib.Item[lib.MemoryProgress](items, i)
		found = append(found, MemoryProgress{
			SessionKey: it.SessionKey.String(), Scope: it.Scope.String(), Watermark: it.Watermark,
			LastSeq: it.LastSeq, PendingMessages: it.PendingMessages, PendingTokens: it.PendingTokens,
			ObserveTokens: it.ObserveTokens, Generation: it.Generation,
			Observations: it.Observations, Reflections: it.Reflections,
			StandingTokens: it.StandingTokens, Owner: it.Owner.String(),
			LeaseUntil: optionalTime(it.HasLeaseUntil, it.LeaseUntil), Fence: it.Fence,
			Tries: it.Tries, NextAt: optionalTime(it.HasNextAt, it.NextAt),
			LastError: it.LastError.String(), ReflectError: it.ReflectError.String(),
			ModelCalls: it.ModelCalls, ModelInput: it.ModelInput, ModelOutput: it.ModelOutput,
			ModelCost: it.ModelCost, ModelUnpriced: it.ModelUnpriced,
		})
	}
	return found, (*lib.List)(list).More, nil
}
