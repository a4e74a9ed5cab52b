package quipu

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"runtime"
	"strings"
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
	unsent map[string]bool // set by Set, and in no event yet
}

func decodeState(text []byte) (map[string]any, error) {
	values := map[string]any{}
	if len(text) > 0 {
		if err := decodeExact(text, &values); err != nil {
			return nil, fmt.Errorf("quipu: the stored state cannot be read: %w", err)
		}
	}
	return values, nil
}

func newState(text []byte) (*state, error) {
	values, err := decodeState(text)
	return &state{values: values, unsent: map[string]bool{}}, err
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
	s.unsent[name] = true
	return nil
}

func (s *state) All() iter.Seq2[string, any] {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return maps.All(maps.Clone(s.values))
}

// apply takes over the delta of an event that was stored. `stored`, unless nil, replaces the other
// values: what other writers stored before the event. Values that are in no event yet stay.
func (s *state) apply(stored map[string]any, delta map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range delta {
		delete(s.unsent, name)
	}
	if stored != nil {
		for name := range s.unsent {
			stored[name] = s.values[name]
		}
		s.values = stored
	}
	maps.Copy(s.values, delta)
}

// listedSession is a session from List, without events. The first event that is appended to it opens
// a live session, which the following ones use.
type listedSession struct {
	identity
	service  *SessionService
	uid      [16]byte
	revision int64
	state    *state
	updated  time.Time

	opening sync.Mutex // before mu
	mu      sync.RWMutex
	live    *liveSession
}

func newListedSession(service *SessionService, entry *lib.Entry) (*listedSession, error) {
	state, err := newState(entry.State.Bytes())
	return &listedSession{
		identity: identityOf(&entry.Ref), service: service, uid: entry.UID,
		revision: entry.Revision, state: state, updated: timeOf(entry.LastUpdateTime),
	}, err
}

func (s *listedSession) opened() *liveSession {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.live
}

func (s *listedSession) State() session.State { return s.state }

func (s *listedSession) Events() session.Events {
	if live := s.opened(); live != nil {
		return live.Events()
	}
	return events(nil)
}

func (s *listedSession) LastUpdateTime() time.Time {
	if live := s.opened(); live != nil {
		return live.LastUpdateTime()
	}
	return s.updated
}

// append opens the live session on first use.
func (s *listedSession) append(ctx context.Context, event *session.Event) error {
	live, err := s.open(ctx)
	if err != nil {
		return err
	}
	return live.append(ctx, event)
}

// open returns the live session. It shows none of the earlier events, as the list does not, and
// shares the state that the caller may have changed already.
func (s *listedSession) open(ctx context.Context) (*liveSession, error) {
	s.opening.Lock()
	defer s.opening.Unlock()
	if live := s.opened(); live != nil {
		return live, nil
	}
	live, err := s.service.get(ctx, &session.GetRequest{
		AppName: s.app, UserID: s.user, SessionID: s.id, NumRecentEvents: 1,
	})
	if err != nil {
		return nil, err
	}
	replaced := s.uid != ([16]byte{}) && live.uid != s.uid // an older library does not list the uid
	if replaced || live.revision != s.revision {
		if !s.service.rebase {
			return nil, fmt.Errorf("%w: session %q was changed after it was listed: %w", ErrStale, s.id, Conflict)
		}
		s.state.apply(live.state.values, nil)
	}
	live.first, live.state = len(live.decoded), s.state
	s.mu.Lock()
	s.live = live
	s.mu.Unlock()
	return live, nil
}

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
	first   int           // how many of the events are not shown
	turn    chan struct{} // held by the append that runs

	mu       sync.RWMutex
	updated  time.Time
	uid      [16]byte
	revision int64
	decoded  []*session.Event // by index; nil where nobody looked yet
}

func newLiveSession(service *SessionService, handle uintptr) (*liveSession, error) {
	live := &liveSession{service: service, handle: handle, turn: make(chan struct{}, 1)}
	service.refs.Add(1)
	runtime.AddCleanup(live, func(handle uintptr) {
		purego.SyscallN(lib.Call.SessionDel, handle)
		service.release()
	}, handle)
	var text []byte
	err := live.read(&lib.LiveQuery{Flags: lib.LiveState}, func(now *lib.Snapshot) {
		head := (*lib.Identity)(now.Identity)
		live.identity = identityOf(&head.Ref)
		live.updated, live.uid, live.revision = timeOf(head.LastUpdateTime), head.UID, head.Revision
		live.decoded = make([]*session.Event, int(now.Count))
		text = now.State.Bytes()
	})
	if err != nil {
		return nil, err
	}
	live.state, err = newState(text)
	return live, err
}

// storedState reads the state of the C session.
func (s *liveSession) storedState() ([]byte, error) {
	var all []byte
	err := s.read(&lib.LiveQuery{Flags: lib.LiveState}, func(now *lib.Snapshot) {
		all = now.State.Bytes()
	})
	return all, err
}

