/* Erroneous schemas, each with the exact message and place that a user gets. */
#include "entgen/t_entgen.h"

#include "entgen/run.h"

typedef struct errors_case {
    const char *name;
    quipu_str text;
    const char *errors;
} errors_case;

/* clang-format off */
static const errors_case errors_cases[] = {
    {"a_field_without_a_class",
     {"schema t {\n  classes (a, b)\n}\nentity A {\n  x int class a\n  y int\n}\n", 67},
     "t.ent:6:3: error: field 'y' has no class, expected class a or b\n"},
    {"an_unknown_class",
     {"schema t {\n  classes (content, other)\n}\nentity A {\n  x int class contnt\n}\n", 74},
     "t.ent:5:15: error: unknown class 'contnt', expected content or other; "
     "did you mean 'content'?\n"},
    {"a_class_without_classes",
     {"entity A {\n  x int class a\n}\n", 29},
     "t.ent:2:15: error: class on a field, but the schema has none: expected"
     " classes (...) in its block\n"},
    {"a_class_twice",
     {"schema t {\n  classes (a, b, a)\n}\nentity A {\n  x int class a\n}\n", 62},
     "t.ent:2:18: error: class 'a' is there already, expected another\n"},
    {"two_lists_of_classes",
     {"schema t {\n  classes (a)\n  classes (b)\n}\nentity A {\n  x int class a\n}\n", 70},
     "t.ent:3:3: error: a second list of classes, expected one: the first is"
     " at t.ent:2\n"},
    {"a_class_without_a_name",
     {"entity A {\n  x int class\n}\n", 27},
     "t.ent:3:1: error: found '}', expected the name of a class\n"},
    {"a_header_that_is_none",
     {"schema t {\n  include \"a>b\"\n}\nentity A {\n  x int\n}\n", 50},
     "t.ent:2:11: error: \"a>b\" is no path of a header\n"},
    {"a_header_without_quotes",
     {"schema t {\n  include a\n}\nentity A {\n  x int\n}\n", 46},
     "t.ent:2:11: error: found 'a', expected a name in double quotes after '"
     "include'\n"},
    {"a_view_without_a_struct",
     {"entity A {\n  view info\n  x int\n}\n", 33},
     "t.ent:3:3: error: found 'x', expected a name in double quotes after 'i"
     "nfo'\n"},
    {"a_view_of_no_struct",
     {"entity A {\n  view info \"a b\"\n  x int\n}\n", 39},
     "t.ent:2:13: error: \"a b\" is no name of C, expected a struct's\n"},
    {"a_view_twice",
     {"entity A {\n  view v \"s\"\n  view v \"t\"\n  x int\n}\n", 47},
     "t.ent:3:8: error: view 'v' is there already, at t.ent:2\n"},
    {"a_view_that_is_not_there",
     {"entity A {\n  view info \"s\"\n  x int show (inf)\n}\n", 48},
     "t.ent:3:15: error: entity A has no view 'inf'; did you mean 'info'?\n"},
    {"a_member_twice",
     {"entity A {\n  view v \"s\"\n  x int show (v)\n  y int show (v as x)\n}\n", 65},
     "t.ent:4:20: error: view 'v' has the member 'x' already, at t.ent:3\n"},
    {"has_for_a_required_field",
     {"entity A {\n  view v \"s\"\n  x int show (v has h)\n}\n", 49},
     "t.ent:3:21: error: has for field 'x', expected an optional int, float,"
     " bool, time or uuid\n"},
    {"has_for_a_text",
     {"entity A {\n  view v \"s\"\n  x text? show (v has h)\n}\n", 51},
     "t.ent:3:23: error: has for field 'x', expected an optional int, float,"
     " bool, time or uuid\n"},
    {"is_for_a_required_field",
     {"entity A {\n  view v \"s\"\n  x int show (v is h)\n}\n", 48},
     "t.ent:3:20: error: field 'x' is required, so 'is' would always be true"
     "\n"},
    {"a_bit_without_bits",
     {"entity A {\n  view v \"s\"\n  x int show (v bit b)\n}\n", 49},
     "t.ent:3:21: error: a bit in view 'v', which has no bits\n"},
    {"has_in_a_view_with_bits",
     {"entity A {\n  view v \"s\" bits \"B_\"\n  x int? show (v has h)\n}\n", 60},
     "t.ent:3:16: error: has and is in view 'v', whose bits say what is give"
     "n; expected a plain member\n"},
    {"a_change_of_what_cannot_change",
     {"entity A {\n  view v \"s\" bits \"B_\"\n  x int immutable show (v)\n}\n", 63},
     "t.ent:3:25: error: field 'x' cannot change, but view 'v' is for change"
     "s\n"},
    {"by_without_hand",
     {"entity A {\n  view v \"s\"\n  x int show (v by foot)\n}\n", 51},
     "t.ent:3:20: error: found 'foot', expected 'hand' after 'by'\n"},
    {"of_a_field_that_is_no_edge",
     {"entity A {\n  view v \"s\"\n  x int show (v of y)\n}\n", 48},
     "t.ent:3:20: error: of for field 'x', expected an edge\n"},
    {"of_a_field_that_is_not_there",
     {"entity A {\n  view v \"s\"\n  x int\n  edge us -> A[] restrict\n  edge up <- A.us ? show (v "
      "of y)\n}\n", 94},
     "t.ent:5:32: error: of 'y', expected a text, bytes, json or enum of entity A\n"},
    {"of_a_number",
     {"entity A {\n  view v \"s\"\n  x int\n  edge us -> A[] restrict\n  edge up <- A.us ? show (v "
      "of x)\n}\n", 94},
     "t.ent:5:32: error: of 'x', expected a text, bytes, json or enum of entity A\n"},
    {"of_in_a_view_that_is_given",
     {"entity A {\n  view v \"s\" given\n  x text\n  edge us -> A[] restrict\n"
      "  edge up <- A.us ? show (v of x)\n}\n", 101},
     "t.ent:5:32: error: of 'x' in view 'v', expected a plain member of a view that is read\n"},
    {"a_view_that_is_not_closed",
     {"entity A {\n  view v \"s\"\n  x int show (v\n}\n", 42},
     "t.ent:4:1: error: found '}', expected of, as, type, has, bit, by hand, is, ',"
     "' or ')' after a view\n"},
    {"a_type_that_nobody_moves_by_hand",
     {"entity A {\n  view v \"s\"\n  x int show (v type bool)\n}\n", 53},
     "t.ent:3:15: error: a type that is not the field's in view 'v', expected by hand\n"},
    {"a_list_that_nobody_moves_by_hand",
     {"entity A {\n  view v \"s\"\n  x json show (v type Part[])\n}\n", 56},
     "t.ent:3:16: error: a type that is not the field's in view 'v', expected by hand\n"},
    {"a_type_that_is_none",
     {"entity A {\n  view v \"s\"\n  x int show (v type bol by hand)\n}\n", 60},
     "t.ent:3:22: error: 'bol' is no name for a type, expected a capital letter, then letters and "
     "digits\n"},
    {"a_type_for_another_language",
     {"entity A {\n  view v \"s\" as V for rust\n  x int show (v)\n}\n", 57},
     "t.ent:2:23: error: unknown language 'rust', expected go or python\n"},
    {"an_empty_file",
     {"", 0},
     "t.ent: error: no entity, expected at least one\n"},
    {"only_a_comment",
     {"# nothing\n", 10},
     "t.ent: error: no entity, expected at least one\n"},
    {"a_table_of_the_engine_in_capitals",
     {"entity A table \"SQLITE_a\" {\n  x int\n}\n", 38},
     "t.ent:1:16: error: the name \"SQLITE_a\" is the database's own, expected another\n"},
    {"the_journals_table_in_capitals",
     {"entity A table \"Ent_Journal\" {\n  x int\n}\n", 41},
     "t.ent:1:16: error: the name \"Ent_Journal\" is the database's own, expected another\n"},
    {"a_cluster_with_a_column_id_in_capitals",
     {"entity A {\n  o int column \"ID\"\n  s int\n  cluster (o, s)\n}\n", 58},
     "t.ent:2:3: error: a clustered entity has a hidden column \"id\", "
     "expected another column name\n"},
    {"a_search_over_a_column_of_the_index_itself",
     {"entity A {\n  rank text\n  search (rank)\n}\n", 41},
     "t.ent:3:11: error: the column \"rank\" is the full-text index's own, "
     "expected column \"...\" with another name\n"},
    {"a_search_over_a_column_rowid",
     {"entity A {\n  t text column \"RowId\"\n  search (t)\n}\n", 50},
     "t.ent:3:11: error: the column \"RowId\" is the full-text index's own, "
     "expected column \"...\" with another name\n"},
    {"a_search_over_a_column_with_the_indexs_name",
     {"entity A {\n  t text column \"as_search\"\n  search (t)\n}\n", 54},
     "t.ent:3:11: error: the column \"as_search\" is the full-text index's own, "
     "expected column \"...\" with another name\n"},
    {"a_block_of_another_kind",
     {"table A {\n}\n", 12},
     "t.ent:1:1: error: found 'table', expected 'entity'\n"},
    {"a_misspelt_entity",
     {"entitty A {\n}\n", 14},
     "t.ent:1:1: error: found 'entitty', expected 'entity'; did you mean 'entity'?\n"},
    {"an_entity_without_a_name",
     {"entity {\n}\n", 11},
     "t.ent:1:8: error: found '{', expected the name of an entity\n"},
    {"an_entity_in_small_letters",
     {"entity thing {\n  x int\n}\n", 25},
     "t.ent:1:8: error: 'thing' is no name for an entity, expected a capital letter, "
     "then letters and digits\n"},
    {"an_entity_with_an_underscore",
     {"entity Big_Thing {\n  x int\n}\n", 29},
     "t.ent:1:8: error: 'Big_Thing' is no name for an entity, expected a capital "
     "letter, then letters and digits\n"},
    {"a_missing_open_brace",
     {"entity A\n  x int\n}\n", 19},
     "t.ent:2:3: error: found 'x', expected table \"name\" or '{'\n"},
    {"a_missing_close_brace",
     {"entity A {\n  x int\n", 19},
     "t.ent:3:1: error: found end of file, expected '}' to end entity A of line 1\n"},
    {"an_entity_inside_another",
     {"entity A {\n  x int\nentity B {\n  y int\n}\n", 40},
     "t.ent:3:1: error: found 'entity', expected '}' to end entity A of line 1\n"},
    {"a_table_without_quotes",
     {"entity A table things {\n  x int\n}\n", 34},
     "t.ent:1:16: error: found 'things', expected a name in double quotes after "
     "'table'\n"},
    {"an_empty_table_name",
     {"entity A table \"\" {\n  x int\n}\n", 30},
     "t.ent:1:16: error: a name of 0 bytes, expected 1 to 63\n"},
    {"an_unknown_type",
     {"entity A {\n  x strng\n}\n", 23},
     "t.ent:2:5: error: unknown type 'strng', expected int, float, bool, string, "
     "text, bytes, time, uuid, json or enum(...); did you mean 'string'?\n"},
    {"a_type_far_from_any",
     {"entity A {\n  x varchar\n}\n", 25},
     "t.ent:2:5: error: unknown type 'varchar', expected int, float, bool, string, "
     "text, bytes, time, uuid, json or enum(...)\n"},
    {"a_missing_type",
     {"entity A {\n  x\n}\n", 17},
     "t.ent:3:1: error: found '}', expected a type\n"},
    {"a_number_as_type",
     {"entity A {\n  x 5\n}\n", 19},
     "t.ent:2:5: error: found '5', expected a type\n"},
    {"a_field_in_capitals",
     {"entity A {\n  Xy int\n}\n", 22},
     "t.ent:2:3: error: 'Xy' is no name for a field, expected a small letter, then "
     "small letters, digits and _\n"},
    {"a_field_that_begins_with_underscore",
     {"entity A {\n  _x int\n}\n", 22},
     "t.ent:2:3: error: '_x' is no name for a field, expected a small letter, then "
     "small letters, digits and _\n"},
    {"a_keyword_as_field",
     {"entity A {\n  class int\n}\n", 25},
     "t.ent:2:3: error: 'class' is a word of C or C++, expected another name for a "
     "field (column \"...\" keeps the column's name)\n"},
    {"a_c_type_as_field",
     {"entity A {\n  size_t int\n}\n", 26},
     "t.ent:2:3: error: 'size_t' is a word of C or C++, expected another name for a "
     "field (column \"...\" keeps the column's name)\n"},
    {"a_reserved_field",
     {"entity A {\n  limit int\n}\n", 25},
     "t.ent:2:3: error: 'limit' is used by the generated code, expected another name "
     "for a field\n"},
    {"a_reserved_prefix",
     {"entity A {\n  with_x int\n}\n", 26},
     "t.ent:2:3: error: 'with_x' is used by the generated code, expected another name "
     "for a field\n"},
    {"search_as_field_beside_search",
     {"entity A {\n  search int\n  t text\n  search (t)\n}\n", 48},
     "t.ent:2:3: error: 'search' is used by the generated code, expected another name "
     "for a field\n"},
    {"an_unknown_attribute",
     {"entity A {\n  x int uniqe\n}\n", 27},
     "t.ent:2:9: error: unknown attribute 'uniqe', expected unique, immutable, "
     "on_update, notempty, len, range, column, was, class, local or show; did you mean "
     "'unique'?\n"},
    {"an_attribute_far_from_any",
     {"entity A {\n  x int primary_key\n}\n", 33},
     "t.ent:2:9: error: unknown attribute 'primary_key', expected unique, immutable, "
     "on_update, notempty, len, range, column, was, class, local or show\n"},
    {"a_stray_symbol_after_a_field",
     {"entity A {\n  x int , y int\n}\n", 29},
     "t.ent:2:9: error: found ',', expected an attribute or the end of the line\n"},
    {"a_question_mark_twice",
     {"entity A {\n  x int??\n}\n", 23},
     "t.ent:2:9: error: found '?', expected an attribute or the end of the line\n"},
    {"an_unknown_character",
     {"entity A {\n  x int;\n}\n", 22},
     "t.ent:2:8: error: the character ';', which has no meaning here\n"},
    {"a_character_of_another_script",
     {"entity A {\n  x int \342\202\254\n}\n", 25},
     "t.ent:2:9: error: the character '\342\202\254', which has no meaning here\n"},
    {"an_open_string",
     {"entity A {\n  x string = \"abc\n}\n", 31},
     "t.ent:2:14: error: end of line in a string, expected text and '\"' to end it\n"},
    {"an_open_string_at_the_end",
     {"entity A {\n  x string = \"abc", 28},
     "t.ent:2:14: error: end of file in a string, expected text and '\"' to end it\n"
     "t.ent:2:18: error: found end of file, expected '}' to end entity A of line 1\n"},
    {"an_unknown_escape",
     {"entity A {\n  x string = \"a\\qb\"\n}\n", 33},
     "t.ent:2:16: error: an unknown escape, expected one of \\\" \\\\ \\n \\t \\r\n"},
    {"a_number_with_letters",
     {"entity A {\n  x int = 12ab\n}\n", 28},
     "t.ent:2:11: error: '12ab' is no number, expected one such as 42 or 0x2a\n"},
    {"a_number_past_64_bits",
     {"entity A {\n  x int = 9223372036854775808\n}\n", 43},
     "t.ent:2:11: error: 9223372036854775808 does not fit 64 bits\n"},
    {"a_float_past_the_range",
     {"entity A {\n  x float = 1e999\n}\n", 31},
     "t.ent:2:13: error: '1e999' is no number, expected one such as -1.5e3\n"},
    {"a_lone_exponent",
     {"entity A {\n  x float = 1.5e\n}\n", 30},
     "t.ent:2:13: error: '1.5e' is no number, expected one such as -1.5e3\n"},
    {"a_nul_byte",
     {"entity A {\n  x int\000\n}\n", 22},
     "t.ent:2:8: error: a NUL byte, expected UTF-8 text\n"},
    {"bytes_that_are_no_utf8",
     {"entity A {\n  # \377\n}\n", 19},
     "t.ent:2:5: error: a byte that is no part of valid UTF-8, expected UTF-8 text\n"},
    {"a_control_character",
     {"entity A {\n  x int \001\n}\n", 23},
     "t.ent:2:9: error: a control character, expected text\n"},
    {"a_control_character_in_a_string",
     {"entity A {\n  x string = \"a\001b\"\n}\n", 32},
     "t.ent:2:14: error: a control character in a string, expected text and '\"' to "
     "end it\n"},
    {"an_enum_without_labels",
     {"entity A {\n  x enum\n}\n", 22},
     "t.ent:3:1: error: found '}', expected '(' and the labels of the enum\n"},
    {"an_enum_with_an_empty_list",
     {"entity A {\n  x enum()\n}\n", 24},
     "t.ent:2:10: error: found ')', expected the name of a label\n"},
    {"an_enum_label_in_capitals",
     {"entity A {\n  x enum(Red)\n}\n", 27},
     "t.ent:2:10: error: 'Red' is no name for a label, expected a small letter, then "
     "small letters, digits and _\n"},
    {"an_enum_label_twice",
     {"entity A {\n  x enum(red, green, red)\n}\n", 39},
     "t.ent:2:22: error: label 'red' is there already, expected another\n"},
    {"a_missing_comma_between_labels",
     {"entity A {\n  x enum(red green)\n}\n", 33},
     "t.ent:2:14: error: found 'green', expected ',' or ')' after a label\n"},
    {"a_default_that_is_no_label",
     {"entity A {\n  x enum(red, green) = gren\n}\n", 41},
     "t.ent:2:24: error: 'gren' is no label of the enum; did you mean 'green'?\n"},
    {"a_text_default_for_an_int",
     {"entity A {\n  x int = \"5\"\n}\n", 27},
     "t.ent:2:11: error: a default that does not go with type int, expected a whole "
     "number\n"},
    {"a_fraction_for_an_int",
     {"entity A {\n  x int = 1.5\n}\n", 27},
     "t.ent:2:11: error: a default that does not go with type int, expected a whole "
     "number\n"},
    {"a_number_for_a_bool",
     {"entity A {\n  x bool = 1\n}\n", 26},
     "t.ent:2:12: error: a default that does not go with type bool, expected true or "
     "false\n"},
    {"a_number_for_a_text",
     {"entity A {\n  x text = 1\n}\n", 26},
     "t.ent:2:12: error: a default that does not go with type text, expected a string\n"},
    {"random_for_a_time",
     {"entity A {\n  x time = random\n}\n", 31},
     "t.ent:2:12: error: a default that does not go with type time, expected now\n"},
    {"now_for_a_uuid",
     {"entity A {\n  x uuid = now\n}\n", 28},
     "t.ent:2:12: error: a default that does not go with type uuid, expected random\n"},
    {"now_for_an_int",
     {"entity A {\n  x int = now\n}\n", 27},
     "t.ent:2:11: error: a default that does not go with type int, expected a whole "
     "number\n"},
    {"a_default_for_bytes",
     {"entity A {\n  x bytes = \"a\"\n}\n", 29},
     "t.ent:2:13: error: a default that does not go with type bytes, expected none\n"},
    {"a_default_that_is_no_json",
     {"entity A {\n  x json = \"{a\"\n}\n", 29},
     "t.ent:2:12: error: a default that is no JSON: at its byte 1, expected a key in "
     "quotes\n"},
    {"a_missing_default",
     {"entity A {\n  x int =\n}\n", 23},
     "t.ent:3:1: error: found '}', expected a default: a number, true, false, a "
     "string, now, random or an enum's label\n"},
    {"on_update_on_an_int",
     {"entity A {\n  x int on_update\n}\n", 31},
     "t.ent:2:9: error: on_update on a field of type int, expected type time\n"},
    {"on_update_and_immutable",
     {"entity A {\n  x time immutable on_update\n}\n", 42},
     "t.ent:2:20: error: a field cannot be both immutable and on_update\n"},
    {"notempty_on_an_int",
     {"entity A {\n  x int notempty\n}\n", 30},
     "t.ent:2:9: error: notempty on a field of type int, expected string, text or "
     "bytes\n"},
    {"unique_on_json",
     {"entity A {\n  x json unique\n}\n", 29},
     "t.ent:2:10: error: unique on a field of type json, expected another type\n"},
    {"len_on_an_int",
     {"entity A {\n  x int len(1..2)\n}\n", 31},
     "t.ent:2:9: error: len on a field of type int, expected string, text or bytes\n"},
    {"range_on_a_text",
     {"entity A {\n  x text range(1..2)\n}\n", 34},
     "t.ent:2:10: error: range on a field of type text, expected int or float\n"},
    {"a_fraction_as_length",
     {"entity A {\n  x text len(1..2.5)\n}\n", 34},
     "t.ent:2:17: error: a fraction as a length, expected a whole number of bytes\n"},
    {"a_negative_length",
     {"entity A {\n  x text len(-1..2)\n}\n", 33},
     "t.ent:2:14: error: a length of -1, expected 0 to 134217728\n"},
    {"a_length_rule_backwards",
     {"entity A {\n  x text len(5..2)\n}\n", 32},
     "t.ent:2:14: error: an empty length rule, expected the smaller number first\n"},
    {"a_range_backwards",
     {"entity A {\n  x int range(5..2)\n}\n", 33},
     "t.ent:2:15: error: an empty range, expected the smaller number first\n"},
    {"a_fraction_in_an_int_range",
     {"entity A {\n  x int range(0..1.5)\n}\n", 35},
     "t.ent:2:18: error: a fraction in the range of an int, expected a whole number\n"},
    {"bounds_without_dots",
     {"entity A {\n  x int range(1, 2)\n}\n", 33},
     "t.ent:2:16: error: found ',', expected '..' between the bounds\n"},
    {"bounds_without_parentheses",
     {"entity A {\n  x int range 1..2\n}\n", 32},
     "t.ent:2:15: error: found '1', expected '(' and the bounds\n"},
    {"a_word_as_bound",
     {"entity A {\n  x int range(low..2)\n}\n", 35},
     "t.ent:2:15: error: found 'low', expected a number\n"},
    {"two_rules",
     {"entity A {\n  x text len(1..2) len(1..3)\n}\n", 42},
     "t.ent:2:20: error: a second rule 'len', expected at most one len or range\n"},
    {"a_default_outside_its_range",
     {"entity A {\n  x int = 7 range(1..5)\n}\n", 37},
     "t.ent:2:11: error: a default outside of the field's own range\n"},
    {"a_float_default_outside_its_range",
     {"entity A {\n  x float = 7.5 range(1..5)\n}\n", 41},
     "t.ent:2:13: error: a default outside of the field's own range\n"},
    {"a_default_shorter_than_its_rule",
     {"entity A {\n  x string = \"a\" len(2..5)\n}\n", 40},
     "t.ent:2:14: error: a default of 1 bytes, expected 2 to 5 by its own rule\n"},
    {"an_empty_default_for_notempty",
     {"entity A {\n  x string = \"\" notempty\n}\n", 38},
     "t.ent:2:14: error: an empty default, but the field is notempty\n"},
    {"a_column_without_quotes",
     {"entity A {\n  x int column foo\n}\n", 32},
     "t.ent:2:16: error: found 'foo', expected a name in double quotes after 'column'\n"},
    {"a_column_twice",
     {"entity A {\n  x int column \"c\"\n  y int column \"C\"\n}\n", 51},
     "t.ent:3:16: error: column \"C\" is there already, at t.ent:2\n"},
    {"a_former_name_that_is_the_name",
     {"entity A {\n  x int was \"x\"\n}\n", 29},
     "t.ent:2:13: error: was \"x\" names the column of today, expected a former one\n"},
    {"a_former_name_of_another_column",
     {"entity A {\n  x int was \"y\"\n  y int\n}\n", 37},
     "t.ent:2:13: error: was \"y\" is a column of today, at t.ent:3\n"},
    {"a_field_twice",
     {"entity A {\n  x int\n  x text column \"z\"\n}\n", 41},
     "t.ent:3:3: error: field 'x' is there already, at t.ent:2\n"},
    {"an_entity_twice",
     {"entity A {\n  x int\n}\nentity A {\n  x int\n}\n", 42},
     "t.ent:4:8: error: entity A is there already, at t.ent:1\n"},
    {"a_table_twice",
     {"entity A table \"t\" {\n  x int\n}\nentity B table \"T\" {\n  x int\n}\n", 62},
     "t.ent:4:16: error: the name \"T\" is taken in the database, at t.ent:1\n"},
    {"a_table_of_the_database",
     {"entity A table \"sqlite_a\" {\n  x int\n}\n", 38},
     "t.ent:1:16: error: the name \"sqlite_a\" is the database's own, expected another\n"},
    {"an_index_name_twice",
     {"entity A {\n  x int\n  y int\n  index (x) name \"i\"\n  index (y) name \"i\"\n}\n", 71},
     "t.ent:5:18: error: the name \"i\" is taken in the database, at t.ent:4\n"},
    {"the_same_index_twice",
     {"entity A {\n  x int\n  index (x)\n  index (x) name \"i\"\n}\n", 54},
     "t.ent:4:3: error: the same index is there already, at t.ent:3\n"},
    {"a_unique_field_with_the_same_index",
     {"entity A {\n  x int unique\n  unique index (x) name \"i\"\n}\n", 56},
     "t.ent:3:3: error: the same index is there already, at t.ent:2\n"},
    {"entities_that_collide_in_c",
     {"entity Session {\n  x int\n}\nentity SessionNew {\n  x int\n}\n", 57},
     "t.ent:4:8: error: 'SessionNew' would generate the C name session_new, which "
     "'Session' at t.ent:1 generates, too\n"},
    {"an_enum_that_collides_in_c",
     {"entity Session {\n  list enum(a, b)\n}\n", 37},
     "t.ent:2:3: error: 'list' would generate the C name session_list, which "
     "'Session' at t.ent:1 generates, too\n"},
    {"an_entity_that_is_a_keyword",
     {"entity Int {\n  x int\n}\n", 23},
     "t.ent:1:8: error: entity Int would be the C type int, a keyword; expected "
     "another name or a prefix\n"},
    {"an_entity_of_the_runtime",
     {"entity EntItem {\n  x int\n}\n", 27},
     "t.ent:1:8: error: entity EntItem would be the C type ent_item, which the "
     "generated code uses; expected another name or a prefix\n"},
    {"an_entity_named_as_a_parameter",
     {"entity Db {\n  x int\n}\n", 22},
     "t.ent:1:8: error: entity Db would be the C type db, which the generated code "
     "uses; expected another name or a prefix\n"},
    {"an_index_over_an_unknown_field",
     {"entity A {\n  title int\n  index (titel)\n}\n", 41},
     "t.ent:3:10: error: entity A has no field 'titel'; did you mean 'title'?\n"},
    {"an_index_over_json",
     {"entity A {\n  x json\n  index (x)\n}\n", 34},
     "t.ent:3:10: error: 'x' is json, which no index can hold\n"},
    {"an_index_with_a_field_twice",
     {"entity A {\n  x int\n  index (x, x)\n}\n", 36},
     "t.ent:3:13: error: 'x' is in the list already\n"},
    {"an_index_without_fields",
     {"entity A {\n  x int\n  index ()\n}\n", 32},
     "t.ent:3:10: error: found ')', expected the name of a field or an edge\n"},
    {"an_index_without_a_comma",
     {"entity A {\n  x int\n  y int\n  index (x y)\n}\n", 43},
     "t.ent:4:12: error: found 'y', expected desc, ',' or ')' after a name\n"},
    {"an_index_name_without_quotes",
     {"entity A {\n  x int\n  index (x) name foo\n}\n", 42},
     "t.ent:3:18: error: found 'foo', expected a name in double quotes after 'name'\n"},
    {"two_keys",
     {"entity A {\n  x int\n  key (x)\n  key (x)\n}\n", 41},
     "t.ent:4:3: error: a second key, expected one: the first is at t.ent:3\n"},
    {"an_optional_key",
     {"entity A {\n  x int?\n  key (x)\n}\n", 32},
     "t.ent:3:8: error: 'x' is optional, expected a required field in a key\n"},
    {"a_json_key",
     {"entity A {\n  x json\n  key (x)\n}\n", 32},
     "t.ent:3:8: error: 'x' cannot be part of a key, expected int, bool, string, "
     "bytes, time, uuid or enum\n"},
    {"a_key_that_changes_by_itself",
     {"entity A {\n  x time on_update\n  key (x)\n}\n", 42},
     "t.ent:3:8: error: 'x' changes by itself, expected a field without on_update in "
     "a key\n"},
    {"a_float_id",
     {"entity A {\n  id float\n}\n", 24},
     "t.ent:2:3: error: 'id' cannot be part of a key, expected int, bool, string, "
     "bytes, time, uuid or enum\n"},
    {"a_unique_id",
     {"entity A {\n  id int unique\n}\n", 29},
     "t.ent:2:10: error: 'id' is the key and so unique already\n"},
    {"an_id_with_a_constant_default",
     {"entity A {\n  id int = 5\n}\n", 26},
     "t.ent:2:12: error: 'id' is the key, expected no constant default\n"},
    {"a_cluster_of_one",
     {"entity A {\n  x int\n  cluster (x)\n}\n", 35},
     "t.ent:3:3: error: a cluster of 1 fields, expected two: owner, sequence\n"},
    {"a_cluster_with_a_text",
     {"entity A {\n  x int\n  y string\n  cluster (x, y)\n}\n", 49},
     "t.ent:4:15: error: 'y' is no int, expected two int fields in a cluster\n"},
    {"a_cluster_with_a_column_id",
     {"entity A {\n  id int\n  y int\n  cluster (id, y)\n}\n", 48},
     "t.ent:2:3: error: a clustered entity has a hidden column \"id\", expected another "
     "column name\n"},
    {"a_search_over_an_int",
     {"entity A {\n  x int\n  search (x)\n}\n", 34},
     "t.ent:3:11: error: 'x' cannot be searched, expected a string or text field\n"},
    {"a_search_over_a_field_twice",
     {"entity A {\n  x text\n  search (x, x)\n}\n", 38},
     "t.ent:3:14: error: 'x' is in the list already\n"},
    {"a_search_beside_a_uuid_key",
     {"entity A {\n  id uuid\n  x text\n  search (x)\n}\n", 45},
     "t.ent:4:3: error: search needs a key that is one int, or a cluster; A has "
     "another key\n"},
    {"two_searches",
     {"entity A {\n  x text\n  search (x)\n  search (x)\n}\n", 48},
     "t.ent:4:3: error: a second search, expected one: the first is at t.ent:3\n"},
    {"an_edge_to_nobody",
     {"entity A {\n  edge bs -> B[] cascade\n}\n", 38},
     "t.ent:2:14: error: unknown entity 'B'\n"},
    {"an_edge_to_a_misspelt_entity",
     {"entity Person {\n  edge pets -> Anmial[] cascade\n}\nentity Animal {\n"
      "  edge owner <- Person.pets\n}\n", 96},
     "t.ent:2:16: error: unknown entity 'Anmial'; did you mean 'Animal'?\n"},
    {"an_edge_without_an_inverse",
     {"entity A {\n  edge bs -> B[] cascade\n}\nentity B {\n  x int\n}\n", 59},
     "t.ent:2:8: error: edge 'bs' has no inverse, expected in B: edge ... <- A.bs\n"},
    {"an_edge_without_its_owner",
     {"entity A {\n  x int\n}\nentity B {\n  edge a <- A.bs\n}\n", 51},
     "t.ent:5:15: error: entity A has no edge 'bs', expected there: edge bs -> B[] "
     "cascade\n"},
    {"an_edge_that_leads_elsewhere",
     {"entity A {\n  edge cs -> C[] cascade\n}\nentity B {\n  edge a <- A.cs\n}\n"
      "entity C {\n  edge a <- A.cs\n}\n", 98},
     "t.ent:5:15: error: edge 'cs' of A does not lead here, expected -> B\n"},
    {"an_edge_with_two_inverses",
     {"entity A {\n  edge bs -> B[] cascade\n}\nentity B {\n  edge a <- A.bs\n"
      "  edge b <- A.bs\n}\n", 85},
     "t.ent:6:15: error: edge 'bs' of A has an inverse already, at t.ent:5\n"},
    {"an_edge_without_a_rule",
     {"entity A {\n  edge bs -> B[]\n}\nentity B {\n  edge a <- A.bs\n}\n", 60},
     "t.ent:3:1: error: found '}', expected what a delete does: cascade, restrict or "
     "set_null\n"},
    {"an_edge_with_a_misspelt_rule",
     {"entity A {\n  edge bs -> B[] cascde\n}\nentity B {\n  edge a <- A.bs\n}\n", 67},
     "t.ent:2:18: error: found 'cascde', expected what a delete does: cascade, "
     "restrict or set_null; did you mean 'cascade'?\n"},
    {"an_edge_without_an_arrow",
     {"entity A {\n  edge bs B\n}\n", 25},
     "t.ent:2:11: error: found 'B', expected '->' to an entity or '<-' from one\n"},
    {"an_inverse_without_a_dot",
     {"entity A {\n  edge b <- B\n}\n", 27},
     "t.ent:3:1: error: found '}', expected '.' and the name of the edge there\n"},
    {"set_null_on_a_required_edge",
     {"entity A {\n  edge bs -> B[] set_null\n}\nentity B {\n  edge a <- A.bs\n}\n", 69},
     "t.ent:5:8: error: edge 'bs' of A says set_null, expected '?' after A.bs to let "
     "it\n"},
    {"set_null_on_an_immutable_edge",
     {"entity A {\n  edge bs -> B[] set_null\n}\nentity B {\n"
      "  edge a <- A.bs? immutable\n}\n", 80},
     "t.ent:5:8: error: edge 'bs' of A says set_null, but this side is immutable\n"},
    {"an_edge_to_a_composite_key",
     {"entity A {\n  x int\n  y int\n  key (x, y)\n  edge bs -> B[] cascade\n}\n"
      "entity B {\n  edge a <- A.bs\n}\n", 97},
     "t.ent:8:13: error: A cannot be referred to, expected an entity whose key is one "
     "int, uuid, string or bytes field\n"},
    {"keys_made_of_each_other",
     {"entity A {\n  edge bs -> B[] cascade\n  edge b <- B.as\n  key (b)\n}\nentity B {\n"
      "  edge as -> A[] cascade\n  edge a <- A.bs\n  key (a)\n}\n", 130},
     "t.ent:3:8: error: the keys of A and B are made of each other\n"},
    {"an_edge_named_as_a_field",
     {"entity A {\n  bs int\n  edge bs -> B[] cascade\n}\nentity B {\n  edge a <- A.bs\n"
      "}\n", 77},
     "t.ent:3:8: error: 'bs' is there already, at t.ent:2\n"},
    {"an_edge_whose_key_is_there",
     {"entity A {\n  edge bs -> B[] cascade\n}\nentity B {\n  a_id int\n"
      "  edge a <- A.bs column \"z\"\n}\n", 90},
     "t.ent:6:8: error: field 'a_id' is there already, at t.ent:5\n"},
    {"a_keyword_as_edge",
     {"entity A {\n  edge bs -> B[] cascade\n}\nentity B {\n  edge this <- A.bs\n}\n", 71},
     "t.ent:5:8: error: 'this' is a word of C or C++, expected another name for an "
     "edge\n"},
    {"something_after_an_edge",
     {"entity A {\n  edge bs -> B[] cascade foo\n}\nentity B {\n  edge a <- A.bs\n}\n", 72},
     "t.ent:2:26: error: found 'foo', expected the end of the line\n"},
    {"two_schema_blocks",
     {"schema a {\n}\nschema b {\n}\nentity A {\n  x int\n}\n", 47},
     "t.ent:3:1: error: a second schema block, expected one: the first is at t.ent:1\n"},
    {"a_schema_block_after_an_entity",
     {"entity A {\n  x int\n}\nschema b {\n}\n", 34},
     "t.ent:4:1: error: found 'schema', expected the schema block before the entities "
     "of the file\n"},
    {"an_unknown_setting",
     {"schema a {\n  prefx b\n}\nentity A {\n  x int\n}\n", 44},
     "t.ent:2:3: error: found 'prefx', expected prefix, application_id, version, "
     "min_reader, min_writer, classes, include or '}'; did you mean 'prefix'?\n"},
    {"an_application_id_past_32_bits",
     {"schema a {\n  application_id 0x100000000\n}\nentity A {\n  x int\n}\n", 63},
     "t.ent:2:18: error: found '0x100000000', expected a number from 0 to 4294967295 "
     "for application_id\n"},
    {"a_version_of_zero",
     {"schema a {\n  version 0\n}\nentity A {\n  x int\n}\n", 46},
     "t.ent:2:11: error: found '0', expected a number from 1 to 4294967295 for "
     "version\n"},
    {"a_version_below_its_reader",
     {"schema a {\n  min_reader 2\n}\nentity A {\n  x int\n}\n", 49},
     "t.ent:1:8: error: version 1 is below min_reader or min_writer: this program "
     "could not use its own files\n"},
    {"an_open_schema_block",
     {"schema a {\n  version 1\n", 23},
     "t.ent:3:1: error: found end of file, expected '}' to end the schema block\n"},
    {"two_mistakes",
     {"entity A {\n  x strng\n  y int uniqe\n}\n", 37},
     "t.ent:2:5: error: unknown type 'strng', expected int, float, bool, string, "
     "text, bytes, time, uuid, json or enum(...); did you mean 'string'?\n"
     "t.ent:3:9: error: unknown attribute 'uniqe', expected unique, immutable, "
     "on_update, notempty, len, range, column, was, class, local or show; did you mean "
     "'unique'?\n"},
    {"a_second_shard",
     {"entity A {\n  x string\n  shard (x)\n  shard (x)\n}\n", 48},
     "t.ent:4:3: error: a second shard, expected one: the first is at t.ent:3\n"},
    {"a_shard_of_nothing_that_is_there",
     {"entity A {\n  x string\n  shard (y)\n}\n", 36},
     "t.ent:3:10: error: entity A has no field 'y'\n"},
    {"a_shard_of_a_float",
     {"entity A {\n  x float\n  shard (x)\n}\n", 35},
     "t.ent:3:10: error: 'x' gives no shard, expected string fields behind at most o"
     "ne required int\n"},
    {"a_shard_with_its_int_behind",
     {"entity A {\n  x string\n  n int\n  shard (x, n)\n}\n", 47},
     "t.ent:4:13: error: 'n' gives no shard, expected string fields behind at most o"
     "ne required int\n"},
    {"a_shard_of_too_many_texts",
     {"entity A {\n  a string\n  b string\n  c string\n  d string\n  e string\n  f st"
      "ring\n  g string\n  shard (a, b, c, d, e, f, g)\n}\n", 120},
     "t.ent:9:28: error: 'g' is a text too many for a shard, expected at most 6\n"},
    {"a_shard_key_that_is_no_uuid",
     {"entity A {\n  x string\n  shard (id, x) key x\n}\n", 46},
     "t.ent:3:21: error: 'x' is no required uuid, expected one as key\n"},
    {"a_shard_key_without_the_own_number",
     {"entity A {\n  x string\n  u uuid\n  shard (x) key u\n}\n", 51},
     "t.ent:4:17: error: a shard with a key of its own, expected the entity's own id"
     " in front of texts\n"},
    {"a_shard_by_a_keyword",
     {"entity A {\n  x string\n  shard (x) by while\n}\n", 45},
     "t.ent:3:16: error: 'while' is a keyword, expected the name of a function\n"},
    {"a_unique_index_that_gives_no_shard",
     {"entity A {\n  x string\n  y string\n  shard (x)\n  unique index (y)\n}\n", 66},
     "t.ent:5:3: error: a unique index that does not give the shard, expected one th"
     "at begins with its int or has all its texts\n"},
    {"a_unique_field_that_gives_no_shard",
     {"entity A {\n  x string\n  y string unique\n  shard (x)\n}\n", 54},
     "t.ent:3:3: error: a unique index that does not give the shard, expected one th"
     "at begins with its int or has all its texts\n"},
    {"a_column_of_shards",
     {"entity A {\n  x string column \"part\"\n  y int column \"y_part\"\n  shard (x)"
      "\n}\n", 74},
     "t.ent:2:3: error: the column \"part\" is one of shards, expected another colum"
     "n name\nt.ent:3:3: error: the column \"y_part\" is one of shards, expected ano"
     "ther column name\n"},
    {"an_owner_whose_key_the_entity_has",
     {"entity A {\n  u uuid\n  x string\n  edge bs -> B[] cascade\n  shard (id, x) ke"
      "y u\n}\nentity B {\n  s int\n  u int\n  edge a <- A.bs\n  cluster (a, s)\n  sh"
      "ard (a)\n}\n", 155},
     "t.ent:12:3: error: B has a 'u' of its own, which stands for A in its keys\n"},
    {"an_owner_that_does_not_begin_the_key",
     {"entity A {\n  u uuid\n  x string\n  edge bs -> B[] cascade\n  shard (id, x) ke"
      "y u\n}\nentity B {\n  s int\n  edge a <- A.bs\n  key (s, a)\n  shard (a)\n}\n", 143},
     "t.ent:11:3: error: the key of B does not begin with 'a_id', which gives its sh"
     "ard\n"},
    {"an_entity_without_a_shard_among_others",
     {"entity A {\n  x string\n  shard (x)\n}\nentity B {\n  y int\n}\n", 57},
     "t.ent:5:8: error: entity B has no shard, expected one as others have\n"},
    {"a_shard_of_an_optional_int",
     {"entity A {\n  n int?\n  shard (n)\n}\n", 34},
     "t.ent:3:10: error: 'n' gives no shard, expected string fields behind at most o"
     "ne required int\n"},
};
/* clang-format on */

