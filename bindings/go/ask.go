package quipu

import (
	"context"
	"errors"
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

// Embedder makes a vector of each text, in their order and all of one length.
type Embedder func(ctx context.Context, texts []string) ([][]float32, error)

var errEmbedder = &Error{Code: Misuse, Message: "Embedder and EmbedModel belong together: give both or none"}

// asker is functions that the library calls, as a provider of its own. The map keeps it, and so its
// address, until end.
type asker struct {
	calls  lib.Provider
	ctx    context.Context
	cancel context.CancelFunc
	ask    func(context.Context, Question) (string, error)
	embed  Embedder
}

var (
	askersMu   sync.Mutex
	askers     = map[uintptr]*asker{}
	askersMade uintptr
	askName    = []byte("a function\x00")
)

// newAsker returns nil, which is no provider, for no function.
func newAsker(ctx context.Context, ask func(context.Context, Question) (string, error),
	embed Embedder) *asker {
	if ask == nil && embed == nil {
		return nil
	}
	it := &asker{ask: ask, embed: embed}
	it.ctx, it.cancel = context.WithCancel(ctx)
	askersMu.Lock()
	defer askersMu.Unlock()
	askersMade++
	it.calls = lib.Provider{
		Ctx: askersMade, ID: unsafe.Pointer(&askName[0]), Generate: askCallback(),
		Embed: embedCallback(),
	}
	it.calls.StructSize = uint32(unsafe.Sizeof(it.calls))
	askers[askersMade] = it
	return it
}

// provider is what C gets to ask.
func (a *asker) provider() uintptr {
	if a == nil || a.ask == nil {
		return 0
	}
	return uintptr(unsafe.Pointer(&a.calls))
}

// embedder is what C gets to embed.
func (a *asker) embedder() uintptr {
	if a == nil || a.embed == nil {
		return 0
	}
	return uintptr(unsafe.Pointer(&a.calls))
}

// end forgets the functions, which nobody calls any more.
func (a *asker) end() {
	if a != nil {
		a.cancel()
		askersMu.Lock()
		defer askersMu.Unlock()
		delete(askers, a.calls.Ctx)
	}
}

// askCallback is a quipu_provider's generate. There is one for all functions: a callback of purego's
// is never freed.
var askCallback = sync.OnceValue(func() uintptr {
	return purego.NewCallback(func(number uintptr, params *lib.ModelParams, call *lib.CallOptions,
		sink *lib.Sink, failure *lib.Error) uintptr {
		it := askerOf(number)
		text, err := it.answer(params, call)
		if err != nil {
			return it.fail(err, failure)
		}
		return putAnswer(sink, text, failure)
	})
})

func askerOf(number uintptr) *asker {
	askersMu.Lock()
	defer askersMu.Unlock()
	return askers[number]
}

// fail reports to C why a function failed.
func (a *asker) fail(err error, failure *lib.Error) uintptr {
	copy(failure.Message[:len(failure.Message)-1], err.Error())
	failure.Status = int32(IO)
	at, ok := a.ctx.Deadline()
	if ok && errors.Is(err, context.DeadlineExceeded) && time.Until(at) < 10*time.Millisecond {
		<-a.ctx.Done() // the library's copy of the deadline ended a moment before
	}
	if a.ctx.Err() != nil {
		failure.Status = int32(Cancelled) // the caller stopped it: no failure of the model
	}
	return uintptr(uint32(failure.Status))
}

// embedCallback is a quipu_provider's embed. The vectors lie in the library's arena, end to end.
var embedCallback = sync.OnceValue(func() uintptr {
	return purego.NewCallback(func(number uintptr, request *lib.EmbedRequest, call *lib.CallOptions,
		arena uintptr, made *lib.Embeddings, failure *lib.Error) uintptr {
		it := askerOf(number)
		vectors, err := it.vectors(request, call)
		if err != nil {
			return it.fail(err, failure)
		}
		dimensions := uintptr(len(vectors[0]))
		size := dimensions * uintptr(len(vectors)) * unsafe.Sizeof(float32(0))
		values, _, _ := purego.SyscallN(lib.Call.ArenaNew, arena, size+1)
		if values == 0 {
			failure.Status = int32(NoMemory)
			return uintptr(uint32(failure.Status))
		}
		into := unsafe.Slice((*float32)(*(*unsafe.Pointer)(unsafe.Pointer(&values))),
			int(dimensions)*len(vectors))
		for i, vector := range vectors {
			copy(into[i*int(dimensions):], vector)
		}
		made.Values, made.Dimensions, made.Count = values, dimensions, uintptr(len(vectors))
		return 0
	})
})

// vectors calls the function within the time that the library gives it: one vector of each text, all
// of one length.
func (a *asker) vectors(request *lib.EmbedRequest, call *lib.CallOptions) (made [][]float32, err error) {
	defer func() {
		if wrong := recover(); wrong != nil {
			err = fmt.Errorf("panic: %v", wrong)
		}
	}()
	texts := make([]string, request.TextCount)
	for i, text := range unsafe.Slice((*lib.Str)(request.Texts), request.TextCount) {
		texts[i] = text.String()
	}
	ctx, cancel := a.within(call)
	defer cancel()
	made, err = a.embed(ctx, texts)
	if err != nil {
		return nil, err
	}
	if len(made) != len(texts) || len(made) == 0 {
		return nil, fmt.Errorf("%d vectors came back for %d texts", len(made), len(texts))
	}
	for _, vector := range made {
		if len(vector) != len(made[0]) {
			return nil, errors.New("the vectors have different lengths")
		}
	}
	return made, nil
}

// within is the functions' context with the time that the library gives a call.
func (a *asker) within(call *lib.CallOptions) (context.Context, context.CancelFunc) {
	if call == nil || call.DeadlineMS <= 0 {
		return context.WithCancel(a.ctx)
	}
	return context.WithTimeout(a.ctx, time.Duration(call.DeadlineMS)*time.Millisecond)
}

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
	ctx, cancel := a.within(call)
	defer cancel()
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
