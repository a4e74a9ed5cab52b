// Package lib calls libquipu without cgo. It knows the C functions and structs of <quipu/store.h>,
// <quipu/fields.h>, <quipu/adk.h>, <quipu/memory.h> and <quipu/agent.h>, and nothing else;
// layout_test.go compares the structs with the headers.
package lib

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Env is the environment variable with the path of libquipu.
const Env = "QUIPU_LIBRARY"

// Names that the system's loader is asked for, in order.
var names = []string{"libquipu.so.0.2", "libquipu.so", "libquipu.dylib"}

// functions of libquipu that the bindings call.
type functions struct {
	Version, Open, Close           uintptr
	CancelNew, CancelSet           uintptr
	ServiceNew, ServiceDel         uintptr
	Create, Get, Delete            uintptr
	List, Free                     uintptr
	SessionDel, Append             uintptr
	LiveGet                        uintptr
	ArenaNew, ArenaDel             uintptr
	Field                          uintptr
	SessionCreate, SessionGet      uintptr
	SessionUpdate, Recall          uintptr
	MemorySave, MemoryFind         uintptr
	MemoryUpdate, MemoryDelete     uintptr
	MemoryRun, MemoryStatus        uintptr
	MemoryStart, MemoryStop        uintptr
	Context                        uintptr
	SessionList, SessionRemove     uintptr
	SessionFork                    uintptr
	MessageAppend, Window          uintptr
	Compact, Prune                 uintptr
	Search, Usage, StateGet, Erase uintptr
	TailOpen, TailNext, TailClose  uintptr
	Sweep, StoreUpdate             uintptr
}

// Call holds the addresses after Load.
var Call functions

var load = sync.OnceValue(func() error {
	handle, err := find()
	if err != nil {
		return err
	}
	for name, into := range map[string]*uintptr{
		"quipu_version": &Call.Version, "quipu_open": &Call.Open, "quipu_close": &Call.Close,
		"quipu_cancel_new": &Call.CancelNew, "quipu_cancel_set": &Call.CancelSet,
		"quipu_service_new":  &Call.ServiceNew,
		"quipu_service_free": &Call.ServiceDel, "quipu_service_create": &Call.Create,
		"quipu_service_get": &Call.Get, "quipu_service_delete": &Call.Delete,
		"quipu_service_find": &Call.List, "quipu_free": &Call.Free,
		"quipu_live_free": &Call.SessionDel, "quipu_live_append": &Call.Append,
		"quipu_live_get":   &Call.LiveGet,
		"quipu_arena_free": &Call.ArenaDel, "quipu_arena_alloc": &Call.ArenaNew, "quipu_field_get": &Call.Field,
		"quipu_session_create": &Call.SessionCreate, "quipu_session_get": &Call.SessionGet,
		"quipu_session_update": &Call.SessionUpdate, "quipu_recall": &Call.Recall,
		"quipu_memory_save": &Call.MemorySave, "quipu_memory_find": &Call.MemoryFind,
		"quipu_memory_update": &Call.MemoryUpdate, "quipu_memory_delete": &Call.MemoryDelete,
		"quipu_memory_run": &Call.MemoryRun, "quipu_memory_status": &Call.MemoryStatus,
		"quipu_memory_start": &Call.MemoryStart, "quipu_memory_stop": &Call.MemoryStop,
		"quipu_context_make": &Call.Context, "quipu_session_list": &Call.SessionList,
		"quipu_session_delete": &Call.SessionRemove,
		"quipu_session_fork":   &Call.SessionFork, "quipu_message_append": &Call.MessageAppend,
		"quipu_window_read": &Call.Window, "quipu_session_compact": &Call.Compact,
		"quipu_session_prune": &Call.Prune,
		"quipu_search":        &Call.Search, "quipu_usage_get": &Call.Usage,
		"quipu_state_get": &Call.StateGet, "quipu_erase": &Call.Erase,
		"quipu_tail_open": &Call.TailOpen, "quipu_tail_next": &Call.TailNext,
		"quipu_tail_close": &Call.TailClose, "quipu_store_sweep": &Call.Sweep,
		"quipu_store_update": &Call.StoreUpdate,
	} {
		if *into, err = purego.Dlsym(handle, name); err != nil {
			return fmt.Errorf("quipu: libquipu lacks %s, it is too old for these bindings: %w", name, err)
		}
	}
	return nil
})

