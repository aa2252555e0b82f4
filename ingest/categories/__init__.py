"""Categories that users give: a list of classes of a dataset, or words of captions.

May import: `ingest.storage`.
Start at: `class_list.py`.
"""
