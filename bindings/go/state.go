package quipu

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"

	"quipu/bindings/go/internal/lib"
)

// Removed, as the value of a name of state, removes the name. (nil is JSON's null, a value.)
var Removed = removed{}

type removed struct{}

// How names of state begin that an app or a user shares, by the numbers of quipu_scope: 1, 2, and 3
// for a session's own.
var scopePrefixes = [...]string{"", "app:", "user:", ""}

// stateChange is a name without its prefix; a nil value removes it.
type stateChange struct {
	scope int32
	name  string
	value []byte
}

type changeList []stateChange

// stateChanges reads names with their prefixes, in the order of their names.
func stateChanges(values map[string]any) (changeList, error) {
	var made changeList
	for name, value := range values {
		if strings.HasPrefix(name, "temp:") {
			return nil, &Error{Code: Misuse, Message: `names of state that begin with "temp:" are not stored`}
		}
		it := stateChange{scope: 3, name: name}
		for scope, prefix := range scopePrefixes {
			if rest, ok := strings.CutPrefix(name, prefix); ok && prefix != "" {
				it.scope, it.name = int32(scope), rest
			}
		}
		if value != Removed {
			text, err := json.Marshal(value)
			if err != nil {
				return nil, fmt.Errorf("quipu: state %q is not JSON: %w", name, err)
			}
			it.value = text
		}
		made = append(made, it)
	}
	slices.SortFunc(made, func(a, b stateChange) int { return strings.Compare(a.name, b.name) })
	return made, nil
}

// c is the changes as an event of C's, with an id of its own.
func (l changeList) c(pins *runtime.Pinner) unsafe.Pointer {
	items := make([]lib.StateChange, len(l))
	for i, one := range l {
		items[i] = lib.StateChange{Scope: one.scope, Name: present(pins, one.name), Value: presentBytes(pins, one.value)}
	}
	event := &lib.StateEvent{Changes: sliceOf(pins, items), EventID: present(pins, "state-"+rand.Text()), Time: cTime(time.Now())}
	event.StructSize = uint32(unsafe.Sizeof(*event))
	pins.Pin(event)
	return unsafe.Pointer(event)
}

// StateEntry is one name of state, and who set it last.
type StateEntry struct {
	Name   string // with "app:" or "user:" before the names of apps and users
	Value  []byte // JSON
	SetAt  time.Time
	SetBy  string // the author of the event; empty: it had none
	SetSeq int64  // the event's message; 0: none
	SetIn  string // the session, for names of apps and users
}

// StateEntries reads the state that a session sees, its own and that of its app and its user, by
// scope and name.
func (s *Store) StateEntries(ctx context.Context, name string) ([]StateEntry, error) {
	var result unsafe.Pointer
	err := s.call(ctx, lib.Call.StateGet, func(pins *runtime.Pinner, call uintptr) []uintptr {
		address, length := key(pins, name)
		return []uintptr{address, length, call, pinned(pins, &result)}
	})
	if err != nil {
		return nil, err
	}
	items := &(*lib.List)(result).Items
	all := make([]StateEntry, items.Count)
	for i := range all {
		it := lib.Item[lib.StateEntry](items, uintptr(i))
		all[i] = StateEntry{
			Name: scopePrefixes[it.Scope&3] + it.Name.String(), Value: it.Value.Bytes(),
			SetAt: timeOf(it.SetAt), SetBy: it.SetBy.String(), SetSeq: it.SetSeq, SetIn: it.SetIn.String(),
		}
	}
	purego.SyscallN(lib.Call.Free, uintptr(result))
	return all, nil
}

// State reads the state that a session sees, by name. Integers beyond 2^53 are json.Number.
func (s *Store) State(ctx context.Context, name string) (map[string]any, error) {
	entries, err := s.StateEntries(ctx, name)
	if err != nil {
		return nil, err
	}
	values := make(map[string]any, len(entries))
	for _, one := range entries {
		var value any
		if err := decodeExact(one.Value, &value); err != nil {
			return nil, fmt.Errorf("quipu: state %q of session %q cannot be read: %w", one.Name, name, err)
		}
		values[one.Name] = value
	}
	return values, nil
}

// SetState sets names of a session's state, all or none; "app:" and "user:" names show in every
// session of its app and its user. The value Removed removes a name.
func (s *Store) SetState(ctx context.Context, name string, values map[string]any) error {
	if len(values) == 0 {
		_, err := s.Session(ctx, name)
		return err
	}
	_, err := s.Append(ctx, name, AppendOptions{State: values})
	return err
}
