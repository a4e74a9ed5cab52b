package quipu

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"quipu/bindings/go/internal/lib"
)

// tails are the open tails of a store. A tail of C's ends before its store: Store.Close ends those
// that wait, and closes those whose loop is doing something else.
type tails struct {
	mu   sync.Mutex // also while a tail is closed, so that it is closed once
	open map[uintptr]bool
	ctx  context.Context // ends when the store is being closed
	end  context.CancelFunc
}

func newTails() *tails {
	it := &tails{open: map[uintptr]bool{}}
	it.ctx, it.end = context.WithCancel(context.Background())
	return it
}

func (t *tails) add(handle uintptr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open[handle] = true
}

func (t *tails) close(handle uintptr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open[handle] {
		delete(t.open, handle)
		purego.SyscallN(lib.Call.TailClose, handle)
	}
}

// closeAll is called when no call runs any more and none can begin.
func (t *tails) closeAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for handle := range t.open {
		purego.SyscallN(lib.Call.TailClose, handle)
	}
	clear(t.open)
}

// Tail goes through the messages of a session behind number `after`, first those that exist, then
// each as it is appended, by this process or another, without a gap. It goes on until the loop is
// left or an error ends it: the context's when the context ends, NotFound or Expired when the session
// is gone, ErrClosed when the store is closed.
func (s *Store) Tail(ctx context.Context, name string, after int64) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		closed := fmt.Errorf("quipu: the store cannot be used: %w", ErrClosed)
		defer context.AfterFunc(s.tails.ctx, func() { cancel(closed) })()
		handle, err := s.openTail(ctx, name, after)
		if err == nil {
			defer s.tails.close(handle)
		}
		for err == nil {
			var batch *History
			batch, err = s.nextOf(ctx, handle)
			if err != nil || batch == nil {
				continue
			}
			for i := range batch.Messages {
				if !yield(batch.Messages[i], nil) {
					return
				}
			}
		}
		if context.Cause(ctx) == closed {
			err = closed
		}
		yield(Message{}, err)
	}
}

func (s *Store) openTail(ctx context.Context, name string, after int64) (uintptr, error) {
	if err := s.gate.enter(); err != nil {
		return 0, err
	}
	defer s.gate.leave() // after the tail is in the list: Close finds it there
	var handle uintptr
	err := s.call(ctx, lib.Call.TailOpen, func(pins *runtime.Pinner, call uintptr) []uintptr {
		address, length := key(pins, name)
		return []uintptr{address, length, uintptr(after), call, pinned(pins, &handle)}
	})
	if err == nil {
		s.tails.add(handle)
	}
	return handle, err
}

// nextOf waits for the next messages until the context ends.
func (s *Store) nextOf(ctx context.Context, handle uintptr) (*History, error) {
	const withoutEnd = ^uintptr(0)
	var result unsafe.Pointer
	err := s.callOn(ctx, handle, lib.Call.TailNext, func(pins *runtime.Pinner, call uintptr) []uintptr {
		return []uintptr{withoutEnd, call, pinned(pins, &result)}
	})
	if err != nil || result == nil {
		return nil, err
	}
	return historyOf(result), nil
}