// Load loads libquipu once; every later call returns the same result.
func Load() error {
	return load()
}

func find() (uintptr, error) {
	flags := purego.RTLD_NOW | purego.RTLD_LOCAL
	if path := os.Getenv(Env); path != "" {
		handle, err := purego.Dlopen(path, flags)
		if err != nil {
			return 0, fmt.Errorf("quipu: %s=%s cannot be loaded: %w", Env, path, err)
		}
		return handle, nil
	}
	var tried error
	for _, name := range names {
		handle, err := purego.Dlopen(name, flags)
		if err == nil {
			return handle, nil
		}
		tried = errors.Join(tried, err)
	}
	return 0, fmt.Errorf("quipu: libquipu was not found; install it or set %s to its path: %w", Env, tried)
}

// Str is quipu_str, and quipu_json.
type Str struct {
	P unsafe.Pointer
	N uintptr
}

// Time is quipu_time.
type Time struct {
	S  int64
	NS uint32
	_  uint32
}

// Error is quipu_error.
type Error struct {
	Status, EngineCode int32
	Entity, Field      [40]byte
	Rule               [24]byte
	Message            [400]byte
}

// Arena is quipu_arena.
type Arena struct {
	head         unsafe.Pointer
	bytes, limit uintptr
}

// CallOptions is quipu_call_options.
type CallOptions struct {
	StructSize            uint32
	DeadlineMS            int32
	Cancel                uintptr
	Progress, ProgressCtx uintptr
	Now                   Time
}

// OpenOptions is quipu_open_options.
type OpenOptions struct {
	StructSize, Flags      uint32
	Durability             int32
	DeadlineMS, ReadersMax int32
	_                      int32
	TTLMS, MessageBytesMax int64
	Tenant                 Str
	CapMessages, CapTokens int64
	Search                 int32
	_                      int32
	MaxBytes               int64
	Key, KeyCtx            uintptr
}

// ServiceOptions is quipu_service_options.
type ServiceOptions struct {
	StructSize, Flags    uint32
	TTLMS                int64
	RootAgent            Str
	KeyCase, Bytes, Time int32
	_                    int32
	Isolated             unsafe.Pointer
	IsolatedCount        uintptr
	OnChild, OnChildCtx  uintptr
}

// Ref is quipu_session_ref.
type Ref struct {
	AppName, UserID, SessionID Str
}

// GetOptions is quipu_get_options.
type GetOptions struct {
	StructSize, Flags uint32
	NumRecent         int64
	After             Time
}

// Entry is quipu_service_entry.
type Entry struct {
	Ref                       Ref
	State                     Str
	LastUpdateTime, CreatedAt Time
	Revision, EventCount      int64
	UID                       [16]byte
}

// Slice is a sized slice, such as quipu_service_entries: the library states the size of an item.
type Slice struct {
	Items    unsafe.Pointer
	Count    uintptr
	ItemSize uintptr
}

// At is item i, which may be larger than these bindings know.
func (s *Slice) At(i uintptr) unsafe.Pointer {
	return unsafe.Add(s.Items, i*s.ItemSize)
}

// Item copies item i of a slice; members that the library does not have are zero.
func Item[T any](s *Slice, i uintptr) *T {
	it := new(T)
	size := min(s.ItemSize, unsafe.Sizeof(*it))
	copy(unsafe.Slice((*byte)(unsafe.Pointer(it)), size), unsafe.Slice((*byte)(s.At(i)), size))
	return it
}

