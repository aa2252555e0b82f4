-- Images with content that may not have been scanned, of any kind and of each.
SELECT
    count(*) FILTER (len(unseen) > 0) AS num_images,
    {counts}
FROM images
