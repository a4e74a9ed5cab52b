// Package adk1 is a session service for version 1 of Google's ADK (google.golang.org/adk), which
// Lango uses, on a quipu store. Version 2 has its own types for the same things: quipu.SessionService
// is its service, and this one converts. Both versions' programs may share a store.
package adk1

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"google.golang.org/adk/model"
	"google.golang.org/adk/session"
	"google.golang.org/adk/tool/toolconfirmation"
	session2 "google.golang.org/adk/v2/session"
	toolconfirmation2 "google.golang.org/adk/v2/tool/toolconfirmation"

	model2 "google.golang.org/adk/v2/model"

	quipu "quipu/bindings/go"
)

// SessionService is version 1's session service on a store. All goroutines may share it.
type SessionService struct {
	inner *quipu.SessionService
}

var _ session.Service = (*SessionService)(nil)

// NewSessionService returns a service on a store. It may be closed before or after the store.
func NewSessionService(store *quipu.Store, options quipu.ServiceOptions) (*SessionService, error) {
	inner, err := quipu.NewSessionService(store, options)
	if err != nil {
		return nil, err
	}
	return &SessionService{inner}, nil
}

// Close waits for the calls that run. Later ones fail with quipu.ErrClosed; sessions that were read
// stay readable.
func (s *SessionService) Close() error {
	return s.inner.Close()
}

var errRequest = errors.New("quipu: the request is required")

// Create implements session.Service.
func (s *SessionService) Create(ctx context.Context, req *session.CreateRequest) (*session.CreateResponse, error) {
	if req == nil {
		return nil, errRequest
	}
	made, err := s.inner.Create(ctx, (*session2.CreateRequest)(req))
	if err != nil {
		return nil, err
	}
	return &session.CreateResponse{Session: newView(s, made.Session)}, nil
}

// Get implements session.Service.
func (s *SessionService) Get(ctx context.Context, req *session.GetRequest) (*session.GetResponse, error) {
	if req == nil {
		return nil, errRequest
	}
	got, err := s.inner.Get(ctx, (*session2.GetRequest)(req))
	if err != nil {
		return nil, err
	}
	return &session.GetResponse{Session: newView(s, got.Session)}, nil
}

// List implements session.Service.
func (s *SessionService) List(ctx context.Context, req *session.ListRequest) (*session.ListResponse, error) {
	if req == nil {
		return nil, errRequest
	}
	listed, err := s.inner.List(ctx, (*session2.ListRequest)(req))
	if err != nil {
		return nil, err
	}
	response := &session.ListResponse{}
	for _, one := range listed.Sessions {
		response.Sessions = append(response.Sessions, newView(s, one))
	}
	return response, nil
}

// Delete implements session.Service. A missing session is fine.
func (s *SessionService) Delete(ctx context.Context, req *session.DeleteRequest) error {
	if req == nil {
		return errRequest
	}
	return s.inner.Delete(ctx, (*session2.DeleteRequest)(req))
}

// AppendEvent implements session.Service: when it returns, the event is in the store and in the
// session; when it fails, in neither. The event itself is not changed.
func (s *SessionService) AppendEvent(ctx context.Context, current session.Session, event *session.Event) error {
	if current == nil || event == nil {
		return errors.New("quipu: the session and the event are required")
	}
	to, ok := current.(*view)
	if !ok || to.service != s {
		return fmt.Errorf("quipu: session %q was not read from this service", current.ID())
	}
	newer := toVersion2(event)
	to.know(newer, event)
	if err := s.inner.AppendEvent(ctx, to.Session, newer); err != nil {
		to.forget(newer)
		return err
	}
	return nil
}

// view is a session of version 2 as one of version 1. An event is converted once, so that every
// reader gets the same; an event that was appended is the caller's own.
type view struct {
	session2.Session
	service *SessionService
	mu      sync.Mutex
	known   map[*session2.Event]*session.Event
}

func newView(service *SessionService, of session2.Session) *view {
	return &view{Session: of, service: service, known: map[*session2.Event]*session.Event{}}
}

func (v *view) know(newer *session2.Event, event *session.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.known[newer] = event
}

func (v *view) forget(newer *session2.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.known, newer)
}

// event converts an event of the session, once.
func (v *view) event(newer *session2.Event) *session.Event {
	if newer == nil {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	it, ok := v.known[newer]
	if !ok {
		it = toVersion1(newer)
		v.known[newer] = it
	}
	return it
}

func (v *view) State() session.State { return state{v.Session.State()} }

func (v *view) Events() session.Events { return events{v, v.Session.Events()} }

// state is a state whose missing names are version 1's error.
type state struct {
	session2.State
}

func (s state) Get(name string) (any, error) {
	value, err := s.State.Get(name)
	if errors.Is(err, session2.ErrStateKeyNotExist) {
		err = session.ErrStateKeyNotExist
	}
	return value, err
}

type events struct {
	of *view
	session2.Events
}

func (e events) At(i int) *session.Event { return e.of.event(e.Events.At(i)) }

func (e events) All() iter.Seq[*session.Event] {
	return func(yield func(*session.Event) bool) {
		for newer := range e.Events.All() {
			if !yield(e.of.event(newer)) {
				return
			}
		}
	}
}

func toVersion1(e *session2.Event) *session.Event {
	made := &session.Event{
		LLMResponse: model.LLMResponse(e.LLMResponse), ID: e.ID, Timestamp: e.Timestamp,
		InvocationID: e.InvocationID, Branch: e.Branch, Author: e.Author,
		LongRunningToolIDs: e.LongRunningToolIDs,
		Actions: session.EventActions{
			StateDelta: e.Actions.StateDelta, ArtifactDelta: e.Actions.ArtifactDelta,
			SkipSummarization: e.Actions.SkipSummarization,
			TransferToAgent:   e.Actions.TransferToAgent, Escalate: e.Actions.Escalate,
		},
	}
	if asked := e.Actions.RequestedToolConfirmations; asked != nil {
		made.Actions.RequestedToolConfirmations = make(map[string]toolconfirmation.ToolConfirmation, len(asked))
		for id, one := range asked {
			made.Actions.RequestedToolConfirmations[id] = toolconfirmation.ToolConfirmation(one)
		}
	}
	return made
}

func toVersion2(e *session.Event) *session2.Event {
	made := &session2.Event{
		LLMResponse: model2.LLMResponse(e.LLMResponse), ID: e.ID, Timestamp: e.Timestamp,
		InvocationID: e.InvocationID, Branch: e.Branch, Author: e.Author,
		LongRunningToolIDs: e.LongRunningToolIDs,
		Actions: session2.EventActions{
			StateDelta: e.Actions.StateDelta, ArtifactDelta: e.Actions.ArtifactDelta,
			SkipSummarization: e.Actions.SkipSummarization,
			TransferToAgent:   e.Actions.TransferToAgent, Escalate: e.Actions.Escalate,
		},
	}
	if asked := e.Actions.RequestedToolConfirmations; asked != nil {
		made.Actions.RequestedToolConfirmations = make(map[string]toolconfirmation2.ToolConfirmation, len(asked))
		for id, one := range asked {
			made.Actions.RequestedToolConfirmations[id] = toolconfirmation2.ToolConfirmation(one)
		}
	}
	return made
}
