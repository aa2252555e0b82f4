-- What the variance between shards needs of each subject of an audit (reports/drawn_shards.py), by category and of all.
-- scored: the scored images (reports/audit/cells.py). category: SQL value that groups them. counts, sums: of each
-- subject, "count(*) FILTER (…) AS yes_…", and the sums over shards of its k, k² and k n. again: counts added up.
-- sizes: the effective size of each subject.
WITH by_shard AS (
    SELECT {category} AS category, shard, count(*) AS n, {counts} FROM {scored} GROUP BY ALL
),
-- The shards of the whole run hold images of several categories.
whole AS (SELECT NULL AS category, shard, sum(n) AS n, {again} FROM by_shard GROUP BY shard),
both AS (SELECT *, true AS is_whole FROM whole UNION ALL BY NAME SELECT *, false AS is_whole FROM by_shard),
summed AS (
    SELECT is_whole, category, count(*) AS num_shards, sum(n)::DOUBLE AS n, sum(n * n)::DOUBLE AS nn, {sums}
    FROM both
    GROUP BY is_whole, category
)
SELECT is_whole, category, num_shards, n, {sizes} FROM summed;