// Page is quipu_service_list.
type Page struct {
	Sessions Slice
}

// Identity is quipu_live_identity.
type Identity struct {
	StructSize       uint32
	_                uint32
	Ref              Ref
	UID              [16]byte
	Revision, Stored int64
	LastUpdateTime   Time
}

// LiveQuery is quipu_live_query.
type LiveQuery struct {
	StructSize, Flags uint32
	First, Limit      uintptr
	Name              Str
	TokenBudget       int64
	RootAgent         Str
}

// Snapshot is quipu_snapshot.
type Snapshot struct {
	StructSize uint32
	Identity   unsafe.Pointer
	Count      uintptr
	Events     Slice
	State      Str
	ViewFirst  uintptr
	ViewTokens int64
}

// Field is quipu_field.
type Field struct {
	StructSize, Type uint32
	Name             uintptr
	Offset, Has      uint32
	Bit, ByHand      uint32
	Size             uint64
}

// NoHas is QUIPU_FIELD_NO_HAS.
const NoHas = 1<<32 - 1

// Range is quipu_range.
type Range struct {
	StructSize, Flags uint32
	After, Before     int64
	Limit             int64
}

// History is quipu_history.
type History struct {
	Session               unsafe.Pointer
	Messages              Slice
	MoreBefore, MoreAfter bool
	State                 unsafe.Pointer
	LastEventAt           Time
}

// ToolCall is quipu_tool_call.
type ToolCall struct {
	ID, Name, Input, Output Str
	Thought                 bool
	ThoughtSignature        Str
}

// MessageHead is how quipu_message begins.
type MessageHead struct {
	Role         int32
	HasTimestamp bool
}

// AppendOptions is quipu_append_options.
type AppendOptions struct {
	StructSize, Flags uint32
	ExpectedRevision  int64
	Settings          unsafe.Pointer
	Event             unsafe.Pointer
	UID               unsafe.Pointer
}

// Appended is quipu_appended.
type Appended struct {
	StructSize         uint32
	Repeated           bool
	FirstSeq, Revision int64
	Time               Time
}

// StateChange is quipu_state_change.
type StateChange struct {
	Scope       int32
	Name, Value Str
}

// StateEvent is quipu_state_event.
type StateEvent struct {
	StructSize      uint32
	Changes         Slice
	EventID, Author Str
	Time            Time
}

// StateEntry is quipu_state_entry.
type StateEntry struct {
	Scope       int32
	Name, Value Str
	SetAt       Time
	SetBy       Str
	SetSeq      int64
	SetIn       Str
}

// CompactOptions is quipu_compact_options.
type CompactOptions struct {
	StructSize, Flags uint32
	CoversTo          int64
	Summary           Str
}

// WindowOptions is quipu_window_options.
type WindowOptions struct {
	StructSize, Flags uint32
	TokenBudget       int64
}

// Window is quipu_window.
type Window struct {
	Session                     unsafe.Pointer
	Messages                    Slice
	Tokens                      int64
	MoreBefore, OverBudget, Cut bool
}

// ListOptions is quipu_list_options.
type ListOptions struct {
	StructSize, Flags          uint32
	AppName, UserID, AgentID   Str
	MetadataName, MetadataText Str
	After                      Str
	Limit                      int64
	Parent                     Str
}

// SessionPage is quipu_session_page.
type SessionPage struct {
	Sessions Slice
	Next     Str
}

// SearchOptions is quipu_search_options.
type SearchOptions struct {
	StructSize, Flags                          uint32
	Query, AppName, UserID, SessionKey, Author Str
	Role                                       int32
	HasAfter, HasBefore                        bool
	After, Before                              Time
	Limit, Offset                              int64
	MarkBefore, MarkAfter                      Str
}

// SearchHit is quipu_search_hit.
type SearchHit struct {
	SessionKey Str
	Seq        int64
	Role       int32
	Author     Str
	Timestamp  Time
	Snippet    Str
	Rank       float64
}

