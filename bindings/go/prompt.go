package quipu

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
	"google.golang.org/genai"

	"quipu/bindings/go/internal/lib"
)

// PromptOptions of a prompt. Budgets are 0 for what the table of models says.
type PromptOptions struct {
	System       string                       // the system instruction
	Tools        []*genai.FunctionDeclaration // that the model may call
	Model        string
	Provider     string // a name such as "gemini"; a change is a reason
	TokenBudget  int64
	MemoryTokens int64
	// At builds the prompt of a past turn again, by the number of its last message or of its answer.
	At int64
	// Log records that the prompt is sent now: once for each request, after the input is appended,
	// with the usage that was reported for the one before.
	Log bool
	// AsBefore takes system instruction, tools, model and provider from the prompt logged last.
	AsBefore bool
	// The prompt logged last had so many tokens, and so many were cached; Usage says that they count.
	Usage                         bool
	ReportedInput, ReportedCached int64
}

// Prompt is what to send. Token counts are estimates; ExpectedCached is in the model's tokens.
type Prompt struct {
	System   *genai.Content   // the caller's, then the memory block; nil: none
	Contents []*genai.Content // whole turns
	Block    string           // the memory block, the last part of System
	Tail     string           // new standing lines, the first part of the last content
	Tools    []byte           // as a JSON array; nil: none
	Model    string
	Provider string
	// Reason says why it does not begin with all of what was sent before: "first", "model",
	// "instructions", "memory", "idle", "compaction", "window", "history" or "pays"; empty: it does.
	Reason                        string
	MoreBefore                    bool // older messages do not fit
	Exact                         bool // At: the bytes are those that were sent
	FirstSeq, LastSeq             int64
	Tokens, BlockTokens           int64
	Shared, ExpectedCached        int64
	ReportedInput, ReportedCached int64 // At: what the provider reported; -1: nothing
	PrefixHash, PromptHash        [32]byte
}

var promptReasons = [...]string{
	"", "first", "model", "instructions", "memory", "idle", "compaction", "window", "history", "pays",
}

// Prompt builds the next prompt of a session: system instruction, what is known of the session or its
// user, and the newest turns within the budget. It begins with the bytes of the prompt before, which
// the provider has cached, or Reason says why not.
func (s *Store) Prompt(ctx context.Context, name string, options PromptOptions) (*Prompt, error) {
	schemas, err := schemasOf(options.Tools)
	if err != nil {
		return nil, err
	}
	var made unsafe.Pointer
	err = s.call(ctx, lib.Call.Context, func(pins *runtime.Pinner, call uintptr) []uintptr {
		it := options.c(pins, schemas)
		it.Key = lib.Of(name)
		pins.Pin(it.Key.P)
		return []uintptr{pinned(pins, it), call, pinned(pins, &made)}
	})
	if err != nil {
		return nil, err
	}
	defer purego.SyscallN(lib.Call.Free, uintptr(made))
	return promptOf((*lib.Context)(made))
}

// schemasOf encodes the parameters of tools.
func schemasOf(tools []*genai.FunctionDeclaration) ([]string, error) {
	schemas := make([]string, len(tools))
	for i, tool := range tools {
		var schema any = tool.Parameters
		if tool.ParametersJsonSchema != nil {
			schema = tool.ParametersJsonSchema
		} else if tool.Parameters == nil {
			continue
		}
		text, err := json.Marshal(schema)
		if err != nil {
			return nil, fmt.Errorf("quipu: the parameters of %q: %w", tool.Name, err)
		}
		schemas[i] = string(text)
	}
	return schemas, nil
}

