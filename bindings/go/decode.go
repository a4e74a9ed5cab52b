package quipu

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"google.golang.org/adk/v2/session"
	"google.golang.org/genai"
)

// Reading a long history in Go costs what decoding its events costs, and encoding/json passes over
// each several times. decodeEvent() reads the usual event in one pass, straight into ADK's structs.
// It knows what encoding/json makes of each value, and only says so where it is sure: on anything
// else (another program's spelling of a name, a name twice, a type that does not fit, an error) it
// gives up, and decodeExact() decodes the whole event. So both give the same for every text, which
// FuzzBothDecodersAgree checks.

const (
	scanDepth = 200     // values inside of values; deeper ones are encoding/json's
	shareMax  = 1 << 16 // bytes of an event whose texts share its memory: a larger one is not kept for a name
)

// decodeEvent decodes an event of libquipu's. `event` is zero, and stays so when it fails.
func decodeEvent(text []byte, event *session.Event) error {
	s := &scan{text: string(text), share: len(text) <= shareMax}
	s.event(event)
	if s.space(); !s.slow && s.at == len(s.text) {
		return nil
	}
	*event = session.Event{}
	return decodeExact(text, event)
}

// scan is where the reader is. After `slow` is set every method does nothing.
type scan struct {
	text  string
	at    int
	depth int
	share bool // texts are parts of `text`, not copies
	slow  bool // what was read is not sure: encoding/json has to decode it
}

// give gives up.
func (s *scan) give() {
	s.slow = true
	s.at = len(s.text)
}

func (s *scan) space() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

