"""What an operator and a program do with a distributed store, through any node: distribute, look,
separate tenants, wait, add and lose workers. run.py starts the servers and calls main()."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

import harness  # noqa: E402  pylint: disable=wrong-import-position

from nodes import Node  # noqa: E402  pylint: disable=wrong-import-position


class Operations(harness.Case):
    """Each test has a schema of its own. `nodes` is the coordinator and its workers."""

    nodes = []
    stores = 0

    def setUp(self):
        super().setUp()
        type(self).stores += 1
        self.schema = f"operations_{self.stores}"
        self.coordinator, self.workers = self.nodes[0], self.nodes[1:]

    def make_schema(self, owner="quipu"):
        self.coordinator.sql(f"CREATE SCHEMA {self.schema} AUTHORIZATION {owner}",
                             f"GRANT USAGE ON SCHEMA {self.schema} TO PUBLIC")

    def uri(self, node, more=""):
        """Of this test's store; without the database's wish that its stores are distributed."""
        return node.uri(f"&options=-csearch_path%3D{self.schema}%20-cquipu.distribute%3D{more}")

    def on(self, node, verb, *args, more="", **kwargs):
        return self.run_quipu(verb, "--store", self.uri(node, more), *args, **kwargs)

    def say(self, node, key, text, *args, **kwargs):
        return self.on(node, "append", "--create", "--user", key, "--app", "a", key, "--text", text,
                       *args, **kwargs)

    def ask(self, node, sql):
        """Of the schema, as the superuser."""
        return node.sql(f"SET search_path = {self.schema}", sql)

    # ---- distributing -------------------------------------------------------------------------

    def test_a_store_with_rows_is_distributed_as_it_is(self):
        self.make_schema()
        for i in range(9):
            self.say(self.coordinator, f"k{i}", f"word {i}")
        self.on(self.coordinator, "fork", "k1", "forked")
        self.on(self.coordinator, "search", "word")
        before = self.on(self.coordinator, "export").raw_out
        refused = self.on(self.workers[0], "init", "--distribute", "citus", code=1).err
        self.assertIn("name the coordinator", refused)
        self.on(self.coordinator, "init", "--distribute", "citus")
        tables = ("SELECT count(*) FILTER (WHERE p.partmethod = 'h'), count(*) FILTER (WHERE "
                  "p.partmethod = 'n'), count(*) FROM pg_tables t LEFT JOIN pg_dist_partition p ON "
                  "p.logicalrelid = CAST(quote_ident(t.schemaname) || '.' || "
                  f"quote_ident(t.tablename) AS regclass) WHERE t.schemaname = '{self.schema}' AND "
                  "t.tablename !~ '_[0-9]+$'")
        spread, local, total = self.coordinator.sql(tables).split("|")
        self.assertEqual((local, int(total)), ("2", int(spread) + 2))
        for node in self.nodes:
            self.assertEqual(self.on(node, "export").raw_out, before)
            self.assertIn("no problems", self.on(node, "verify").out)
            self.assertEqual(self.on(node, "search", "word").out.count("[word]"), 9)
        self.assertIn("exists already", self.on(self.coordinator, "init", "--distribute",
                                                "citus").out)

    def test_a_store_in_use_is_distributed_and_loses_nothing(self):
        self.make_schema()
        writer = os.path.join(os.path.dirname(os.path.dirname(harness.program())), "tests",
                              "cluster", "quipu_cluster_writer")
        logs = self.folder / "logs"
        logs.mkdir()
        subprocess.run([writer, "create", self.uri(self.coordinator), "8"], check=True)
        with subprocess.Popen([writer, "write", self.uri(self.coordinator), "8", "w", str(logs),
                               "4", "60000", "1"]) as run:
            wait_for(lambda: acknowledged(logs) > 100)
            self.on(self.coordinator, "init", "--distribute", "citus", "--wait", "60")
            before = acknowledged(logs)
            wait_for(lambda: acknowledged(logs) > before + 100)
            run.terminate()
            self.assertEqual(run.wait(), 0)
        dump = subprocess.run([writer, "dump", self.uri(self.workers[0]), "8"], check=True,
                              capture_output=True, text=True).stdout
        self.assertGreaterEqual(len(dump.splitlines()), acknowledged(logs))
        self.assertIn("no problems", self.on(self.workers[0], "verify").out)

    # ---- looking ------------------------------------------------------------------------------

    def found(self, node, check, more=""):
        return {f["check"]: f for f in self.on(node, "doctor", "--quick", "--json", code=None,
                                               more=more).lines()}[check]

    def test_doctor_shows_shards_nodes_and_skew_to_a_plain_role(self):
        self.coordinator.sql("CREATE ROLE looker LOGIN")
        self.make_schema(owner="looker")
        self.on(self.coordinator, "init", "--distribute", "citus", more="&user=looker")
        self.say(self.coordinator, "k", "word", more="&user=looker")
        for node in self.nodes:
            text = self.found(node, "server", more="&user=looker")["text"]
            self.assertRegex(text, r"Citus \S+: \d+ shards on 3 workers, skew \d\.\d\dx$")
            stats = self.on(node, "stats", "--json", more="&user=looker").lines()[0]
            self.assertGreater(stats["file_bytes"], 0)

    def test_durability_is_the_least_that_any_node_promises(self):
        self.make_schema()
        self.on(self.coordinator, "init", "--distribute", "citus")
        for node in self.nodes:
            node.set("fsync", "on")
        try:
            self.assertEqual(self.found(self.workers[1], "durability")["verdict"], "ok")
            self.workers[0].set("fsync", "off")
            self.assertIn("may lose", self.found(self.workers[1], "durability")["text"])
        finally:
            for node in self.nodes:
                node.set("fsync", "off")

    # ---- tenants ------------------------------------------------------------------------------

    def test_a_store_with_row_security_is_distributed_and_tenants_meet_on_no_node(self):
        self.coordinator.sql("CREATE ROLE tenants_owner LOGIN", "CREATE ROLE tenants LOGIN")
        self.make_schema(owner="tenants_owner")
        owner, role = "&user=tenants_owner&row_security=on", "&user=tenants&row_security=on"
        self.on(self.coordinator, "init", "--tenant", "any", more=owner)
        self.coordinator.sql("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "
                             f"{self.schema} TO tenants")
        for tenant in ("red", "blue"):
            self.say(self.coordinator, "k", f"{tenant} before", "--tenant", tenant, more=role)
        refused = self.on(self.coordinator, "init", "--distribute", "citus", code=1).err
        self.assertIn("row_security=on", refused)
        self.on(self.coordinator, "init", "--distribute", "citus", "--tenant", "any", more=owner)
        for tenant in ("red", "blue"):
            self.say(self.workers[0], "k", f"{tenant} after", "--tenant", tenant, more=role)
            for node in self.nodes:
                shown = self.on(node, "show", "k", "--tenant", tenant, more=role).out
                self.assertIn(f"{tenant} before", shown)
                self.assertIn(f"{tenant} after", shown)
                self.assertNotIn("blue" if tenant == "red" else "red", shown)
        for node in self.nodes:
            tables = node.sql("SELECT tablename FROM pg_tables WHERE schemaname = "
                              f"'{self.schema}'").split()
            for table in tables:
                if table.rstrip("0123456789_") not in ("ent_numbers", "ent_journal"):
                    self.assertEqual(node.sql(f"SELECT count(*) FROM {self.schema}.{table}",
                                              user="tenants"), "0")

    # ---- writing ------------------------------------------------------------------------------

    def prepared(self):
        """How often a worker was asked for the first of two phases."""
        return sum(pathlib.Path(node.log).read_text(encoding="utf-8").count("PREPARE TRANSACTION")
                   for node in self.workers)

    def test_an_append_is_committed_with_one_phase(self):
        self.make_schema()
        self.on(self.coordinator, "init", "--distribute", "citus")
        for node in self.workers:
            node.set("log_statement", "all")
        try:
            before = self.prepared()
            self.say(self.coordinator, "k", "a create moves a counter of the coordinator")
            created = self.prepared()
            self.assertGreater(created, before)
            for node in self.nodes:
                self.on(node, "append", "k", "--text", "appended")
            self.assertEqual(self.prepared(), created)
        finally:
            for node in self.workers:
                node.set("log_statement", "none")

    def test_a_wait_for_a_row_on_a_worker_ends_with_its_call(self):
        self.make_schema()
        self.on(self.coordinator, "init", "--distribute", "citus")
        self.say(self.coordinator, "k", "held")
        self.say(self.coordinator, "other", "free")
        part = self.ask(self.coordinator, "SELECT part FROM sessions WHERE key = 'k'")
        command = [f"{self.coordinator.bin}/psql", "-XqAt", self.coordinator.uri()]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True) as holder:
            self.addCleanup(holder.kill)
            holder.stdin.write(f"BEGIN;\nSELECT key FROM {self.schema}.sessions WHERE key = 'k' "
                               f"AND part = {part} FOR UPDATE;\n")
            holder.stdin.flush()
            held = holder.stdout.readline().strip()
            if held != "k":
                holder.kill()
            self.assertEqual(held, "k")
            refused = self.on(self.workers[0], "append", "k", "--text", "late", "--wait", "2",
                              code=None)
            self.assertNotEqual(refused.code, 0)
            self.assertIn("--wait", refused.err)
            self.on(self.workers[0], "append", "other", "--text", "meanwhile")
            holder.stdin.write("ROLLBACK;\n")
            holder.stdin.close()
        self.assertIn("now 2 to 2", self.on(self.workers[0], "append", "k", "--text", "second").out)

    # ---- workers that come and go ---------------------------------------------------------------

    def test_a_worker_that_is_away_is_named_and_comes_back_with_all(self):
        self.make_schema()
        self.on(self.coordinator, "init", "--distribute", "citus")
        for i in range(12):
            self.say(self.coordinator, f"k{i}", "word")
        self.workers[2].kill()
        try:
            self.assertIn("a worker does not answer the server",
                          self.found(self.workers[0], "server")["text"])
            codes = [self.on(self.workers[0], "append", f"k{i}", "--text", "meanwhile", "--wait",
                             "3", code=None).code for i in range(12)]
            self.assertIn(0, codes)
        finally:
            self.workers[2].start()
        shown = self.on(self.coordinator, "ls", "--json").lines()
        self.assertEqual(len(shown), 12)
        self.assertIn("no problems", self.on(self.workers[2], "verify").out)

    def test_a_worker_that_is_added_takes_shards_while_others_read(self):
        self.make_schema()
        self.on(self.coordinator, "init", "--distribute", "citus",
                more="%20-ccitus.shard_count%3D8")
        for i in range(12):
            self.say(self.coordinator, f"k{i}", "word")
        before = self.on(self.coordinator, "export").raw_out
        with tempfile.TemporaryDirectory(dir=os.path.dirname(self.coordinator.data)) as folder:
            os.chmod(folder, 0o777)
            node = Node(self.coordinator.bin, folder, 9, "off")
            node.make()
            self.addCleanup(node.stop)
            node.sql("CREATE DATABASE quipu", database="postgres")
            node.sql("CREATE EXTENSION citus")
            self.coordinator.sql(f"SELECT citus_add_node('127.0.0.1', {node.port})")
            try:
                self.coordinator.sql(f"SELECT rebalance_table_shards('{self.schema}.sessions')")
                held = self.coordinator.sql(
                    "SELECT count(*) FROM citus_shards WHERE table_name = CAST("
                    f"'{self.schema}.sessions' AS regclass) AND nodeport = {node.port}")
                self.assertGreater(int(held), 0)
                self.assertEqual(self.on(node, "export").raw_out, before)
                self.say(node, "k0", "through the new one")
                self.coordinator.sql(f"SELECT citus_drain_node('127.0.0.1', {node.port})")
            finally:
                self.coordinator.sql(f"SELECT citus_remove_node('127.0.0.1', {node.port})")
                node.stop()
        self.assertIn("no problems", self.on(self.workers[0], "verify").out)


def acknowledged(logs):
    return sum(path.read_text(encoding="utf-8").count(" ok ") for path in logs.glob("*.log"))


def wait_for(condition):
    end = time.monotonic() + harness.WAIT_S
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("it did not come to pass")
        time.sleep(0.1)


def run(nodes, build):
    """All tests on these nodes; the names of those that failed."""
    os.environ["QUIPU_BINARY_DIR"] = build
    Operations.nodes = nodes
    result = unittest.TextTestRunner(verbosity=2).run(
        unittest.defaultTestLoader.loadTestsFromTestCase(Operations))
    failed = result.failures + result.errors
    print(f"test-citus: {result.testsRun - len(failed)} operations passed, {len(failed)} failed")
    return [f"operations: {case.id().rsplit('.', 1)[1]}" for case, _ in failed]
