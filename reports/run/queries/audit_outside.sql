-- Scored images of this run, and those that are not among the scored ones of another run, whose marks are the rows of the
-- table `sampled`.
SELECT count(*) AS num_scored, num_scored - count(*) FILTER (hash(shard, "index", sha256) IN (FROM sampled)) AS num_outside
FROM scored;
