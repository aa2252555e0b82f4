-- The scored images of a run that is labelled, with what it answers. answers: "SQL AS yes_…" of each subject.
SELECT shard, key, sha256, category, {answers} FROM {scored} ORDER BY shard, "index";
