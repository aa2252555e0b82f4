-- Images with content that was not scanned, of any kind and of each, and images of which that is not known.
-- Older versions recorded no kinds, but how many frames they left out.
SELECT
    count(*) FILTER (len(kinds) > 0) AS num_images,
    count(*) FILTER (kinds IS NULL) AS num_unknown,
    {counts}
FROM (
    SELECT coalesce(unseen, CASE WHEN num_frames > num_frames_scanned THEN ['frames'] END) AS kinds
    FROM images
    WHERE num_frames IS NOT NULL
)
