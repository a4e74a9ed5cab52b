package quipu

import (
	"encoding/json"

	"google.golang.org/adk/v2/session"
	"google.golang.org/genai"
)

// encodeEvent writes an event as JSON. genai's types leave out empty objects; arguments and a response
// that are there and empty are put back, because a call without arguments and one without any are
// not the same to a model.
func encodeEvent(event *session.Event) ([]byte, error) {
	text, err := json.Marshal(event)
	if err != nil || event.Content == nil {
		return text, err
	}
	var missing bool
	for _, part := range event.Content.Parts {
		missing = missing || (part != nil && len(emptyObjects(part)) > 0)
	}
	if !missing {
		return text, nil
	}
	return edit(text, "content", func(content []byte) ([]byte, error) {
		return edit(content, "parts", func(text []byte) ([]byte, error) {
			var parts []json.RawMessage
			if err := json.Unmarshal(text, &parts); err != nil {
				return nil, err
			}
			for i, part := range event.Content.Parts {
				for member, name := range emptyObjects(part) {
					var err error
					parts[i], err = edit(parts[i], member, func(inner []byte) ([]byte, error) {
						return edit(inner, name, func([]byte) ([]byte, error) { return []byte("{}"), nil })
					})
					if err != nil {
						return nil, err
					}
				}
			}
			return json.Marshal(parts)
		})
	})
}

// emptyObjects names what of a part is an empty object: the member, and the one inside of it.
func emptyObjects(part *genai.Part) map[string]string {
	var found map[string]string
	add := func(member, name string, there map[string]any) {
		if there != nil && len(there) == 0 {
			if found == nil {
				found = map[string]string{}
			}
			found[member] = name
		}
	}
	if part != nil && part.FunctionCall != nil {
		add("functionCall", "args", part.FunctionCall.Args)
	}
	if part != nil && part.FunctionResponse != nil {
		add("functionResponse", "response", part.FunctionResponse.Response)
	}
	return found
}

// edit replaces one member of a JSON object by what `change` returns for it; nil stands for a member
// that is not there.
func edit(object []byte, member string, change func([]byte) ([]byte, error)) ([]byte, error) {
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(object, &members); err != nil {
		return nil, err
	}
	changed, err := change(members[member])
	if err != nil {
		return nil, err
	}
	members[member] = changed
	return json.Marshal(members)
}
