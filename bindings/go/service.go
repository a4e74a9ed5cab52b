package quipu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"
	"google.golang.org/adk/v2/platform"
	"google.golang.org/adk/v2/session"

	"quipu/bindings/go/internal/lib"
)

// ErrStale is returned by an append to a session that another writer changed since it was read.
var ErrStale = errors.New("stale session error")

// ServiceOptions of a session service. The zero value follows ADK's own services.
type ServiceOptions struct {
	// Rebase appends after other writers' events when a session is stale, instead of failing with
	// ErrStale.
	Rebase bool
	// TTL of new sessions; 0 means the store's.
	TTL time.Duration
}

// SessionService is Google ADK's session service on a store. All goroutines may share it.
type SessionService struct {
	handle uintptr
	store  *Store
	rebase bool
	shelf  bool // of a MemoryService: its sessions lie under apps of memoryApp
	gate   gate
	refs   atomic.Int64 // the open service and the live sessions, which read its C object
}

var _ session.Service = (*SessionService)(nil)

// NewSessionService returns a service on a store. It may be closed before or after the store.
func NewSessionService(store *Store, options ServiceOptions) (*SessionService, error) {
	ttl, err := milliseconds("ServiceOptions.TTL", options.TTL)
	if err != nil {
		return nil, err
	}
	if err := store.gate.enter(); err != nil {
		return nil, err
	}
	defer store.gate.leave()
	settings := &lib.ServiceOptions{
		Flags:   lib.ServiceGo,
		TTLMS:   ttl,
		KeyCase: lib.KeysCamel,
		Bytes:   lib.BytesStd,
		Time:    lib.TimesRFC3339,
	}
	settings.StructSize = uint32(unsafe.Sizeof(*settings))
	if options.Rebase {
		settings.Flags |= lib.ServiceRebase
	}
	service := &SessionService{store: store, rebase: options.Rebase}
	failure := &lib.Error{}
	status, _, _ := purego.SyscallN(lib.Call.ServiceNew, store.handle, uintptr(unsafe.Pointer(settings)),
		uintptr(unsafe.Pointer(&service.handle)), uintptr(unsafe.Pointer(failure)))
	if err := check(status, failure); err != nil {
		return nil, err
	}
	service.gate.what = "session service"
	service.refs.Store(1)
	return service, nil
}

// Close waits for the calls that run. Later ones fail with ErrClosed; sessions that were read stay
// readable.
func (s *SessionService) Close() error {
	if s.gate.close() {
		s.release()
	}
	return nil
}

// release drops a reference to the C object; the last one frees it. It is memory only and may
// outlive the store.
func (s *SessionService) release() {
	if s.refs.Add(-1) == 0 {
		purego.SyscallN(lib.Call.ServiceDel, s.handle)
	}
}

// enter admits a call while service and store are open.
func (s *SessionService) enter() error {
	if err := s.gate.enter(); err != nil {
		return err
	}
	if err := s.store.gate.enter(); err != nil {
		s.gate.leave()
		return err
	}
	return nil
}

func (s *SessionService) leave() {
	s.store.gate.leave()
	s.gate.leave()
}

// ref is a session's identity as C structs, pinned until the caller unpins it.
func ref(pins *runtime.Pinner, app, user, id string) *lib.Ref {
	it := &lib.Ref{AppName: lib.Of(app), UserID: lib.Of(user), SessionID: lib.Of(id)}
	pins.Pin(it)
	pins.Pin(it.AppName.P)
	pins.Pin(it.UserID.P)
	pins.Pin(it.SessionID.P)
	return it
}

func required(names ...string) error {
	for i := 0; i < len(names); i += 2 {
		if names[i+1] == "" {
			return fmt.Errorf("quipu: %s is required", names[i])
		}
	}
	return nil
}

// Create implements session.Service.
func (s *SessionService) Create(ctx context.Context, req *session.CreateRequest) (*session.CreateResponse, error) {
	if err := required("AppName", req.AppName, "UserID", req.UserID); err != nil {
		return nil, err
	}
	if strings.HasPrefix(req.AppName, memoryApp) && !s.shelf {
		// Its sessions would be the memory of the app whose name follows.
		return nil, fmt.Errorf("quipu: an app whose name begins with %q is the memory's own: %w", memoryApp, Invalid)
	}
	id := req.SessionID
	if id == "" {
		id = platform.NewUUID(ctx)
	}
	state := []byte("{}")
	if len(req.State) > 0 {
		var err error
		if state, err = json.Marshal(req.State); err != nil {
			return nil, fmt.Errorf("quipu: the state of session %q is not JSON: %w", id, err)
		}
	}
	made, err := s.open(ctx, platform.Now(ctx), func(call uintptr, handle *uintptr, failure *lib.Error) uintptr {
		var pins runtime.Pinner
		defer pins.Unpin()
		who := ref(&pins, req.AppName, req.UserID, id)
		status, _, _ := purego.SyscallN(lib.Call.Create, s.handle, uintptr(unsafe.Pointer(who)),
			uintptr(unsafe.Pointer(&state[0])), uintptr(len(state)), call,
			uintptr(unsafe.Pointer(handle)), uintptr(unsafe.Pointer(failure)))
		return status
	})
	if errors.Is(err, Exists) {
		return nil, fmt.Errorf("session %s already exists: %w", id, err)
	}
	if err != nil {
		return nil, err
	}
	return &session.CreateResponse{Session: made}, nil
}

