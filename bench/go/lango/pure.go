//go:build !cgo

package main

const before = "sqlite" // without cgo the pure-Go driver does the work of both
