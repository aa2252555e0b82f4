-- Which images are the most severe? Highest s_lex first; among equals those with more doubtful attributes.
-- least: the lowest s_lex that can be among them. most: how many images.
SELECT shard, "index", key, category, level, s_lex, score, rationale, boxes, {attributes} AS attributes
FROM scored
WHERE s_lex >= {least}
ORDER BY s_lex DESC, score_high DESC, shard, "index"
LIMIT {most};
