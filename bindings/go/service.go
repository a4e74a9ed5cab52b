package quipu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
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
	keeper keeper // its users are calls, and sessions of C's that are not freed
}

var _ session.Service = (*SessionService)(nil)

// NewSessionService returns a service on a store. It may be closed before or after the store.
func NewSessionService(store *Store, options ServiceOptions) (*SessionService, error) {
	if err := store.keeper.enter(); err != nil {
		return nil, err
	}
	settings := &lib.ServiceOptions{
		Flags:   lib.ServiceGo,
		TTLMS:   options.TTL.Milliseconds(),
		KeyCase: lib.KeysCamel,
		Bytes:   lib.BytesStd,
		Time:    lib.TimesRFC3339,
	}
	settings.StructSize = uint32(unsafe.Sizeof(*settings))
	if options.Rebase {
		settings.Flags |= lib.ServiceRebase
	}
	service := &SessionService{}
	failure := &lib.Error{}
	status, _, _ := purego.SyscallN(lib.Call.ServiceNew, store.handle, uintptr(unsafe.Pointer(settings)),
		uintptr(unsafe.Pointer(&service.handle)), uintptr(unsafe.Pointer(failure)))
	if err := check(status, failure); err != nil {
		store.keeper.leave()
		return nil, err
	}
	service.keeper.what = "session service"
	service.keeper.free = func() {
		purego.SyscallN(lib.Call.ServiceDel, service.handle)
		store.keeper.leave()
	}
	return service, nil
}

// Close closes the service: later calls fail, sessions that were read stay readable.
func (s *SessionService) Close() error {
	s.keeper.close()
	return nil
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
	made, err := s.open(ctx, func(call uintptr, handle *uintptr, failure *lib.Error) uintptr {
		var pins runtime.Pinner
		defer pins.Unpin()
		who := ref(&pins, req.AppName, req.UserID, id)
		status, _, _ := purego.SyscallN(lib.Call.Create, s.handle, uintptr(unsafe.Pointer(who)),
			uintptr(unsafe.Pointer(&state[0])), uintptr(len(state)), call,
			uintptr(unsafe.Pointer(handle)), uintptr(unsafe.Pointer(failure)))
		return status
	})
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
	options := &lib.GetOptions{NumRecent: int64(req.NumRecentEvents)}
	options.StructSize = uint32(unsafe.Sizeof(*options))
	if !req.After.IsZero() {
		options.Flags |= lib.GetAfter
		options.After = lib.Time{S: req.After.Unix(), NS: uint32(req.After.Nanosecond())}
	}
	found, err := s.open(ctx, func(call uintptr, handle *uintptr, failure *lib.Error) uintptr {
		var pins runtime.Pinner
		defer pins.Unpin()
		who := ref(&pins, req.AppName, req.UserID, req.SessionID)
		status, _, _ := purego.SyscallN(lib.Call.Get, s.handle, uintptr(unsafe.Pointer(who)),
			uintptr(unsafe.Pointer(options)), call, uintptr(unsafe.Pointer(handle)),
			uintptr(unsafe.Pointer(failure)))
		return status
	})
	if err != nil {
		return nil, err
	}
	return &session.GetResponse{Session: found}, nil
}

// open runs a C function that returns a live session.
func (s *SessionService) open(ctx context.Context, do func(call uintptr, handle *uintptr, failure *lib.Error) uintptr) (*liveSession, error) {
	if err := s.keeper.enter(); err != nil {
		return nil, err
	}
	handle := new(uintptr)
	failure := &lib.Error{}
	err := withCall(ctx, func(call uintptr) error {
		return check(do(call, handle, failure), failure)
	})
	if err != nil {
		s.keeper.leave()
		return nil, err
	}
	return newLiveSession(s, *handle)
}

// List implements session.Service. It returns sessions without events, oldest update first.
func (s *SessionService) List(ctx context.Context, req *session.ListRequest) (*session.ListResponse, error) {
	if err := required("AppName", req.AppName); err != nil {
		return nil, err
	}
	if err := s.keeper.enter(); err != nil {
		return nil, err
	}
	defer s.keeper.leave()
	app, user := lib.Of(req.AppName), lib.Of(req.UserID)
	var pins runtime.Pinner
	defer pins.Unpin()
	pins.Pin(app.P)
	pins.Pin(user.P)
	page := new(*lib.Page)
	failure := &lib.Error{}
	err := withCall(ctx, func(call uintptr) error {
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
		listed, err := newListedSession((*lib.Entry)(entries.At(i)))
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
	if err := s.keeper.enter(); err != nil {
		return err
	}
	defer s.keeper.leave()
	var pins runtime.Pinner
	defer pins.Unpin()
	who := ref(&pins, req.AppName, req.UserID, req.SessionID)
	failure := &lib.Error{}
	return withCall(ctx, func(call uintptr) error {
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
	live, ok := current.(*liveSession)
	if !ok || live.service != s {
		return fmt.Errorf("quipu: session %q was not read from this service", current.ID())
	}
	text, err := json.Marshal(event)
	if err != nil {
		return fmt.Errorf("quipu: event %q is not JSON: %w", event.ID, err)
	}
	failure := &lib.Error{}
	err = withCall(ctx, func(call uintptr) error {
		status, _, _ := purego.SyscallN(lib.Call.Append, live.handle,
			uintptr(unsafe.Pointer(&text[0])), uintptr(len(text)), call, 0,
			uintptr(unsafe.Pointer(failure)))
		return check(status, failure)
	})
	if errors.Is(err, Conflict) {
		return fmt.Errorf("%w: %w", ErrStale, err)
	}
	if err != nil {
		return err
	}
	return live.caughtUp(event)
}
