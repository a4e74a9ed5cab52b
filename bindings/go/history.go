package quipu

import (
	"context"
	"runtime"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"

	"quipu/bindings/go/internal/lib"
)

// AppendOptions of an append. The zero value appends to a session that exists.
type AppendOptions struct {
	// Create makes a missing session, or renews an expired one, in the same transaction.
	Create bool
	// IfRevision, unless nil, is the only revision of the session that gets the messages; any other
	// is Conflict.
	IfRevision *int64
	// Settings change together with the append; nil: none.
	Settings *SessionPatch
	// State is names and values that are set together with the append, as by SetState. The value
	// Removed removes a name.
	State map[string]any
}

// Appended says what an append did.
type Appended struct {
	FirstSeq int64
	Revision int64
	Repeated bool // every message was stored already: nothing was written
}

// Append stores messages, all or none; they are durable when it returns. A message whose EventID is
// stored already, with the same content, is not stored again.
func (s *Store) Append(ctx context.Context, name string, options AppendOptions, messages ...Message) (Appended, error) {
	if err := s.gate.enter(); err != nil {
		return Appended{}, err
	}
	defer s.gate.leave()
	changes, err := stateChanges(options.State)
	if err != nil {
		return Appended{}, err
	}
	made := &lib.Appended{}
	made.StructSize = uint32(unsafe.Sizeof(*made))
	err = withCall(ctx, time.Time{}, func(call uintptr) error {
		var pins runtime.Pinner
		defer pins.Unpin()
		to := &lib.AppendOptions{ExpectedRevision: -1}
		to.StructSize = uint32(unsafe.Sizeof(*to))
		if options.Create {
			to.Flags |= lib.AppendCreate
		}
		if options.IfRevision != nil {
			to.ExpectedRevision = *options.IfRevision
		}
		if options.Settings != nil {
			patch := newWriter(sessionPatch(), &pins)
			options.Settings.write(patch)
			(*lib.Patch)(patch.pointer()).Set = patch.set
			to.Settings = patch.pointer()
		}
		if len(changes) > 0 {
			to.Event = changes.c(&pins)
		}
		address, length := key(&pins, name)
		failure := &lib.Error{}
		status := lib.SliceCall(lib.Call.MessageAppend, []uintptr{s.handle, address, length},
			messagesToC(&pins, messages), pinned(&pins, to), call, pinned(&pins, made),
			pinned(&pins, failure))
		return check(status, failure)
	})
	if err != nil {
		return Appended{}, err
	}
	return Appended{FirstSeq: made.FirstSeq, Revision: made.Revision, Repeated: made.Repeated}, nil
}

// Range says which messages a read returns. The zero value is all of them.
type Range struct {
	After  int64 // only messages behind this number
	Before int64 // only messages before this one; 0: to the last
	Limit  int64 // at most this many; 0: all
	Last   bool  // Limit takes the newest, not the oldest
	View   bool  // what a model should see: after a compaction the summary and what follows it
}

// History is a session and some of its messages, oldest first.
type History struct {
	Session               *Session
	Messages              []Message
	MoreBefore, MoreAfter bool
}

// infoOf reads a quipu_session_info.
func infoOf(at unsafe.Pointer) *Session {
	it := &Session{}
	it.read(&reader{shape: sessionInfo(), at: at})
	return it
}

// historyOf reads a history of C's and frees it.
func historyOf(result unsafe.Pointer) *History {
	it := (*lib.History)(result)
	made := &History{
		Session: infoOf(it.Session), Messages: messagesOf(&it.Messages),
		MoreBefore: it.MoreBefore, MoreAfter: it.MoreAfter,
	}
	purego.SyscallN(lib.Call.Free, uintptr(result))
	return made
}

