-- Mean and distribution of the score that the model itself gives: one row. histogram: images in equal parts of 0–1.
-- Rounded, since the float 0.9 is a little less. column: of the scores. bins: "count(*) FILTER (bin = 0)" for each of num_bins parts.
WITH given AS (SELECT {column}::DOUBLE AS score FROM scored WHERE {column} IS NOT NULL),
binned AS (SELECT score, least(floor(round(score, 6) * {num_bins}), {num_bins} - 1) AS bin FROM given)
SELECT count(*) AS num_images, avg(score) AS mean, stddev_samp(score) AS deviation, [{bins}] AS histogram FROM binned;
