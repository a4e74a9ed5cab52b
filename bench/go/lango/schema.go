package main

import (
	"context"
	"database/sql"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"entgo.io/ent/dialect/sql/schema"
	"entgo.io/ent/schema/field"
)

// Lango's two tables, as ent's generated code declares them.
var (
	sessionColumns = []*schema.Column{
		{Name: "id", Type: field.TypeInt, Increment: true},
		{Name: "key", Type: field.TypeString, Unique: true},
		{Name: "agent_id", Type: field.TypeString, Nullable: true},
		{Name: "channel_type", Type: field.TypeString, Nullable: true},
		{Name: "channel_id", Type: field.TypeString, Nullable: true},
		{Name: "model", Type: field.TypeString, Nullable: true},
		{Name: "metadata", Type: field.TypeJSON, Nullable: true},
		{Name: "created_at", Type: field.TypeTime},
		{Name: "updated_at", Type: field.TypeTime},
	}
	sessionTable = &schema.Table{
		Name: "sessions", Columns: sessionColumns, PrimaryKey: sessionColumns[:1],
		Indexes: []*schema.Index{{Name: "session_updated_at", Columns: sessionColumns[8:]}},
	}
	messageColumns = []*schema.Column{
		{Name: "id", Type: field.TypeInt, Increment: true},
		{Name: "role", Type: field.TypeString},
		{Name: "content", Type: field.TypeString, Size: 1<<31 - 1},
		{Name: "timestamp", Type: field.TypeTime},
		{Name: "tool_calls", Type: field.TypeJSON, Nullable: true},
		{Name: "author", Type: field.TypeString, Nullable: true, Default: ""},
		{Name: "session_messages", Type: field.TypeInt, Nullable: true},
	}
	messageTable = &schema.Table{
		Name: "messages", Columns: messageColumns, PrimaryKey: messageColumns[:1],
		ForeignKeys: []*schema.ForeignKey{{
			Symbol: "messages_sessions_messages", Columns: messageColumns[6:], RefTable: sessionTable,
			RefColumns: sessionColumns[:1], OnDelete: schema.SetNull,
		}},
	}
)

// settings of the connection: those of Lango's own opener, and the durability that its driver had
// before: the pure-Go one has another default, which would be measured instead.
const settings = "?_pragma=foreign_keys(1)&_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_pragma=synchronous(NORMAL)"

// openEnt opens a file as Lango does: ent over the pure-Go driver, migrated without foreign keys.
func openEnt(ctx context.Context, path string) (*entsql.Driver, error) {
	db, err := sql.Open("sqlite", "file:"+path+settings)
	if err != nil {
		return nil, err
	}
	driver := entsql.OpenDB(dialect.SQLite, db)
	migrate, err := schema.NewMigrate(driver, schema.WithForeignKeys(false))
	if err == nil {
		err = migrate.Create(ctx, sessionTable, messageTable)
	}
	if err != nil {
		_ = driver.Close()
		return nil, err
	}
	return driver, nil
}
