-- How many images does the run have of each category, quarantined ones included?
SELECT coalesce(category, '(none)') AS category, count(*) AS num_images FROM images GROUP BY ALL;
