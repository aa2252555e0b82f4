-- Of which kinds were the rejections? One row per message, which is a fixed text of each kind, most frequent first.
SELECT coalesce(error_message, '(none)') AS message, count(*) AS num_images
FROM quarantined
WHERE reason = 'rejection'
GROUP BY ALL
ORDER BY num_images DESC, message
LIMIT 20;
