//go:build cgo

package main

import _ "github.com/mattn/go-sqlite3"

const before = "sqlite3" // Lango's driver before the change
