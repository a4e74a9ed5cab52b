package quipu

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"
	"google.golang.org/adk/v2/session"

	"quipu/bindings/go/internal/lib"
)

// identity is what every session returns without a call into C.
type identity struct {
	app, user, id string
}

func (i *identity) ID() string      { return i.id }
func (i *identity) AppName() string { return i.app }
func (i *identity) UserID() string  { return i.user }

func identityOf(ref *lib.Ref) identity {
	return identity{ref.AppName.String(), ref.UserID.String(), ref.SessionID.String()}
}

func timeOf(t lib.Time) time.Time {
	return time.Unix(t.S, int64(t.NS)).UTC()
}

// state implements session.State in memory. Values set here are stored with the state delta of an
// event, as in ADK's own services.
type state struct {
	mu     sync.RWMutex
	values map[string]any
}

func newState(text []byte) (*state, error) {
	it := &state{values: map[string]any{}}
	if len(text) == 0 {
		return it, nil
	}
	if err := json.Unmarshal(text, &it.values); err != nil {
		return nil, fmt.Errorf("quipu: the stored state cannot be read: %w", err)
	}
	return it, nil
}

func (s *state) Get(name string) (any, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	value, ok := s.values[name]
	if !ok {
		return nil, session.ErrStateKeyNotExist
	}
	return value, nil
}

func (s *state) Set(name string, value any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[name] = value
	return nil
}

func (s *state) All() iter.Seq2[string, any] {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return maps.All(maps.Clone(s.values))
}

// listedSession is a session from List, without events.
type listedSession struct {
	identity
	state   *state
	updated time.Time
}

func newListedSession(entry *lib.Entry) (*listedSession, error) {
	state, err := newState(entry.State.Bytes())
	return &listedSession{identityOf(&entry.Ref), state, timeOf(entry.LastUpdateTime)}, err
}

func (s *listedSession) State() session.State      { return s.state }
func (s *listedSession) Events() session.Events    { return events(nil) }
func (s *listedSession) LastUpdateTime() time.Time { return s.updated }

// events is a complete list of events.
type events []*session.Event

func (e events) Len() int { return len(e) }

func (e events) At(i int) *session.Event {
	if i < 0 || i >= len(e) {
		return nil
	}
	return e[i]
}

func (e events) All() iter.Seq[*session.Event] {
	return func(yield func(*session.Event) bool) {
		for _, event := range e {
			if !yield(event) {
				return
			}
		}
	}
}

// liveSession wraps a live session of C: its history and state, which follow the store. Events are
// decoded when they are read, so only what is read of a long history costs time.
type liveSession struct {
	identity
	service *SessionService
	handle  uintptr
	state   *state

	mu      sync.RWMutex
	updated time.Time
	decoded []*session.Event // by index; nil where nobody looked yet
}

func newLiveSession(service *SessionService, handle uintptr) (*liveSession, error) {
	live := &liveSession{service: service, handle: handle}
	runtime.AddCleanup(live, func(handle uintptr) {
		purego.SyscallN(lib.Call.SessionDel, handle)
		service.keeper.leave()
	}, handle)
	var names string
	err := live.read(func(arena *lib.Arena, failure *lib.Error) uintptr {
		head, status := live.head(arena, failure)
		live.identity = identityOf(&head.Ref)
		live.updated = timeOf(head.LastUpdateTime)
		return status
	})
	if err == nil {
		err = live.read(func(arena *lib.Arena, failure *lib.Error) uintptr {
			text := &lib.Str{}
			status, _, _ := purego.SyscallN(lib.Call.State, handle, 0, 0, uintptr(unsafe.Pointer(arena)),
				uintptr(unsafe.Pointer(text)), uintptr(unsafe.Pointer(failure)))
			names = text.String()
			return status
		})
	}
	if err != nil {
		return nil, err
	}
	live.decoded = make([]*session.Event, live.count())
	live.state, err = newState([]byte(names))
	return live, err
}

// read runs a C function that writes its result to an arena; `do` copies it out.
func (s *liveSession) read(do func(arena *lib.Arena, failure *lib.Error) uintptr) error {
	arena := &lib.Arena{}
	failure := &lib.Error{}
	status := do(arena, failure)
	purego.SyscallN(lib.Call.ArenaDel, uintptr(unsafe.Pointer(arena)))
	runtime.KeepAlive(s)
	return check(status, failure)
}

// head reads the session's names, revision and time; its texts lie in the arena.
func (s *liveSession) head(arena *lib.Arena, failure *lib.Error) (*lib.Head, uintptr) {
	head := &lib.Head{}
	head.StructSize = uint32(unsafe.Sizeof(*head))
	status, _, _ := purego.SyscallN(lib.Call.Head, s.handle, uintptr(unsafe.Pointer(arena)),
		uintptr(unsafe.Pointer(head)), uintptr(unsafe.Pointer(failure)))
	return head, status
}

func (s *liveSession) count() int {
	n, _, _ := purego.SyscallN(lib.Call.Count, s.handle)
	runtime.KeepAlive(s)
	return int(n)
}

// caughtUp updates time, events and state after an append.
func (s *liveSession) caughtUp(event *session.Event) error {
	var updated lib.Time
	err := s.read(func(arena *lib.Arena, failure *lib.Error) uintptr {
		head, status := s.head(arena, failure)
		updated = head.LastUpdateTime
		return status
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.updated = timeOf(updated)
	s.decoded = append(s.decoded, make([]*session.Event, max(s.count()-len(s.decoded), 0))...)
	s.mu.Unlock()
	for name, value := range event.Actions.StateDelta {
		if err := s.state.Set(name, value); err != nil {
			return err
		}
	}
	return nil
}

func (s *liveSession) State() session.State   { return s.state }
func (s *liveSession) Events() session.Events { return (*liveEvents)(s) }

func (s *liveSession) LastUpdateTime() time.Time {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.updated
}

// liveEvents implements session.Events on a live session.
type liveEvents liveSession

func (e *liveEvents) Len() int {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return len(e.decoded)
}

func (e *liveEvents) At(i int) *session.Event {
	e.mu.RLock()
	if i < 0 || i >= len(e.decoded) {
		e.mu.RUnlock()
		return nil
	}
	event := e.decoded[i]
	e.mu.RUnlock()
	if event != nil {
		return event
	}
	event = e.decode(i)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.decoded[i] == nil { // two who look at once get the same event
		e.decoded[i] = event
	}
	return e.decoded[i]
}

// decode converts a C event to Go. ADK's interface has no error, so a failure becomes an event with
// an error code.
func (e *liveEvents) decode(i int) *session.Event {
	event := &session.Event{}
	err := (*liveSession)(e).read(func(arena *lib.Arena, failure *lib.Error) uintptr {
		text := &lib.Str{}
		status, _, _ := purego.SyscallN(lib.Call.Event, e.handle, uintptr(i),
			uintptr(unsafe.Pointer(arena)), uintptr(unsafe.Pointer(text)),
			uintptr(unsafe.Pointer(failure)))
		if status == 0 {
			if err := json.Unmarshal(unsafe.Slice((*byte)(text.P), text.N), event); err != nil {
				event.ErrorCode, event.ErrorMessage = "UNREADABLE", err.Error()
			}
		}
		return status
	})
	if err != nil {
		event.ErrorCode, event.ErrorMessage = "UNREADABLE", err.Error()
	}
	return event
}

func (e *liveEvents) All() iter.Seq[*session.Event] {
	return func(yield func(*session.Event) bool) {
		for i := range e.Len() {
			if !yield(e.At(i)) {
				return
			}
		}
	}
}
