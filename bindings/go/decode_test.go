package quipu

import (
	"encoding/json"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/adk/v2/session"

	"quipu/bindings/go/internal/lib"
)

// agree decodes a text both ways. They give the same event, or both an error.
func agree(t *testing.T, text string) {
	t.Helper()
	var got, want session.Event
	gotErr, wantErr := decodeEvent([]byte(text), &got), decodeExact([]byte(text), &want)
	if (gotErr == nil) != (wantErr == nil) {
		t.Fatalf("%q: %v, not %v", text, gotErr, wantErr)
	}
	if wantErr == nil && !reflect.DeepEqual(got, want) {
		gotText, _ := json.Marshal(got)
		wantText, _ := json.Marshal(want)
		t.Fatalf("%q is\n%s, not\n%s", text, gotText, wantText)
	}
}

// quick reports whether a text needed no encoding/json.
func quick(text string) bool {
	s := &scan{text: text, share: true}
	s.event(&session.Event{})
	s.space()
	return !s.slow && s.at == len(text)
}

var usualEvents = []string{
	`{"id":"1","timestamp":"2026-03-01T12:30:00.123456Z","invocationId":"i","author":"bot","branch":"a.b",` +
		`"content":{"role":"model","parts":[{"text":"Grüße \"x\"\n\u00e9 \ud83d\ude00"},null,{"thought":true,"text":"t","thoughtSignature":"AAH/"}]},` +
		`"actions":{"stateDelta":{"a":1,"b":[1.5,null,true,"x",{}],"c":9007199254740993,"d":1e400,"-":-0},"artifactDelta":{"f":2}},` +
		`"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":2,"totalTokenCount":12},"turnComplete":true,"partial":false}`,
	`{"content":{"parts":[{"functionCall":{"id":"c","name":"f","args":{}}},{"functionResponse":{"id":"c","name":"f","response":{"n":12345678901234567890}}},` +
		`{"inlineData":{"mimeType":"image/png","data":"AQID","displayName":"p"}}],"role":"user"},"longRunningToolIds":[],"routes":["a"],` +
		`"output":{"x":[]},"nodeInfo":{"path":"p","outputFor":["q"]},"avgLogprobs":-0.25,"customMetadata":{}}`,
	`{"content":{"parts":[{"fileData":{"fileUri":"gs://x"}},{"executableCode":{"code":"1","language":"PYTHON"}},{"codeExecutionResult":{"outcome":"OUTCOME_OK"}},` +
		`{"videoMetadata":{"startOffset":"3.5s"},"mediaResolution":{"level":"HIGH"}}]},"groundingMetadata":{"webSearchQueries":["a"]},` +
		`"citationMetadata":{"citations":[{"startIndex":1,"publicationDate":{"year":2026}}]},"logprobsResult":{"chosenCandidates":[{"token":"a","logProbability":-1.5}]},` +
		`"inputTranscription":{"text":"x","finished":true},"nodeInfo":{},"actions":{"requestedToolConfirmations":{"c":{"hint":"sure?"}},"escalate":true}}`,
	`{"id":"ev","author":"user","actions":{"stateDelta":{},"requestedAuthConfigs":{},"compaction":{"startTimestamp":1.25},"endOfAgent":true},"python":[1e999]}`,
	` { "id" : "" , "actions" : { } , "content" : { } } `, `{}`,
}

