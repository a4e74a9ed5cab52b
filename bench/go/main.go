// The Go bindings beside adk-go's own database service, in one run: appends, the last 50, whole
// loads, at N = 10, 1,000 and 10,000 events. Short blocks of both sides take turns, so that a noisy
// neighbour meets both: times are medians of single calls, a ratio is the median over the blocks of
// the ratio of the medians in a block. Appends are measured after as many as fill the log of either
// side, which is then written over. Exits 1 when a bar is missed.
//
//	QUIPU_LIBRARY=build/release/libquipu.so go run . [-blocks 15]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/glebarez/sqlite"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/session/database"
	"google.golang.org/genai"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	quipu "quipu/bindings/go"
)

const (
	app, user    = "app", "user"
	warm         = 400 // appends until both sides have written their logs into their files once
	appendsBlock = 20
	readsBlock   = 2
	longBlock    = 1
	longBlocks   = 5 // of reads of everything, of the largest session
)

var (
	ctx   = context.Background()
	text  = strings.Repeat("a word of it ", 24)[:300]
	found = strings.Repeat("r", 480)
	sizes = []int{10, 1000, 10000}
)

// event of about 400 bytes, every fourth with a tool's answer of 480 more.
func event(i int) *session.Event {
	it := session.NewEvent(ctx, "inv")
	it.Author = "agent"
	parts := []*genai.Part{{Text: text}}
	if i%4 == 3 {
		answer := &genai.FunctionResponse{ID: "call_1", Name: "search", Response: map[string]any{"result": found}}
		parts = append(parts, &genai.Part{FunctionResponse: answer})
	}
	it.Content = &genai.Content{Role: []string{genai.RoleUser, genai.RoleModel}[i%2], Parts: parts}
	return it
}

// side is one of the two that are compared.
type side struct {
	name    string
	service session.Service
}

func ours(folder string, relaxed bool) side {
	store, err := quipu.Open(filepath.Join(folder, "quipu.db"), quipu.Options{Relaxed: relaxed})
	check(err)
	service, err := quipu.NewSessionService(store, quipu.ServiceOptions{})
	check(err)
	return side{"quipu", service}
}

func theirs(folder string, wal bool) side {
	path := filepath.Join(folder, "adk.db")
	if wal {
		path += "?_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_pragma=busy_timeout(5000)"
	}
	quiet := &gorm.Config{Logger: logger.Default.LogMode(logger.Silent)}
	service, err := database.NewSessionService(sqlite.Open(path), quiet)
	check(err)
	check(database.AutoMigrate(service))
	return side{"adk-go", service}
}

func (s side) create(id string) session.Session {
	made, err := s.service.Create(ctx, &session.CreateRequest{AppName: app, UserID: user, SessionID: id})
	check(err)
	return made.Session
}

func (s side) get(id string, recent int) session.Session {
	request := &session.GetRequest{AppName: app, UserID: user, SessionID: id, NumRecentEvents: recent}
	got, err := s.service.Get(ctx, request)
	check(err)
	return got.Session
}

func (s side) fill(id string, n int) session.Session {
	made := s.create(id)
	for i := range n {
		check(s.service.AppendEvent(ctx, made, event(i)))
	}
	return made
}

// row of the report: a claim about a ratio.
type row struct {
	name string
	bar  float64 // at least; 0: reported only
	run  func(s side, n int) time.Duration
}

func median[T time.Duration | float64](of []T) T {
	sorted := slices.Clone(of)
	slices.Sort(sorted)
	return sorted[len(sorted)/2]
}

// figures of a row: the median of each side, and of the blocks' ratios.
type figures struct {
	took  [2]time.Duration
	ratio float64
}

