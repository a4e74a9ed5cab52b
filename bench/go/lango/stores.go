package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"path/filepath"
	"time"

	entsql "entgo.io/ent/dialect/sql"
	"entgo.io/ent/dialect/sql/schema"
	"entgo.io/ent/dialect/sql/sqlgraph"
	"entgo.io/ent/schema/field"
	"google.golang.org/adk/v2/session"
	"google.golang.org/genai"

	quipu "quipu/bindings/go"
)

// store is what a session store does: make a session, append a message to it, read it
// with all of its messages. The unit of durability is one call. Both stores of Lango decode every
// message when they read; quipu decodes an event, which is more than a message, when it is looked at.
type store interface {
	create(ctx context.Context, key string) error
	append(ctx context.Context, key, role, content string) error
	get(ctx context.Context, key string, look bool) (int, error)
}

// rawStore is Lango before its change of drivers: SQL by hand.
type rawStore struct{ db *sql.DB }

func openRaw(ctx context.Context, driver, path string) (*rawStore, error) {
	made, err := openEnt(ctx, path) // the same tables
	if err != nil {
		return nil, err
	}
	if err := made.Close(); err != nil {
		return nil, err
	}
	text := settings
	if driver == "sqlite3" {
		text = "?_foreign_keys=1&_journal_mode=WAL&_busy_timeout=5000&_synchronous=NORMAL"
	}
	db, err := sql.Open(driver, "file:"+path+text)
	return &rawStore{db}, err
}

func (s *rawStore) create(ctx context.Context, key string) error {
	now := time.Now()
	_, err := s.db.ExecContext(ctx, "INSERT INTO sessions (key, created_at, updated_at) VALUES (?, ?, ?)", key, now, now)
	return err
}

func (s *rawStore) append(ctx context.Context, key, role, content string) error {
	var id int64
	now := time.Now()
	err := s.db.QueryRowContext(ctx, "SELECT id FROM sessions WHERE key = ?", key).Scan(&id)
	if err == nil {
		_, err = s.db.ExecContext(ctx, "INSERT INTO messages (role, content, timestamp, session_messages) VALUES (?, ?, ?, ?)", role, content, now, id)
	}
	if err == nil {
		_, err = s.db.ExecContext(ctx, "UPDATE sessions SET updated_at = ? WHERE id = ?", now, id)
	}
	return err
}

func (s *rawStore) get(ctx context.Context, key string, _ bool) (count int, err error) {
	var id int64
	if err := s.db.QueryRowContext(ctx, "SELECT id FROM sessions WHERE key = ?", key).Scan(&id); err != nil {
		return 0, err
	}
	rows, err := s.db.QueryContext(ctx, "SELECT id, role, content, timestamp, tool_calls, author FROM messages WHERE session_messages = ? ORDER BY timestamp", id)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for ; rows.Next(); count++ {
		var role, content string
		var at time.Time
		var calls []byte
		var author sql.NullString
		if err := rows.Scan(&id, &role, &content, &at, &calls, &author); err != nil {
			return count, err
		}
	}
	return count, rows.Err()
}

// entStore is Lango after it: the calls of ent's runtime that its generated code makes.
type entStore struct{ driver *entsql.Driver }

func idSpec() *sqlgraph.FieldSpec { return sqlgraph.NewFieldSpec("id", field.TypeInt) }

func (s *entStore) create(ctx context.Context, key string) error {
	now := time.Now()
	spec := sqlgraph.NewCreateSpec("sessions", idSpec())
	spec.SetField("key", field.TypeString, key)
	spec.SetField("created_at", field.TypeTime, now)
	spec.SetField("updated_at", field.TypeTime, now)
	return sqlgraph.CreateNode(ctx, s.driver, spec)
}

// find reads the session of a key, as Only() does: with a limit of two, to see that it is one.
func (s *entStore) find(ctx context.Context, key string) (int64, error) {
	var ids []int64
	spec := sqlgraph.NewQuerySpec("sessions", names(sessionColumns), idSpec())
	spec.Limit = 2
	spec.Predicate = entsql.FieldEQ("key", key)
	spec.ScanValues = func(columns []string) ([]any, error) {
		values := make([]any, len(columns))
		for i, column := range columns {
			switch column {
			case "id":
				values[i] = new(sql.NullInt64)
			case "created_at", "updated_at":
				values[i] = new(sql.NullTime)
			case "metadata":
				values[i] = new([]byte)
			default:
				values[i] = new(sql.NullString)
			}
		}
		return values, nil
	}
	spec.Assign = func(_ []string, values []any) error {
		ids = append(ids, values[0].(*sql.NullInt64).Int64)
		return nil
	}
	if err := sqlgraph.QueryNodes(ctx, s.driver, spec); err != nil {
		return 0, err
	}
	if len(ids) != 1 {
		return 0, errors.New("session not found")
	}
	return ids[0], nil
}

