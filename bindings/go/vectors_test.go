package quipu

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The calls of tests/vectors/calls.json, which other languages make as well.

// vectorMessage is a message of the file.
type vectorMessage struct {
	Role, Content, Author, EventID, InvocationID, Branch, Mark, Model string
	Timestamp                                                         time.Time
	PromptTokens, CachedTokens, AnswerTokens                          int64
	Extra                                                             json.RawMessage
	ToolCalls                                                         []ToolCall
}

// vectorStep is a call of the file with everything that a call may be given, and what becomes of it.
// encoding/json takes names without regard to case: "eventId" is EventID.
type vectorStep struct {
	Call, Key, NewKey, Name, Query, Question, Summary string

	Messages                                                       []vectorMessage
	Value                                                          json.RawMessage
	Create, View, Cut, OldestFirst, Everything                     bool
	Last, IfRevision                                               *int64
	After, Before                                                  any
	Limit, Offset, At, UpTo, TokenBudget, Budget                   int64
	AppName, UserID, AgentID, ChannelType, ChannelID, Model, Title *string
	Author, Role, MarkBefore, MarkAfter                            string
	Metadata                                                       json.RawMessage
	By                                                             []string
	Settings                                                       *struct {
		Title    *string
		Metadata json.RawMessage
	}

	Returns, Is any
	Fails       *struct{ Code, Message string }
}

// decodeVector decodes JSON and keeps the digits of its numbers.
func decodeVector(t *testing.T, text []byte, into any) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("%v in %.200s", err, text)
	}
}

// spelled is a value of the file: {"repeat": [what, n]} stands for a long text or list.
func spelled(value any) any {
	switch it := value.(type) {
	case []any:
		for i := range it {
			it[i] = spelled(it[i])
		}
	case map[string]any:
		if repeat, ok := it["repeat"].([]any); ok && len(it) == 1 {
			times, _ := strconv.Atoi(repeat[1].(json.Number).String())
			if text, ok := repeat[0].(string); ok {
				return strings.Repeat(text, times)
			}
			return slicesRepeat(repeat[0], times)
		}
		for name := range it {
			it[name] = spelled(it[name])
		}
	}
	return value
}

func slicesRepeat(what any, times int) []any {
	made := make([]any, times)
	for i := range made {
		made[i] = what
	}
	return made
}

func vectorRole(name string) Role {
	for role, known := range roleNames {
		if known == name {
			return Role(role)
		}
	}
	return Role(len(roleNames)) // the library refuses it
}

var markNames = map[string]Mark{"": MarkNone, "compaction": MarkCompaction, "timeout": MarkTimeout}

func (m vectorMessage) message() Message {
	return Message{
		Role: vectorRole(m.Role), Content: m.Content, Author: m.Author, Timestamp: m.Timestamp, Calls: m.ToolCalls,
		EventID: m.EventID, InvocationID: m.InvocationID, Branch: m.Branch, Extra: m.Extra, Mark: markNames[m.Mark],
		Model: m.Model, PromptTokens: m.PromptTokens, CachedTokens: m.CachedTokens, AnswerTokens: m.AnswerTokens,
	}
}

