package quipu

import (
	"runtime"
	"time"
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

// Message is what is appended and what is read. The store fills in a zero Timestamp and an empty
// EventID; Seq, the tokens and what a summary covers always come from the store.
type Message struct {
	Role                     Role
	Content                  string
	Author                   string
	Timestamp                time.Time
	Calls                    []ToolCall
	EventID                  string // the same id with the same content is stored once
	InvocationID, Branch     string
	Extra                    []byte // a JSON object with everything else; nil: none
	Seq, Tokens, TokensTotal int64
	Mark                     Mark
	CoversFrom, CoversTo     int64
	Replaces                 int64
	// What answered, and the tokens that its provider reported: Store.Usage sums them up.
	Model                                    string
	PromptTokens, CachedTokens, AnswerTokens int64
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

func (m *Message) c(pins *runtime.Pinner) lib.Message {
	it := lib.Message{
		Role: int32(m.Role), Content: present(pins, m.Content), Author: optional(pins, m.Author),
		EventID: optional(pins, m.EventID), InvocationID: optional(pins, m.InvocationID),
		Branch: optional(pins, m.Branch), Extra: presentBytes(pins, m.Extra), Mark: int32(m.Mark),
		Model: optional(pins, m.Model), PromptTokens: m.PromptTokens,
		CachedTokens: m.CachedTokens, AnswerTokens: m.AnswerTokens,
	}
	if !m.Timestamp.IsZero() {
		it.HasTimestamp, it.Timestamp = true, cTime(m.Timestamp)
	}
	calls := make([]lib.ToolCall, len(m.Calls))
	for i := range calls {
		calls[i] = m.Calls[i].c(pins)
	}
	it.Calls = sliceOf(pins, calls)
	return it
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
	items := make([]lib.Message, len(messages))
	for i := range items {
		items[i] = messages[i].c(pins)
	}
	made := sliceOf(pins, items)
	pins.Pin(&made)
	return &made
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

func messageOf(it *lib.Message) Message {
	made := Message{
		Role: Role(it.Role), Content: it.Content.String(), Author: it.Author.String(),
		Timestamp: timeOf(it.Timestamp), EventID: it.EventID.String(),
		InvocationID: it.InvocationID.String(), Branch: it.Branch.String(), Extra: it.Extra.Bytes(),
		Seq: it.Seq, Tokens: it.Tokens, TokensTotal: it.TokensTotal, Mark: Mark(it.Mark),
		CoversFrom: it.CoversFrom, CoversTo: it.CoversTo, Replaces: it.Replaces,
		Model: it.Model.String(), PromptTokens: it.PromptTokens, CachedTokens: it.CachedTokens,
		AnswerTokens: it.AnswerTokens,
	}
	if it.Calls.Count > 0 {
		made.Calls = make([]ToolCall, it.Calls.Count)
		for i := range made.Calls {
			made.Calls[i] = callOf(lib.Item[lib.ToolCall](&it.Calls, uintptr(i)))
		}
	}
	return made
}

// messagesOf copies messages out of a result of C's.
func messagesOf(slice *lib.Slice) []Message {
	all := make([]Message, slice.Count)
	for i := range all {
		all[i] = messageOf(lib.Item[lib.Message](slice, uintptr(i)))
	}
	return all
}
