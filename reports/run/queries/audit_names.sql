-- Keys of the list that several images of the run have, or several of one shard. listed: SQL list of keys.
SELECT key, count(DISTINCT shard) AS num_shards, count(*) AS num_images
FROM images WHERE key IN (SELECT unnest({listed}))
GROUP BY key HAVING count(*) > 1;