func or(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

func integer(value any) int64 {
	text, _ := value.(json.Number)
	it, _ := text.Int64()
	return it
}

func moment(value any) time.Time {
	text, _ := value.(string)
	it, _ := time.Parse(time.RFC3339Nano, text)
	return it
}

func (s *vectorStep) sessionNew() SessionNew {
	return SessionNew{
		AppName: s.AppName, UserID: s.UserID, AgentID: s.AgentID, ChannelType: s.ChannelType, ChannelID: s.ChannelID,
		Model: s.Model, Title: s.Title, Metadata: s.Metadata,
	}
}

func (s *vectorStep) append(t *testing.T, store *Store) (any, error) {
	options := AppendOptions{Create: s.Create, IfRevision: s.IfRevision}
	if s.Settings != nil {
		options.Settings = &SessionPatch{Title: s.Settings.Title, Metadata: s.Settings.Metadata}
	}
	messages := make([]Message, len(s.Messages))
	for i := range messages {
		messages[i] = s.Messages[i].message()
	}
	return store.Append(t.Context(), s.Key, options, messages...)
}

func (s *vectorStep) get(t *testing.T, store *Store) (any, error) {
	which := Range{After: integer(s.After), Before: integer(s.Before), Limit: s.Limit, View: s.View}
	if s.Last != nil && *s.Last == 0 {
		session, err := store.Session(t.Context(), s.Key)
		return &History{Session: session}, err
	}
	if s.Last != nil {
		which.Last, which.Limit = true, *s.Last
	}
	return store.Get(t.Context(), s.Key, which)
}

func (s *vectorStep) list(t *testing.T, store *Store) (any, error) {
	after, _ := s.After.(string)
	options := ListOptions{
		AppName: or(s.AppName), UserID: or(s.UserID), OldestFirst: s.OldestFirst, Limit: s.Limit, After: after,
	}
	if s.Metadata != nil {
		var wanted [2]string
		decodeVector(t, s.Metadata, &wanted)
		options.MetadataName, options.MetadataText = wanted[0], &wanted[1]
	}
	page, err := store.ListSessions(t.Context(), options)
	if err != nil {
		return nil, err
	}
	return map[string]any{"sessions": page.Sessions, "more": page.Next != ""}, nil
}

func (s *vectorStep) search(t *testing.T, store *Store) (any, error) {
	options := SearchOptions{
		SessionKey: s.Key, AppName: or(s.AppName), Author: s.Author, After: moment(s.After), Before: moment(s.Before),
		Limit: s.Limit, Offset: s.Offset, MarkBefore: s.MarkBefore, MarkAfter: s.MarkAfter,
	}
	if s.Role != "" {
		options.Role = vectorRole(s.Role)
	}
	return store.Search(t.Context(), s.Query, options)
}

func (s *vectorStep) usage(t *testing.T, store *Store) (any, error) {
	options := UsageOptions{SessionKey: s.Key, AppName: or(s.AppName), UserID: or(s.UserID)}
	for _, by := range s.By {
		options.BySession = options.BySession || by == "session"
		options.ByModel = options.ByModel || by == "model"
		options.ByDay = options.ByDay || by == "day"
	}
	return store.Usage(t.Context(), options)
}

func (s *vectorStep) setState(t *testing.T, store *Store) error {
	var value any
	decodeVector(t, s.Value, &value)
	return store.SetState(t.Context(), s.Key, map[string]any{s.Name: value})
}

// run makes the call by the method and the names that a user of Go has.
func (s *vectorStep) run(t *testing.T, store *Store) (any, error) {
	ctx := t.Context()
	switch s.Call {
	case "create":
		return store.CreateSession(ctx, s.Key, s.sessionNew())
	case "append":
		return s.append(t, store)
	case "get":
		return s.get(t, store)
	case "update":
		return store.UpdateSession(ctx, s.Key, SessionPatch{Title: s.Title, Metadata: s.Metadata})
	case "delete":
		return nil, store.DeleteSession(ctx, s.Key)
	case "list":
		return s.list(t, store)
	case "window":
		return store.Window(ctx, s.Key, s.TokenBudget, WindowOptions{Cut: s.Cut})
	case "fork":
		return store.Fork(ctx, s.Key, s.At, s.NewKey, s.sessionNew())
	case "compact":
		return store.Compact(ctx, s.Key, s.UpTo, s.Summary)
	case "uncompact":
		return nil, store.Uncompact(ctx, s.Key)
	case "prune":
		return store.Prune(ctx, s.Key)
	case "search":
		return s.search(t, store)
	case "recall":
		scope := Scope{SessionKey: s.Key, AppName: or(s.AppName), UserID: or(s.UserID), Everything: s.Everything}
		return store.Recall(ctx, s.Question, RecallOptions{Scope: scope, Limit: s.Limit, Budget: s.Budget})
	case "state":
		return store.State(ctx, s.Key)
	case "setState":
		return nil, s.setState(t, store)
	case "deleteState":
		return nil, store.SetState(ctx, s.Key, map[string]any{s.Name: Removed})
	case "usage":
		return s.usage(t, store)
	case "erase":
		return store.Erase(ctx, EraseOptions{SessionKey: s.Key, UserID: or(s.UserID), AppName: or(s.AppName)})
	}
	t.Fatalf("call %q", s.Call)
	return nil, nil
}

// plain is a result as the file has it: members by the file's names, times and bytes as texts.
func plain(t *testing.T, value any) any {
	switch it := value.(type) {
	case nil, bool, string, float64, json.Number:
		return it
	case int64:
		return json.Number(strconv.FormatInt(it, 10))
	case Role:
		return it.String()
	case Mark:
		for name, mark := range markNames {
			if mark == it {
				return name
			}
		}
	case time.Time:
		return it.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	at := reflect.ValueOf(value)
	switch at.Kind() {
	case reflect.Pointer:
		if at.IsNil() {
			return nil
		}
		return plain(t, at.Elem().Interface())
	case reflect.Slice:
		made := make([]any, at.Len())
		for i := range made {
			made[i] = plain(t, at.Index(i).Interface())
		}
		return made
	case reflect.Map:
		made := map[string]any{}
		for name, one := range at.Seq2() {
			made[name.String()] = plain(t, one.Interface())
		}
		return made
	case reflect.Struct:
		return members(t, at)
	}
	t.Fatalf("a result has a %T", value)
	return nil
}

func members(t *testing.T, at reflect.Value) map[string]any {
	made := map[string]any{}
	for i := range at.NumField() {
		name := at.Type().Field(i).Name
		if name == "Calls" {
			name = "ToolCalls"
		}
		name = strings.ReplaceAll(name, "ID", "Id")
		name = strings.ToLower(name[:1]) + name[1:]
		if data, ok := at.Field(i).Interface().([]byte); ok {
			made[name] = plainBytes(t, name, data)
		} else {
			made[name] = plain(t, at.Field(i).Interface())
		}
	}
	return made
}

// plainBytes is a member that is bytes: base64, or the value of a JSON text.
func plainBytes(t *testing.T, name string, data []byte) (made any) {
	switch {
	case data == nil && name == "metadata":
		made = map[string]any{}
	case data == nil:
	case name == "thoughtSignature" || name == "headHash":
		made = base64.StdEncoding.EncodeToString(data)
	default:
		decodeVector(t, data, &made)
	}
	return made
}

// sameNumber: the same integer, or the same double with the same sign.
func sameNumber(got any, want json.Number) bool {
	text, ok := got.(json.Number)
	if value, isFloat := got.(float64); isFloat {
		text, ok = json.Number(strconv.FormatFloat(value, 'g', -1, 64)), true
	}
	left, leftOK := new(big.Int).SetString(string(text), 10)
	right, rightOK := new(big.Int).SetString(string(want), 10)
	if leftOK && rightOK {
		return left.Cmp(right) == 0
	}
	a, errA := strconv.ParseFloat(string(text), 64)
	b, errB := strconv.ParseFloat(string(want), 64)
	return ok && errA == nil && errB == nil && a == b && math.Signbit(a) == math.Signbit(b)
}

// compare reports members that the file names and that have another value; whole: there are no others.
func compare(t *testing.T, where string, got, want any, whole bool) {
	t.Helper()
	switch it := want.(type) {
	case map[string]any:
		found, ok := got.(map[string]any)
		inner := whole || strings.HasSuffix(where, ".extra") || strings.HasSuffix(where, ".metadata")
		if !ok || (inner && len(found) != len(it)) {
			t.Errorf("%s is %v, not %v", where, got, want)
			return
		}
		for name, one := range it {
			compare(t, where+"."+name, found[name], one, inner)
		}
	case []any:
		found, ok := got.([]any)
		if !ok || len(found) != len(it) {
			t.Errorf("%s is %v, not %v", where, got, want)
			return
		}
		for i, one := range it {
			compare(t, fmt.Sprintf("%s[%d]", where, i), found[i], one, whole)
		}
	case json.Number:
		if !sameNumber(got, it) {
			t.Errorf("%s is %v, not %v", where, got, want)
		}
	default:
		if got != want {
			t.Errorf("%s is %#v, not %#v", where, got, want)
		}
	}
}

func TestCallsDoWhatTheyDoInOtherLanguages(t *testing.T) {
	text, err := os.ReadFile("../../tests/vectors/calls.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			Name  string
			Steps []any
		}
	}
	decodeVector(t, text, &file)
	for _, one := range file.Cases {
		t.Run(one.Name, func(t *testing.T) {
			store := plainStore(t)
			for i, written := range one.Steps {
				encoded, err := json.Marshal(spelled(written))
				if err != nil {
					t.Fatal(err)
				}
				step := &vectorStep{}
				decodeVector(t, encoded, step)
				where := fmt.Sprintf("step %d, %s", i, step.Call)
				got, err := step.run(t, store)
				step.check(t, where, got, err)
			}
		})
	}
}

func (s *vectorStep) check(t *testing.T, where string, got any, err error) {
	if s.Fails == nil {
		if err != nil {
			t.Fatalf("%s: %v", where, err)
		}
		if s.Returns != nil {
			compare(t, where, plain(t, got), s.Returns, false)
		}
		if s.Is != nil {
			compare(t, where, plain(t, got), s.Is, true)
		}
		return
	}
	var failure *Error
	if !errors.As(err, &failure) {
		t.Errorf("%s returns %v, %v", where, got, err)
		return
	}
	code := strings.ToUpper(strings.ReplaceAll(strings.TrimPrefix(failure.Code.Error(), "quipu: "), " ", "_"))
	if code != s.Fails.Code || (s.Fails.Message != "" && failure.Message != s.Fails.Message) {
		t.Errorf("%s fails with %s, %q", where, code, failure.Message)
	}
}