// append stores an event. Appends of one session run one at a time, so that each sees what it changed.
func (s *liveSession) append(ctx context.Context, event *session.Event) error {
	text, err := encodeEvent(event)
	if err != nil {
		return fmt.Errorf("quipu: event %q is not JSON: %w", event.ID, err)
	}
	if err := s.service.enter(); err != nil {
		return err
	}
	defer s.service.leave()
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	failure := &lib.Error{}
	err = withCall(ctx, time.Time{}, func(call uintptr) error {
		status, _, _ := purego.SyscallN(lib.Call.Append, s.handle, uintptr(unsafe.Pointer(&text[0])),
			uintptr(len(text)), call, 0, uintptr(unsafe.Pointer(failure)))
		runtime.KeepAlive(s)
		return check(status, failure)
	})
	if errors.Is(err, Conflict) {
		return fmt.Errorf("%w: %w", ErrStale, err)
	}
	if err != nil {
		return err
	}
	return s.follow(event)
}

// read asks the C session; `use` copies what it needs of the answer, which lies in an arena.
func (s *liveSession) read(query *lib.LiveQuery, use func(now *lib.Snapshot)) error {
	query.StructSize = uint32(unsafe.Sizeof(*query))
	arena, now, failure := &lib.Arena{}, &lib.Snapshot{}, &lib.Error{}
	now.StructSize = uint32(unsafe.Sizeof(*now))
	status, _, _ := purego.SyscallN(lib.Call.LiveGet, s.handle, uintptr(unsafe.Pointer(query)),
		uintptr(unsafe.Pointer(arena)), uintptr(unsafe.Pointer(now)), uintptr(unsafe.Pointer(failure)))
	if status == 0 {
		use(now)
	}
	purego.SyscallN(lib.Call.ArenaDel, uintptr(unsafe.Pointer(arena)))
	runtime.KeepAlive(s)
	return check(status, failure)
}

// follow updates time, events and state after an append. When the event is all that happened since
// the session was last in step, memory takes it as the caller gave it, as ADK's own services do;
// otherwise the state is read again, and events are decoded when they are looked at.
func (s *liveSession) follow(event *session.Event) error {
	var now lib.Identity
	count := 0
	err := s.read(&lib.LiveQuery{}, func(held *lib.Snapshot) {
		now, count = *(*lib.Identity)(held.Identity), int(held.Count)
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	alone := now.UID == s.uid && now.Revision == s.revision+1
	if now.UID != s.uid { // deleted and created again: the old events are gone
		s.decoded, s.first = nil, 0
	}
	added := count - len(s.decoded)
	s.decoded = append(s.decoded, make([]*session.Event, max(added, 0))...)
	if alone && added == 1 && event.ID != "" {
		s.decoded[count-1] = withoutTemp(event)
	}
	s.updated, s.uid, s.revision = timeOf(now.LastUpdateTime), now.UID, now.Revision
	s.mu.Unlock()
	var stored map[string]any
	if !alone {
		text, err := s.storedState()
		if err == nil {
			stored, err = decodeState(text)
		}
		if err != nil {
			return err
		}
	}
	s.state.apply(stored, event.Actions.StateDelta)
	return nil
}

// withoutTemp returns the event, or a copy without the temp: names of its delta.
func withoutTemp(event *session.Event) *session.Event {
	kept := *event
	kept.Actions.StateDelta = maps.Clone(event.Actions.StateDelta)
	maps.DeleteFunc(kept.Actions.StateDelta, func(name string, _ any) bool {
		return strings.HasPrefix(name, session.KeyPrefixTemp)
	})
	if len(kept.Actions.StateDelta) == len(event.Actions.StateDelta) {
		return event
	}
	return &kept
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
	return len(e.decoded) - e.first
}

func (e *liveEvents) At(i int) *session.Event {
	e.mu.RLock()
	if i += e.first; i < e.first || i >= len(e.decoded) {
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
	if i >= len(e.decoded) { // the session was replaced meanwhile
		return event
	}
	if e.decoded[i] == nil { // two who look at once get the same event
		e.decoded[i] = event
	}
	return e.decoded[i]
}

// decode converts a C event to Go. ADK's interface has no error, so a failure becomes an event with
// an error code.
func (e *liveEvents) decode(i int) *session.Event {
	event := &session.Event{}
	query := &lib.LiveQuery{Flags: lib.LiveEvents, First: uintptr(i), Limit: 1}
	err := (*liveSession)(e).read(query, func(now *lib.Snapshot) {
		if now.Events.Count == 0 {
			event.ErrorCode, event.ErrorMessage = "UNREADABLE", "there is no such event"
			return
		}
		text := (*lib.Str)(now.Events.At(0))
		if err := decodeEvent(unsafe.Slice((*byte)(text.P), text.N), event); err != nil {
			event.ErrorCode, event.ErrorMessage = "UNREADABLE", err.Error()
		}
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