// next is the first byte of what follows; 0 at the end.
func (s *scan) next() byte {
	s.space()
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

// take passes a byte when it is the next.
func (s *scan) take(c byte) bool {
	if s.next() == c && s.at < len(s.text) {
		s.at++
		return true
	}
	return false
}

func (s *scan) word(word string) bool {
	if s.space(); strings.HasPrefix(s.text[s.at:], word) {
		s.at += len(word)
		return true
	}
	return false
}

// object calls `member` with the name of each member; it reads the value.
func (s *scan) object(member func(name string)) {
	if !s.take('{') {
		s.give()
		return
	}
	if s.take('}') {
		return
	}
	for !s.slow {
		name := s.str()
		if !s.take(':') {
			s.give()
			return
		}
		member(name)
		if s.take('}') {
			return
		}
		if !s.take(',') {
			s.give()
		}
	}
}

// array calls `item` for each item; it reads it.
func (s *scan) array(item func()) {
	if !s.take('[') {
		s.give()
		return
	}
	if s.take(']') {
		return
	}
	for !s.slow {
		item()
		if s.take(']') {
			return
		}
		if !s.take(',') {
			s.give()
		}
	}
}

func (s *scan) str() string {
	if !s.take('"') {
		s.give()
		return ""
	}
	from, ascii := s.at, true
	for i := from; i < len(s.text); i++ {
		switch c := s.text[i]; {
		case c == '"':
			s.at = i + 1
			if !ascii && !utf8.ValidString(s.text[from:i]) {
				s.give()
				return ""
			}
			if s.share {
				return s.text[from:i]
			}
			return strings.Clone(s.text[from:i])
		case c == '\\':
			return s.escaped(from)
		case c < ' ':
			s.give()
			return ""
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	s.give()
	return ""
}

// escaped reads a text that has escapes, from its first byte on.
func (s *scan) escaped(from int) string {
	made := make([]byte, 0, 64)
	for i := from; i < len(s.text); {
		switch c := s.text[i]; {
		case c == '"':
			if s.at = i + 1; !utf8.Valid(made) {
				s.give()
			}
			return string(made)
		case c < ' ':
			s.give()
			return ""
		case c != '\\':
			made = append(made, c)
			i++
		case i+1 < len(s.text) && s.text[i+1] == 'u':
			r, size := s.unicode(i)
			if size == 0 {
				s.give()
				return ""
			}
			made = utf8.AppendRune(made, r)
			i += size
		default:
			at := -1
			if i+1 < len(s.text) {
				at = strings.IndexByte(`"\/bfnrt`, s.text[i+1])
			}
			if at < 0 {
				s.give()
				return ""
			}
			made = append(made, "\"\\/\b\f\n\r\t"[at])
			i += 2
		}
	}
	s.give()
	return ""
}

// unicode reads \uXXXX, or a pair of them, at `i`; its size in the text is 0 when it is none. Half of
// a pair is left to encoding/json.
func (s *scan) unicode(i int) (rune, int) {
	const one = len(`\u0000`)
	hex := func(at int) (rune, bool) {
		if at+one > len(s.text) || s.text[at:at+2] != `\u` {
			return 0, false
		}
		value, err := strconv.ParseUint(s.text[at+2:at+one], 16, 16)
		return rune(value), err == nil
	}
	first, ok := hex(i)
	if !ok {
		return 0, 0
	}
	if !utf16.IsSurrogate(first) {
		return first, one
	}
	second, ok := hex(i + one)
	pair := utf16.DecodeRune(first, second)
	if !ok || pair == utf8.RuneError {
		return 0, 0
	}
	return pair, 2 * one
}

// digits passes digits and reports whether there were any.
func (s *scan) digits() bool {
	from := s.at
	for s.at < len(s.text) && s.text[s.at] >= '0' && s.text[s.at] <= '9' {
		s.at++
	}
	return s.at > from
}

// numeral reads a number as JSON spells it, and whether it is an integer.
func (s *scan) numeral() (string, bool) {
	s.space()
	from, integer := s.at, true
	passed := func(any string) bool {
		if s.at < len(s.text) && strings.IndexByte(any, s.text[s.at]) >= 0 {
			s.at++
			return true
		}
		return false
	}
	passed("-")
	if !passed("0") && !s.digits() {
		s.give()
		return "", false
	}
	if passed(".") {
		if integer = false; !s.digits() {
			s.give()
			return "", false
		}
	}
	if passed("eE") {
		integer = false
		passed("+-")
		if !s.digits() {
			s.give()
			return "", false
		}
	}
	return s.text[from:s.at], integer
}

// number is a value of type any: a float64, or a json.Number where a float64 cannot hold it.
func (s *scan) number() any {
	const small = 15 // digits that a float64 always holds
	text, integer := s.numeral()
	if integer && len(text) <= small && text != "-0" {
		value, _ := strconv.ParseInt(text, 10, 64)
		return float64(value)
	}
	if s.slow {
		return nil
	}
	if isInexact(text) {
		return json.Number(text)
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		s.give()
	}
	return value
}

// value is a value of type any.
func (s *scan) value() any {
	if s.depth++; s.depth > scanDepth {
		s.give()
	}
	defer func() { s.depth-- }()
	switch s.next() {
	case '{':
		return s.values()
	case '[':
		all := []any{}
		s.array(func() { all = append(all, s.value()) })
		return all
	case '"':
		return s.str()
	case 't':
		return s.truth()
	case 'f':
		return s.truth()
	case 'n':
		if !s.word("null") {
			s.give()
		}
		return nil
	default:
		return s.number()
	}
}

func (s *scan) values() map[string]any {
	made := map[string]any{}
	s.object(func(name string) { made[name] = s.value() })
	return made
}

func (s *scan) truth() bool {
	if s.word("true") {
		return true
	}
	if !s.word("false") {
		s.give()
	}
	return false
}

// integer is a number of a fixed type.
func (s *scan) integer(bits int) int64 {
	text, integer := s.numeral()
	value, err := strconv.ParseInt(text, 10, bits)
	if !integer || err != nil || isInexact(text) {
		s.give()
	}
	return value
}

func (s *scan) float() float64 {
	text, _ := s.numeral()
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || isInexact(text) || math.IsInf(value, 0) {
		s.give()
	}
	return value
}

func (s *scan) strs() []string {
	all := []string{}
	s.array(func() { all = append(all, s.str()) })
	return all
}

func (s *scan) bytes() []byte {
	text := s.str()
	made, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		s.give()
	}
	return made
}

func (s *scan) counts() map[string]int64 {
	made := map[string]int64{}
	s.object(func(name string) { made[name] = s.integer(64) })
	return made
}

// rest leaves one member to encoding/json. A number in it that a float64 cannot hold may make the
// whole event another: then it decodes the whole.
func (s *scan) rest(into any) {
	s.space()
	from, depth, quoted := s.at, 0, false
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case quoted && c == '\\':
			s.at++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case depth == 0 && (c == ',' || c == '}'):
			s.restOf(s.text[from:s.at], into)
			return
		case c == '}' || c == ']':
			depth--
		}
	}
	s.give()
}

func (s *scan) restOf(text string, into any) {
	raw := []byte(text)
	if !json.Valid(raw) {
		s.give()
		return
	}
	eachNumber(raw, func(from, to int) {
		if isInexact(text[from:to]) {
			s.give()
		}
	})
	if !s.slow && json.Unmarshal(raw, into) != nil {
		s.give()
	}
}

