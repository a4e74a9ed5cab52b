package quipu

import (
	"context"
	"path/filepath"
	"reflect"
	"testing"
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

func TestAStructHasWhatTheLibraryShows(t *testing.T) {
	fieldsStore(t)
	for _, one := range []struct {
		shape  *shape
		fields int
		hand   int
	}{
		{sessionInfo(), reflect.TypeFor[Session]().NumField(), 0},
		{sessionNew(), reflect.TypeFor[SessionNew]().NumField(), 2},
		{sessionPatch(), reflect.TypeFor[SessionPatch]().NumField(), 1},
	} {
		hand := 0
		for _, field := range one.shape.members {
			hand += int(field.ByHand)
		}
		if len(one.shape.members) != one.fields+hand || hand != one.hand {
			t.Errorf("%d members, %d of them by hand, and %d fields", len(one.shape.members), hand,
				one.fields)
		}
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
