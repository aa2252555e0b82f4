"""Decisions over all pictures of a run: near duplicates, and pictures of the same URL, get the strictest one of them.
One pass over the rows goes into a database that spills to disk. What stays in memory is the rows that are overruled."""

from collections.abc import Mapping
from dataclasses import dataclass

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import RunError
from ingest.formats import Source
from ingest.images.phash import first_of_groups
from ingest.storage.place import Place
from jobs.releases.decider import Decider, Overruled
from jobs.releases.decisions import row_chunks
from jobs.releases.plan import shard_rows
from jobs.releases.record import GroupCounts, GroupsBy
from scoring.policies.policy import ACTIONS
from scoring.policies.reserved import ReservedRule
from scoring.runs.record import RunRecord
from scoring.runs.results import results

WITHHELD = (ReservedRule.HASH_LIST, ReservedRule.NOT_COMPARED, ReservedRule.REMOVED_BEFORE)
"""Rules for pictures that no list of URLs may have, and of which nothing follows for others: it would name them."""

DROP = ACTIONS.index("drop")
UNLISTED = "no row of the list of URLs has its URL"

_STRICTEST = """
    CREATE OR REPLACE TABLE decided AS
    WITH strictest AS (
        SELECT {key} AS k, max(rank) AS top, first(code ORDER BY rank DESC, shard, "index") AS code
        FROM decided WHERE {key} IS NOT NULL GROUP BY k HAVING min(rank) < max(rank)
    )
    SELECT decided.* REPLACE (
        coalesce(greatest(rank, strictest.top), rank) AS rank,
        CASE WHEN rank < strictest.top THEN strictest.code ELSE decided.code END AS code,
        CASE WHEN rank < strictest.top THEN '{cause}' ELSE cause END AS cause
    )
    FROM decided LEFT JOIN strictest ON decided.{key} = strictest.k
"""
"""Gives all rows with the same key the strictest decision among them; of equally strict ones, that of the first row."""


@dataclass
class Decided:
    """The decisions on all rows, in the table `decided` of a database: shard (its number), index, rank (place in
    `ACTIONS`), code (number of the decision), cause (null: of the row itself), and the keys."""

    connection: duckdb.DuckDBPyConnection
    shards: list[str]
    decisions: list[tuple[str, str, str]]
    """Action, rule and reason of each code."""

    def settle(self, keys: Mapping[str, str]) -> None:
        """Give rows with the same key the strictest decision, until nothing changes. keys: column -> what to call it in
        reasons."""
        before, total = None, "SELECT coalesce(sum(rank), 0) FROM decided"
        while before != (now := self.connection.sql(total).fetchall()):
            before = now
            for key, cause in keys.items():
                self.connection.execute(_STRICTEST.format(key=key, cause=cause))

    def group(self, groups: GroupsBy) -> GroupCounts:
        """Find groups of near duplicates, give each the strictest decision of its pictures, and count them. RunError if
        no row has a hash."""
        self.connection.execute(
            """
            CREATE TABLE distinct_hash AS SELECT hash, (row_number() OVER (ORDER BY hash) - 1)::INTEGER AS number
            FROM (SELECT DISTINCT hash FROM decided WHERE hash IS NOT NULL)
            """
        )
        firsts = first_of_groups(self._distinct_hashes())
        numbers = pa.array(np.arange(len(firsts)), pa.int32())
        self.connection.register("of_groups", pa.table({"number": numbers, "near": pa.array(firsts, pa.int32())}))
        self.connection.execute(
            """
            CREATE OR REPLACE TABLE decided AS
            SELECT decided.* EXCLUDE (hash), near
            FROM decided LEFT JOIN distinct_hash ON decided.hash = distinct_hash.hash LEFT JOIN of_groups USING (number)
            """
        )
        self.connection.unregister("of_groups")
        self.connection.execute("DROP TABLE distinct_hash")
        num_groups, num_pictures = self.connection.sql(
            """
            SELECT count(*), coalesce(sum(n), 0)::BIGINT
            FROM (SELECT count(*) AS n FROM decided WHERE near IS NOT NULL GROUP BY near HAVING n > 1)
            """
        ).fetchall()[0]
        self.settle({"near": "group"})
        num_overruled = self.connection.sql("SELECT count(*) FROM decided WHERE cause = 'group'").fetchall()[0][0]
        return GroupCounts(by=groups, num_groups=num_groups, num_pictures=num_pictures, num_overruled=num_overruled)

    def _distinct_hashes(self) -> npt.NDArray[np.uint64]:
        """Return each hash of the rows once, in order; shape (hashes,). The texts stay in the database, since they take
        much more memory. RunError if there are none, or if one is no hash."""
        num_hashes = int(self.connection.sql("SELECT count(*) FROM distinct_hash").fetchall()[0][0])
        if not num_hashes:
            raise RunError("groups: phash: the run has no picture with such a hash; scan the source into a new run")
        hashes = np.empty(num_hashes, np.uint64)
        reader = self.connection.sql("SELECT hash FROM distinct_hash ORDER BY number").to_arrow_reader(10_000)
        first = 0
        try:
            for batch in reader:
                texts = batch["hash"].to_pylist()
                part = slice(first, first + len(texts))
                hashes[part] = np.fromiter((int(text, 16) for text in texts), np.uint64, len(texts))
                first = part.stop
        except (ValueError, OverflowError):
            raise RunError("the column phash holds something else than hashes; scan into a new run") from None
        return hashes

    def drop_unlisted(self) -> None:
        """Drop the rows whose URL is not in the table `listed`. Nothing follows from that for other rows."""
        self.decisions.append(("drop", ReservedRule.NOT_LISTED, UNLISTED))
        self.connection.execute(
            f"""
            CREATE OR REPLACE TABLE decided AS
            SELECT * EXCLUDE (is_out) REPLACE (
                CASE WHEN is_out THEN {DROP} ELSE rank END AS rank,
                CASE WHEN is_out THEN {len(self.decisions) - 1} ELSE code END AS code,
                CASE WHEN is_out THEN '' ELSE cause END AS cause
            )
            FROM (
                SELECT decided.*, rank < {DROP} AND listed.url_sha256 IS NULL AS is_out
                FROM decided LEFT JOIN listed USING (url_sha256)
            )
            """
        )

    def overruled(self) -> Overruled:
        """Return what differs from the decisions on the rows alone."""
        columns = self.connection.sql(
            'SELECT shard, "index", code, cause FROM decided WHERE cause IS NOT NULL ORDER BY shard, "index"'
        ).to_arrow_table()
        number_of_decision = dict[tuple[int, str], int]()
        pairs = zip(columns["code"].to_pylist(), columns["cause"].to_pylist(), strict=True)
        numbers = np.array([number_of_decision.setdefault(pair, len(number_of_decision)) for pair in pairs], np.int32)
        shards, indices = columns["shard"].to_numpy(), columns["index"].to_numpy()
        rows = {
            self.shards[number]: (indices[shards == number], numbers[shards == number])
            for number in np.unique(shards).tolist()
        }
        return Overruled(rows, tuple(self._decision(code, cause) for code, cause in number_of_decision))

    def _decision(self, code: int, cause: str) -> tuple[str, str, str]:
        action, rule, reason = self.decisions[code]
        if rule in WITHHELD:  # its own rule would name the picture
            return "drop", ReservedRule.NOT_LISTED, UNLISTED
        return action, rule, f"{cause}: {reason}" if cause else reason