// measure a row in blocks that take turns, each side first in every other one.
func measure(sides [2]side, r row, n, blocks, each int) figures {
	var all [2][]time.Duration
	var ratios []float64
	for block := range blocks {
		var took [2][]time.Duration
		for turn := range sides {
			i := (block + turn) % len(sides)
			for range each {
				took[i] = append(took[i], r.run(sides[i], n))
			}
			all[i] = append(all[i], took[i]...)
		}
		ratios = append(ratios, float64(median(took[1]))/float64(median(took[0])))
	}
	return figures{[2]time.Duration{median(all[0]), median(all[1])}, median(ratios)}
}

// amount is the number of blocks of a row and of calls in a block.
func amount(r row, n, blocks int) (int, int) {
	switch {
	case strings.HasPrefix(r.name, "append"):
		return blocks, appendsBlock
	case n == sizes[len(sizes)-1]:
		return min(blocks, longBlocks), longBlock
	default:
		return blocks, readsBlock
	}
}

func main() {
	blocks := flag.Int("blocks", 15, "turns of each side")
	flag.Parse()
	missed := 0
	fmt.Printf("%-34s %7s %12s %12s %8s %6s\n", "row", "N", "quipu", "adk-go", "ratio", "bar")
	for _, setting := range []struct {
		name    string
		relaxed bool
		bar     float64
	}{{"WAL, NORMAL", true, 4}, {"defaults", false, 2.5}} {
		missed += run(setting.name, setting.relaxed, setting.bar, *blocks)
	}
	if missed > 0 {
		fmt.Printf("%d bars missed\n", missed)
		os.Exit(1)
	}
}

func run(setting string, relaxed bool, appendBar float64, blocks int) (missed int) {
	folder, err := os.MkdirTemp("", "quipu-bench-go-")
	check(err)
	defer os.RemoveAll(folder)
	sides := [2]side{ours(folder, relaxed), theirs(folder, relaxed)}
	for _, s := range sides {
		s.fill("warm", warm)
	}
	for _, n := range sizes {
		handles := map[string]session.Session{}
		id := fmt.Sprintf("s%d", n)
		for _, s := range sides {
			handles[s.name] = s.fill(id, n)
		}
		for _, r := range rows(setting, n, appendBar, handles) {
			count, each := amount(r, n, blocks)
			got := measure(sides, r, n, count, each)
			verdict := ""
			if r.bar > 0 && got.ratio < r.bar {
				verdict = " MISSED"
				missed++
			}
			fmt.Printf("%-34s %7d %12s %12s %7.1fx %6g%s\n", r.name, n, got.took[0], got.took[1], got.ratio, r.bar, verdict)
		}
	}
	return missed
}

func rows(setting string, n int, appendBar float64, handles map[string]session.Session) []row {
	number := n
	all := []row{{"append, " + setting, appendBar, func(s side, _ int) time.Duration {
		number++
		e := event(number)
		began := time.Now()
		check(s.service.AppendEvent(ctx, handles[s.name], e))
		return time.Since(began)
	}}}
	if setting == "defaults" {
		return all // reading does not depend on the durability
	}
	id := fmt.Sprintf("s%d", n)
	bars := map[string]float64{}
	if n == 10000 {
		bars = map[string]float64{"recent": 50, "load": 10, "look": 3}
	}
	return append(all,
		row{"last 50", bars["recent"], func(s side, _ int) time.Duration {
			began := time.Now()
			s.get(id, 50)
			return time.Since(began)
		}},
		row{"last 50, every event looked at", 0, func(s side, _ int) time.Duration {
			began := time.Now()
			look(s.get(id, 50))
			return time.Since(began)
		}},
		row{"load", bars["load"], func(s side, n int) time.Duration {
			began := time.Now()
			if s.get(id, 0).Events().Len() < n {
				check(fmt.Errorf("%s lost events", s.name))
			}
			return time.Since(began)
		}},
		row{"load, every event looked at", bars["look"], func(s side, _ int) time.Duration {
			began := time.Now()
			look(s.get(id, 0))
			return time.Since(began)
		}})
}

func look(at session.Session) {
	for e := range at.Events().All() {
		if e == nil {
			check(fmt.Errorf("an event is missing"))
		}
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