// namesOf is what encoding/json decodes into a struct, by any spelling of their letters.
func namesOf(of reflect.Type) (names []string) {
	for _, field := range reflect.VisibleFields(of) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name, field.Name)
	}
	return names
}

var (
	eventNames  = namesOf(reflect.TypeFor[session.Event]())
	actionNames = namesOf(reflect.TypeFor[session.EventActions]())
)

// other passes a member that encoding/json ignores, such as those that only ADK for Python has. One
// whose name is a known one's in other letters, or one of a newer ADK's, is encoding/json's.
func (s *scan) other(name string, known []string) {
	for _, one := range known {
		if strings.EqualFold(one, name) {
			s.give()
			return
		}
	}
	s.value()
}

// once gives up on a member that is there already: encoding/json would decode into what it has.
func (s *scan) once(empty bool) bool {
	if !empty {
		s.give()
	}
	return empty
}

func pointerTo[T any](s *scan, into **T, read func(*T)) {
	if s.once(*into == nil) {
		it := new(T)
		read(it)
		*into = it
	}
}

func (s *scan) event(e *session.Event) {
	s.object(func(name string) {
		if !s.eventText(name, e) && !s.response(name, e) {
			s.eventMember(name, e)
		}
	})
}

// eventText reads the members that are texts, and reports whether it was one.
func (s *scan) eventText(name string, e *session.Event) bool {
	var into *string
	switch name {
	case "id":
		into = &e.ID
	case "author":
		into = &e.Author
	case "invocationId":
		into = &e.InvocationID
	case "branch":
		into = &e.Branch
	case "isolationScope":
		into = &e.IsolationScope
	case "modelVersion":
		into = &e.ModelVersion
	case "sessionResumptionHandle":
		into = &e.SessionResumptionHandle
	case "errorCode":
		into = &e.ErrorCode
	case "errorMessage":
		into = &e.ErrorMessage
	case "finishReason":
		into = (*string)(&e.FinishReason)
	default:
		return false
	}
	*into = s.str()
	return true
}

// eventMember reads the members that an event has beside a model's response.
func (s *scan) eventMember(name string, e *session.Event) {
	switch name {
	case "timestamp":
		s.timestamp(e)
	case "actions":
		s.object(func(name string) { s.action(name, &e.Actions) })
	case "longRunningToolIds":
		if s.once(e.LongRunningToolIDs == nil) {
			e.LongRunningToolIDs = s.strs()
		}
	case "routes":
		if s.once(e.Routes == nil) {
			e.Routes = s.strs()
		}
	case "output":
		if s.once(e.Output == nil) {
			e.Output = s.value()
		}
	case "requestedInput":
		if s.once(e.RequestedInput == nil) {
			s.rest(&e.RequestedInput)
		}
	case "nodeInfo":
		if s.once(e.NodeInfo == nil) {
			s.rest(&e.NodeInfo)
		}
		// As session.Event's own decoder does: one that says nothing is none.
		if it := e.NodeInfo; it != nil && it.Path == "" && !it.MessageAsOutput && len(it.OutputFor) == 0 {
			e.NodeInfo = nil
		}
	default:
		s.other(name, eventNames)
	}
}

func (s *scan) timestamp(e *session.Event) {
	from := s.at
	s.str()
	if s.slow || e.Timestamp.UnmarshalJSON([]byte(s.text[from:s.at])) != nil {
		s.give()
	}
}

// response reads the members of a model's response, and reports whether it was one.
func (s *scan) response(name string, e *session.Event) bool {
	switch name {
	case "content":
		pointerTo(s, &e.Content, s.content)
	case "usageMetadata":
		pointerTo(s, &e.UsageMetadata, s.usage)
	case "customMetadata":
		if s.once(e.CustomMetadata == nil) {
			e.CustomMetadata = s.values()
		}
	case "partial":
		e.Partial = s.truth()
	case "turnComplete":
		e.TurnComplete = s.truth()
	case "interrupted":
		e.Interrupted = s.truth()
	case "avgLogprobs":
		e.AvgLogprobs = s.float()
	case "citationMetadata":
		s.restOnce(e.CitationMetadata == nil, &e.CitationMetadata)
	case "groundingMetadata":
		s.restOnce(e.GroundingMetadata == nil, &e.GroundingMetadata)
	case "logprobsResult":
		s.restOnce(e.LogprobsResult == nil, &e.LogprobsResult)
	case "inputTranscription":
		s.restOnce(e.InputTranscription == nil, &e.InputTranscription)
	case "outputTranscription":
		s.restOnce(e.OutputTranscription == nil, &e.OutputTranscription)
	default:
		return false
	}
	return true
}

