// Lango's change of drivers, before and after it, as ratios: raw SQL over mattn's driver (with cgo;
// without it over the pure-Go one) against ent over the pure-Go driver, and quipu beside them. The
// sides take turns in short blocks, so that a noisy neighbour meets all of them; a ratio is the median
// over the blocks of the ratio of the medians in a block.
//
//	go run . [-blocks 15]        the table
//	go run . migrate FILE        open FILE as Lango does, migration included
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

	_ "modernc.org/sqlite"
)

const (
	each = 10 // calls in a block
	warm = 50 // appends before the first block
)

var text = strings.Repeat("a word of it ", 24)[:300]

func main() {
	blocks := flag.Int("blocks", 15, "turns of each side")
	flag.Parse()
	ctx := context.Background()
	if flag.Arg(0) == "migrate" && flag.NArg() == 2 {
		driver, err := openEnt(ctx, flag.Arg(1))
		check(err)
		check(driver.Close())
		return
	}
	folder, err := os.MkdirTemp("", "quipu-bench-lango-")
	check(err)
	defer os.RemoveAll(folder)
	raw, err := openRaw(ctx, before, filepath.Join(folder, "raw.db"))
	check(err)
	driver, err := openEnt(ctx, filepath.Join(folder, "ent.db"))
	check(err)
	ours, err := openQuipu(folder)
	check(err)
	sides := []store{raw, &entStore{driver}, ours}
	fmt.Printf("before: raw SQL, driver %q; after: ent, driver \"sqlite\"; quipu: the Go bindings\n", before)
	fmt.Printf("%-30s %6s %12s %12s %12s %13s %12s\n", "row", "N", "before", "after", "quipu", "after/before", "after/quipu")
	for _, n := range []int{10, 1000} {
		key := fmt.Sprintf("s%d", n)
		for _, side := range sides {
			check(side.create(ctx, key))
			for range n + warm {
				check(side.append(ctx, key, "user", text))
			}
		}
		report("append", n, sides, *blocks, func(side store) {
			check(side.append(ctx, key, "user", text))
		})
		for _, look := range []bool{false, true} {
			name := map[bool]string{false: "get", true: "get, every message looked at"}[look]
			report(name, n, sides, min(*blocks, 5), func(side store) {
				if got, err := side.get(ctx, key, look); err != nil || got < n {
					check(fmt.Errorf("%d messages of %d: %w", got, n, err))
				}
			})
		}
	}
}

// report measures a row in blocks that take turns and prints it.
func report(name string, n int, sides []store, blocks int, run func(store)) {
	all := make([][]time.Duration, len(sides))
	var change, lead []float64
	for block := range blocks {
		medians := make([]float64, len(sides))
		for turn := range sides {
			i := (block + turn) % len(sides)
			var took []time.Duration
			for range each {
				began := time.Now()
				run(sides[i])
				took = append(took, time.Since(began))
			}
			all[i] = append(all[i], took...)
			medians[i] = float64(median(took))
		}
		change = append(change, medians[1]/medians[0])
		lead = append(lead, medians[1]/medians[2])
	}
	fmt.Printf("%-30s %6d %12s %12s %12s %12.2fx %11.2fx\n", name, n, median(all[0]), median(all[1]), median(all[2]), median(change), median(lead))
}

func median[T time.Duration | float64](of []T) T {
	sorted := slices.Clone(of)
	slices.Sort(sorted)
	return sorted[len(sorted)/2]
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "lango:", err)
		os.Exit(1)
	}
}
