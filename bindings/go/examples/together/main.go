// One of three programs, in C, Go and Python, that use one session of one store at the same time:
// each waits for its turn, appends a line, and exits when it has read everyone's lines.
//
//	together STORE NAME TURN TURNS
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"google.golang.org/adk/v2/session"
	"google.golang.org/genai"

	quipu "quipu/bindings/go"
)

func main() {
	if len(os.Args) != 5 {
		fail(fmt.Errorf("usage: together STORE NAME TURN TURNS"))
	}
	turn, err := strconv.Atoi(os.Args[3])
	fail(err)
	turns, err := strconv.Atoi(os.Args[4])
	fail(err)
	store, err := quipu.Open(os.Args[1], quipu.Options{})
	fail(err)
	defer store.Close()
	service, err := quipu.NewSessionService(store, quipu.ServiceOptions{})
	fail(err)
	defer service.Close()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	event := session.NewEvent(ctx, "together")
	event.Author = os.Args[2]
	event.Content = genai.NewContentFromText(os.Args[2]+" was here", genai.RoleModel)
	fail(service.AppendEvent(ctx, waitFor(ctx, service, turn), event))
	for event := range waitFor(ctx, service, turns).Events().All() {
		fmt.Println(event.Content.Parts[0].Text)
	}
}

// waitFor reads the session until it has so many events.
func waitFor(ctx context.Context, service session.Service, events int) session.Session {
	request := &session.GetRequest{AppName: "together", UserID: "all", SessionID: "one"}
	for {
		found, err := service.Get(ctx, request)
		if err == nil && found.Session.Events().Len() >= events {
			return found.Session
		}
		if events == 0 {
			_, _ = service.Create(ctx, &session.CreateRequest{AppName: "together", UserID: "all", SessionID: "one"})
		}
		fail(ctx.Err())
		time.Sleep(5 * time.Millisecond)
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "together:", err)
		os.Exit(1)
	}
}
