package quipu

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	serverScript = "../../tests/lib/pg.sh"
	notInstalled = 77 // the script's code where there is no server to start
)

// postgres starts a server of the test's own, with the given lines in its configuration, and gives
// the URI of a store in it.
func postgres(t *testing.T, configuration string) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "pg")
	start := exec.Command("bash", serverScript, "start", folder)
	start.Env = append(os.Environ(), "QUIPU_PG_CONF="+configuration)
	output, err := start.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == notInstalled {
		t.Skip("no PostgreSQL server is installed (postgresql-15)")
	}
	if err != nil {
		t.Fatalf("the server did not start: %v: %s", err, output)
	}
	t.Cleanup(func() {
		if output, err := exec.Command("bash", serverScript, "stop", folder).CombinedOutput(); err != nil {
			t.Errorf("the server did not stop: %v: %s", err, output)
		}
	})
	uri, err := os.ReadFile(filepath.Join(folder, "uri"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(uri))
}

// A store that kept its connections until the garbage collector came would fill up the server, which
// admits fewer than there are rounds.
func TestCloseFreesTheServersConnectionsWhileSessionsAreHeld(t *testing.T) {
	closeHoldingSessions(t, postgres(t, "max_connections = 20"), 30)
}
