-- How severe are the images of each group? One row per group, with the number of scored images per level.
-- by: SQL value that groups the images, checked before it comes here.
SELECT coalesce(({by})::VARCHAR, '(none)') AS group_name,
    count(*) FILTER (level = 1) AS num_level_1,
    count(*) FILTER (level = 2) AS num_level_2,
    count(*) FILTER (level = 3) AS num_level_3,
    count(*) FILTER (level = 4) AS num_level_4,
    count(*) FILTER (level = 0) AS num_level_0
FROM scored
GROUP BY group_name
ORDER BY group_name;