// SearchResults is quipu_search_results.
type SearchResults struct {
	Hits Slice
	More bool
}

// UsageQuery is quipu_usage_query.
type UsageQuery struct {
	StructSize, Flags    uint32
	Key, AppName, UserID Str
	FromDay, ToDay       int64
	After                Str
	Limit                int64
}

// UsageRow is quipu_usage_row.
type UsageRow struct {
	SessionKey, Model                        Str
	Day                                      int64
	PromptTokens, CachedTokens, AnswerTokens int64
	Answers, Cost, Unpriced                  int64
}

// UsageReport is quipu_usage_report.
type UsageReport struct {
	Rows     Slice
	Sessions int64
	Next     Str
}

// StorePatch is quipu_store_patch.
type StorePatch struct {
	StructSize, Set uint32
	Key, KeyCtx     uintptr
}

// DeleteOptions is quipu_delete_options.
type DeleteOptions struct {
	StructSize, Flags uint32
}

// EraseOptions is quipu_erase_options.
type EraseOptions struct {
	StructSize, Flags    uint32
	Key, UserID, AppName Str
}

// Strs is an array of quipu_str and its length.
type Strs struct {
	P unsafe.Pointer
	N uintptr
}

// Erasure is quipu_erasure.
type Erasure struct {
	Sessions, Forks, Backups           Strs
	Hidden, Messages, States, Memories int64
	Kept                               Strs
}

// RecallOptions is quipu_recall_options.
type RecallOptions struct {
	StructSize, Flags           uint32
	Question                    Str
	SessionKey, AppName, UserID Str
	BeforeSeq, Limit, Budget    int64
	FromSeq                     int64
	Embedder                    uintptr
	EmbedModel                  Str
}

// RecallHit is quipu_recall_hit.
type RecallHit struct {
	SessionKey                             Str
	Seq                                    int64
	Role                                   int32
	_                                      int32
	EventID, Author                        Str
	Timestamp                              Time
	Content                                Str
	Tokens                                 int64
	Score                                  float64
	FromWords, FromNeighbours, FromSession float64
	FromVector                             float64
	Memory                                 unsafe.Pointer // a quipu_memory, or nil
}

// RecallResults is how quipu_recall_results begins.
type RecallResults struct {
	Hits Slice
}

// MemoryHead is how quipu_memory begins.
type MemoryHead struct {
	Kind int32
}

// List is how quipu_memory_list and quipu_memory_status_list begin.
type List struct {
	Items Slice
	More  bool // of the status only
}

// MemoryQuery is quipu_memory_query.
type MemoryQuery struct {
	StructSize     uint32
	Kind           int32
	SessionKey     Str
	IDs            unsafe.Pointer
	IDCount        uintptr
	Recent         int64
	Flags          uint32
	FromSeq, ToSeq int64
}

// MemoryPatch is quipu_memory_patch.
type MemoryPatch struct {
	StructSize, Set   uint32
	Kind              int32
	ID                [16]byte
	Content           Str
	Priority          int32
	Subject, Why, Who Str
}

// MemoryOptions is quipu_memory_options.
type MemoryOptions struct {
	StructSize                  uint32
	SessionKey, AppName, UserID Str
	ChangedAfter                Time
	ObserveTokens               int64
	LeaseMS                     int32
	Worker                      Str
	Provider                    uintptr
	Model                       Str
	Models                      uintptr
	ReflectTokens, AskTokens    int64
	Flags                       uint32
	OnPass, PassCtx             uintptr
	OnSaved, SavedCtx           uintptr
	Embedder                    uintptr
	EmbedModel                  Str
	ObservePrompt               Str
	ReflectPrompt               Str
}

// Provider is quipu_provider.
type Provider struct {
	StructSize                  uint32
	Ctx                         uintptr
	ID                          unsafe.Pointer
	Generate, List, Embed, Done uintptr
}

