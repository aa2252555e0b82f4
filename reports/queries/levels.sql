-- How severe are the images? One row per level, most severe first, 0 (none) last.
-- share: of the images with a level; quarantined ones and those of protocols that give none are not counted.
WITH wanted AS (SELECT unnest([1, 2, 3, 4, 0]) AS level, unnest([1, 2, 3, 4, 5]) AS place)
SELECT wanted.level, count(scored.status) AS num_images,
    count(scored.status) / nullif((SELECT count(level) FROM scored), 0) AS share
FROM wanted LEFT JOIN scored ON scored.level = wanted.level
GROUP BY wanted.level, wanted.place
ORDER BY wanted.place;
