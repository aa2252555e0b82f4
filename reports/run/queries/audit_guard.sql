-- How many images did a screen leave out, and how many of those that it would have left out have a score?
SELECT
    count(*) FILTER (status = 'screened') AS num_screened,
    count(*) FILTER (status = 'scored' AND stage = 'guard') AS num_guarded
FROM images;