func (o *PromptOptions) c(pins *runtime.Pinner, schemas []string) *lib.ContextOptions {
	it := &lib.ContextOptions{
		Model: optional(pins, o.Model), Provider: optional(pins, o.Provider),
		TokenBudget: o.TokenBudget, MemoryTokens: o.MemoryTokens, AtSeq: o.At,
	}
	it.StructSize = uint32(unsafe.Sizeof(*it))
	if o.Log {
		it.Flags |= lib.ContextLog
	}
	if o.AsBefore {
		it.Flags |= lib.ContextAsBefore
	}
	if o.Usage {
		usage := &lib.Usage{Input: o.ReportedInput, Output: -1, Total: -1, Cached: o.ReportedCached,
			CacheWrite: -1, Thoughts: -1}
		usage.StructSize = uint32(unsafe.Sizeof(*usage))
		pins.Pin(usage)
		it.Usage = unsafe.Pointer(usage)
	}
	request := &lib.Request{}
	request.StructSize = uint32(unsafe.Sizeof(*request))
	if o.System != "" {
		part := &lib.Part{Kind: lib.PartText, Text: optional(pins, o.System)}
		pins.Pin(part)
		request.System = lib.Slice{Items: unsafe.Pointer(part), Count: 1, ItemSize: unsafe.Sizeof(*part)}
	}
	if len(o.Tools) > 0 {
		tools := make([]lib.Tool, len(o.Tools))
		for i, tool := range o.Tools {
			tools[i] = lib.Tool{Name: optional(pins, tool.Name),
				Description: optional(pins, tool.Description)}
			if tool.ParametersJsonSchema != nil {
				tools[i].Schema = optional(pins, schemas[i])
			} else {
				tools[i].Parameters = optional(pins, schemas[i])
			}
		}
		pins.Pin(&tools[0])
		request.Tools = lib.Slice{Items: unsafe.Pointer(&tools[0]), Count: uintptr(len(tools)),
			ItemSize: unsafe.Sizeof(tools[0])}
	}
	pins.Pin(request)
	it.Request = unsafe.Pointer(request)
	return it
}

func promptOf(it *lib.Context) (*Prompt, error) {
	made := &Prompt{
		Block: it.Block.String(), Tail: it.Tail.String(), Tools: it.Tools.Bytes(),
		Model: it.Model.String(), Provider: it.Provider.String(), MoreBefore: it.MoreBefore,
		Exact: it.Exact, FirstSeq: it.FirstSeq, LastSeq: it.LastSeq, Tokens: it.Tokens,
		BlockTokens: it.BlockTokens, Shared: it.Shared, ExpectedCached: it.ExpectedCached,
		ReportedInput: it.ReportedInput, ReportedCached: it.ReportedCached,
		PrefixHash: it.PrefixHash, PromptHash: it.PromptHash, Reason: "other",
	}
	if int(it.Reason) < len(promptReasons) {
		made.Reason = promptReasons[it.Reason]
	}
	if it.System.Count > 0 {
		parts, err := partsOf(&it.System)
		if err != nil {
			return nil, err
		}
		made.System = &genai.Content{Parts: parts}
	}
	for i := range it.Contents.Count {
		content := lib.Item[lib.Content](&it.Contents, i)
		parts, err := partsOf(&content.Parts)
		if err != nil {
			return nil, err
		}
		role := genai.RoleUser
		if content.Role == lib.RoleAssistant || content.Role == lib.RoleModel {
			role = genai.RoleModel
		}
		made.Contents = append(made.Contents, &genai.Content{Role: role, Parts: parts})
	}
	return made, nil
}

func partsOf(slice *lib.Slice) ([]*genai.Part, error) {
	parts := make([]*genai.Part, slice.Count)
	for i := range parts {
		it := lib.Item[lib.Part](slice, uintptr(i))
		part := &genai.Part{ThoughtSignature: it.Signature.Bytes(), Thought: it.Thought}
		var object map[string]any
		if it.Kind == lib.PartCall || it.Kind == lib.PartResponse {
			if err := decodeExact(it.JSON.Bytes(), &object); err != nil {
				return nil, fmt.Errorf("quipu: the call of %q: %w", it.Name, err)
			}
		}
		switch it.Kind {
		case lib.PartText:
			part.Text = it.Text.String()
		case lib.PartThought:
			part.Text, part.Thought = it.Text.String(), true
		case lib.PartCall:
			part.FunctionCall = &genai.FunctionCall{ID: it.ID.String(), Name: it.Name.String(), Args: object}
		case lib.PartResponse:
			part.FunctionResponse = &genai.FunctionResponse{ID: it.ID.String(), Name: it.Name.String(),
				Response: object}
		case lib.PartData:
			part.InlineData = &genai.Blob{MIMEType: it.Mime.String(), Data: it.Data.Bytes()}
		}
		parts[i] = part
	}
	return parts, nil
}
