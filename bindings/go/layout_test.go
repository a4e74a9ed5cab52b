package quipu

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"unsafe"

	"quipu/bindings/go/internal/lib"
)

// The headers are two folders up in the repository.
const headers = "../../include"

// offsets of a struct: "name size offset offset ...".
func offsets(name string, size uintptr, members ...uintptr) string {
	line := fmt.Sprintf("%s %d", name, size)
	for _, member := range members {
		line += fmt.Sprintf(" %d", member)
	}
	return line + "\n"
}

func TestStructsLieAsTheHeadersSay(t *testing.T) {
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler to ask")
	}
	var open lib.OpenOptions
	var service lib.ServiceOptions
	var get lib.GetOptions
	var entry lib.Entry
	var head lib.Head
	var page lib.Page
	var failure lib.Error
	var call lib.CallOptions
	var field lib.Field
	var between lib.Range
	var patch lib.Patch
	var history lib.History
	var recall lib.RecallOptions
	var hit lib.RecallHit
	var recalled lib.RecallResults
	// Sized structs and the items of sized slices may grow: only the offsets of members matter.
	want := offsets("quipu_open_options", 0, unsafe.Offsetof(open.Durability),
		unsafe.Offsetof(open.TTLMS), unsafe.Offsetof(open.Tenant), unsafe.Offsetof(open.MaxBytes)) +
		offsets("quipu_service_options", 0, unsafe.Offsetof(service.TTLMS),
			unsafe.Offsetof(service.KeyCase), unsafe.Offsetof(service.Time)) +
		offsets("quipu_get_options", 0, unsafe.Offsetof(get.NumRecent),
			unsafe.Offsetof(get.After)) +
		offsets("quipu_service_page", 0, unsafe.Offsetof(page.Sessions)) +
		offsets("quipu_service_entries", unsafe.Sizeof(page.Sessions),
			unsafe.Offsetof(page.Sessions.Count), unsafe.Offsetof(page.Sessions.ItemSize)) +
		offsets("quipu_service_entry", 0, unsafe.Offsetof(entry.State),
			unsafe.Offsetof(entry.LastUpdateTime), unsafe.Offsetof(entry.Revision),
			unsafe.Offsetof(entry.UID)) +
		offsets("quipu_session_head", 0, unsafe.Offsetof(head.Ref), unsafe.Offsetof(head.UID),
			unsafe.Offsetof(head.Revision), unsafe.Offsetof(head.LastUpdateTime)) +
		offsets("quipu_error", unsafe.Sizeof(failure), unsafe.Offsetof(failure.Rule),
			unsafe.Offsetof(failure.Message)) +
		offsets("quipu_call_options", 0, unsafe.Offsetof(call.Cancel), unsafe.Offsetof(call.Now)) +
		offsets("quipu_arena", unsafe.Sizeof(lib.Arena{})) +
		offsets("quipu_field", 0, unsafe.Offsetof(field.Name), unsafe.Offsetof(field.Has),
			unsafe.Offsetof(field.Bit), unsafe.Offsetof(field.Size)) +
		offsets("quipu_range", 0, unsafe.Offsetof(between.Flags), unsafe.Offsetof(between.Limit)) +
		offsets("quipu_session_patch", 0, unsafe.Offsetof(patch.Set)) +
		offsets("quipu_history", 0, unsafe.Offsetof(history.Session)) +
		offsets("quipu_recall_options", 0, unsafe.Offsetof(recall.Question),
			unsafe.Offsetof(recall.UserID), unsafe.Offsetof(recall.Budget)) +
		offsets("quipu_recall_hit", 0, unsafe.Offsetof(hit.Role), unsafe.Offsetof(hit.EventID),
			unsafe.Offsetof(hit.Timestamp), unsafe.Offsetof(hit.Content),
			unsafe.Offsetof(hit.FromSession)) +
		offsets("quipu_recall_results", 0, unsafe.Offsetof(recalled.Hits)) +
		offsets("numbers", lib.ServiceGo, lib.ServiceRebase, lib.KeysCamel, lib.BytesStd,
			lib.TimesRFC3339, lib.GetAfter, lib.OpenReadOnly, lib.OpenMustExist,
			lib.RecallAll, lib.RoleUser)
	folder := t.TempDir()
	source := filepath.Join(folder, "ask.c")
	if err := os.WriteFile(source, []byte(ask), 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(folder, "ask")
	if out, err := exec.Command(compiler, "-I", headers, source, "-o", program).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got, err := exec.Command(program).Output()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, []byte(want)) {
		t.Errorf("the headers say\n%sthe bindings say\n%s", got, want)
	}
}

