-- Which images are the most severe? Among equals those with more doubtful attributes. Copies of one picture, by bytes or
-- perceptual hash, are one. Only the first are looked at for copies, so that few rows are in memory.
-- severity: SQL of a number, above 0 if anything was found. least: that of the last one looked at (least_severity.sql).
-- looked_at: how many images; most: how many are returned.
WITH first AS (
    SELECT shard, "index", key, sha256, phash, category, severity_level, score, score_high, rationale, boxes,
        {attributes} AS attributes, {severity} AS severity
    FROM scored
    WHERE severity >= {least}
    ORDER BY severity DESC, score_high DESC, shard, "index"
    LIMIT {looked_at}
)
SELECT *, coalesce(score, severity) AS shown_score
FROM first
QUALIFY row_number() OVER (
    PARTITION BY coalesce(phash, sha256, key) ORDER BY severity DESC, score_high DESC, shard, "index"
) = 1
ORDER BY severity DESC, score_high DESC, shard, "index"
LIMIT {most};
