-- How severe are the most severe images at least? One column is read. severity, looked_at: as in severest.sql.
SELECT min(severity) AS least
FROM (SELECT {severity} AS severity FROM scored WHERE severity > 0 ORDER BY severity DESC LIMIT {looked_at});
