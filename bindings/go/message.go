package quipu

import (
	"runtime"
	"unsafe"

	"quipu/bindings/go/internal/lib"
)

// Role says who a message is from. The numbers are those of quipu_role.
type Role int32

// The roles of libquipu.
const (
	RoleUser Role = iota + 1
	RoleAssistant
	RoleTool
	RoleFunction
	RoleModel
	RoleSystem
)

var roleNames = [...]string{"", "user", "assistant", "tool", "function", "model", "system"}

func (r Role) String() string {
	if r < RoleUser || int(r) >= len(roleNames) {
		return "no role"
	}
	return roleNames[r]
}

// Mark says what is special about a message.
type Mark int32

// The marks of libquipu.
const (
	MarkNone       Mark = iota
	MarkCompaction      // a summary of other messages: see Store.Compact
	MarkTimeout         // an answer that was cut off
)

// ToolCall is a call of a tool or, with an Output, its response. Input and Output are JSON texts.
type ToolCall struct {
	ID, Name, Input  string
	Output           *string // nil: none
	Thought          bool
	ThoughtSignature []byte
}

// Say is a message of a role and a text.
func Say(role Role, text string) Message {
	return Message{Role: role, Content: text}
}

// present is a text as C takes it; an empty one is present.
func present(pins *runtime.Pinner, text string) lib.Str {
	it := lib.Of(text)
	pins.Pin(it.P)
	return it
}

// presentBytes is bytes as C takes them; nil is absent.
func presentBytes(pins *runtime.Pinner, data []byte) lib.Str {
	if data == nil {
		return lib.Str{}
	}
	return present(pins, unsafe.String(unsafe.SliceData(data), len(data)))
}

func (c *ToolCall) c(pins *runtime.Pinner) lib.ToolCall {
	it := lib.ToolCall{
		ID: optional(pins, c.ID), Name: optional(pins, c.Name), Input: optional(pins, c.Input),
		Thought: c.Thought, ThoughtSignature: presentBytes(pins, c.ThoughtSignature),
	}
	if c.Output != nil {
		it.Output = present(pins, *c.Output)
	}
	return it
}

// put fills in a message of C's: the members of the table, then those that mean more than a value.
func (m *Message) put(to *writer) {
	m.write(to)
	to.putSome("event_id", m.EventID)
	to.json("extra", m.Extra)
	(*lib.MessageHead)(to.pointer()).HasTimestamp = !m.Timestamp.IsZero()
	calls := make([]lib.ToolCall, len(m.Calls))
	for i := range calls {
		calls[i] = m.Calls[i].c(to.pins)
	}
	if at := to.at("calls"); at != nil {
		*(*lib.Slice)(at) = sliceOf(to.pins, calls)
	}
}

// sliceOf is a Go slice as a sized slice of C's.
func sliceOf[T any](pins *runtime.Pinner, items []T) lib.Slice {
	var one T
	made := lib.Slice{Count: uintptr(len(items)), ItemSize: unsafe.Sizeof(one)}
	if len(items) > 0 {
		pins.Pin(&items[0])
		made.Items = unsafe.Pointer(&items[0])
	}
	return made
}

func messagesToC(pins *runtime.Pinner, messages []Message) *lib.Slice {
	made, items := newRecords(messageShape(), pins, len(messages))
	for i := range items {
		messages[i].put(&items[i])
	}
	return made
}

func callOf(it *lib.ToolCall) ToolCall {
	made := ToolCall{
		ID: it.ID.String(), Name: it.Name.String(), Input: it.Input.String(),
		Thought: it.Thought, ThoughtSignature: it.ThoughtSignature.Bytes(),
	}
	if it.Output.P != nil {
		output := it.Output.String()
		made.Output = &output
	}
	return made
}

func messageOf(from *reader) Message {
	var made Message
	made.read(from)
	calls := member[lib.Slice](from, "calls")
	if calls.Count > 0 {
		made.Calls = make([]ToolCall, calls.Count)
		for i := range made.Calls {
			made.Calls[i] = callOf(lib.Item[lib.ToolCall](&calls, uintptr(i)))
		}
	}
	return made
}

// messagesOf copies messages out of a result of C's.
func messagesOf(slice *lib.Slice) []Message {
	all := make([]Message, slice.Count)
	for i := range all {
		all[i] = messageOf(&reader{shape: messageShape(), at: slice.At(uintptr(i))})
	}
	return all
}
