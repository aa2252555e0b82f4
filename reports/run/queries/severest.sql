-- Which images are the most severe? Among equals those with more doubtful attributes. Copies of one picture, by bytes or
-- perceptual hash, are one. Only the first are looked at for copies, so that few rows are in memory.
-- severity: SQL of a number, above 0 if anything was found. looked_at: how many images; most: how many are returned.
WITH first AS (
    SELECT shard, "index", coalesce(phash, sha256, key) AS picture, {severity} AS severity, score_high
    FROM scored
    WHERE severity > 0
    ORDER BY severity DESC, score_high DESC, shard, "index"
    LIMIT {looked_at}
),
distinct_ones AS (
    SELECT shard, "index", severity
    FROM first
    QUALIFY row_number() OVER (PARTITION BY picture ORDER BY severity DESC, score_high DESC, shard, "index") = 1
    ORDER BY severity DESC, score_high DESC, shard, "index"
    LIMIT {most}
)
SELECT shard, "index", key, sha256, category, severity_level, coalesce(score, severity) AS shown_score, rationale, boxes,
    {attributes} AS attributes
FROM scored JOIN distinct_ones USING (shard, "index")
ORDER BY severity DESC, score_high DESC, shard, "index";