var oddEvents = []string{
	``, `{`, `[]`, `null`, `"x"`, `{"id":1}`, `{"id":null}`, `{"id":"a","id":"b"}`, `{"ID":"folded"}`, `{"unknown":1}`, `{"Actions":{"ESCALATE":true}}`, `{"actions":{"Escalate":true,"\u017ftateDelta":{"a":1}}}`, `{"LLMResponse":{"content":{}}}`,
	`{"content":null}`, `{"content":{"role":"a"},"content":null}`, `{"content":{"role":"a"},"content":{"parts":[]}}`,
	`{"content":{"parts":[{"text":"a"}],"parts":[{"thought":true}]}}`, `{"timestamp":1764000000.25}`, `{"timestamp":null}`,
	`{"timestamp":"yesterday"}`, `{"timestamp":"2026-03-01T12:30:00+02:00"}`, `{"author":"\ud800"}`, `{"author":"\udc00\ud800x"}`,
	"{\"author\":\"\xff\"}", "{\"author\":\"a\nb\"}", `{"author":"\x"}`, `{"avgLogprobs":12345678901234567890}`, `{"avgLogprobs":1e999}`,
	`{"output":01}`, `{"output":1.}`, `{"output":-}`, `{"output":1e}`, `{"output":+1}`, `{"output":-0}`, `{"output":1E+2}`, `{"output":0.1e-5}`,
	`{"output":9007199254740992}`, `{"output":9007199254740993}`, `{"output":-9007199254740993}`, `{"output":1e400}`, `{"output":tru}`,
	`{"author":12345678901234567890}`, `{"usageMetadata":{"promptTokenCount":4294967296}}`, `{"usageMetadata":{"promptTokenCount":1.0}}`,
	`{"usageMetadata":{"promptTokensDetails":[{"modality":"TEXT","tokenCount":3}]}}`, `{"actions":{"artifactDelta":{"a":null}}}`,
	`{"actions":{"artifactDelta":{"a":9223372036854775807}}}`, `{"actions":{"stateDelta":null}}`, `{"actions":null}`,
	`{"actions":{"stateDelta":{"a":1}},"actions":{"stateDelta":{"b":1}}}`, `{"content":{"parts":[{"inlineData":{"data":"A?"}}]}}`,
	`{"content":{"parts":[{"inlineData":{"data":[1,2]}}]}}`, `{"content":{"parts":[{"thoughtSignature":""}]}}`, `{"content":{"parts":{}}}`,
	`{"requestedInput":{"interruptId":"i","payload":9007199254740993,"responseSchema":{"type":"object"}}}`, `{"id":"a"} x`, `{"id":"a",}`,
	`{"nodeInfo":null,"routes":null,"longRunningToolIds":null}`, `{"output":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`,
	`{"output":` + strings.Repeat("[", 20000), `{"id":"` + strings.Repeat("long ", 20000) + `"}`, `{"groundingMetadata":]}`, `{"groundingMetadata":"x\"}`,
}

func TestUsualEventsNeedNoEncodingJSON(t *testing.T) {
	for _, text := range usualEvents {
		agree(t, text)
		if !quick(text) {
			t.Errorf("%s was not decoded", text)
		}
	}
}

func TestOddEventsDecodeAsEncodingJSONDoes(t *testing.T) {
	for _, text := range oddEvents {
		agree(t, text)
	}
}

func FuzzBothDecodersAgree(f *testing.F) {
	for _, text := range append(usualEvents, oddEvents...) {
		if len(text) < 2000 {
			f.Add(text)
		}
	}
	f.Fuzz(agree)
}

// guess writes random JSON that has the names of events, in places where they belong and where not.
type guess struct {
	*rand.Rand
	names []string
}

func (g *guess) text() string {
	words := []string{"", "a", "Größe", `\n`, `\u00e9`, `\ud83d\ude00`, `\ud83d`, "2026-03-01T12:00:00Z", "AAEC", "日本", `\"`, "x"}
	return `"` + words[g.IntN(len(words))] + `"`
}

func (g *guess) value(depth int) string {
	switch n := g.IntN(12); {
	case n < 3 || depth > 6:
		return g.text()
	case n < 5:
		numbers := []string{"0", "-0", "1", "12345", "9007199254740993", "1.5", "-2e3", "1e999", "4294967296", "123456789012345678901234567890"}
		return numbers[g.IntN(len(numbers))]
	case n < 6:
		return []string{"true", "false", "null"}[g.IntN(3)]
	case n < 8:
		var items []string
		for range g.IntN(4) {
			items = append(items, g.value(depth+1))
		}
		return "[" + strings.Join(items, ",") + "]"
	default:
		var members []string
		for range g.IntN(6) {
			members = append(members, `"`+g.names[g.IntN(len(g.names))]+`":`+g.value(depth+1))
		}
		return "{" + strings.Join(members, ", ") + "}"
	}
}

