-- Why were images quarantined? One row per reason code, most frequent first.
SELECT coalesce(reason, '(none)') AS reason, count(*) AS num_images
FROM quarantined
GROUP BY ALL
ORDER BY num_images DESC, reason;