func (s *entStore) append(ctx context.Context, key, role, content string) error {
	id, err := s.find(ctx, key)
	if err != nil {
		return err
	}
	now := time.Now()
	message := sqlgraph.NewCreateSpec("messages", idSpec())
	message.SetField("role", field.TypeString, role)
	message.SetField("content", field.TypeString, content)
	message.SetField("timestamp", field.TypeTime, now)
	message.SetField("author", field.TypeString, "")
	message.Edges = append(message.Edges, &sqlgraph.EdgeSpec{
		Rel: sqlgraph.M2O, Inverse: true, Table: "messages", Columns: []string{"session_messages"},
		Target: &sqlgraph.EdgeTarget{IDSpec: idSpec(), Nodes: []driver.Value{id}},
	})
	if err := sqlgraph.CreateNode(ctx, s.driver, message); err != nil {
		return err
	}
	update := sqlgraph.NewUpdateSpec("sessions", names(sessionColumns), idSpec())
	update.Node.ID.Value = id
	update.SetField("updated_at", field.TypeTime, now)
	update.ScanValues = func(columns []string) ([]any, error) {
		values := make([]any, len(columns))
		for i := range columns {
			values[i] = new(any)
		}
		return values, nil
	}
	update.Assign = func([]string, []any) error { return nil }
	return sqlgraph.UpdateNode(ctx, s.driver, update)
}

func (s *entStore) get(ctx context.Context, key string, _ bool) (count int, err error) {
	id, err := s.find(ctx, key)
	if err != nil {
		return 0, err
	}
	spec := sqlgraph.NewQuerySpec("messages", names(messageColumns), idSpec())
	spec.Predicate = entsql.FieldEQ("session_messages", id)
	spec.Order = func(by *entsql.Selector) { by.OrderBy(entsql.Asc(by.C("timestamp"))) }
	spec.ScanValues = func(columns []string) ([]any, error) {
		values := make([]any, len(columns))
		for i, column := range columns {
			switch column {
			case "id", "session_messages":
				values[i] = new(sql.NullInt64)
			case "timestamp":
				values[i] = new(sql.NullTime)
			case "tool_calls":
				values[i] = new([]byte)
			default:
				values[i] = new(sql.NullString)
			}
		}
		return values, nil
	}
	spec.Assign = func([]string, []any) error {
		count++
		return nil
	}
	err = sqlgraph.QueryNodes(ctx, s.driver, spec)
	return count, err
}

// quipuStore does the same through the Go bindings.
type quipuStore struct {
	service *quipu.SessionService
	live    map[string]session.Session
}

func openQuipu(folder string) (*quipuStore, error) {
	store, err := quipu.Open(filepath.Join(folder, "quipu.db"), quipu.Options{Relaxed: true})
	if err != nil {
		return nil, err
	}
	service, err := quipu.NewSessionService(store, quipu.ServiceOptions{})
	return &quipuStore{service, map[string]session.Session{}}, err
}

func (s *quipuStore) create(ctx context.Context, key string) error {
	made, err := s.service.Create(ctx, &session.CreateRequest{AppName: "app", UserID: "user", SessionID: key})
	if err == nil {
		s.live[key] = made.Session
	}
	return err
}

func (s *quipuStore) append(ctx context.Context, key, role, content string) error {
	event := session.NewEvent(ctx, "inv")
	event.Author = role
	event.Content = genai.NewContentFromText(content, genai.Role(role))
	return s.service.AppendEvent(ctx, s.live[key], event)
}

func (s *quipuStore) get(ctx context.Context, key string, look bool) (int, error) {
	found, err := s.service.Get(ctx, &session.GetRequest{AppName: "app", UserID: "user", SessionID: key})
	if err != nil {
		return 0, err
	}
	for i := range found.Session.Events().Len() {
		if look && found.Session.Events().At(i).Content == nil {
			return 0, errors.New("an event without content")
		}
	}
	return found.Session.Events().Len(), nil
}

func names(of []*schema.Column) []string {
	all := make([]string, len(of))
	for i, column := range of {
		all[i] = column.Name
	}
	return all
}
