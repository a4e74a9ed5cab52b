package quipu

import (
	"context"
	"iter"
	"runtime"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"

	"quipu/bindings/go/internal/lib"
)

// ListOptions of a list of sessions. The zero value is all of them, changed last first.
type ListOptions struct {
	AppName, UserID, AgentID string  // empty: any
	Parent                   string  // only forks of this session
	MetadataName             string  // only sessions whose metadata has this member...
	MetadataText             *string // ...with this text; nil: with any value
	OldestFirst              bool
	Expired                  bool   // expired ones, too
	After                    string // the cursor of the page before
	Limit                    int64  // sessions of a page; 0: 50
}

// SessionPage is a page of sessions, and the cursor of the next; empty at the end.
type SessionPage struct {
	Sessions []*Session
	Next     string
}

// ListSessions reads one page of sessions by their last change. Sessions goes through all pages.
func (s *Store) ListSessions(ctx context.Context, options ListOptions) (*SessionPage, error) {
	var result unsafe.Pointer
	err := s.call(ctx, lib.Call.SessionList, func(pins *runtime.Pinner, call uintptr) []uintptr {
		to := &lib.ListOptions{
			AppName: optional(pins, options.AppName), UserID: optional(pins, options.UserID),
			AgentID: optional(pins, options.AgentID), Parent: optional(pins, options.Parent),
			MetadataName: optional(pins, options.MetadataName), After: optional(pins, options.After),
			Limit: options.Limit,
		}
		to.StructSize = uint32(unsafe.Sizeof(*to))
		if options.MetadataText != nil {
			to.MetadataText = present(pins, *options.MetadataText)
		}
		if options.OldestFirst {
			to.Flags |= lib.ListOldestFirst
		}
		if options.Expired {
			to.Flags |= lib.ListExpired
		}
		return []uintptr{pinned(pins, to), call, pinned(pins, &result)}
	})
	if err != nil {
		return nil, err
	}
	it := (*lib.SessionPage)(result)
	page := &SessionPage{Sessions: make([]*Session, it.Sessions.Count), Next: it.Next.String()}
	for i := range page.Sessions {
		page.Sessions[i] = infoOf(it.Sessions.At(uintptr(i)))
	}
	purego.SyscallN(lib.Call.Free, uintptr(result))
	return page, nil
}

