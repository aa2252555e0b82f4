"""What a policy decides for the rows of a run, as `filter` would."""

import pyarrow as pa

from jobs.filter.decisions import DECISIONS_SCHEMA, decisions_of
from jobs.runtime.listed import row_chunks
from reports.report.opened import OpenRun
from scoring.policies.policy import Policy
from scoring.table import SCHEMA


def decisions(run: OpenRun, policy: Policy) -> pa.Table:
    """Rows of `DECISIONS_SCHEMA`, one for each image. PolicyError if a rule fails on a row."""
    policy = policy.for_engine(run.record.engine)
    parts = [decisions_of(rows, policy) for rows in row_chunks(run, SCHEMA.names)]
    return pa.concat_tables([DECISIONS_SCHEMA.empty_table(), *parts])
