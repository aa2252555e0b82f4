-- Images by how dense the sample is to be there, in steps of half a per cent. density: SQL value.
SELECT count(*) AS num_images, sum(density) AS total, min(density) AS least
FROM (SELECT {density} AS density FROM (SELECT category, {cells} FROM {scored}))
GROUP BY round(ln(density) * 200);
