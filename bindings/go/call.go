package quipu

import (
	"context"
	"errors"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"

	"quipu/bindings/go/internal/lib"
)

// withCall runs `do` with a context's deadline and cancellation as C call options, or NULL when the
// context has neither.
func withCall(ctx context.Context, do func(call uintptr) error) error {
	if ctx.Done() == nil {
		return do(0)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	cancel, _, _ := purego.SyscallN(lib.Call.CancelNew)
	if cancel == 0 {
		return NoMemory
	}
	told := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		purego.SyscallN(lib.Call.CancelSet, cancel)
		close(told)
	})
	call := &lib.CallOptions{Cancel: cancel}
	call.StructSize = uint32(unsafe.Sizeof(*call))
	var pins runtime.Pinner
	pins.Pin(call)
	err := do(uintptr(unsafe.Pointer(call)))
	pins.Unpin()
	if !stop() {
		<-told
	}
	purego.SyscallN(lib.Call.CancelDel, cancel)
	if errors.Is(err, Cancelled) && ctx.Err() != nil {
		return errors.Join(ctx.Err(), err)
	}
	return err
}