const ask = `
#include <stddef.h>
#include <stdio.h>
#include <quipu/adk.h>
#include <quipu/fields.h>
#define AT(type, member) printf(" %zu", offsetof(type, member))
#define BEGIN(type) printf(#type " %zu", sizeof(type))
#define BEGIN_GROWING(type) printf(#type " 0")
#define END() printf("\n")
int main(void)
{
    BEGIN_GROWING(quipu_open_options); AT(quipu_open_options, durability); AT(quipu_open_options, ttl_ms);
    AT(quipu_open_options, tenant); AT(quipu_open_options, max_bytes); END();
    BEGIN_GROWING(quipu_service_options); AT(quipu_service_options, ttl_ms);
    AT(quipu_service_options, key_case); AT(quipu_service_options, time); END();
    BEGIN_GROWING(quipu_get_options); AT(quipu_get_options, num_recent); AT(quipu_get_options, after); END();
    BEGIN_GROWING(quipu_service_page); AT(quipu_service_page, sessions); END();
    BEGIN(quipu_service_entries); AT(quipu_service_entries, count); AT(quipu_service_entries, item_size); END();
    BEGIN_GROWING(quipu_service_entry); AT(quipu_service_entry, state);
    AT(quipu_service_entry, last_update_time); AT(quipu_service_entry, revision);
    AT(quipu_service_entry, uid); END();
    BEGIN_GROWING(quipu_session_head); AT(quipu_session_head, ref); AT(quipu_session_head, uid);
    AT(quipu_session_head, revision); AT(quipu_session_head, last_update_time); END();
    BEGIN(quipu_error); AT(quipu_error, rule); AT(quipu_error, message); END();
    BEGIN_GROWING(quipu_call_options); AT(quipu_call_options, cancel); AT(quipu_call_options, now); END();
    BEGIN(quipu_arena); END();
    BEGIN_GROWING(quipu_field); AT(quipu_field, name); AT(quipu_field, has_offset);
    AT(quipu_field, bit); AT(quipu_field, size); END();
    BEGIN_GROWING(quipu_range); AT(quipu_range, flags); AT(quipu_range, limit); END();
    BEGIN_GROWING(quipu_session_patch); AT(quipu_session_patch, set); END();
    BEGIN_GROWING(quipu_history); AT(quipu_history, session); END();
    BEGIN_GROWING(quipu_recall_options); AT(quipu_recall_options, question);
    AT(quipu_recall_options, user_id); AT(quipu_recall_options, budget); END();
    BEGIN_GROWING(quipu_recall_hit); AT(quipu_recall_hit, role); AT(quipu_recall_hit, event_id);
    AT(quipu_recall_hit, timestamp); AT(quipu_recall_hit, content);
    AT(quipu_recall_hit, from_session); END();
    BEGIN_GROWING(quipu_recall_results); AT(quipu_recall_results, hits); END();
    printf("numbers %d %d %d %d %d %d %d %d %d %d\n", (int)QUIPU_SERVICE_GO, (int)QUIPU_SERVICE_REBASE,
           QUIPU_KEYS_CAMEL, QUIPU_BYTES_STD, QUIPU_TIMES_RFC3339, (int)QUIPU_GET_AFTER,
           (int)QUIPU_OPEN_READ_ONLY, (int)QUIPU_OPEN_MUST_EXIST, (int)QUIPU_RECALL_EVERYTHING,
           QUIPU_ROLE_USER);
    return 0;
}
`
