package quipu

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const planted = "a text that no file may show"

// runProgram runs it on a store, with a key's file in its environment and a message for append.
func runProgram(t *testing.T, variable, file string, arguments ...string) string {
	t.Helper()
	command := exec.Command(program(t), arguments...)
	command.Stdin = strings.NewReader(`{"role":"user","content":"` + planted + `"}`)
	command.Env = append(os.Environ(), variable+"="+file)
	said, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("quipu %v: %v\n%s", arguments, err, said)
	}
	return string(said)
}

// secretFile is one that only its owner reads.
func secretFile(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// encryptedStore is a store that the program wrote with a key or a passphrase.
func encryptedStore(t *testing.T, variable, file string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store.db")
	runProgram(t, variable, file, "init", "--encrypt", "--store", path)
	runProgram(t, variable, file, "append", "one", "-", "--create", "--store", path)
	data, err := os.ReadFile(path)
	if err != nil || bytes.Contains(data, []byte(planted)) {
		t.Fatalf("%v, or the file shows what it stores", err)
	}
	return path
}

func randomKey(t *testing.T) []byte {
	t.Helper()
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		t.Fatal(err)
	}
	return key
}

// readOne reads the session that the program made.
func readOne(t *testing.T, path string, options Options) []string {
	t.Helper()
	options.MustExist = true
	store, err := Open(path, options)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	history, err := store.Get(t.Context(), "one", Range{})
	if err != nil {
		t.Fatal(err)
	}
	return contents(history.Messages)
}

func TestAKeyOpensWhatTheProgramWroteInEveryForm(t *testing.T) {
	key := randomKey(t)
	raw := secretFile(t, key)
	path := encryptedStore(t, "QUIPU_KEY_FILE", raw)
	digits := hex.EncodeToString(key)
	for name, options := range map[string]Options{
		"bytes": {Key: key}, "file": {KeyFile: raw},
		"digits":      {KeyFile: secretFile(t, []byte(digits+"\n"))},
		"more digits": {KeyFile: secretFile(t, []byte(strings.ToUpper(digits)))},
		"read only":   {Key: key, ReadOnly: true},
	} {
		same(t, name, readOne(t, path, options), []string{planted})
	}
}

func TestAPassphraseOpensWhatTheProgramWrote(t *testing.T) {
	file := secretFile(t, []byte("correct horse, größer\r\n"))
	path := encryptedStore(t, "QUIPU_PASSPHRASE_FILE", file)
	same(t, "text", readOne(t, path, Options{Passphrase: "correct horse, größer"}), []string{planted})
	same(t, "file", readOne(t, path, Options{PassphraseFile: file}), []string{planted})
	if _, err := Open(path, Options{Passphrase: "wrong horse"}); !errors.Is(err, Invalid) {
		t.Error(err)
	}
}

