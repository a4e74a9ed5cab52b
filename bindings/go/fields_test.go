package quipu

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"quipu/bindings/go/internal/lib"
)

// given sets every member of a struct that callers fill to a value of its own.
func given(values any) {
	it := reflect.ValueOf(values).Elem()
	for i := range it.NumField() {
		name := it.Type().Field(i).Name
		switch it.Field(i).Interface().(type) {
		case *string:
			text := "the " + name
			it.Field(i).Set(reflect.ValueOf(&text))
		case []byte:
			it.Field(i).SetBytes([]byte(`{"a":"` + name + `"}`))
		default:
			panic("a type that nobody gives yet: " + name)
		}
	}
}

// shown compares what was given with what a session shows under the same name.
func shown(t *testing.T, values any, session *Session) {
	t.Helper()
	want := reflect.ValueOf(values)
	got := reflect.ValueOf(session).Elem()
	for i := range want.NumField() {
		name := want.Type().Field(i).Name
		value := reflect.Indirect(want.Field(i)).Interface()
		if !reflect.DeepEqual(got.FieldByName(name).Interface(), value) {
			t.Errorf("%s is %v, not %v", name, got.FieldByName(name), value)
		}
	}
}

func fieldsStore(t *testing.T) *Store {
	t.Helper()
	store, err := Open(filepath.Join(t.TempDir(), "s.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// goName is a member's name in Go: "agent_id" is AgentID.
func goName(name string) string {
	made := ""
	for _, word := range strings.Split(name, "_") {
		switch word {
		case "id", "uid", "ttl", "ms", "json", "url":
			made += strings.ToUpper(word)
		default:
			made += strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return made
}

// views are the structs of the schema's views, with what Go has for each.
var views = map[string]struct {
	shape func() *shape
	kind  reflect.Type
	hand  []string // members of which Go makes something else
}{
	"quipu_session_info":  {sessionInfo, reflect.TypeFor[Session](), nil},
	"quipu_session_new":   {sessionNew, reflect.TypeFor[SessionNew](), []string{"key", "ttl_ms"}},
	"quipu_session_patch": {sessionPatch, reflect.TypeFor[SessionPatch](), []string{"ttl_ms"}},
	"quipu_message":       {messageShape, reflect.TypeFor[Message](), nil},
	"quipu_memory":        {memoryShape, reflect.TypeFor[Memory](), nil},
	"quipu_artifact":      {kind: nil}, // these bindings have no call for artifacts
}

func TestEveryFieldOfEveryViewIsInGo(t *testing.T) {
	fieldsStore(t)
	text, err := os.ReadFile("../../schema/quipu.ent")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^  view \w+ +"(\w+)"`).FindAllSubmatch(text, -1)
	if len(found) < len(views) {
		t.Fatalf("%d views were found", len(found))
	}
	for _, view := range found {
		name := string(view[1])
		one, ok := views[name]
		if !ok {
			t.Errorf("Go has nothing for %s", name)
		}
		if one.kind == nil {
			continue
		}
		for _, field := range one.shape().fields {
			_, ok := one.kind.FieldByName(goName(field.name))
			if ok == slices.Contains(one.hand, field.name) {
				t.Errorf("%s.%s: in Go %v", name, field.name, ok)
			}
		}
		if len(one.shape().fields) != one.kind.NumField()+len(one.hand) {
			t.Errorf("%s has %d members, and %d in Go", name, len(one.shape().fields), one.kind.NumField())
		}
	}
}

// filled is a struct of C's whose members all have a value, and what each should be in Go.
func filled(one *shape, pins *runtime.Pinner) (unsafe.Pointer, map[string]any) {
	_, items := newRecords(one, pins, 1)
	to := &items[0]
	want := map[string]any{}
	for i, field := range one.fields {
		text, at := "the "+field.name, time.Unix(int64(1000+i), 7).UTC()
		switch field.Type {
		case 1:
			place(to, field.name, int64(1000+i))
			want[field.name] = int64(1000 + i)
		case 3:
			place(to, field.name, true)
			want[field.name] = true
		case 4:
			to.str(field.name, text)
			want[field.name] = text
		case 5, 9:
			to.str(field.name, text)
			want[field.name] = []byte(text)
		case 6:
			place(to, field.name, lib.Time{S: at.Unix(), NS: 7})
			want[field.name] = at
		case 7:
			place(to, field.name, [16]byte{15: byte(i + 1)})
			want[field.name] = [16]byte{15: byte(i + 1)}
		case 8:
			place(to, field.name, int32(i+1))
			want[field.name] = int32(i + 1)
		default:
			panic("a type that no view had yet: " + field.name)
		}
	}
	return to.pointer(), want
}

// shows compares the members of a Go struct with what C's has.
func shows(t *testing.T, it any, want map[string]any) {
	t.Helper()
	for name, value := range want {
		got := reflect.ValueOf(it).FieldByName(goName(name))
		if id, ok := value.([16]byte); ok && got.Kind() == reflect.String {
			value = lib.UUID(id)
		}
		if name == "calls" {
			continue // a list of structs: TestEveryMemberOfAMessageComesBack
		}
		wanted := reflect.ValueOf(value)
		if !got.CanConvert(wanted.Type()) ||
			!reflect.DeepEqual(got.Convert(wanted.Type()).Interface(), value) {
			t.Errorf("%s is %v, not %v", name, got, value)
		}
	}
}

func TestEveryMemberThatIsReadHasItsValue(t *testing.T) {
	fieldsStore(t)
	var pins runtime.Pinner
	defer pins.Unpin()
	var session Session
	at, want := filled(sessionInfo(), &pins)
	session.read(&reader{shape: sessionInfo(), at: at})
	shows(t, session, want)
	var said Message
	at, want = filled(messageShape(), &pins)
	said.read(&reader{shape: messageShape(), at: at})
	shows(t, said, want)
	var known Memory
	at, want = filled(memoryShape(), &pins)
	known.read(&reader{shape: memoryShape(), at: at})
	shows(t, known, want)
}

// What is written is read again; by hand is what fields.go leaves to message.go and observe.go.
func TestEveryMemberThatIsWrittenHasItsValue(t *testing.T) {
	fieldsStore(t)
	var pins runtime.Pinner
	defer pins.Unpin()
	var said, heard Message
	at, _ := filled(messageShape(), &pins)
	said.read(&reader{shape: messageShape(), at: at})
	_, items := newRecords(messageShape(), &pins, 1)
	said.put(&items[0])
	heard.read(&reader{shape: messageShape(), at: items[0].pointer()})
	said.CoversFrom, said.CoversTo, said.Replaces = 0, 0, 0 // the store's alone
	if !reflect.DeepEqual(said, heard) {
		t.Errorf("%+v was written as %+v", said, heard)
	}
	var known, noted Memory
	at, _ = filled(memoryShape(), &pins)
	known.read(&reader{shape: memoryShape(), at: at})
	_, items = newRecords(memoryShape(), &pins, 1)
	known.write(&items[0])
	noted.read(&reader{shape: memoryShape(), at: items[0].pointer()})
	known.Kind = 0 // SaveMemory writes it
	if known != noted {
		t.Errorf("%+v was written as %+v", known, noted)
	}
}

func TestEveryValueOfANewSessionIsShown(t *testing.T) {
	store := fieldsStore(t)
	values := SessionNew{}
	given(&values)
	made, err := store.CreateSession(context.Background(), "s", values)
	if err != nil {
		t.Fatal(err)
	}
	read, err := store.Session(context.Background(), "s")
	if err != nil {
		t.Fatal(err)
	}
	for _, session := range []*Session{made, read} {
		shown(t, values, session)
		if session.Key != "s" || session.UID == "" || session.CreatedAt.IsZero() ||
			session.NextSeq != 1 || session.IsFork || !session.ExpiresAt.IsZero() {
			t.Errorf("%+v", session)
		}
	}
}

func TestEveryValueOfAChangeIsShown(t *testing.T) {
	store := fieldsStore(t)
	ctx := context.Background()
	if _, err := store.CreateSession(ctx, "s", SessionNew{}); err != nil {
		t.Fatal(err)
	}
	values := SessionPatch{}
	given(&values)
	revision, err := store.UpdateSession(ctx, "s", values)
	if err != nil {
		t.Fatal(err)
	}
	session, err := store.Session(ctx, "s")
	if err != nil {
		t.Fatal(err)
	}
	shown(t, values, session)
	if session.Revision != revision || revision != 1 {
		t.Errorf("revision %d, then %d", revision, session.Revision)
	}
}

func TestAMissingSessionIsNotFound(t *testing.T) {
	store := fieldsStore(t)
	if _, err := store.Session(context.Background(), "none"); err == nil {
		t.Error("it was found")
	}
}
