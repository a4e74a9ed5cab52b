package quipu

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"

	"quipu/bindings/go/internal/lib"
)

// milliseconds converts a duration, rounded up: 0 means the default, and nothing else may become it.
func milliseconds(what string, d time.Duration) (int64, error) {
	if d < 0 {
		return 0, &Error{Code: Misuse, Message: fmt.Sprintf("%s is %v; give a positive duration, or 0 for the default", what, d)}
	}
	return int64((d + time.Millisecond - 1) / time.Millisecond), nil
}

// deadlineMS is the time until a context's deadline, at least 1 ms; 0, the store's own, without one.
func deadlineMS(ctx context.Context) int32 {
	at, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	left := (time.Until(at) + time.Millisecond - 1) / time.Millisecond
	return int32(min(max(left, 1), math.MaxInt32))
}

// withCall runs `do` with a context's deadline and cancellation as C call options. `now` is the time
// that the call writes; zero for the system's.
func withCall(ctx context.Context, now time.Time, do func(call uintptr) error) error {
	_, limited := ctx.Deadline() // which a context of somebody's own may have without a Done
	if ctx.Done() == nil && !limited && now.IsZero() {
		return do(0)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	call := &lib.CallOptions{DeadlineMS: deadlineMS(ctx)}
	call.StructSize = uint32(unsafe.Sizeof(*call))
	if !now.IsZero() {
		call.Now = lib.Time{S: now.Unix(), NS: uint32(now.Nanosecond())}
	}
	if ctx.Done() != nil {
		cancel, _, _ := purego.SyscallN(lib.Call.CancelNew)
		if cancel == 0 {
			return NoMemory
		}
		call.Cancel = cancel
		done := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			purego.SyscallN(lib.Call.CancelSet, cancel)
			close(done)
		})
		defer func() {
			if !stop() {
				<-done // the flag must outlive the function that sets it
			}
			purego.SyscallN(lib.Call.Free, cancel)
		}()
	}
	var pins runtime.Pinner
	pins.Pin(call)
	defer pins.Unpin()
	return contextError(ctx, do(uintptr(unsafe.Pointer(call))))
}

// contextError adds the context's error to that of a call which the context ended. The library may
// notice the deadline a moment before the context does.
func contextError(ctx context.Context, err error) error {
	if !errors.Is(err, Cancelled) && !errors.Is(err, Busy) && !errors.Is(err, Unknown) {
		return err
	}
	ended := ctx.Err()
	if at, ok := ctx.Deadline(); ended == nil && ok && !time.Now().Before(at) {
		ended = context.DeadlineExceeded
	}
	if ended == nil {
		return err
	}
	return errors.Join(ended, err)
}
