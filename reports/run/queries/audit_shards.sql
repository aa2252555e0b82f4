-- What the variance between shards needs of each subject of an audit (reports/run/drawn_shards.py), by category and of all.
-- scored: the scored images (reports/audit/cells.py). category: SQL value that groups them. The others are of each
-- subject: counts "count(*) FILTER (…) AS yes_…"; again: counts added up; totals: of all shards; residuals: of a shard;
-- sums: over shards; sizes: effective size and degrees of freedom.
WITH by_shard AS (
    SELECT {category} AS category, shard, count(*) AS n, {counts} FROM {scored} GROUP BY ALL
),
-- The shards of the whole run hold images of several categories.
whole AS (SELECT NULL AS category, shard, sum(n) AS n, {again} FROM by_shard GROUP BY shard),
both_kinds AS (SELECT *, true AS is_whole FROM whole UNION ALL BY NAME SELECT *, false AS is_whole FROM by_shard),
of_all AS (
    SELECT *, sum(n) OVER of_group AS n_all, {totals}
    FROM both_kinds
    WINDOW of_group AS (PARTITION BY is_whole, category)
),
residuals AS (SELECT *, {residuals} FROM of_all),
summed AS (
    SELECT is_whole, category, count(*) AS num_shards, sum(n)::DOUBLE AS n, {sums}
    FROM residuals
    GROUP BY is_whole, category
)
SELECT is_whole, category, num_shards, n, {sizes} FROM summed;
