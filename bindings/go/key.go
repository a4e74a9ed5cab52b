package quipu

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"

	"quipu/bindings/go/internal/lib"
)

const (
	keyBytes         = 32
	passphraseMost   = 1024
	lineEndMost      = 2
	readableByOthers = 0o077
)

// keyCallback is a quipu_key_fn, which quipu_open() calls once: its ctx is a quipu_str.
var keyCallback = sync.OnceValue(func() uintptr {
	return purego.NewCallback(func(secret *lib.Str, to unsafe.Pointer, size uintptr) uintptr {
		copy(unsafe.Slice((*byte)(to), size), unsafe.Slice((*byte)(secret.P), secret.N))
		return secret.N
	})
})

// putKey makes the store of settings an encrypted one, when the options have a key.
func (o *Options) putKey(settings *lib.OpenOptions, pins *runtime.Pinner) error {
	secret, isPassphrase, err := o.secret()
	if err != nil || secret == nil {
		return err
	}
	it := &lib.Str{P: unsafe.Pointer(unsafe.SliceData(secret)), N: uintptr(len(secret))}
	pins.Pin(it)
	if it.N > 0 {
		pins.Pin(it.P)
	}
	settings.Key, settings.KeyCtx = keyCallback(), uintptr(unsafe.Pointer(it))
	if isPassphrase {
		settings.Flags |= lib.OpenPassphrase
	}
	return nil
}

// needKey is putKey for a call that cannot do without a key.
func (o *Options) needKey(settings *lib.OpenOptions, pins *runtime.Pinner) error {
	err := o.putKey(settings, pins)
	if err == nil && settings.Key == 0 {
		err = &Error{Code: Misuse,
			Message: "there is no key: give one of Options.Key, KeyFile, Passphrase and PassphraseFile"}
	}
	return err
}

// Encrypt encrypts an existing store in a file with the key of the options, of which Deadline counts
// as well. A copy takes the file's place in one step; what was plain is overwritten with zeros and
// deleted. No program may have the store open: the call waits until the deadline, and fails with
// Busy. Nothing happens when the store is encrypted with this key; another one is Invalid.
func Encrypt(path string, options Options) error {
	if err := lib.Load(); err != nil {
		return err
	}
	deadline, err := milliseconds("Options.Deadline", options.Deadline)
	if err != nil {
		return err
	}
	var pins runtime.Pinner
	defer pins.Unpin()
	uri := append([]byte(path), 0)
	settings := &lib.OpenOptions{DeadlineMS: int32(min(deadline, math.MaxInt32))}
	settings.StructSize = uint32(unsafe.Sizeof(*settings))
	if err := options.needKey(settings, &pins); err != nil {
		return err
	}
	pins.Pin(&uri[0])
	pins.Pin(settings)
	settings.Flags |= lib.OpenEncrypt
	var handle uintptr
	failure := &lib.Error{}
	status, _, _ := purego.SyscallN(lib.Call.Open, uintptr(unsafe.Pointer(&uri[0])),
		uintptr(unsafe.Pointer(settings)), pinned(&pins, &handle), uintptr(unsafe.Pointer(failure)))
	purego.SyscallN(lib.Call.Close, handle)
	return check(status, failure)
}

