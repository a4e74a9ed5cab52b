package quipu

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

const trains = `{"observations":[{"text":"The user prefers trains.","priority":"high",` +
	`"topic":"preference","from":1,"to":1,"subject":"","about":"","replaces":0}]}`

// asking returns options whose model is a function.
func asking(ask func(context.Context, Question) (string, error)) WorkerOptions {
	return WorkerOptions{Ask: ask, Model: "small", ObserveTokens: 1, Lease: 20 * time.Second}
}

// origins are what made the observations of a session.
func origins(t *testing.T, store *Store, name string) (found []string) {
	t.Helper()
	for _, one := range memories(t, store, MemoryQuery{Kind: Observation, SessionKey: name}) {
		found = append(found, one.Origin)
	}
	return found
}

func TestAFunctionObservesInsteadOfTheRules(t *testing.T) {
	store, service, made, name := talk(t)
	appendText(t, service, made, "Trains are so much nicer than planes.")
	var asked []Question
	options := asking(func(ctx context.Context, question Question) (string, error) {
		if at, has := ctx.Deadline(); !has || time.Until(at) > 20*time.Second {
			t.Errorf("the answer may take until %v", at)
		}
		asked = append(asked, question)
		return trains, nil
	})
	options.ObservePrompt = "Write down what people like.\n"
	ran, err := store.RunMemory(t.Context(), options)
	if err != nil || ran.Observations != 1 || ran.ModelCalls != 1 || ran.Failed != 0 {
		t.Fatalf("%+v %v", ran, err)
	}
	if found := origins(t, store, name); len(found) != 1 || found[0] != "observe/1:908e8702 small" {
		t.Errorf("%v", found)
	}
	if len(asked) != 1 || asked[0].Model != "small" ||
		!strings.HasPrefix(asked[0].Instructions, options.ObservePrompt) ||
		!strings.Contains(asked[0].Text, "so much nicer than planes") ||
		!strings.HasPrefix(asked[0].Schema, "{") {
		t.Errorf("%+v", asked)
	}
}

func TestWhatAFunctionFailsWithIsWhyTheSessionWaits(t *testing.T) {
	for why, ask := range map[string]func(context.Context, Question) (string, error){
		"the key is wrong": func(context.Context, Question) (string, error) {
			return "", errors.New("the key is wrong")
		},
		"panic: too late": func(context.Context, Question) (string, error) { panic("too late") },
		"refused":         func(context.Context, Question) (string, error) { return "tea!", nil },
		"it is empty":     func(context.Context, Question) (string, error) { return "", nil },
	} {
		store, service, made, name := talk(t)
		appendText(t, service, made, "I prefer trains.")
		ran, err := store.RunMemory(t.Context(), asking(ask))
		if err != nil || ran.Failed != 1 || ran.Observations != 0 {
			t.Fatalf("%s: %+v %v", why, ran, err)
		}
		status, _, err := store.MemoryStatus(t.Context(), WorkerOptions{SessionKey: name})
		if err != nil || !strings.Contains(status[0].LastError, why) || status[0].Watermark != 0 {
			t.Errorf("%s: %+v %v", why, status, err)
		}
	}
}

func TestAFunctionNeedsAModelAndAPromptAFunction(t *testing.T) {
	store, _, _, _ := talk(t)
	options := asking(func(context.Context, Question) (string, error) { return trains, nil })
	options.Model = ""
	if err := store.StartMemory(options); !errors.Is(err, Misuse) {
		t.Errorf("%v", err)
	}
	if _, err := store.RunMemory(t.Context(), WorkerOptions{ReflectPrompt: "x"}); !errors.Is(err, Misuse) {
		t.Errorf("%v", err)
	}
	options.Model, options.ReflectPrompt = "m", strings.Repeat("x", 16385)
	if _, err := store.RunMemory(t.Context(), options); !errors.Is(err, Limit) {
		t.Errorf("%v", err)
	}
}

// A worker's thread is not one of Go's. Neither a call nor stopping waits for the function.
func TestAWorkerAsksBesideTheProgramUntilItIsStopped(t *testing.T) {
	store, service, made, name := talk(t)
	if err := store.StartMemory(asking(func(context.Context, Question) (string, error) {
		return trains, nil
	})); err != nil {
		t.Fatal(err)
	}
	appendText(t, service, made, "Trains are so much nicer than planes.")
	until(t, func() bool { return len(origins(t, store, name)) == 1 })
	if ran, err := store.StopMemory(); err != nil || ran.ModelCalls != 1 || ran.Observations != 1 {
		t.Fatalf("%+v %v", ran, err)
	}
	asked := make(chan struct{}, 1)
	if err := store.StartMemory(asking(func(ctx context.Context, _ Question) (string, error) {
		asked <- struct{}{}
		<-ctx.Done()
		return "", ctx.Err()
	})); err != nil {
		t.Fatal(err)
	}
	appendText(t, service, made, "I prefer boats.")
	<-asked
	appendText(t, service, made, "I prefer tea.") // while the model thinks
	if err := store.StartMemory(WorkerOptions{}); !errors.Is(err, Exists) {
		t.Errorf("%v", err)
	}
	if ran, err := store.StopMemory(); err != nil || ran.Failed != 0 {
		t.Fatalf("%+v %v", ran, err)
	}
	status, _, err := store.MemoryStatus(t.Context(), WorkerOptions{SessionKey: name})
	if err != nil || status[0].Owner != "" || status[0].LastError != "" || status[0].PendingMessages != 2 {
		t.Errorf("%+v %v", status, err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	if len(askers) != 0 {
		t.Errorf("%d functions are kept", len(askers))
	}
}
