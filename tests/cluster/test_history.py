#!/usr/bin/env python3
"""The checker of the cluster test against histories with one thing wrong."""

import unittest

import history

S = 1_000_000_000


def log(*lines):
    return history.read_log(lines)


class History(unittest.TestCase):
    """Two threads, two sessions; each test spoils one thing."""

    def setUp(self):
        self.logs = {
            "w0.0": log(
                f"{1 * S} invoke w0.0.1 a", f"{2 * S} ok w0.0.1 1 new",
                f"{2 * S} invoke w0.0.2 b", f"{9 * S} unknown w0.0.2 UNKNOWN the commit failed",
                f"{9 * S} again w0.0.2 b", f"{9 * S} failed w0.0.2 IO cannot connect: no",
                f"{9 * S} again w0.0.2 b", f"{10 * S} ok w0.0.2 1 repeated",
            ),
            "w0.1": log(
                f"{1 * S} invoke w0.1.1 a", f"{3 * S} ok w0.1.1 2 new",
                f"{3 * S} invoke w0.1.2 a", f"{4 * S} failed w0.1.2 BUSY others held it",
                f"{4 * S} invoke w0.1.3 a", f"{6 * S} ok w0.1.3 3 new",
                f"{6 * S} invoke w0.1.4 b",
            ),
        }
        self.rows = history.read_dump("a 1 w0.0.1\na 2 w0.1.1\na 3 w0.1.3\nb 1 w0.0.2\n")

    def problems(self, minority=()):
        verdict = history.check(self.logs, self.rows, minority)
        found = {kind: verdict.count(kind) for kind in verdict.KINDS if verdict.count(kind)}
        self.assertEqual(verdict.good, not found)
        self.assertEqual(len(list(verdict.lines())), sum(found.values()))
        return found

    def test_a_right_history_has_no_problem(self):
        self.assertEqual(self.problems([("w9", 0, 20 * S)]), {})

    def test_what_had_no_answer_yet_may_be_stored_or_not(self):
        self.rows.append(("b", 2, "w0.1.4"))
        self.assertEqual(self.problems(), {})

    def test_an_acknowledged_event_that_is_not_stored_is_lost(self):
        self.rows = [row for row in self.rows if row[2] != "w0.1.3"]
        self.assertEqual(self.problems(), {"lost": 1})

    def test_a_resolved_event_that_is_not_stored_is_lost(self):
        self.rows = [row for row in self.rows if row[2] != "w0.0.2"]
        self.assertEqual(self.problems(), {"lost": 1})

    def test_an_event_that_is_stored_twice_is_duplicated(self):
        self.rows.insert(3, ("a", 4, "w0.1.3"))
        self.assertEqual(self.problems(), {"duplicated": 1, "renumbered": 1})

    def test_a_number_that_is_missing_is_a_gap(self):
        self.rows = [("a", 4, n) if n == "w0.1.3" else (s, q, n) for s, q, n in self.rows]
        self.assertEqual(self.problems(), {"gaps": 1, "renumbered": 1})

    def test_a_failed_event_must_not_be_stored(self):
        self.rows.insert(2, ("a", 3, "w0.1.2"))
        self.rows[3] = ("a", 4, "w0.1.3")
        self.assertEqual(self.problems(), {"after all": 1, "renumbered": 1})

    def test_an_event_that_nobody_sent_is_a_stranger(self):
        self.rows.append(("b", 2, "w7.0.1"))
        self.assertEqual(self.problems(), {"strangers": 1})

    def test_events_of_one_thread_stay_in_their_order(self):
        self.rows[1], self.rows[2] = ("a", 2, "w0.1.3"), ("a", 3, "w0.1.1")
        self.assertEqual(self.problems(), {"disordered": 1, "renumbered": 2})

    def test_an_unknown_outcome_must_be_resolved(self):
        self.logs["w0.0"][1].ok_ns = 0
        self.assertEqual(self.problems(), {"unresolved": 1})

    def test_the_minority_acknowledges_nothing(self):
        self.assertEqual(self.problems([("w0", 2 * S, 9 * S)]), {"minority": 1})

    def test_what_was_on_its_way_at_the_cut_is_not_the_minoritys(self):
        self.assertEqual(self.problems([("w0", 5 * S, 9 * S)]), {})

    def test_gaps_and_failovers_are_measured_between_acknowledgements(self):
        self.assertEqual(history.worst_gaps_ns(self.logs["w0.0"]), (8 * S, 0))
        self.assertEqual(history.worst_gaps_ns(self.logs["w0.1"]), (3 * S, 0))
        self.assertEqual(history.worst_gaps_ns([]), (0, 0))
        self.assertEqual(history.failover_ns(self.logs, 3 * S), 3 * S)
        self.assertIsNone(history.failover_ns(self.logs, 10 * S))
        self.assertEqual(history.median_s([3 * S, 5 * S, 4 * S]), 4.0)

    def test_a_gap_while_nobody_could_lead_is_counted_apart(self):
        log_of = self.logs["w0.0"]
        self.assertEqual(history.worst_gaps_ns(log_of, [(3 * S, 4 * S)]), (1 * S, 8 * S))
        self.assertEqual(history.worst_gaps_ns(log_of, [(10 * S, 12 * S)]), (8 * S, 0))


if __name__ == "__main__":
    unittest.main()