// Get reads a session and its messages from one snapshot.
func (s *Store) Get(ctx context.Context, name string, which Range) (*History, error) {
	var result unsafe.Pointer
	err := s.call(ctx, lib.Call.SessionGet, func(pins *runtime.Pinner, call uintptr) []uintptr {
		to := &lib.Range{After: which.After, Before: which.Before, Limit: which.Limit}
		to.StructSize = uint32(unsafe.Sizeof(*to))
		if which.Last {
			to.Flags |= lib.RangeLast
		}
		if which.View {
			to.Flags |= lib.RangeView
		}
		address, length := key(pins, name)
		return []uintptr{address, length, pinned(pins, to), call, pinned(pins, &result)}
	})
	if err != nil {
		return nil, err
	}
	return historyOf(result), nil
}

// Window is the newest whole turns within a budget of tokens.
type Window struct {
	Session    *Session
	Messages   []Message
	Tokens     int64
	MoreBefore bool // older messages exist
	OverBudget bool // the newest turn alone exceeds the budget
	Cut        bool // it begins inside of the newest turn
}

// WindowOptions of a window.
type WindowOptions struct {
	Cut bool // cut a newest turn that exceeds the budget, between messages, instead of keeping it whole
}

// Window reads the newest whole turns that fit a budget of tokens, for the next prompt.
func (s *Store) Window(ctx context.Context, name string, tokens int64, options WindowOptions) (*Window, error) {
	var result unsafe.Pointer
	err := s.call(ctx, lib.Call.Window, func(pins *runtime.Pinner, call uintptr) []uintptr {
		to := &lib.WindowOptions{TokenBudget: tokens}
		to.StructSize = uint32(unsafe.Sizeof(*to))
		if options.Cut {
			to.Flags |= lib.WindowCut
		}
		address, length := key(pins, name)
		return []uintptr{address, length, pinned(pins, to), call, pinned(pins, &result)}
	})
	if err != nil {
		return nil, err
	}
	it := (*lib.Window)(result)
	made := &Window{
		Session: infoOf(it.Session), Messages: messagesOf(&it.Messages), Tokens: it.Tokens,
		MoreBefore: it.MoreBefore, OverBudget: it.OverBudget, Cut: it.Cut,
	}
	purego.SyscallN(lib.Call.Free, uintptr(result))
	return made, nil
}

// Fork makes a session that shares the messages of another one up to number `at`; nothing is copied.
// Settings that are not given are those of the other.
func (s *Store) Fork(ctx context.Context, name string, at int64, fork string, values SessionNew) (*Session, error) {
	var result unsafe.Pointer
	err := s.call(ctx, lib.Call.SessionFork, func(pins *runtime.Pinner, call uintptr) []uintptr {
		to := newWriter(sessionNew(), pins)
		to.str("key", fork)
		values.write(to)
		address, length := key(pins, name)
		return []uintptr{address, length, uintptr(at), uintptr(to.pointer()), call, pinned(pins, &result)}
	})
	if err != nil {
		return nil, err
	}
	return sessionOf(result), nil
}

// Compact puts a summary in the place of the messages up to number `to`, and returns the summary's
// number. Nothing is removed: Range.View and windows begin with the summary.
func (s *Store) Compact(ctx context.Context, name string, to int64, summary string) (int64, error) {
	var seq int64
	err := s.call(ctx, lib.Call.Compact, func(pins *runtime.Pinner, call uintptr) []uintptr {
		options := &lib.CompactOptions{CoversTo: to, Summary: present(pins, summary)}
		options.StructSize = uint32(unsafe.Sizeof(*options))
		address, length := key(pins, name)
		return []uintptr{address, length, pinned(pins, options), call, pinned(pins, &seq)}
	})
	return seq, err
}

// Uncompact undoes the newest compaction.
func (s *Store) Uncompact(ctx context.Context, name string) error {
	return s.call(ctx, lib.Call.Compact, func(pins *runtime.Pinner, call uintptr) []uintptr {
		options := &lib.CompactOptions{Flags: lib.CompactUndo}
		options.StructSize = uint32(unsafe.Sizeof(*options))
		address, length := key(pins, name)
		return []uintptr{address, length, pinned(pins, options), call, 0}
	})
}