def decided_rows(
    connection: duckdb.DuckDBPyConnection,
    run: Place,
    record: RunRecord,
    corpus: Source,
    decider: Decider,
    groups: GroupsBy | None,
) -> Decided:
    """Decide on every row of a run and put the decisions into the table `decided`. Errors as in `plan_release`. groups:
    the kind of hash that the rows are grouped by."""
    connection.execute(
        'CREATE TABLE decided (shard INTEGER, "index" BIGINT, rank TINYINT, code INTEGER, cause VARCHAR, '
        "url_sha256 VARCHAR, hash VARCHAR)"
    )
    decided, codes = Decided(connection, [], []), dict[tuple[str, str, str], int]()
    more = frozenset([groups]) if groups is not None else frozenset[str]()
    for _, ranges in shard_rows(record, corpus, results(run)):
        for rows in row_chunks(run, ranges, decider.columns | more):
            if rows.num_rows:
                if decided.shards[-1:] != [shard := rows["shard"][0].as_py()]:
                    decided.shards.append(shard)
                _insert(decided, codes, decider.decide(rows), rows[groups] if groups is not None else None)
    decided.decisions += codes
    return decided


def _insert(
    decided: Decided, codes: dict[tuple[str, str, str], int], decisions: pa.Table, hashes: pa.ChunkedArray | None
) -> None:
    """Add decisions for rows of the last shard. codes: decision -> number. hashes: of each row's first frame."""
    of_rows = zip(*(decisions[name].to_pylist() for name in ("action", "rule", "reason")), strict=True)
    numbers = [codes.setdefault(decision, len(codes)) for decision in of_rows]
    is_withheld = pc.is_in(decisions["rule"], pa.array(WITHHELD))
    # Of a row without a picture nothing follows for its URL.
    has_url = pc.or_(is_withheld, pc.is_valid(decisions["sha256"]))
    nothing = pa.nulls(len(numbers), pa.string())
    columns = {
        "shard": pa.array([len(decided.shards) - 1] * len(numbers), pa.int32()),
        "index": decisions["index"],
        "rank": pa.array([ACTIONS.index(action) for action in decisions["action"].to_pylist()], pa.int8()),
        "code": pa.array(numbers, pa.int32()),
        "cause": nothing,
        "url_sha256": pc.if_else(has_url, decisions["url_sha256"], None),
        "hash": nothing if hashes is None else pc.if_else(is_withheld, pa.scalar(None, pa.string()), hashes),
    }
    decided.connection.register("rows", pa.table(columns))
    decided.connection.execute("INSERT INTO decided SELECT * FROM rows")
    decided.connection.unregister("rows")
