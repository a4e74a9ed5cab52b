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
	fields  []namedField
	members map[string]int // their places in fields
	size    uintptr
}

type namedField struct {
	lib.Field
	name string
}

func shapeOf(name string) func() *shape {
	return sync.OnceValue(func() *shape {
		it := &shape{members: map[string]int{}}
		text := append([]byte(name), 0)
		for {
			field := &namedField{}
			field.StructSize = uint32(unsafe.Sizeof(field.Field))
			there, _, _ := purego.SyscallN(lib.Call.Field, uintptr(unsafe.Pointer(&text[0])),
				uintptr(len(it.fields)), uintptr(unsafe.Pointer(&field.Field)))
			if there&0xff == 0 { // a bool is one byte of the register
				return it
			}
			field.name = lib.Text(field.Name)
			it.members[field.name] = len(it.fields)
			it.fields = append(it.fields, *field)
			it.size = uintptr(field.Size)
		}
	})
}

// find is the member of a name, and the place behind it: members are mostly asked for in the table's
// order, so that the one at `hint` is looked at first. nil: this libquipu does not have it.
func (s *shape) find(name string, hint int) (*namedField, int) {
	if hint >= len(s.fields) || s.fields[hint].name != name {
		var ok bool
		if hint, ok = s.members[name]; !ok {
			return nil, hint
		}
	}
	return &s.fields[hint], hint + 1
}

var (
	sessionInfo  = shapeOf("quipu_session_info")
	sessionNew   = shapeOf("quipu_session_new")
	sessionPatch = shapeOf("quipu_session_patch")
	messageShape = shapeOf("quipu_message")
	memoryShape  = shapeOf("quipu_memory")
)

// reader gives the members of a struct of C's by name. A member that this libquipu does not have is
// zero.
type reader struct {
	shape *shape
	at    unsafe.Pointer
	next  int
}

// find is the place of a member; nil when it is not there.
func (r *reader) find(name string) unsafe.Pointer {
	var field *namedField
	field, r.next = r.shape.find(name, r.next)
	if field == nil || field.Has != lib.NoHas && !*(*bool)(unsafe.Add(r.at, field.Has)) {
		return nil
	}
	return unsafe.Add(r.at, field.Offset)
}

func member[T any](r *reader, name string) T {
	var value T
	if at := r.find(name); at != nil {
		value = *(*T)(at)
	}
	return value
}

func (r *reader) text(name string) string   { return member[lib.Str](r, name).String() }
func (r *reader) json(name string) []byte   { return member[lib.Str](r, name).Bytes() }
func (r *reader) bytes(name string) []byte  { return member[lib.Str](r, name).Bytes() }
func (r *reader) integer(name string) int64 { return member[int64](r, name) }
func (r *reader) boolean(name string) bool  { return member[bool](r, name) }
func (r *reader) label(name string) int32   { return member[int32](r, name) }
func (r *reader) id(name string) [16]byte   { return member[[16]byte](r, name) }
func (r *reader) uuid(name string) string   { return lib.UUID(r.id(name)) }

func (r *reader) time(name string) time.Time {
	at := r.find(name)
	if at == nil {
		return time.Time{}
	}
	return timeOf(*(*lib.Time)(at))
}

// writer fills a struct of C's by name; texts stay pinned until the pins end.
type writer struct {
	shape  *shape
	memory []uint64
	pins   *runtime.Pinner
	set    uint32 // the bits of what was given
	next   int
}

func newWriter(shape *shape, pins *runtime.Pinner) *writer {
	it := &writer{shape: shape, memory: make([]uint64, shape.size/8+1), pins: pins}
	*(*uint32)(it.pointer()) = uint32(shape.size) // every struct that is given begins with its size
	pins.Pin(&it.memory[0])
	return it
}

// newRecords is a sized slice of structs, and a writer for each.
func newRecords(shape *shape, pins *runtime.Pinner, count int) (*lib.Slice, []writer) {
	words := int(shape.size+7) / 8
	all := make([]uint64, words*count)
	items := make([]writer, count)
	for i := range items {
		items[i] = writer{shape: shape, memory: all[i*words : (i+1)*words], pins: pins}
	}
	made := &lib.Slice{Count: uintptr(count), ItemSize: uintptr(words) * 8}
	if count > 0 {
		pins.Pin(&all[0])
		made.Items = unsafe.Pointer(&all[0])
	}
	pins.Pin(made)
	return made, items
}

func (w *writer) pointer() unsafe.Pointer { return unsafe.Pointer(&w.memory[0]) }

// at is the place of a member that is given from now on; nil: this libquipu does not have it.
func (w *writer) at(name string) unsafe.Pointer {
	var field *namedField
	field, w.next = w.shape.find(name, w.next)
	if field == nil {
		return nil
	}
	if field.Has != lib.NoHas {
		*(*bool)(unsafe.Add(w.pointer(), field.Has)) = true
	}
	w.set |= field.Bit
	return unsafe.Add(w.pointer(), field.Offset)
}

func place[T any](w *writer, name string, value T) {
	if at := w.at(name); at != nil {
		*(*T)(at) = value
	}
}

func (w *writer) str(name string, text string) {
	value := lib.Of(text)
	w.pins.Pin(value.P)
	place(w, name, value)
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

// A text that is absent when it is empty.
func (w *writer) putSome(name string, text string) {
	if text != "" {
		w.str(name, text)
	}
}

func (w *writer) putInteger(name string, value int64) { place(w, name, value) }
func (w *writer) putLabel(name string, value int32)   { place(w, name, value) }

// A time or an id is absent when it is zero.
func (w *writer) putTime(name string, value time.Time) {
	if !value.IsZero() {
		place(w, name, cTime(value))
	}
}

func (w *writer) putID(name string, value [16]byte) {
	if value != [16]byte{} {
		place(w, name, value)
	}
}