// Sessions goes through all sessions of a list, page by page. An error ends it.
func (s *Store) Sessions(ctx context.Context, options ListOptions) iter.Seq2[*Session, error] {
	return func(yield func(*Session, error) bool) {
		for next := options; ; {
			page, err := s.ListSessions(ctx, next)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, one := range page.Sessions {
				if !yield(one, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			next.After = page.Next
		}
	}
}

// SearchOptions of a search. The zero value searches every session.
type SearchOptions struct {
	AppName, UserID, SessionKey, Author string    // empty: any
	Role                                Role      // 0: any
	After, Before                       time.Time // of messages; zero: any
	Limit, Offset                       int64     // hits; 0: 20
	MarkBefore, MarkAfter               string    // around each word that was found; empty: "[" and "]"
}

// Hit is a message that has the words. A higher rank is better.
type Hit struct {
	SessionKey string
	Seq        int64
	Role       Role
	Author     string
	Timestamp  time.Time
	Snippet    string
	Rank       float64
}

// Found is the hits of a search, best first.
type Found struct {
	Hits []Hit
	More bool
}

// Search finds the messages that have all words of a query.
func (s *Store) Search(ctx context.Context, query string, options SearchOptions) (*Found, error) {
	var result unsafe.Pointer
	err := s.call(ctx, lib.Call.Search, func(pins *runtime.Pinner, call uintptr) []uintptr {
		to := &lib.SearchOptions{
			Query: present(pins, query), AppName: optional(pins, options.AppName),
			UserID: optional(pins, options.UserID), SessionKey: optional(pins, options.SessionKey),
			Author: optional(pins, options.Author), Role: int32(options.Role),
			HasAfter: !options.After.IsZero(), HasBefore: !options.Before.IsZero(),
			After: cTime(options.After), Before: cTime(options.Before), Limit: options.Limit,
			Offset: options.Offset, MarkBefore: optional(pins, options.MarkBefore),
			MarkAfter: optional(pins, options.MarkAfter),
		}
		to.StructSize = uint32(unsafe.Sizeof(*to))
		return []uintptr{pinned(pins, to), call, pinned(pins, &result)}
	})
	if err != nil {
		return nil, err
	}
	it := (*lib.SearchResults)(result)
	found := &Found{Hits: make([]Hit, it.Hits.Count), More: it.More}
	for i := range found.Hits {
		hit := lib.Item[lib.SearchHit](&it.Hits, uintptr(i))
		found.Hits[i] = Hit{
			SessionKey: hit.SessionKey.String(), Seq: hit.Seq, Role: Role(hit.Role),
			Author: hit.Author.String(), Timestamp: timeOf(hit.Timestamp),
			Snippet: hit.Snippet.String(), Rank: hit.Rank,
		}
	}
	purego.SyscallN(lib.Call.Free, uintptr(result))
	return found, nil
}

// UsageOptions say what a report is about. The zero value is one row for the whole store.
type UsageOptions struct {
	SessionKey, AppName, UserID string    // empty: any
	From, To                    time.Time // days, in UTC, both inclusive; zero: any
	BySession, ByModel, ByDay   bool      // what each row is about
	After                       string    // the cursor of the report before
	Limit                       int64     // sessions; 0: the library's default
}

// UsageRow is what answers used. What the report is not by is empty.
type UsageRow struct {
	SessionKey, Model                        string
	Day                                      time.Time
	PromptTokens, CachedTokens, AnswerTokens int64
	Answers                                  int64
	Cost                                     int64 // millionths of a US dollar...
	Unpriced                                 int64 // ...without so many answers, whose model has no known price
}

// UsageReport is a page of rows; Next is empty when no session is left.
type UsageReport struct {
	Rows     []UsageRow
	Sessions int64
	Next     string
}

const secondsOfADay = 24 * 60 * 60

func dayOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix() / secondsOfADay
}

// Usage sums up what the answers of sessions used, as providers reported it with each message.
func (s *Store) Usage(ctx context.Context, options UsageOptions) (*UsageReport, error) {
	var result unsafe.Pointer
	err := s.call(ctx, lib.Call.Usage, func(pins *runtime.Pinner, call uintptr) []uintptr {
		to := &lib.UsageQuery{
			Key: optional(pins, options.SessionKey), AppName: optional(pins, options.AppName),
			UserID: optional(pins, options.UserID), FromDay: dayOf(options.From),
			ToDay: dayOf(options.To), After: optional(pins, options.After), Limit: options.Limit,
		}
		to.StructSize = uint32(unsafe.Sizeof(*to))
		for flag, wanted := range map[uint32]bool{
			lib.UsageBySession: options.BySession, lib.UsageByModel: options.ByModel, lib.UsageByDay: options.ByDay,
		} {
			if wanted {
				to.Flags |= flag
			}
		}
		return []uintptr{pinned(pins, to), call, pinned(pins, &result)}
	})
	if err != nil {
		return nil, err
	}
	it := (*lib.UsageReport)(result)
	report := &UsageReport{Rows: make([]UsageRow, it.Rows.Count), Sessions: it.Sessions, Next: it.Next.String()}
	for i := range report.Rows {
		row := lib.Item[lib.UsageRow](&it.Rows, uintptr(i))
		report.Rows[i] = UsageRow{
			SessionKey: row.SessionKey.String(), Model: row.Model.String(),
			PromptTokens: row.PromptTokens, CachedTokens: row.CachedTokens,
			AnswerTokens: row.AnswerTokens, Answers: row.Answers, Cost: row.Cost, Unpriced: row.Unpriced,
		}
		if options.ByDay {
			report.Rows[i].Day = time.Unix(row.Day*secondsOfADay, 0).UTC()
		}
	}
	purego.SyscallN(lib.Call.Free, uintptr(result))
	return report, nil
}