// ModelParams is quipu_model_params.
type ModelParams struct {
	Request  unsafe.Pointer
	Model    Str
	Messages Slice
	Stream   bool
}

// ModelMessage is how quipu_model_message begins.
type ModelMessage struct {
	Role    int32
	Content Str
}

// EmbedRequest is quipu_embed_request.
type EmbedRequest struct {
	StructSize uint32
	Model      Str
	Texts      unsafe.Pointer
	TextCount  uintptr
}

// Embeddings is how quipu_embeddings begins.
type Embeddings struct {
	StructSize        uint32
	Values            uintptr
	Dimensions, Count uintptr
}

// Sink is quipu_sink.
type Sink struct {
	Ctx, Put uintptr
}

// Delta is quipu_delta.
type Delta struct {
	StructSize                         uint32
	Kind                               int32
	HasIndex, Thought, Redacted, Block bool
	Index                              int64
	Text, ID, Name, Signature          Str
	Usage                              unsafe.Pointer
	Finish                             int32
}

// MemoryRan is quipu_memory_ran.
type MemoryRan struct {
	StructSize                                uint32
	More                                      bool
	Sessions, Messages, Observations, Repeats int64
	Lost, Failed                              int64
	Reflections, Condensed, ModelCalls        int64
	Embedded                                  int64
}

// MemoryProgress is quipu_memory_progress.
type MemoryProgress struct {
	SessionKey, Scope                             Str
	Watermark, LastSeq                            int64
	PendingMessages, PendingTokens, ObserveTokens int64
	Generation, Observations, Reflections         int64
	StandingTokens                                int64
	Owner                                         Str
	HasLeaseUntil                                 bool
	LeaseUntil                                    Time
	Fence, Tries                                  int64
	HasNextAt                                     bool
	NextAt                                        Time
	LastError, ReflectError                       Str
	ModelCalls, ModelInput, ModelOutput           int64
	ModelCost, ModelUnpriced                      int64
}

// Part is quipu_part.
type Part struct {
	Kind              int32
	Text, ID, Name    Str
	JSON              Str
	Mime, Data        Str
	Thought, Redacted bool
	Signature         Str
}

// Content is quipu_content.
type Content struct {
	Role  int32
	Parts Slice
}

// Tool is quipu_tool.
type Tool struct {
	Name, Description  Str
	Schema, Parameters Str
	Strict             bool
}

// Request is how quipu_model_request begins.
type Request struct {
	StructSize              uint32
	Choice                  int32
	ChoiceName, Model       Str
	Contents, System, Tools Slice
	ResponseSchema          Str
}

// Usage is quipu_model_usage.
type Usage struct {
	StructSize                   uint32
	Input, Output, Total, Cached int64
	CacheWrite, Thoughts         int64
}

// ContextOptions is quipu_context_options.
type ContextOptions struct {
	StructSize, Flags         uint32
	Key                       Str
	Request                   unsafe.Pointer
	Model, Provider           Str
	TokenBudget, MemoryTokens int64
	Sections, Models          uintptr
	AtSeq                     int64
	Usage                     unsafe.Pointer
}

// Context is quipu_context.
type Context struct {
	System, Contents              Slice
	Block, Tail, Tools            Str
	Model, Provider               Str
	Reason                        int32
	MoreBefore, Exact             bool
	FirstSeq, LastSeq             int64
	Tokens, BlockTokens           int64
	Shared, ExpectedCached        int64
	ReportedInput, ReportedCached int64
	PrefixHash, PromptHash        [32]byte
}

// Patch is how quipu_session_patch begins.
type Patch struct {
	StructSize, Set uint32
}