// Prune deletes the messages that the newest compaction covers, for good, and returns how many.
func (s *Store) Prune(ctx context.Context, name string) (int64, error) {
	return s.counted(ctx, lib.Call.Prune, name)
}

// counted calls a function of a key that says how many it removed.
func (s *Store) counted(ctx context.Context, function uintptr, name string) (int64, error) {
	var removed int64
	err := s.call(ctx, function, func(pins *runtime.Pinner, call uintptr) []uintptr {
		address, length := key(pins, name)
		return []uintptr{address, length, call, pinned(pins, &removed)}
	})
	return removed, err
}

// DeleteSession deletes a session with its messages, state and memories. A missing one is no error;
// forks of it stay.
func (s *Store) DeleteSession(ctx context.Context, name string) error {
	return s.call(ctx, lib.Call.SessionRemove, func(pins *runtime.Pinner, call uintptr) []uintptr {
		address, length := key(pins, name)
		return []uintptr{address, length, 0, call, 0}
	})
}

// DeleteTree deletes a session with its forks and their forks, and returns how many sessions.
func (s *Store) DeleteTree(ctx context.Context, name string) (int64, error) {
	var removed int64
	err := s.call(ctx, lib.Call.SessionRemove, func(pins *runtime.Pinner, call uintptr) []uintptr {
		options := &lib.DeleteOptions{Flags: lib.DeleteTree}
		options.StructSize = uint32(unsafe.Sizeof(*options))
		address, length := key(pins, name)
		return []uintptr{address, length, pinned(pins, options), call, pinned(pins, &removed)}
	})
	return removed, err
}

// Sweep deletes expired sessions and returns how many.
func (s *Store) Sweep(ctx context.Context) (int64, error) {
	var removed int64
	err := s.call(ctx, lib.Call.Sweep, func(pins *runtime.Pinner, call uintptr) []uintptr {
		return []uintptr{call, pinned(pins, &removed)}
	})
	return removed, err
}

// EraseOptions name what is erased: a session with its forks, or the sessions of a user.
type EraseOptions struct {
	SessionKey string // one session and its forks, or...
	UserID     string // ...all sessions of a user and the user's state...
	AppName    string // ...in this app; empty: in every app
	Quick      bool   // do not rewrite the file
}

// Erasure is the receipt: what was erased, and what the call cannot reach.
type Erasure struct {
	Sessions, Forks []string // keys
	Backups         []string // paths beside the file, which may have the text
	Kept            []string // sentences: what else keeps the text for a while
	Hidden          int64    // deleted sessions that forks had kept
	Messages        int64
	States          int64
	Memories        int64
}

// Erase deletes and leaves no byte of the text in the file, its log and its search index.
func (s *Store) Erase(ctx context.Context, options EraseOptions) (*Erasure, error) {
	var result unsafe.Pointer
	err := s.call(ctx, lib.Call.Erase, func(pins *runtime.Pinner, call uintptr) []uintptr {
		to := &lib.EraseOptions{
			Key: optional(pins, options.SessionKey), UserID: optional(pins, options.UserID),
			AppName: optional(pins, options.AppName),
		}
		to.StructSize = uint32(unsafe.Sizeof(*to))
		if options.Quick {
			to.Flags |= lib.EraseQuick
		}
		return []uintptr{pinned(pins, to), call, pinned(pins, &result)}
	})
	if err != nil {
		return nil, err
	}
	it := (*lib.Erasure)(result)
	made := &Erasure{
		Sessions: it.Sessions.Strings(), Forks: it.Forks.Strings(), Backups: it.Backups.Strings(),
		Kept: it.Kept.Strings(), Hidden: it.Hidden, Messages: it.Messages, States: it.States,
		Memories: it.Memories,
	}
	purego.SyscallN(lib.Call.Free, uintptr(result))
	return made, nil
}
