"""HTTP with servers that speak OpenAI's chat completions, for the engine `openai` and for `report --digest-endpoint`.

    endpoint.py   retries, and which errors are fatal      connections.py   limits of time and size for answers

The key comes from the environment of the machine that asks (`endpoint.KEY_VARIABLES`) and is not stored.

May import: `ingest`.
Start at: `endpoint.py`.
"""
