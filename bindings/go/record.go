package quipu

import (
	"runtime"
	"sync"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"

	"quipu/bindings/go/internal/lib"
)

// shape is a struct of C's as libquipu lists it: where each member lies, by its name.
type shape struct {
	members map[string]lib.Field
	size    uintptr
}

func shapeOf(name string) func() *shape {
	return sync.OnceValue(func() *shape {
		it := &shape{members: map[string]lib.Field{}}
		text := append([]byte(name), 0)
		for {
			field := &lib.Field{}
			field.StructSize = uint32(unsafe.Sizeof(*field))
			there, _, _ := purego.SyscallN(lib.Call.Field, uintptr(unsafe.Pointer(&text[0])),
				uintptr(len(it.members)), uintptr(unsafe.Pointer(field)))
			if there&0xff == 0 { // a bool is one byte of the register
				return it
			}
			it.members[lib.Text(field.Name)] = *field
			it.size = uintptr(field.Size)
		}
	})
}

var (
	sessionInfo  = shapeOf("quipu_session_info")
	sessionNew   = shapeOf("quipu_session_new")
	sessionPatch = shapeOf("quipu_session_patch")
)

// reader gives the members of a struct of C's by name. A member that this libquipu does not have is
// zero.
type reader struct {
	shape *shape
	at    unsafe.Pointer
}

func member[T any](r *reader, name string) T {
	var none T
	field, ok := r.shape.members[name]
	if !ok {
		return none
	}
	if field.Has != lib.NoHas && !*(*bool)(unsafe.Add(r.at, field.Has)) {
		return none
	}
	return *(*T)(unsafe.Add(r.at, field.Offset))
}

func (r *reader) text(name string) string   { return member[lib.Str](r, name).String() }
func (r *reader) json(name string) []byte   { return member[lib.Str](r, name).Bytes() }
func (r *reader) bytes(name string) []byte  { return member[lib.Str](r, name).Bytes() }
func (r *reader) integer(name string) int64 { return member[int64](r, name) }
func (r *reader) boolean(name string) bool  { return member[bool](r, name) }
func (r *reader) uuid(name string) string   { return lib.UUID(member[[16]byte](r, name)) }

func (r *reader) time(name string) time.Time {
	t := member[lib.Time](r, name)
	if t == (lib.Time{}) {
		return time.Time{}
	}
	return timeOf(t)
}

// writer fills a struct of C's by name; texts stay pinned until the pins end.
type writer struct {
	shape  *shape
	memory []uint64
	pins   *runtime.Pinner
	set    uint32 // the bits of what was given
}

func newWriter(shape *shape, pins *runtime.Pinner) *writer {
	it := &writer{shape: shape, memory: make([]uint64, shape.size/8+1), pins: pins}
	*(*uint32)(it.pointer()) = uint32(shape.size) // every struct that is given begins with its size
	pins.Pin(&it.memory[0])
	return it
}

func (w *writer) pointer() unsafe.Pointer { return unsafe.Pointer(&w.memory[0]) }

func (w *writer) str(name string, text string) {
	field, ok := w.shape.members[name]
	if !ok {
		return
	}
	value := lib.Of(text)
	w.pins.Pin(value.P)
	*(*lib.Str)(unsafe.Add(w.pointer(), field.Offset)) = value
	w.set |= field.Bit
}

func (w *writer) text(name string, text *string) {
	if text != nil {
		w.str(name, *text)
	}
}

func (w *writer) json(name string, text []byte) {
	if text != nil {
		w.str(name, string(text))
	}
}
