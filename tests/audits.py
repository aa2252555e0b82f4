"""An audit sample whose pictures and probabilities a test chooses itself."""

import numpy as np
import pyarrow as pa

from scoring.runs.audit_files import SAMPLE_SCHEMA, AuditDesign, AuditSample, write_sample
from scoring.runs.footers import refuse_foreign
from scoring.runs.record import read_record


def write_drawn(run: str, drawn: pa.Table, num_rows: int, least: float = 1e-12, seed: int = 0) -> None:
    """drawn: with shard, index and inclusion_probability, and as many other columns of a sample as the test needs.

    num_rows: images of the run as the sample says. least: smallest probability of any image, as the sample says.
    """
    count = drawn.num_rows
    columns = []
    for field in SAMPLE_SCHEMA:
        if field.name in drawn.column_names:
            columns.append(drawn[field.name].cast(field.type))
        elif field.nullable:
            columns.append(pa.nulls(count, field.type))
        else:
            fill = np.full(count, "" if pa.types.is_string(field.type) else 0)
            columns.append(pa.array(fill.tolist(), field.type))
    root, record = read_record(run)
    rows = refuse_foreign(root, record.settings_hash())
    design = AuditDesign(
        num_wanted=max(1, count),
        seed=seed,
        purpose="both",
        private="level IN (1, 2)",
        settings=record.settings_hash(),
        num_rows=num_rows,
        rows_sha256=rows.rows_sha256,
        num_scored=num_rows,
        least_probability=least,
        guard_mass=1,
        privsieve="test",
    )
    write_sample(root, AuditSample(pa.Table.from_arrays(columns, schema=SAMPLE_SCHEMA), design))
