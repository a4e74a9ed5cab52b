// A worker of memory beside nothing else: it observes what is due in a store until it is stopped.
// Its lease is short, so that others take over soon when it dies.
//
//	worker STORE
package main

import (
	"fmt"
	"os"
	"time"

	quipu "quipu/bindings/go"
)

func main() {
	if len(os.Args) != 2 {
		fail(fmt.Errorf("usage: worker STORE"))
	}
	store, err := quipu.Open(os.Args[1], quipu.Options{})
	fail(err)
	fail(store.StartMemory(quipu.WorkerOptions{Lease: 300 * time.Millisecond}))
	for {
		time.Sleep(time.Minute)
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}
