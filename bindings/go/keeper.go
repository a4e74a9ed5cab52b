package quipu

import (
	"fmt"
	"sync"
)

// keeper counts the users of a C object; it frees the object once, after it was closed and the last
// user has left.
type keeper struct {
	what   string
	free   func()
	mu     sync.Mutex
	users  int
	closed bool
	freed  bool
}

// enter adds a user, or fails when the object is closed; leave removes one.
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

// close makes later calls of enter fail.
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
