package quipu

import (
	"errors"
	"fmt"
	"sync"
)

// ErrClosed is returned by every call on a store or a service that was closed.
var ErrClosed = errors.New("it is closed")

// gate counts the calls that run on a C object, so that closing waits for them and no call begins
// afterwards.
type gate struct {
	what   string
	mu     sync.Mutex
	empty  *sync.Cond // signalled when the last call leaves; nil before anybody waits
	calls  int
	closed bool
}

// enter admits a call, or fails when the object is closed; leave ends it.
func (g *gate) enter() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return fmt.Errorf("quipu: the %s cannot be used: %w", g.what, ErrClosed)
	}
	g.calls++
	return nil
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls--
	if g.calls == 0 && g.empty != nil {
		g.empty.Broadcast()
	}
}

// close refuses later calls and waits for those that run. It reports whether this is the first
// close: that caller frees the object.
func (g *gate) close() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	first := !g.closed
	g.closed = true
	if g.empty == nil {
		g.empty = sync.NewCond(&g.mu)
	}
	for g.calls > 0 {
		g.empty.Wait()
	}
	return first
}