// fill writes an event of a type's own shape, each member sometimes of another type.
func (g *guess) fill(of reflect.Type, depth int) string {
	if g.IntN(30) == 0 || depth > 6 || strings.Contains(of.String(), "Schema") { // a schema has schemas
		return g.value(depth)
	}
	switch of.Kind() {
	case reflect.Pointer:
		return g.fill(of.Elem(), depth)
	case reflect.Struct:
		if of.String() == "time.Time" {
			return `"2026-03-01T12:00:00.5Z"`
		}
		var members []string
		for _, field := range reflect.VisibleFields(of) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name != "" && name != "-" && g.IntN(4) == 0 {
				members = append(members, `"`+name+`":`+g.fill(field.Type, depth+1))
			}
		}
		return "{" + strings.Join(members, ",") + "}"
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 {
			return `"AAEC"`
		}
		return "[" + g.fill(of.Elem(), depth+1) + "]"
	case reflect.Map:
		return `{"k":` + g.fill(of.Elem(), depth+1) + `,"app:l":` + g.fill(of.Elem(), depth+1) + "}"
	case reflect.String:
		return g.text()
	case reflect.Bool:
		return "true"
	case reflect.Int32, reflect.Int64, reflect.Int, reflect.Float64, reflect.Float32:
		return []string{"3", "0", "-7"}[g.IntN(3)]
	default:
		return g.value(depth)
	}
}

func TestRandomEventsDecodeAsEncodingJSONDoes(t *testing.T) {
	seed := rand.Uint64()
	g := &guess{Rand: rand.New(rand.NewPCG(seed, 1))}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[session.Event]()) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
			g.names = append(g.names, name, "parts", "text", "args", "response")
		}
	}
	quickly := 0
	for i := range 20000 {
		text := g.fill(reflect.TypeFor[session.Event](), 0)
		if i%4 == 0 {
			text = g.value(0)
		}
		agree(t, text)
		if quick(text) {
			quickly++
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if quickly < 1000 {
		t.Errorf("only %d of 20000 were decoded in one pass", quickly)
	}
}

// raw is event i of a live session as libquipu writes it.
func (s *liveSession) raw(t *testing.T, i int) (all string) {
	t.Helper()
	query := &lib.LiveQuery{Flags: lib.LiveEvents, First: uintptr(i), Limit: 1}
	err := s.read(query, func(now *lib.Snapshot) {
		all = (*lib.Str)(now.Events.At(0)).String()
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestAllFixtureEventsDecodeAsEncodingJSONDoes(t *testing.T) {
	quipu := program(t)
	total, quickly := 0, 0
	for name, number := range map[string]int{
		"adk-go-database.db": 11, "adk-python-database.db": 12, "adk-python-database-v0.db": 12, "adk-python-sqlite.db": 12,
	} {
		path := filepath.Join(t.TempDir(), "store.db")
		fixture := filepath.Join("../../tests/fixtures", name)
		if out, err := exec.Command(quipu, "import", fixture, "--quiet", "--store", path).CombinedOutput(); err != nil && len(out) == 0 {
			t.Fatalf("%s: %v", name, err)
		}
		store, service := openService(t, path, ServiceOptions{})
		found := 0
		for info, err := range store.Sessions(t.Context(), ListOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			got, err := service.get(t.Context(), &session.GetRequest{AppName: info.AppName, UserID: info.UserID, SessionID: info.SessionID})
			if err != nil {
				t.Fatal(err)
			}
			for i := range got.Events().Len() {
				text := got.raw(t, i)
				agree(t, text)
				found++
				if quick(text) {
					quickly++
				}
			}
		}
		if found < number-2 {
			t.Errorf("%s has %d events, not %d", name, found, number)
		}
		total += found
	}
	if quickly < total/2 {
		t.Errorf("only %d of %d were decoded in one pass", quickly, total)
	}
}