#define ERRORS_COUNT (sizeof(errors_cases) / sizeof(errors_cases[0]))

static void every_mistake_is_reported_with_its_place(void **state)
{
    size_t wrong = 0;

    (void)state;
    assert_true(ERRORS_COUNT >= 60);
    for (size_t i = 0; i < ERRORS_COUNT; i++) {
        const errors_case *c = &errors_cases[i];
        eg_run run;
        eg_schema schema;
        bool good = t_load(&run, &schema, c->text);
        const char *errors = qp_buf_str(&run.errors).p;
        if (good || strcmp(errors, c->errors) != 0) {
            print_error("%s:\nexpected: %sfound:    %s\n", c->name, c->errors, errors);
            wrong++;
        }
        eg_run_free(&run);
    }
    assert_int_equal(wrong, 0);
}

static void at_most_twenty_errors_are_shown(void **state)
{
    eg_run run;
    eg_schema schema;
    qp_buf text;
    size_t lines = 0;

    (void)state;
    qp_buf_init(&text, EG_SOURCE_MAX);
    qp_buf_puts(&text, "entity Thing {\n");
    for (int i = 0; i < EG_ERRORS_MAX + 1; i++) {
        qp_buf_printf(&text, "  x%d wrong\n", i);
    }
    qp_buf_puts(&text, "}\n");
    assert_false(t_load(&run, &schema, qp_buf_str(&text)));
    for (const char *c = qp_buf_str(&run.errors).p; *c != '\0'; c++) {
        lines += *c == '\n' ? 1 : 0;
    }
    assert_int_equal(run.error_count, EG_ERRORS_MAX + 1);
    assert_int_equal(lines, EG_ERRORS_MAX + 1);
    assert_non_null(strstr(qp_buf_str(&run.errors).p, "too many errors; the rest is not shown"));
    assert_null(strstr(qp_buf_str(&run.errors).p, "t.ent:22:"));
    eg_run_free(&run);
    qp_buf_free(&text);
}

static void the_errors_of_twenty_are_all_shown(void **state)
{
    eg_run run;
    eg_schema schema;
    qp_buf text;

    (void)state;
    qp_buf_init(&text, EG_SOURCE_MAX);
    qp_buf_puts(&text, "entity Thing {\n");
    for (int i = 0; i < EG_ERRORS_MAX; i++) {
        qp_buf_printf(&text, "  x%d wrong\n", i);
    }
    qp_buf_puts(&text, "}\n");
    assert_false(t_load(&run, &schema, qp_buf_str(&text)));
    assert_int_equal(run.error_count, EG_ERRORS_MAX);
    assert_null(strstr(qp_buf_str(&run.errors).p, "too many"));
    assert_non_null(strstr(qp_buf_str(&run.errors).p, "t.ent:21:"));
    eg_run_free(&run);
    qp_buf_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mistake_is_reported_with_its_place),
        cmocka_unit_test(at_most_twenty_errors_are_shown),
        cmocka_unit_test(the_errors_of_twenty_are_all_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
