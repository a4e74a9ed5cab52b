// Package quipu opens quipu stores: files with the conversations of AI agents. It calls libquipu
// without cgo; the system's loader finds the library, or QUIPU_LIBRARY names the file.
// NewSessionService returns a session service of Google's ADK on a store.
package quipu

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"

	"quipu/bindings/go/internal/lib"
)

// Code classifies errors by what a caller can do about them. The numbers are those of quipu_status.
type Code int32

// The codes of libquipu.
const (
	NotFound    Code = -1
	Exists      Code = -2
	Expired     Code = -3
	Conflict    Code = -4
	Busy        Code = -5
	Full        Code = -6
	Unknown     Code = -7
	Invalid     Code = -8
	Misuse      Code = -9
	Limit       Code = -10
	NoMemory    Code = -11
	IO          Code = -12
	Corrupt     Code = -13
	Cancelled   Code = -14
	Unsupported Code = -15
	Newer       Code = -16
)

var codeNames = [...]string{
	"ok", "not found", "exists", "expired", "conflict", "busy", "full", "unknown outcome", "invalid",
	"misuse", "limit", "no memory", "i/o", "corrupt", "cancelled", "unsupported", "newer",
}

// Error makes a code an error that errors.Is finds: errors.Is(err, quipu.Busy).
func (c Code) Error() string {
	if c > 0 || int(-c) >= len(codeNames) {
		return fmt.Sprintf("quipu: status %d", int32(c))
	}
	return "quipu: " + codeNames[-c]
}

// Error is an error of libquipu: the code, the message, and the rule that was violated.
type Error struct {
	Code    Code
	Message string
	Entity  string
	Field   string
	Rule    string
}

func (e *Error) Error() string {
	if e.Message == "" {
		return e.Code.Error()
	}
	return "quipu: " + e.Message
}

// Unwrap returns the code.
func (e *Error) Unwrap() error {
	return e.Code
}

// Options of a store. The zero value is the default of the library.
type Options struct {
	// Relaxed is faster, but a power cut may lose the last writes; a crash of the process loses
	// nothing either way.
	Relaxed bool
	// ReadOnly writes nothing, not even by migration.
	ReadOnly bool
	// MustExist makes a missing file an error.
	MustExist bool
	// Deadline of calls whose context has none; 0 means 30 seconds. A context's own deadline counts
	// alone, also when it is later.
	Deadline time.Duration
	// TTL of sessions; 0 means no expiry.
	TTL time.Duration
	// MaxBytes caps the file; 0 means no cap.
	MaxBytes int64
	// Tenant whose sessions the calls are about.
	Tenant string
	// Key of an encrypted store, 32 bytes; a new file becomes one. At most one of the four is given.
	Key []byte
	// KeyFile has those bytes or 64 hexadecimal digits; nobody else may read it.
	KeyFile string
	// Passphrase from which scrypt derives the key, 1 to 1024 bytes.
	Passphrase string
	// PassphraseFile has it, and may end with a line end; nobody else may read it.
	PassphraseFile string
}

// Store is an open store. All goroutines may share it.
type Store struct {
	handle   uintptr
	gate     gate
	tails    *tails
	workerMu sync.Mutex // held while a worker starts
	worker   *asker     // what the worker that was started last asks; nil: nothing
}

// Version of libquipu.
func Version() (string, error) {
	if err := lib.Load(); err != nil {
		return "", err
	}
	text, _, _ := purego.SyscallN(lib.Call.Version)
	return lib.Text(text), nil
}

// Open opens a store by its path or its URI (postgresql://...), or creates it.
func Open(path string, options Options) (*Store, error) {
	if err := lib.Load(); err != nil {
		return nil, err
	}
	deadline, err := milliseconds("Options.Deadline", options.Deadline)
	if err != nil {
		return nil, err
	}
	ttl, err := milliseconds("Options.TTL", options.TTL)
	if err != nil {
		return nil, err
	}
	var pins runtime.Pinner
	defer pins.Unpin()
	uri := append([]byte(path), 0)
	settings := &lib.OpenOptions{
		DeadlineMS: int32(min(deadline, math.MaxInt32)),
		TTLMS:      ttl,
		MaxBytes:   options.MaxBytes,
		Tenant:     lib.Of(options.Tenant),
	}
	settings.StructSize = uint32(unsafe.Sizeof(*settings))
	if options.Relaxed {
		settings.Durability = 1
	}
	if options.ReadOnly {
		settings.Flags |= lib.OpenReadOnly
	}
	if options.MustExist {
		settings.Flags |= lib.OpenMustExist
	}
	if err := options.putKey(settings, &pins); err != nil {
		return nil, err
	}
	pins.Pin(&uri[0])
	pins.Pin(settings)
	pins.Pin(settings.Tenant.P)
	store := &Store{tails: newTails()}
	failure := &lib.Error{}
	status, _, _ := purego.SyscallN(lib.Call.Open, uintptr(unsafe.Pointer(&uri[0])),
		uintptr(unsafe.Pointer(settings)), uintptr(unsafe.Pointer(&store.handle)),
		uintptr(unsafe.Pointer(failure)))
	if err := check(status, failure); err != nil {
		return nil, err
	}
	store.gate.what = "store"
	return store, nil
}

// Close ends the tails that wait, waits for the calls that run, then closes the file or the connections. Later calls on the
// store and on its services fail with ErrClosed; sessions that were read stay readable. Closing
// twice is fine.
func (s *Store) Close() error {
	s.tails.end() // of those that wait, which the gate would wait for
	if s.gate.close() {
		s.tails.closeAll()
		s.endAsking()
		purego.SyscallN(lib.Call.Close, s.handle)
		s.worker.end()
	}
	return nil
}

// check converts the status of a C function to an error; nil for success.
func check(status uintptr, failure *lib.Error) error {
	if int32(status) == 0 {
		return nil
	}
	return &Error{
		Code:    Code(int32(status)),
		Message: lib.CString(failure.Message[:]),
		Entity:  lib.CString(failure.Entity[:]),
		Field:   lib.CString(failure.Field[:]),
		Rule:    lib.CString(failure.Rule[:]),
	}
}
