package quipu

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"

	"quipu/bindings/go/internal/lib"
)

// Question is what a worker of memory asks a model: to follow Instructions about Text, and to answer
// with JSON of the form Schema.
type Question struct {
	Model, Instructions, Text, Schema string
}

// asker is a function that a worker calls, as a provider of the library's. The map keeps it, and so
// its address, until end.
type asker struct {
	provider lib.Provider
	ctx      context.Context
	cancel   context.CancelFunc
	ask      func(context.Context, Question) (string, error)
}

var (
	askersMu   sync.Mutex
	askers     = map[uintptr]*asker{}
	askersMade uintptr
	askName    = []byte("a function\x00")
)

// newAsker returns nil, which is no provider, for no function.
func newAsker(ctx context.Context, ask func(context.Context, Question) (string, error)) *asker {
	if ask == nil {
		return nil
	}
	it := &asker{ask: ask}
	it.ctx, it.cancel = context.WithCancel(ctx)
	askersMu.Lock()
	defer askersMu.Unlock()
	askersMade++
	it.provider = lib.Provider{
		Ctx: askersMade, ID: unsafe.Pointer(&askName[0]), Generate: askCallback(),
	}
	it.provider.StructSize = uint32(unsafe.Sizeof(it.provider))
	askers[askersMade] = it
	return it
}

// pointer is what C gets.
func (a *asker) pointer() uintptr {
	if a == nil {
		return 0
	}
	return uintptr(unsafe.Pointer(&a.provider))
}

// end forgets the function, which no worker calls any more.
func (a *asker) end() {
	if a != nil {
		a.cancel()
		askersMu.Lock()
		defer askersMu.Unlock()
		delete(askers, a.provider.Ctx)
	}
}

// askCallback is a quipu_provider's generate. There is one for all functions: a callback of purego's
// is never freed.
var askCallback = sync.OnceValue(func() uintptr {
	return purego.NewCallback(func(number uintptr, params *lib.ModelParams, call *lib.CallOptions,
		sink *lib.Sink, failure *lib.Error) uintptr {
		askersMu.Lock()
		it := askers[number]
		askersMu.Unlock()
		text, err := it.answer(params, call)
		if err != nil {
			copy(failure.Message[:len(failure.Message)-1], err.Error())
			failure.Status = int32(IO)
			if it.ctx.Err() != nil {
				failure.Status = int32(Cancelled) // the worker is stopped: no failure of the model
			}
			return uintptr(uint32(failure.Status))
		}
		return putAnswer(sink, text, failure)
	})
})

// answer calls the function within the time that the library gives it. A panic is a failure: there
// are frames of C below.
func (a *asker) answer(params *lib.ModelParams, call *lib.CallOptions) (text string, err error) {
	defer func() {
		if wrong := recover(); wrong != nil {
			err = fmt.Errorf("panic: %v", wrong)
		}
	}()
	question := Question{Model: params.Model.String(),
		Schema: (*lib.Request)(params.Request).ResponseSchema.String()}
	for i := range params.Messages.Count {
		message := lib.Item[lib.ModelMessage](&params.Messages, i)
		if message.Role == lib.RoleSystem {
			question.Instructions = message.Content.String()
		} else {
			question.Text = message.Content.String()
		}
	}
	ctx := a.ctx
	if call.DeadlineMS > 0 {
		within, cancel := context.WithTimeout(ctx, time.Duration(call.DeadlineMS)*time.Millisecond)
		defer cancel()
		ctx = within
	}
	return a.ask(ctx, question)
}

// putAnswer passes an answer on in one piece.
func putAnswer(sink *lib.Sink, text string, failure *lib.Error) uintptr {
	var pins runtime.Pinner
	defer pins.Unpin()
	deltas := []*lib.Delta{{Kind: lib.DeltaFinish, Finish: lib.FinishStop}}
	if text != "" {
		deltas = append([]*lib.Delta{{Kind: lib.DeltaText, Text: optional(&pins, text)}}, deltas...)
	}
	for _, delta := range deltas {
		delta.StructSize = uint32(unsafe.Sizeof(*delta))
		status, _, _ := purego.SyscallN(sink.Put, sink.Ctx, pinned(&pins, delta),
			uintptr(unsafe.Pointer(failure)))
		if int32(status) != 0 {
			return status
		}
	}
	return 0
}
