package quipu

import (
	"path/filepath"
	"testing"

	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/session/sessiontestsuite"
)

// openService is for tests that close store and service by themselves.
func openService(t *testing.T, path string, options ServiceOptions) (*Store, *SessionService) {
	t.Helper()
	store, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	service, err := NewSessionService(store, options)
	if err != nil {
		t.Fatal(err)
	}
	return store, service
}

func newService(t *testing.T, path string, options ServiceOptions) *SessionService {
	t.Helper()
	store, service := openService(t, path, options)
	t.Cleanup(func() {
		_ = service.Close()
		_ = store.Close()
	})
	return service
}

func TestADKsOwnSuite(t *testing.T) {
	options := sessiontestsuite.SuiteOptions{SupportsUserProvidedSessionID: true}
	sessiontestsuite.RunServiceTests(t, options, func(t *testing.T) session.Service {
		return newService(t, filepath.Join(t.TempDir(), "agents.db"), ServiceOptions{})
	})
}