// Get implements session.Service.
func (s *SessionService) Get(ctx context.Context, req *session.GetRequest) (*session.GetResponse, error) {
	err := required("AppName", req.AppName, "UserID", req.UserID, "SessionID", req.SessionID)
	if err != nil {
		return nil, err
	}
	found, err := s.get(ctx, req)
	if err != nil {
		return nil, err
	}
	return &session.GetResponse{Session: found}, nil
}

func (s *SessionService) get(ctx context.Context, req *session.GetRequest) (*liveSession, error) {
	options := &lib.GetOptions{NumRecent: int64(req.NumRecentEvents)}
	options.StructSize = uint32(unsafe.Sizeof(*options))
	if !req.After.IsZero() {
		options.Flags |= lib.GetAfter
		options.After = lib.Time{S: req.After.Unix(), NS: uint32(req.After.Nanosecond())}
	}
	return s.open(ctx, time.Time{}, func(call uintptr, handle *uintptr, failure *lib.Error) uintptr {
		var pins runtime.Pinner
		defer pins.Unpin()
		who := ref(&pins, req.AppName, req.UserID, req.SessionID)
		status, _, _ := purego.SyscallN(lib.Call.Get, s.handle, uintptr(unsafe.Pointer(who)),
			uintptr(unsafe.Pointer(options)), call, uintptr(unsafe.Pointer(handle)),
			uintptr(unsafe.Pointer(failure)))
		return status
	})
}

// open runs a C function that returns a live session.
func (s *SessionService) open(ctx context.Context, now time.Time, do func(call uintptr, handle *uintptr, failure *lib.Error) uintptr) (*liveSession, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	handle := new(uintptr)
	failure := &lib.Error{}
	err := withCall(ctx, now, func(call uintptr) error {
		return check(do(call, handle, failure), failure)
	})
	if err != nil {
		return nil, err
	}
	return newLiveSession(s, *handle)
}

// List implements session.Service. It returns sessions without events, oldest update first.
func (s *SessionService) List(ctx context.Context, req *session.ListRequest) (*session.ListResponse, error) {
	if err := required("AppName", req.AppName); err != nil {
		return nil, err
	}
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	app, user := lib.Of(req.AppName), lib.Of(req.UserID)
	var pins runtime.Pinner
	defer pins.Unpin()
	pins.Pin(app.P)
	pins.Pin(user.P)
	page := new(*lib.Page)
	failure := &lib.Error{}
	err := withCall(ctx, time.Time{}, func(call uintptr) error {
		status, _, _ := purego.SyscallN(lib.Call.List, s.handle, uintptr(app.P), app.N,
			uintptr(user.P), user.N, call, uintptr(unsafe.Pointer(page)),
			uintptr(unsafe.Pointer(failure)))
		return check(status, failure)
	})
	if err != nil {
		return nil, err
	}
	defer purego.SyscallN(lib.Call.Free, uintptr(unsafe.Pointer(*page)))
	entries := (*page).Sessions
	sessions := make([]session.Session, 0, entries.Count)
	for i := range entries.Count {
		listed, err := newListedSession(s, lib.Item[lib.Entry](&entries, i))
		if err != nil {
			return nil, err
		}
		sessions = append(sessions, listed)
	}
	return &session.ListResponse{Sessions: sessions}, nil
}

// Delete implements session.Service. A missing session is fine.
func (s *SessionService) Delete(ctx context.Context, req *session.DeleteRequest) error {
	err := required("AppName", req.AppName, "UserID", req.UserID, "SessionID", req.SessionID)
	if err != nil {
		return err
	}
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	var pins runtime.Pinner
	defer pins.Unpin()
	who := ref(&pins, req.AppName, req.UserID, req.SessionID)
	failure := &lib.Error{}
	return withCall(ctx, time.Time{}, func(call uintptr) error {
		status, _, _ := purego.SyscallN(lib.Call.Delete, s.handle, uintptr(unsafe.Pointer(who)),
			call, uintptr(unsafe.Pointer(failure)))
		return check(status, failure)
	})
}

// AppendEvent implements session.Service: when it returns, the event is in the store and in the
// session; when it fails, in neither. The event itself is not changed.
func (s *SessionService) AppendEvent(ctx context.Context, current session.Session, event *session.Event) error {
	if current == nil || event == nil {
		return errors.New("quipu: the session and the event are required")
	}
	if event.Partial {
		return nil
	}
	switch to := current.(type) {
	case *liveSession:
		if to.service == s {
			return to.append(ctx, event)
		}
	case *listedSession:
		if to.service == s {
			return to.append(ctx, event)
		}
	}
	return fmt.Errorf("quipu: session %q was not read from this service", current.ID())
}
