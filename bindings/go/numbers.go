package quipu

import (
	"crypto/rand"
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// Numbers come back as float64, as encoding/json and ADK's own services have it, but for those that
// a float64 cannot hold: integers beyond 2^53 and numbers beyond its range are json.Number, which
// keeps their digits. encoding/json has no such mode, and session.Event decodes itself, so
// decodeExact() replaces these numbers by texts that nobody else has, decodes, and converts them.

const exactInteger = 1 << 53

// mark begins the text that stands for a number.
var mark = "quipu-number-" + rand.Text() + ":"

// isInexact reports whether a JSON number must stay a json.Number.
func isInexact(number string) bool {
	const shortest = 16 // digits of 2^53
	exponent := strings.ContainsAny(number, "eE")
	if len(number) < shortest && !exponent {
		return false
	}
	value, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return true
	}
	return !exponent && !strings.Contains(number, ".") && math.Abs(value) >= exactInteger &&
		strings.TrimPrefix(number, "-") != strconv.Itoa(exactInteger)
}

func isNumeric(c byte) bool {
	return (c >= '0' && c <= '9') || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-'
}

// eachNumber calls `visit` with where each number of a valid JSON text begins and ends.
func eachNumber(text []byte, visit func(from, to int)) {
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			i++
		case c == '-' || (c >= '0' && c <= '9'):
			from := i
			for i++; i < len(text) && isNumeric(text[i]); i++ {
			}
			visit(from, i)
		default:
			i++
		}
	}
}

// decodeExact decodes JSON into a pointer. A number in a field of a fixed type is decoded as usual.
func decodeExact(text []byte, into any) error {
	var marked []byte
	copied := 0
	eachNumber(text, func(from, to int) {
		if isInexact(string(text[from:to])) {
			marked = append(marked, text[copied:from]...)
			marked = append(marked, '"')
			marked = append(marked, mark...)
			marked = append(marked, text[from:to]...)
			marked = append(marked, '"')
			copied = to
		}
	})
	if copied == 0 {
		return json.Unmarshal(text, into)
	}
	marked = append(marked, text[copied:]...)
	at := reflect.ValueOf(into).Elem()
	if err := json.Unmarshal(marked, into); err != nil {
		at.SetZero()
		return json.Unmarshal(text, into) // one of them belongs to a field of a fixed type
	}
	unmark(at)
	return nil
}

// number converts a text that stands for a number; other texts are not numbers.
func number(text string) (json.Number, bool) {
	if len(text) > len(mark) && text[:len(mark)] == mark {
		return json.Number(text[len(mark):]), true
	}
	return "", false
}

// unmark converts the marked texts in every value of type any below `at`.
func unmark(at reflect.Value) {
	switch at.Kind() {
	case reflect.Pointer:
		if !at.IsNil() {
			unmark(at.Elem())
		}
	case reflect.Struct:
		for i := range at.NumField() {
			if at.Type().Field(i).IsExported() {
				unmark(at.Field(i))
			}
		}
	case reflect.Slice:
		for i := range at.Len() {
			unmark(at.Index(i))
		}
	case reflect.Map:
		for _, key := range at.MapKeys() {
			value := reflect.New(at.Type().Elem()).Elem()
			value.Set(at.MapIndex(key))
			unmark(value)
			at.SetMapIndex(key, value)
		}
	case reflect.String: // of a fixed type: the digits
		if kept, ok := number(at.String()); ok && at.CanSet() {
			at.SetString(kept.String())
		}
	case reflect.Interface:
		if at.IsNil() {
			return
		}
		if text, ok := at.Interface().(string); !ok {
			unmark(at.Elem())
		} else if kept, ok := number(text); ok {
			at.Set(reflect.ValueOf(kept))
		}
	}
}
