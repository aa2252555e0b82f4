-- Scored images of this run, and those that are not among the scored ones of another run, whose marks are in the table
-- `sampled`.
SELECT count(*) AS num_scored, count(*) FILTER (mark IS NULL) AS num_outside
FROM scored LEFT JOIN sampled ON hash(shard, "index", sha256) = mark;
