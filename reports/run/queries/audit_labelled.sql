-- The scored images of a run that is labelled, with their cells. cells: "SQL AS cell_…" of each subject.
SELECT shard, "index", key, sha256, {cells} FROM {scored} ORDER BY shard, "index";