// Rekey gives an encrypted store another key, that of the options; nothing else of them counts. Who
// opens the store from now on needs the new key; programs that have it open go on. It is Misuse for
// a store that is not encrypted, Unsupported for a server's, Conflict when another program has
// changed the key. After Unknown keep both keys and repeat the call.
func (s *Store) Rekey(ctx context.Context, options Options) error {
	if err := s.gate.enter(); err != nil {
		return err
	}
	defer s.gate.leave()
	var pins runtime.Pinner
	defer pins.Unpin()
	settings := &lib.OpenOptions{}
	if err := options.needKey(settings, &pins); err != nil {
		return err
	}
	patch := &lib.StorePatch{Set: lib.StoreSetKey, Key: settings.Key, KeyCtx: settings.KeyCtx}
	patch.StructSize = uint32(unsafe.Sizeof(*patch))
	if settings.Flags&lib.OpenPassphrase != 0 {
		patch.Set = lib.StoreSetPassphrase
	}
	pins.Pin(patch)
	return withCall(ctx, time.Time{}, func(call uintptr) error {
		failure := &lib.Error{}
		status, _, _ := purego.SyscallN(lib.Call.StoreUpdate, s.handle,
			uintptr(unsafe.Pointer(patch)), call, uintptr(unsafe.Pointer(failure)))
		return check(status, failure)
	})
}

// secret is the key or passphrase, and which of the two it is; nil: the store is a plain one.
func (o *Options) secret() (secret []byte, isPassphrase bool, err error) {
	given := 0
	for _, is := range []bool{o.Key != nil, o.KeyFile != "", o.Passphrase != "", o.PassphraseFile != ""} {
		if is {
			given++
		}
	}
	switch {
	case given > 1:
		return nil, false, &Error{Code: Misuse,
			Message: "give one of Options.Key, KeyFile, Passphrase and PassphraseFile"}
	case o.KeyFile != "":
		secret, err = keyIn(o.KeyFile)
		return secret, false, err
	case o.Passphrase != "":
		return []byte(o.Passphrase), true, nil
	case o.PassphraseFile != "":
		secret, err = passphraseIn(o.PassphraseFile)
		return secret, true, err
	}
	return o.Key, false, nil
}

// readSecret reads most bytes of a file, and one more; a key that others can read is no secret.
func readSecret(option, path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("quipu: %s: %w", option, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("quipu: %s: %w", option, err)
	}
	if info.Mode()&readableByOthers != 0 {
		return nil, &Error{Code: Misuse,
			Message: fmt.Sprintf("%s: other users may read %s: chmod 600 it", option, path)}
	}
	secret, err := io.ReadAll(io.LimitReader(file, most+1))
	if err != nil {
		return nil, fmt.Errorf("quipu: %s: %w", option, err)
	}
	return secret, nil
}

// isText says whether all bytes are those of a text.
func isText(secret []byte) bool {
	return !bytes.ContainsFunc(secret, func(r rune) bool {
		return (r < ' ' || r > '~') && r != '\t' && r != '\n' && r != '\r'
	})
}

// keyIn is 32 bytes as they are, or 64 digits and a line end. 32 characters are a passphrase in the
// wrong place, which scrypt would not protect.
func keyIn(path string) ([]byte, error) {
	secret, err := readSecret("Options.KeyFile", path, 2*keyBytes+1)
	if err != nil || (len(secret) == keyBytes && !isText(secret)) {
		return secret, err
	}
	digits := bytes.TrimSuffix(secret, []byte("\n"))
	key, err := hex.DecodeString(string(digits))
	if err != nil || len(key) != keyBytes {
		return nil, &Error{Code: Invalid,
			Message: fmt.Sprintf("Options.KeyFile: %s holds no key: %d random bytes, or %d hexadecimal digits",
				path, keyBytes, 2*keyBytes)}
	}
	return key, nil
}

// passphraseIn is the file without the line end that editors write. Of a longer file only the begin
// was read: it would be another passphrase.
func passphraseIn(path string) ([]byte, error) {
	file, err := readSecret("Options.PassphraseFile", path, passphraseMost+lineEndMost)
	if err != nil {
		return nil, err
	}
	secret := bytes.TrimRight(file, "\r\n")
	if len(file) > passphraseMost+lineEndMost || len(secret) == 0 || len(secret) > passphraseMost {
		return nil, &Error{Code: Invalid,
			Message: fmt.Sprintf("Options.PassphraseFile: the passphrase in %s must have 1 to %d bytes",
				path, passphraseMost)}
	}
	return secret, nil
}
