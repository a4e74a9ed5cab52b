package quipu

import (
	"fmt"
	"sync"
)

// keeper holds a thing of C's until it is closed and nobody uses it any more: then it is freed,
// once.
type keeper struct {
	what   string
	free   func()
	mu     sync.Mutex
	users  int
	closed bool
	freed  bool
}

// enter counts a user; leave ends that.
func (k *keeper) enter() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return fmt.Errorf("quipu: the %s is closed", k.what)
	}
	k.users++
	return nil
}

func (k *keeper) leave() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.users--
	k.freeUnused()
}

// close lets nobody in any more.
func (k *keeper) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	k.freeUnused()
}

func (k *keeper) freeUnused() {
	if k.closed && k.users == 0 && !k.freed {
		k.freed = true
		k.free()
	}
}
