-- The drawn images, in random order. Each is drawn if its own number, uniform in [0, 1), is below its probability.
-- probability: SQL value. seed: a whole number. The numbers follow from seed, shard and index alone, so that neither the
-- order of the rows nor their files change the sample, and a larger sample holds a smaller one of the same seed.
WITH celled AS (
    SELECT shard, "index", key, sha256, category, {private} AS private, prob_private, level, {keys}, {cells}
    FROM {scored}
)
SELECT * EXCLUDE (place) FROM (
    SELECT *, {probability} AS inclusion_probability,
        md5_number('{seed}/' || "index" || '/' || shard) AS place
    FROM celled
)
WHERE (place % 9007199254740992)::DOUBLE / 9007199254740992 < inclusion_probability
ORDER BY place / 9007199254740992, shard, "index";
