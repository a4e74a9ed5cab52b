package quipu

import (
	"context"
	"runtime"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"

	"quipu/bindings/go/internal/lib"
)

// A quipu_str that C takes by value is two arguments: its address and its length.
func key(pins *runtime.Pinner, text string) (uintptr, uintptr) {
	it := lib.Of(text)
	pins.Pin(it.P)
	return uintptr(it.P), it.N
}

// sessionOf reads the session of a history of C's and frees the history.
func sessionOf(history unsafe.Pointer) *Session {
	it := infoOf((*lib.History)(history).Session)
	purego.SyscallN(lib.Call.Free, uintptr(history))
	return it
}

// CreateSession makes a session.
func (s *Store) CreateSession(ctx context.Context, name string, values SessionNew) (*Session, error) {
	if err := s.gate.enter(); err != nil {
		return nil, err
	}
	defer s.gate.leave()
	var history unsafe.Pointer
	err := withCall(ctx, time.Time{}, func(call uintptr) error {
		var pins runtime.Pinner
		defer pins.Unpin()
		to := newWriter(sessionNew(), &pins)
		to.str("key", name)
		values.write(to)
		failure := &lib.Error{}
		status, _, _ := purego.SyscallN(lib.Call.SessionCreate, s.handle, uintptr(to.pointer()), call,
			uintptr(unsafe.Pointer(&history)), uintptr(unsafe.Pointer(failure)))
		return check(status, failure)
	})
	if err != nil {
		return nil, err
	}
	return sessionOf(history), nil
}

// Session reads what a session is, without its messages.
func (s *Store) Session(ctx context.Context, name string) (*Session, error) {
	if err := s.gate.enter(); err != nil {
		return nil, err
	}
	defer s.gate.leave()
	var history unsafe.Pointer
	err := withCall(ctx, time.Time{}, func(call uintptr) error {
		var pins runtime.Pinner
		defer pins.Unpin()
		header := &lib.Range{Flags: lib.RangeHeader}
		header.StructSize = uint32(unsafe.Sizeof(*header))
		address, length := key(&pins, name)
		failure := &lib.Error{}
		status, _, _ := purego.SyscallN(lib.Call.SessionGet, s.handle, address, length,
			uintptr(unsafe.Pointer(header)), call, uintptr(unsafe.Pointer(&history)),
			uintptr(unsafe.Pointer(failure)))
		return check(status, failure)
	})
	if err != nil {
		return nil, err
	}
	return sessionOf(history), nil
}

// UpdateSession changes settings of a session and gives its new revision.
func (s *Store) UpdateSession(ctx context.Context, name string, values SessionPatch) (int64, error) {
	if err := s.gate.enter(); err != nil {
		return 0, err
	}
	defer s.gate.leave()
	var revision int64
	err := withCall(ctx, time.Time{}, func(call uintptr) error {
		var pins runtime.Pinner
		defer pins.Unpin()
		to := newWriter(sessionPatch(), &pins)
		values.write(to)
		(*lib.Patch)(to.pointer()).Set = to.set
		address, length := key(&pins, name)
		failure := &lib.Error{}
		status, _, _ := purego.SyscallN(lib.Call.SessionUpdate, s.handle, address, length,
			uintptr(to.pointer()), call, uintptr(unsafe.Pointer(&revision)),
			uintptr(unsafe.Pointer(failure)))
		return check(status, failure)
	})
	return revision, err
}