// Numbers of the headers.
const (
	OpenReadOnly       = 1
	OpenMustExist      = 2
	OpenPassphrase     = 64
	OpenEncrypt        = 128
	StoreSetKey        = 2
	StoreSetPassphrase = 4
	ServiceGo          = 1 | 2 | 8 | 32
	ServiceRebase      = 64
	KeysCamel          = 1
	BytesStd           = 1
	TimesRFC3339       = 2
	GetAfter           = 1
	LiveEvents         = 1
	LiveState          = 2
	RangeHeader        = 1
	RangeLast          = 2
	RangeView          = 4
	AppendCreate       = 1
	WindowCut          = 1
	ListOldestFirst    = 1
	ListExpired        = 2
	UsageBySession     = 1
	UsageByModel       = 2
	UsageByDay         = 4
	DeleteTree         = 1
	CompactUndo        = 1
	EraseQuick         = 1
	RecallAll          = 1
	RecallMemories     = 2
	MemoryRetired      = 1
	MemoryScope        = 2
	MemoryFollow       = 1
	MemoryEmbedOnly    = 2
	SetContent         = 1
	SetPriority        = 2
	SetSubject         = 4
	SetRetired         = 8
	ContextLog         = 1
	ContextAsBefore    = 2
	PartText           = 1
	PartThought        = 2
	PartCall           = 3
	PartResponse       = 4
	PartData           = 5
	RoleAssistant      = 2
	RoleModel          = 5
	RoleUser           = 1
	RoleSystem         = 6
	DeltaText          = 1
	DeltaFinish        = 6
	FinishStop         = 1
	StatusNotFound     = -1
	StatusExists       = -2
	StatusConflict     = -4
	StatusCancelled    = -14
)

// Bytes copies a C text to a byte slice.
func (s Str) Bytes() []byte {
	if s.N == 0 {
		return nil
	}
	return append([]byte(nil), unsafe.Slice((*byte)(s.P), s.N)...)
}

// String copies a C text to a string.
func (s Str) String() string {
	if s.N == 0 {
		return ""
	}
	return string(unsafe.Slice((*byte)(s.P), s.N))
}

// Of returns the text without a copy; the caller pins it while C uses it. An empty text is present,
// not absent.
func Of(text string) Str {
	if text == "" {
		return Str{P: unsafe.Pointer(&empty), N: 0}
	}
	return Str{P: unsafe.Pointer(unsafe.StringData(text)), N: uintptr(len(text))}
}

var empty byte

// UUID returns the text of a quipu_uuid; empty when all bytes are zero.
func UUID(b [16]byte) string {
	if b == ([16]byte{}) {
		return ""
	}
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// Strings copies an array of C texts.
func (s Strs) Strings() []string {
	all := make([]string, s.N)
	for i, text := range unsafe.Slice((*Str)(s.P), s.N) {
		all[i] = text.String()
	}
	return all
}

// CString returns the text up to the first NUL.
func CString(text []byte) string {
	for i, c := range text {
		if c == 0 {
			return string(text[:i])
		}
	}
	return string(text)
}

// Text copies a NUL-terminated C text.
func Text(address uintptr) string {
	p := *(*unsafe.Pointer)(unsafe.Pointer(&address))
	n := 0
	for *(*byte)(unsafe.Add(p, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(p), n))
}

// SliceCall calls a function one of whose arguments is a sized slice by value: three words, which are
// passed in memory. x86-64 has them on the stack, before the words that find no register; arm64
// passes their address in their place.
func SliceCall(function uintptr, before []uintptr, slice *Slice, rest ...uintptr) uintptr {
	arguments := append([]uintptr{}, before...)
	if runtime.GOARCH == "amd64" {
		const registers = 6
		arguments = append(arguments, rest...)
		for len(arguments) < registers {
			arguments = append(arguments, 0)
		}
		words := []uintptr{uintptr(slice.Items), slice.Count, slice.ItemSize}
		arguments = slices.Insert(arguments, registers, words...)
	} else {
		arguments = append(append(arguments, uintptr(unsafe.Pointer(slice))), rest...)
	}
	status, _, _ := purego.SyscallN(function, arguments...)
	runtime.KeepAlive(slice)
	return status
}
