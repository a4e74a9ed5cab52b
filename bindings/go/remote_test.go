package quipu

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/session/sessiontestsuite"
)

const tokensVariable = "QUIPU_TEST_TOKENS"

func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(os.Getenv("QUIPU_BINARY_DIR"), "bin", "quipu")
	if _, err := os.Stat(path); err != nil {
		t.Skip("the program quipu is not built")
	}
	return path
}

// serve starts a `quipu serve` of its own and gives its address.
func serve(t *testing.T) string {
	t.Helper()
	server := exec.Command(program(t), "serve", "--store", filepath.Join(t.TempDir(), "store.db"),
		"--tokens", os.Getenv(tokensVariable), "--listen", "127.0.0.1:0", "--log", "error")
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(strings.TrimPrefix(line, "quipu serves "))
}

// again runs the test in a process that has a token in its environment: without cgo the library
// does not see what os.Setenv changes.
func again(t *testing.T) bool {
	t.Helper()
	if os.Getenv(tokensVariable) != "" {
		return false
	}
	tokens := filepath.Join(t.TempDir(), "tokens")
	token, err := exec.Command(program(t), "token", "new", "--tokens", tokens).Output()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	child.Env = append(os.Environ(), tokensVariable+"="+tokens,
		"QUIPU_TOKEN="+strings.TrimSpace(string(token)))
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return true
}

func TestADKsOwnSuiteOverAnAddress(t *testing.T) {
	if again(t) {
		return
	}
	options := sessiontestsuite.SuiteOptions{SupportsUserProvidedSessionID: true}
	sessiontestsuite.RunServiceTests(t, options, func(t *testing.T) session.Service {
		return newService(t, serve(t), ServiceOptions{})
	})
}

func TestTwoServicesOverAnAddressSeeEachOther(t *testing.T) {
	if again(t) {
		return
	}
	address := serve(t)
	one := newService(t, address, ServiceOptions{})
	two := newService(t, address, ServiceOptions{})
	live := create(t, one, "s")
	mustAppend(t, one, live, say("here"))
	got, err := two.Get(t.Context(), &session.GetRequest{AppName: "app", UserID: "user", SessionID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	if heard := texts(got.Session); len(heard) != 1 || heard[0] != "here" {
		t.Fatalf("the other service has %q", heard)
	}
}