func TestTheProgramReadsWhatGoWrote(t *testing.T) {
	key := randomKey(t)
	path := filepath.Join(t.TempDir(), "store.db")
	store, err := Open(path, Options{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	put(t, store, "one", Message{Role: RoleUser, Content: planted})
	files, _ := filepath.Glob(path + "*")
	for _, name := range files {
		if data, err := os.ReadFile(name); err != nil || bytes.Contains(data, []byte(planted)) {
			t.Errorf("%s: %v, or it shows what it stores", name, err)
		}
	}
	if err := store.Close(); err != nil || len(files) < 2 {
		t.Fatal(err, files)
	}
	said := runProgram(t, "QUIPU_KEY_FILE", secretFile(t, key), "show", "one", "--store", path)
	if !strings.Contains(said, planted) {
		t.Error(said)
	}
}

// refused opens a store and wants an error of this code that says this.
func refused(t *testing.T, path string, options Options, code Code, says string) {
	t.Helper()
	store, err := Open(path, options)
	if err == nil {
		_ = store.Close()
	}
	if !errors.Is(err, code) || !strings.Contains(err.Error(), says) {
		t.Errorf("%v, not %v: %s", err, code, says)
	}
}

func TestAKeyThatDoesNotFitIsSaidAndNothingIsWritten(t *testing.T) {
	key := randomKey(t)
	path := encryptedStore(t, "QUIPU_KEY_FILE", secretFile(t, key))
	before, _ := os.ReadFile(path)
	refused(t, path, Options{}, Misuse, "it is encrypted, and no key was given")
	refused(t, path, Options{Key: make([]byte, 32)}, Invalid, "the key does not fit this file")
	refused(t, path, Options{Key: key[:31]}, Invalid, "32 bytes")
	refused(t, path, Options{Key: []byte{}}, Invalid, "empty")
	after, _ := os.ReadFile(path)
	if !bytes.Equal(before, after) {
		t.Error("a key that does not fit changed the file")
	}
	plain := filepath.Join(t.TempDir(), "plain.db")
	store, err := Open(plain, Options{})
	if err != nil {
		t.Fatal(err)
	}
	_ = store.Close()
	refused(t, plain, Options{Key: key}, Misuse, "it is not encrypted")
}

func TestAKeyFileThatIsNoneIsSaid(t *testing.T) {
	key := randomKey(t)
	path := encryptedStore(t, "QUIPU_KEY_FILE", secretFile(t, key))
	for _, data := range []string{"", "12345", string(key) + "\n", strings.Repeat("g", 64),
		strings.Repeat("w", 31) + "\n"} {
		refused(t, path, Options{KeyFile: secretFile(t, []byte(data))}, Invalid, "holds no key")
	}
	for _, data := range []string{"", "\n", strings.Repeat("p", 1025), strings.Repeat("p", 1024) + "\n\nmore"} {
		refused(t, path, Options{PassphraseFile: secretFile(t, []byte(data))}, Invalid, "1 to 1024 bytes")
	}
	readable := secretFile(t, key)
	if err := os.Chmod(readable, 0o640); err != nil {
		t.Fatal(err)
	}
	refused(t, path, Options{KeyFile: readable}, Misuse, "chmod 600")
	refused(t, path, Options{Key: key, Passphrase: "p"}, Misuse, "give one of")
	if _, err := Open(path, Options{KeyFile: path + ".none"}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestAnotherKeyOpensTheStoreAndTheOldOneDoesNot(t *testing.T) {
	old, fresh := randomKey(t), randomKey(t)
	path := encryptedStore(t, "QUIPU_KEY_FILE", secretFile(t, old))
	store, err := Open(path, Options{Key: old})
	if err != nil {
		t.Fatal(err)
	}
	file := secretFile(t, []byte(hex.EncodeToString(fresh)+"\n"))
	if err := store.Rekey(t.Context(), Options{KeyFile: file}); err != nil {
		t.Fatal(err)
	}
	put(t, store, "one", Message{Role: RoleUser, Content: "behind the change"})
	if err := store.Rekey(t.Context(), Options{Passphrase: "open sesame"}); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	said := runProgram(t, "QUIPU_PASSPHRASE_FILE", secretFile(t, []byte("open sesame")), "show", "one",
		"--store", path)
	if !strings.Contains(said, planted) || !strings.Contains(said, "behind the change") {
		t.Error(said)
	}
	refused(t, path, Options{Key: old}, Invalid, "the key does not fit this file")
	refused(t, path, Options{Key: fresh}, Invalid, "the key does not fit this file")
}

func TestWhatCannotBeRekeyedIsSaidAndNothingIsWritten(t *testing.T) {
	key := randomKey(t)
	path := encryptedStore(t, "QUIPU_KEY_FILE", secretFile(t, key))
	store, err := Open(path, Options{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(path)
	for says, options := range map[string]Options{
		"there is no key": {}, "give one of": {Key: key, Passphrase: "p"}, "empty": {Key: []byte{}},
		"32 bytes": {Key: key[:31]}, "more than 1024": {Passphrase: strings.Repeat("p", 1025)},
	} {
		if err := store.Rekey(t.Context(), options); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, not %s", err, says)
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := store.Rekey(cancelled, Options{Key: randomKey(t)}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	_ = store.Close()
	if err := store.Rekey(t.Context(), Options{Key: key}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	after, _ := os.ReadFile(path)
	if !bytes.Equal(before, after) {
		t.Error("what cannot be rekeyed was changed")
	}
	plain, err := Open(filepath.Join(t.TempDir(), "plain.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if err := plain.Rekey(t.Context(), Options{Key: key}); !errors.Is(err, Misuse) ||
		!strings.Contains(err.Error(), "is not encrypted") {
		t.Error(err)
	}
}

func TestAPlainStoreBecomesAnEncryptedOne(t *testing.T) {
	key := randomKey(t)
	path := filepath.Join(t.TempDir(), "store.db")
	store, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	put(t, store, "one", Message{Role: RoleUser, Content: planted})
	err = Encrypt(path, Options{Key: key, Deadline: time.Millisecond})
	if !errors.Is(err, Busy) {
		t.Error(err)
	}
	_ = store.Close()
	if err := Encrypt(path, Options{}); !errors.Is(err, Misuse) {
		t.Error(err)
	}
	if err := Encrypt(path, Options{Key: key[:31]}); !errors.Is(err, Invalid) {
		t.Error(err)
	}
	same(t, "plain", readOne(t, path, Options{}), []string{planted})
	for range 2 { // a repeat does nothing
		if err := Encrypt(path, Options{Key: key}); err != nil {
			t.Fatal(err)
		}
	}
	files, _ := filepath.Glob(path + "*")
	for _, name := range files {
		if data, err := os.ReadFile(name); err != nil || bytes.Contains(data, []byte(planted)) {
			t.Errorf("%s: %v, or it shows what it stores", name, err)
		}
	}
	said := runProgram(t, "QUIPU_KEY_FILE", secretFile(t, key), "show", "one", "--store", path)
	if !strings.Contains(said, planted) {
		t.Error(said)
	}
	if err := Encrypt(path, Options{Key: randomKey(t)}); !errors.Is(err, Invalid) {
		t.Error(err)
	}
	if err := Encrypt(path+".none", Options{Key: key}); !errors.Is(err, NotFound) {
		t.Error(err)
	}
}