func (s *scan) restOnce(empty bool, into any) {
	if s.once(empty) {
		s.rest(into)
	}
}

func (s *scan) action(name string, a *session.EventActions) {
	switch name {
	case "stateDelta":
		if s.once(a.StateDelta == nil) {
			a.StateDelta = s.values()
		}
	case "artifactDelta":
		if s.once(a.ArtifactDelta == nil) {
			a.ArtifactDelta = s.counts()
		}
	case "requestedToolConfirmations":
		s.restOnce(a.RequestedToolConfirmations == nil, &a.RequestedToolConfirmations)
	case "skipSummarization":
		a.SkipSummarization = s.truth()
	case "transferToAgent":
		a.TransferToAgent = s.str()
	case "escalate":
		a.Escalate = s.truth()
	default:
		s.other(name, actionNames)
	}
}

func (s *scan) content(c *genai.Content) {
	s.object(func(name string) {
		switch {
		case name == "role":
			c.Role = s.str()
		case name == "parts" && s.once(c.Parts == nil):
			c.Parts = []*genai.Part{}
			s.array(func() {
				var part *genai.Part
				if !s.word("null") {
					part = &genai.Part{}
					s.part(part)
				}
				c.Parts = append(c.Parts, part)
			})
		default:
			s.give()
		}
	})
}

func (s *scan) part(p *genai.Part) {
	s.object(func(name string) {
		switch name {
		case "text":
			p.Text = s.str()
		case "thought":
			p.Thought = s.truth()
		case "thoughtSignature":
			if s.once(p.ThoughtSignature == nil) {
				p.ThoughtSignature = s.bytes()
			}
		case "functionCall":
			pointerTo(s, &p.FunctionCall, s.functionCall)
		case "functionResponse":
			pointerTo(s, &p.FunctionResponse, s.functionResponse)
		case "inlineData":
			pointerTo(s, &p.InlineData, s.blob)
		default:
			s.partRest(name, p)
		}
	})
}

// partRest leaves the rarer members to encoding/json.
func (s *scan) partRest(name string, p *genai.Part) {
	switch name {
	case "fileData":
		s.restOnce(p.FileData == nil, &p.FileData)
	case "executableCode":
		s.restOnce(p.ExecutableCode == nil, &p.ExecutableCode)
	case "codeExecutionResult":
		s.restOnce(p.CodeExecutionResult == nil, &p.CodeExecutionResult)
	case "mediaResolution":
		s.restOnce(p.MediaResolution == nil, &p.MediaResolution)
	case "videoMetadata":
		s.restOnce(p.VideoMetadata == nil, &p.VideoMetadata)
	case "toolCall":
		s.restOnce(p.ToolCall == nil, &p.ToolCall)
	case "toolResponse":
		s.restOnce(p.ToolResponse == nil, &p.ToolResponse)
	default:
		s.give()
	}
}

func (s *scan) functionCall(c *genai.FunctionCall) {
	s.object(func(name string) {
		switch {
		case name == "id":
			c.ID = s.str()
		case name == "name":
			c.Name = s.str()
		case name == "args" && s.once(c.Args == nil):
			c.Args = s.values()
		default:
			s.give()
		}
	})
}

func (s *scan) functionResponse(r *genai.FunctionResponse) {
	s.object(func(name string) {
		switch {
		case name == "id":
			r.ID = s.str()
		case name == "name":
			r.Name = s.str()
		case name == "response" && s.once(r.Response == nil):
			r.Response = s.values()
		default:
			s.give()
		}
	})
}

func (s *scan) blob(b *genai.Blob) {
	s.object(func(name string) {
		switch {
		case name == "mimeType":
			b.MIMEType = s.str()
		case name == "displayName":
			b.DisplayName = s.str()
		case name == "data" && s.once(b.Data == nil):
			b.Data = s.bytes()
		default:
			s.give()
		}
	})
}

func (s *scan) usage(u *genai.GenerateContentResponseUsageMetadata) {
	s.object(func(name string) {
		var into *int32
		switch name {
		case "promptTokenCount":
			into = &u.PromptTokenCount
		case "cachedContentTokenCount":
			into = &u.CachedContentTokenCount
		case "candidatesTokenCount":
			into = &u.CandidatesTokenCount
		case "thoughtsTokenCount":
			into = &u.ThoughtsTokenCount
		case "toolUsePromptTokenCount":
			into = &u.ToolUsePromptTokenCount
		case "totalTokenCount":
			into = &u.TotalTokenCount
		default:
			s.give() // the details by modality, and what is newer
			return
		}
		*into = int32(s.integer(32))
	})
}
